"""The best node for one task, found again and again without looking at all nodes.

A shelf is an order of nodes for one kind of request in one room: a heap of keys in which entries go out of date when
their node changes. The room tells which rows changed, so a decision costs what changed since the last one, not what
there is. The first question of a kind is answered by looking at all nodes at once; only the second builds a shelf.
"""

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush

import numpy as np

from gangline_core.capacity import Flags, Ints, Room
from gangline_core.placement.fit import KEY_MAX, holds_one
from gangline_core.placement.gang import Need

ASKED_ONCE = object()
"""Stands on a room's shelves where one question of a kind has been asked."""
Keys = Callable[[Room, Need, Sequence[int]], Ints]
"""How well each node suits a task, smaller is better."""
RowKey = Callable[[Room, Need, Sequence[int], int], int | None]
"""How well one node suits a task, smaller is better; None when it does not fit there."""


class Shelf:
    """Nodes that can hold one task of a kind, best first."""

    def __init__(
        self, room: Room, need: Need, kinds: Sequence[int], *, mask: Flags, fits: Flags, keys: Ints, key: RowKey
    ) -> None:
        """The order as the room is now, by the keys of all rows; `key` tells a single row's anew."""
        self._need, self._kinds, self._mask, self._key = need, kinds, mask, key
        self._seen = len(room.changes)
        rows = np.flatnonzero(fits)
        self._current: dict[int, int | None] = dict(zip(rows.tolist(), keys[rows].tolist(), strict=True))
        self._heap: list[tuple[int, int]] = list(zip(keys[rows].tolist(), rows.tolist(), strict=True))
        heapify(self._heap)

    def best(self, room: Room) -> int | None:
        """The row where the task goes; None when no node holds it."""
        changes = room.changes
        while self._seen < len(changes):
            row = changes[self._seen]
            self._seen += 1
            if self._mask[row]:
                own = self._key(room, self._need, self._kinds, row)
                if own != self._current.get(row):
                    self._current[row] = own
                    if own is not None:
                        heappush(self._heap, (own, row))
        heap = self._heap
        while heap:
            own, row = heap[0]
            if self._current[row] == own:
                return row
            heappop(heap)
        return None


def best_row(
    room: Room, need: Need, kinds: Sequence[int], mask: Flags, *, asked: tuple[object, ...], keys: Keys, key: RowKey
) -> int | None:
    """The node where one task goes; None when no node holds it. `asked` tells this kind of question from others."""
    shelf = room.shelves.get(asked)
    if isinstance(shelf, Shelf):
        return shelf.best(room)
    fits = holds_one(room, need, kinds, mask)
    all_keys = keys(room, need, kinds)
    if shelf is ASKED_ONCE:
        shelf = room.shelves[asked] = Shelf(room, need, kinds, mask=mask, fits=fits, keys=all_keys, key=key)
        return shelf.best(room)
    room.shelves[asked] = ASKED_ONCE
    own = np.where(fits, all_keys, KEY_MAX)
    best = int(own.argmin()) if len(own) else 0
    return best if len(own) and own[best] < KEY_MAX else None

"""The best node for one task, found again and again without looking at all nodes.

A shelf is an order of nodes for one kind of request in one room: a heap of keys in which entries go out of date when
their node changes. The room tells which rows changed, so a decision costs what changed since the last one, not what
there is. The first question of a kind is answered by looking at all nodes at once; only the second builds a shelf.

A shelf stands in the room of which others are copies, and a copy goes on with a copy of it: so it outlives the round.
"""

from collections.abc import Callable, Sequence
from heapq import heappop, heappush

import numpy as np

from gangline_core.placement.fit import KEY_MAX, holds_one
from gangline_core.placement.gang import Need
from gangline_core.room.capacity import Flags, Ints, Room

ASKED_ONCE = object()
"""Stands on a room's shelves where one question of a kind has been asked."""
ASKED_MAX = 4_096
"""Questions that one room remembers."""
ENTRIES_MAX = 1_000_000
"""Nodes on all shelves of one room; with more, the oldest shelf is forgotten."""
NOWHERE = -1
Keys = Callable[[Room, Need, Sequence[int]], Ints]
"""How well each node suits a task, smaller is better, never below 0."""
RowKeys = Callable[[Room, Need, tuple[int, ...], Sequence[int]], Sequence[int]]
"""The same for a few nodes, told apart from those where the task does not fit: they have KEY_MAX."""


class Shelf:
    """Nodes that can hold one task of a kind, best first. An entry is a key and a row in one number."""

    __slots__ = ("_current", "_heap", "_kinds", "_mask", "_need", "_row_keys", "_rows", "_seen", "_version")

    def __init__(
        self, room: Room, need: Need, kinds: tuple[int, ...], *, mask: Flags, keys: Ints, row_keys: RowKeys
    ) -> None:
        """The order as the room is now, by the keys of all rows; `row_keys` tells those of a few rows anew."""
        self._need, self._kinds, self._mask, self._row_keys = need, kinds, mask, row_keys
        self._version = room.layout.version
        self._seen = len(room.changes)
        self._rows = len(keys)
        rows = np.flatnonzero(keys < KEY_MAX)
        entries = keys[rows] * self._rows + rows
        current = np.full(self._rows, NOWHERE, dtype=np.int64)
        current[rows] = entries
        self._current: list[int] = current.tolist()
        self._heap: list[int] = np.sort(entries).tolist()

    def copy(self) -> "Shelf":
        """The same order for a copy of the room, none of whose changes it has seen."""
        twin = Shelf.__new__(Shelf)
        twin._need, twin._kinds, twin._mask, twin._row_keys = self._need, self._kinds, self._mask, self._row_keys
        twin._version, twin._rows, twin._seen = self._version, self._rows, 0
        twin._current, twin._heap = self._current.copy(), self._heap.copy()
        return twin

    def is_of(self, room: Room) -> bool:
        """True while the nodes are those that it put in order."""
        return self._version == room.layout.version

    def follow(self, room: Room) -> None:
        """Put those in order that changed."""
        changes = room.changes
        if self._seen == len(changes):
            return
        mask = self._mask
        rows = [row for row in set(changes[self._seen :]) if mask[row]]
        self._seen = len(changes)
        current, heap = self._current, self._heap
        for row, own in zip(rows, self._row_keys(room, self._need, self._kinds, rows), strict=True):
            entry = own * self._rows + row if own < KEY_MAX else NOWHERE
            if entry != current[row]:
                current[row] = entry
                if entry != NOWHERE:
                    heappush(heap, entry)
        if len(heap) > 2 * self._rows:
            heap[:] = sorted(entry for entry in current if entry != NOWHERE)

    def best(self, room: Room) -> int | None:
        """The row where the task goes; None when no node holds it."""
        self.follow(room)
        heap, current, rows = self._heap, self._current, self._rows
        while heap:
            entry = heap[0]
            row = entry % rows
            if current[row] == entry:
                return row
            heappop(heap)
        return None


def best_row(
    room: Room,
    need: Need,
    kinds: tuple[int, ...],
    mask: Flags,
    *,
    asked: tuple[object, ...],
    keys: Keys,
    row_keys: RowKeys,
) -> int | None:
    """The node where one task goes; None when no node holds it. `asked` tells this kind of question from others."""
    shelf = room.shelves.get(asked)
    if isinstance(shelf, Shelf) and shelf.is_of(room):
        return shelf.best(room)
    base = _origin(room)
    known = base.shelves.get(asked)
    if isinstance(known, Shelf) and known.is_of(room):
        known.follow(base)
    elif shelf is not None:
        fitting = _fitting(base, need, kinds, mask, keys)
        known = Shelf(base, need, kinds, mask=mask, keys=fitting, row_keys=row_keys)
        _put(base, asked, known)
    else:
        room.shelves[asked] = ASKED_ONCE
        return _scan(_fitting(room, need, kinds, mask, keys))
    if base is not room:
        known = room.shelves[asked] = known.copy()
    return known.best(room)


def _origin(room: Room) -> Room:
    """The room of which this one is a copy, if it still is what it was then; else the room itself."""
    if room.origin is None or room.origin[0].version != room.origin[1]:
        return room
    return room.origin[0]


def _put(room: Room, asked: tuple[object, ...], shelf: Shelf) -> None:
    """Keep a shelf, instead of the one that was built longest ago where there are too many."""
    if len(room.shelves) * len(room.nodes) > ENTRIES_MAX:
        oldest = next((known for known, other in room.shelves.items() if isinstance(other, Shelf)), None)
        if oldest is not None:
            del room.shelves[oldest]
    room.shelves[asked] = shelf


def _fitting(room: Room, need: Need, kinds: Sequence[int], mask: Flags, keys: Keys) -> Ints:
    """Keys of the nodes that hold the task, of the others more than any key."""
    fitting: Ints = np.where(holds_one(room, need, kinds, mask), keys(room, need, kinds), KEY_MAX)
    return fitting


def _scan(keys: Ints) -> int | None:
    best = int(keys.argmin()) if len(keys) else 0
    return best if len(keys) and keys[best] < KEY_MAX else None

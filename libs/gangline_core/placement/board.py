"""Scores of all nodes for one kind of task, worked out anew only where something changed since the task last came.

A board belongs to the layout of a pool and outlives a round. It compares what is free with what it saw last, so a room,
its copies and the next round's room share the scores of all nodes that are the same in them. A score must depend on
nothing but what is free on its own node.
"""

from collections.abc import Hashable, Sequence
from typing import Protocol

import numpy as np

from gangline_core.placement.fit import KEY_MAX
from gangline_core.placement.gang import Need
from gangline_core.room.capacity import Flags, Ints, Room
from gangline_core.room.looks import Look

ASKS_MAX = 1_024
"""Kinds of task whose scores are kept; with more, all are worked out anew."""
FEW = 256
"""So few changed nodes are looked up among those that looked alike before, instead of being scored together."""
ALIKE_MAX = 100_000
"""Scores that are remembered over all kinds of task."""


class Scorer(Protocol):
    """How well nodes suit a task: for each of these rows a key, smaller is better, and the GPU for a share (or -1).

    A node where the task does not fit has KEY_MAX. Other devices are not looked at here, and of the node's memory only
    whether it suffices.
    """

    def __call__(self, room: Room, need: Need, kinds: Sequence[int], rows: Ints) -> tuple[Ints, Ints]:
        """Keys and GPUs of these rows."""


_NO_FIT = (KEY_MAX, -1)
Seen = tuple[Look, int]
"""What a score depends on: how a node looks, and its free CPU."""


class _Ask:
    __slots__ = ("alike", "gpu", "keys", "seen")

    def __init__(self, rows: int) -> None:
        self.alike: dict[Seen, tuple[int, int]] = {}
        """Scores by how a node that has the memory was seen."""
        self.keys = np.full(rows, KEY_MAX, dtype=np.int64)
        self.gpu = np.full(rows, -1, dtype=np.int64)
        self.seen = np.full(rows, -1, dtype=np.int64)


class _Mark:
    """Stands on a room that was looked at, and tells which of its changes have been seen."""

    __slots__ = ("seen",)

    def __init__(self, seen: int) -> None:
        self.seen = seen


class Board:
    """The scores of one placer on one layout."""

    def __init__(self, rows: int, width: int) -> None:
        """Nothing has been seen yet."""
        self._milli = np.full((rows, width), -1, dtype=np.int64, order="F")
        self._gpu_memory = np.full((rows, width), -1, dtype=np.int64, order="F")
        self._cpu = np.full(rows, -1, dtype=np.int64)
        self._memory = np.full(rows, -1, dtype=np.int64)
        self._version = np.zeros(rows, dtype=np.int64)
        self._asks: dict[Hashable, _Ask] = {}
        self._mark: _Mark | None = None
        self._remembered = 0
        """Scores by how nodes were seen, over all kinds of task."""

    def scores(self, room: Room, need: Need, kinds: tuple[int, ...], scorer: Scorer) -> tuple[Ints, Ints]:
        """Keys of all nodes for one task of this kind, and the GPU of each that a share would take; only read them."""
        self._look(room)
        ask = self._ask(need, kinds)
        stale = np.flatnonzero(ask.seen != self._version)
        if len(stale):
            if len(stale) > FEW:
                ask.keys[stale], ask.gpu[stale] = scorer(room, need, kinds, stale)
            else:
                found = self._of_few(room, need, kinds, scorer, stale.tolist(), ask)
                ask.keys[stale], ask.gpu[stale] = [key for key, _ in found], [gpu for _, gpu in found]
            ask.seen[stale] = self._version[stale]
        return ask.keys, ask.gpu

    def of_rows(
        self, room: Room, need: Need, kinds: tuple[int, ...], scorer: Scorer, rows: Sequence[int]
    ) -> list[tuple[int, int]]:
        """The same of a few nodes, without a look at the others."""
        return self._of_few(room, need, kinds, scorer, rows, self._ask(need, kinds))

    def _ask(self, need: Need, kinds: tuple[int, ...]) -> _Ask:
        asked = (need.gpus, need.milli, need.gpu_memory_mib, need.beside, need.cpu_milli, need.memory_mib, kinds)
        ask = self._asks.get(asked)
        if ask is None:
            if len(self._asks) >= ASKS_MAX:
                self._asks.clear()
            ask = self._asks[asked] = _Ask(len(self._version))
        return ask

    def _of_few(
        self, room: Room, need: Need, kinds: tuple[int, ...], scorer: Scorer, rows: Sequence[int], ask: _Ask
    ) -> list[tuple[int, int]]:
        """Scores of a few nodes, most of which look like some node looked before."""
        alike, least = ask.alike, max(0, need.memory_mib)
        memory, cpu = room.memory, room.cpu
        seen = [(room.look_at(row), cpu.item(row)) if memory.item(row) >= least else None for row in rows]
        unknown = {
            looks: row for looks, row in zip(seen, rows, strict=True) if looks is not None and looks not in alike
        }
        if unknown:
            if self._remembered > ALIKE_MAX:
                self._forget()
                return self._of_few(room, need, kinds, scorer, rows, ask)
            keys, gpu = scorer(room, need, kinds, np.array(list(unknown.values()), dtype=np.int64))
            alike.update(zip(unknown, zip(keys.tolist(), gpu.tolist(), strict=True), strict=True))
            self._remembered += len(unknown)
        return [_NO_FIT if looks is None else alike[looks] for looks in seen]

    def _forget(self) -> None:
        """Begin anew with remembering how nodes were seen."""
        self._remembered = 0
        for ask in self._asks.values():
            ask.alike.clear()

    def _look(self, room: Room) -> None:
        mark = room.shelves.get(self)
        if mark is not None and mark is self._mark and isinstance(mark, _Mark):
            # Nobody else's room was looked at since, so only what the room says itself can have changed.
            rows = np.array(sorted(set(room.changes[mark.seen :])), dtype=np.int64)
            mark.seen = len(room.changes)
            self._note(room, rows)
            return
        self._mark = room.shelves[self] = _Mark(len(room.changes))
        changed = (room.cpu != self._cpu) | (room.memory != self._memory)
        changed |= (room.milli != self._milli).any(axis=1) | (room.gpu_memory != self._gpu_memory).any(axis=1)
        self._note(room, np.flatnonzero(changed))

    def _note(self, room: Room, rows: Ints) -> None:
        if not len(rows):
            return
        self._cpu[rows], self._memory[rows] = room.cpu[rows], room.memory[rows]
        self._milli[rows], self._gpu_memory[rows] = room.milli[rows], room.gpu_memory[rows]
        self._version[rows] += 1


def board_of(room: Room, name: Hashable) -> Board:
    """The board of the placer with this name on the room's layout."""
    rows, width = room.milli.shape
    return room.layout.remember(("board", name), lambda: Board(rows, width))


def allowed(room: Room, need: Need, mask: Flags) -> Flags:
    """The nodes of the mask that have a place for a task, and the other devices which it asks for."""
    able = need.within(room.layout, mask)
    able = able & (room.places > 0) if room.crowded else able
    for name, amount in need.devices.items():
        if amount:
            able = able & (room.devices[name] >= amount if name in room.devices else False)
    return able

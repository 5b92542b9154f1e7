"""Scores of all nodes for one kind of task, worked out anew only where something changed since the task last came.

A board belongs to the layout of a pool and outlives a round. It compares what is free with what it saw last, so a room,
its copies and the next round's room share the scores of all nodes that are the same in them. A score must depend on
nothing but what is free on its own node.
"""

from collections.abc import Hashable, Sequence
from typing import Protocol

import numpy as np

from gangline_core.capacity import Flags, Ints, Room
from gangline_core.placement.fit import KEY_MAX
from gangline_core.placement.gang import Need

ASKS_MAX = 1_024
"""Kinds of task whose scores are kept; with more, all are worked out anew."""


class Scorer(Protocol):
    """How well nodes suit a task: for each of these rows a key, smaller is better, and the GPU for a share (or -1).

    A node where the task does not fit has KEY_MAX. Other devices are not looked at here.
    """

    def __call__(self, room: Room, need: Need, kinds: Sequence[int], rows: Ints) -> tuple[Ints, Ints]:
        """Keys and GPUs of these rows."""


class _Ask:
    __slots__ = ("gpu", "keys", "seen")

    def __init__(self, rows: int) -> None:
        self.keys = np.full(rows, KEY_MAX, dtype=np.int64)
        self.gpu = np.full(rows, -1, dtype=np.int64)
        self.seen = np.full(rows, -1, dtype=np.int64)


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

    def scores(self, room: Room, need: Need, kinds: tuple[int, ...], scorer: Scorer) -> tuple[Ints, Ints]:
        """Keys of all nodes for one task of this kind, and the GPU of each that a share would take; only read them."""
        self._look(room)
        asked = (need.gpus, need.milli, need.gpu_memory_mib, need.cpu_milli, need.memory_mib, kinds)
        ask = self._asks.get(asked)
        if ask is None:
            if len(self._asks) >= ASKS_MAX:
                self._asks.clear()
            ask = self._asks[asked] = _Ask(len(self._version))
        stale = np.flatnonzero(ask.seen != self._version)
        if len(stale):
            ask.keys[stale], ask.gpu[stale] = scorer(room, need, kinds, stale)
            ask.seen[stale] = self._version[stale]
        return ask.keys, ask.gpu

    def _look(self, room: Room) -> None:
        changed = (room.cpu != self._cpu) | (room.memory != self._memory)
        changed |= (room.milli != self._milli).any(axis=1) | (room.gpu_memory != self._gpu_memory).any(axis=1)
        rows = np.flatnonzero(changed)
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
    """The nodes of the mask that have the other devices which a task asks for."""
    able = mask
    for name, amount in need.devices.items():
        if amount:
            able = able & (room.devices[name] >= amount if name in room.devices else False)
    return able

"""Small machines first, or large ones: by what a node has, whatever is free on it.

Source: NodeResourcesAllocatable of kubernetes-sigs/scheduler-plugins, modes Least and Most with its default weights: a
thousandth of a core weighs as much as a MiB of memory. Scores are stretched to 0..100; where all are equal, all are 0.
"""

from collections.abc import Sequence

import numpy as np

from gangline_core.placement.each import by_keys, each
from gangline_core.placement.gang import Gang, Need, Seats
from gangline_core.room.capacity import Ints, Room

SCORE_MAX = 100
CPU_WEIGHT = 1 << 20
MEMORY_WEIGHT = 1
MIB = 1 << 20


def allocatable_least(room: Room, gang: Gang) -> Seats | None:
    """The smallest machine that holds the task, to keep large ones for large jobs."""
    return each(room, gang, by_keys(_least), keys=_least)


def allocatable_most(room: Room, gang: Gang) -> Seats | None:
    """The largest machine that holds the task."""
    return each(room, gang, by_keys(_most), keys=_most)


def scores(cpu_milli: Ints, memory_mib: Ints, *, most: bool) -> Ints:
    """0..100 for each node."""
    weighed = (cpu_milli * CPU_WEIGHT + memory_mib * MIB * MEMORY_WEIGHT) // (CPU_WEIGHT + MEMORY_WEIGHT)
    raw = weighed if most else -weighed
    low, high = int(raw.min()), int(raw.max())
    if low == high:
        return np.zeros_like(raw)
    stretched: Ints = (raw - low) * SCORE_MAX // (high - low)
    return stretched


def _least(room: Room, need: Need, kinds: Sequence[int]) -> Ints:
    return SCORE_MAX - scores(*owned(room), most=False)


def _most(room: Room, need: Need, kinds: Sequence[int]) -> Ints:
    return SCORE_MAX - scores(*owned(room), most=True)


def owned(room: Room) -> tuple[Ints, Ints]:
    """CPU and memory that each node has, taken or not."""

    def work_out() -> tuple[Ints, Ints]:
        return (
            np.array([node.cpu_milli for node in room.nodes], dtype=np.int64),
            np.array([node.memory_mib for node in room.nodes], dtype=np.int64),
        )

    return room.layout.remember(("owned",), work_out)

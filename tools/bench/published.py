"""The placement policies that the FGD study compares with, as scores over nodes: what they were there, no better.

Source: Weng et al., USENIX ATC 2023, section 6.1. They serve as rivals in the benchmark only.
"""

from collections.abc import Callable, Sequence

import numpy as np

from gangline_core.placement import Placer
from gangline_core.placement.each import by_keys, each
from gangline_core.placement.gang import Gang, Need, Seats
from gangline_core.placement.shelf import Keys
from gangline_core.room.capacity import Ints, Room
from gangline_core.spec import GPU_MILLI

CPU_MOST_MILLI = 128_000
GPUS_MOST_MILLI = 8 * GPU_MILLI
FINE = 1_000_000


def _free_milli(room: Room) -> Ints:
    found: Ints = room.milli.clip(0).sum(axis=1)
    return found


def _wanted_milli(need: Need) -> int:
    return need.gpus * GPU_MILLI + need.milli


def best_fit(room: Room, need: Need, kinds: Sequence[int]) -> Ints:
    """Least left behind: half CPU, half GPU, each as a part of the largest machine."""
    cpu = (room.cpu - need.cpu_milli) * FINE // (2 * CPU_MOST_MILLI)
    gpu = (_free_milli(room) - _wanted_milli(need)) * FINE // (2 * GPUS_MOST_MILLI)
    keys: Ints = cpu + gpu
    return keys


def dot_product(room: Room, need: Need, kinds: Sequence[int]) -> Ints:
    """Smallest dot product of what is asked with what is free first, as the study's aligned packing has it."""
    cpu = need.cpu_milli * (room.cpu // 1000) // CPU_MOST_MILLI * FINE // (CPU_MOST_MILLI // 1000)
    gpu = _wanted_milli(need) * _free_milli(room) // GPUS_MOST_MILLI * FINE // GPUS_MOST_MILLI
    keys: Ints = cpu + gpu
    return keys


def packing(room: Room, need: Need, kinds: Sequence[int]) -> Ints:
    """Shared cards first, then free cards of used machines, then free machines."""
    owned = (room.layout.kind >= 0).sum(axis=1)
    parts = ((room.milli > 0) & (room.milli < GPU_MILLI)).any(axis=1)
    keys: Ints = np.where(parts & need.is_share, 0, np.where(room.free < owned, 1, 2)) * FINE + room.free
    return keys


def random_order(seed: int) -> Keys:
    """Any node that holds the task, drawn anew for every task."""
    generator = np.random.default_rng(seed)

    def keys(room: Room, need: Need, kinds: Sequence[int]) -> Ints:
        return generator.permutation(len(room.cpu)).astype(np.int64)

    return keys


def placer(keys: Keys) -> Placer:
    """Tasks one after the other, each on the node with the smallest key."""
    choose = by_keys(keys)

    def place(room: Room, gang: Gang) -> Seats | None:
        return each(room, gang, choose, keys=keys)

    return place


RIVALS: dict[str, Callable[[int], Placer]] = {
    "random": lambda seed: placer(random_order(seed)),
    "dot_product": lambda seed: placer(dot_product),
    "packing": lambda seed: placer(packing),
    "best_fit_of_study": lambda seed: placer(best_fit),
}
"""Policies of the study, each for a seed."""

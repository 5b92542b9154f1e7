"""How many tasks each node can hold, and how well a node suits them: vectors with one entry per node."""

from collections.abc import Sequence

import numpy as np

from gangline_core.capacity import Flags, Ints, Room
from gangline_core.placement.gang import Need
from gangline_core.spec import GPU_MILLI

SLOTS_MAX = 1 << 20
"""More tasks than this on one node are not told apart."""
CORES_SHOWN = 1 << 12
KEY_MAX = 1 << 40
"""Above every key."""


def slots(room: Room, need: Need, kinds: Sequence[int], mask: Flags) -> Ints:
    """How many tasks of a role each node can hold, 0 outside of the mask."""
    if need.gpus:
        free = whole_free(room, kinds)
        found = free if need.gpus == 1 else free // need.gpus
    elif need.is_share:
        found = _share_slots(room, need, kinds)
    else:
        found = np.full(len(mask), SLOTS_MAX, dtype=np.int64)
    if need.cpu_milli:
        found = np.minimum(found, room.cpu // need.cpu_milli)
    if need.memory_mib:
        found = np.minimum(found, room.memory // need.memory_mib)
    for name, amount in need.devices.items():
        if amount:
            found = np.minimum(found, room.devices[name] // amount if name in room.devices else 0)
    return np.where(mask & (found > 0), found, 0)


def whole_free(room: Room, kinds: Sequence[int]) -> Ints:
    """Whole free GPUs of these kinds, by node."""
    free: Ints = room.whole[kinds[0]] if len(kinds) == 1 else room.whole[list(kinds)].sum(axis=0)
    return free


def _share_slots(room: Room, need: Need, kinds: Sequence[int]) -> Ints:
    """How many shares each node can hold; for a single share only whether it can."""
    found = np.zeros_like(room.milli)
    for number in kinds:
        milli, memory = share_of_kind(room, need, number)
        if need.count == 1:
            fits = ((room.milli >= milli) & (room.gpu_memory >= memory)).astype(np.int64)
        else:
            by_milli = room.milli // milli if milli else SLOTS_MAX
            fits = np.minimum(by_milli, room.gpu_memory // memory if memory else SLOTS_MAX)
        np.copyto(found, fits, where=room.layout.kind == number)
    held: Ints = np.maximum(found, 0, out=found).sum(axis=1)
    return held


def share_of_kind(room: Room, need: Need, kind: int) -> tuple[int, int]:
    """Thousandths and MiB that a share takes of a GPU of this kind (see `devices.share_of`)."""
    card_mib = room.layout.kinds[kind].memory_mib
    if need.milli and need.gpu_memory_mib:
        return need.milli, need.gpu_memory_mib
    if need.milli:
        return need.milli, card_mib * need.milli // GPU_MILLI
    return need.gpu_memory_mib * GPU_MILLI // card_mib, need.gpu_memory_mib


def fullest_first(room: Room, need: Need, kinds: Sequence[int], rows: Ints) -> Ints:
    """Keys of these nodes, smaller is better: leave as little as possible behind, and do not break links.

    GPU tasks: nodes that can link the task's GPUs, then fewest free GPUs, then fewest free cores. Shares: the node with
    the fullest GPU that still fits. CPU tasks: nodes without GPUs, then with fewest free GPUs, then fewest free cores.
    """
    cores = np.clip(room.cpu[rows] // 1000, 0, CORES_SHOWN - 1)
    free = room.free[rows]
    if need.gpus:
        first = (room.linked[rows] < np.minimum(need.gpus, room.layout.island_size[rows])).astype(np.int64)
    elif need.is_share:
        first = _fullest_gpu(room, need, kinds, rows)
    else:
        first = room.layout.has_gpus[rows].astype(np.int64)
    keys: Ints = (first * CORES_SHOWN + free) * CORES_SHOWN + cores
    return keys


def emptiest_first(room: Room, need: Need, kinds: Sequence[int], rows: Ints) -> Ints:
    """The same the other way round: most free GPUs first, and for tasks without GPUs most free cores."""
    cores = CORES_SHOWN - 1 - np.clip(room.cpu[rows] // 1000, 0, CORES_SHOWN - 1)
    if need.wants_gpu:
        first = KEY_MAX // CORES_SHOWN // 2 - room.milli[rows].sum(axis=1) // 10
    else:
        first = room.layout.has_gpus[rows].astype(np.int64)
    keys: Ints = first * CORES_SHOWN + cores
    return keys


def _fullest_gpu(room: Room, need: Need, kinds: Sequence[int], rows: Ints) -> Ints:
    """Per node the thousandths free on its fullest GPU that holds one more share."""
    best = np.full(len(room.free), GPU_MILLI, dtype=np.int64)
    for number in kinds:
        milli, memory = share_of_kind(room, need, number)
        fits = (room.layout.kind == number) & (room.milli >= milli) & (room.gpu_memory >= memory)
        np.minimum(best, np.where(fits, room.milli, GPU_MILLI).min(axis=1), out=best)
    return best[rows]

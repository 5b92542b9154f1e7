"""How many tasks each node can hold, and how well a node suits them: vectors with one entry per node."""

from collections.abc import Sequence

import numpy as np

from gangline_core.capacity import CORES_SHOWN, Flags, Ints, Room
from gangline_core.placement.gang import Need
from gangline_core.spec import GPU_MILLI

SLOTS_MAX = 1 << 20
"""More tasks than this on one node are not told apart."""
KEY_MAX = 1 << 40
"""Above every key."""


def slots(room: Room, need: Need, kinds: Sequence[int], mask: Flags) -> Ints:
    """How many tasks of a role each node can hold, 0 outside of the mask; for a single task only whether it can."""
    if need.count == 1:
        return _holds_one(room, need, kinds, mask).astype(np.int64)
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


def _holds_one(room: Room, need: Need, kinds: Sequence[int], mask: Flags) -> Flags:
    able = mask
    if need.cpu_milli:
        able = able & (room.cpu >= need.cpu_milli)
    if need.memory_mib:
        able = able & (room.memory >= need.memory_mib)
    for name, amount in need.devices.items():
        if amount:
            able = able & (room.devices[name] >= amount if name in room.devices else False)
    if need.gpus:
        able = able & (whole_free(room, kinds) >= need.gpus)
    elif need.is_share:
        able = able & _fits_share(room, need, kinds).any(axis=1)
    return able


def _fits_share(room: Room, need: Need, kinds: Sequence[int]) -> Flags:
    """Which GPUs can hold one more share."""
    fits = np.zeros_like(room.milli, dtype=np.bool_)
    for number in kinds:
        milli, memory = share_of_kind(room, need, number)
        fits |= (room.layout.kind == number) & (room.milli >= milli) & (room.gpu_memory >= memory)
    return fits


def whole_free(room: Room, kinds: Sequence[int]) -> Ints:
    """Whole free GPUs of these kinds, by node."""
    free: Ints = room.whole[kinds[0]] if len(kinds) == 1 else room.whole[list(kinds)].sum(axis=0)
    return free


def _share_slots(room: Room, need: Need, kinds: Sequence[int]) -> Ints:
    """How many shares each node can hold."""
    found = np.zeros_like(room.milli)
    for number in kinds:
        milli, memory = share_of_kind(room, need, number)
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
    return max(1, need.gpu_memory_mib * GPU_MILLI // card_mib), need.gpu_memory_mib


def fullest_first(room: Room, need: Need, kinds: Sequence[int]) -> Ints:
    """A key per node, smaller is better: leave as little as possible behind, and do not break links.

    GPU tasks: nodes that can link the task's GPUs, then fewest free GPUs, then fewest free cores. Single GPUs: first
    nodes with one whose partners are taken. Shares: the node with the fullest GPU that still fits. CPU tasks: nodes
    without GPUs, then with fewest free GPUs, then fewest free cores.
    """
    if need.gpus == 1:
        return _lone_first(room)
    if need.gpus:
        first = (room.linked < np.minimum(need.gpus, room.layout.island_size)).astype(np.int64)
    elif need.is_share:
        first = _fullest_gpu(room, need, kinds)
    else:
        first = room.layout.has_gpus.astype(np.int64)
    keys: Ints = first * (CORES_SHOWN * CORES_SHOWN) + room.fullness
    return keys


def _lone_first(room: Room) -> Ints:
    """Fullness, but nodes whose free GPUs do not make up whole islands go first, by number: singles are packed."""
    layout = room.layout

    def has_parts() -> bool:
        return bool(((layout.island_size > 0) & (layout.island_size < (layout.kind >= 0).sum(axis=1))).any())

    if not layout.remember(("parts",), has_parts):
        return room.fullness
    is_whole = (room.free % np.maximum(layout.island_size, 1) == 0).astype(np.int64)
    keys: Ints = is_whole * (CORES_SHOWN * CORES_SHOWN) + room.fullness
    return keys


def emptiest_first(room: Room, need: Need, kinds: Sequence[int]) -> Ints:
    """The same the other way round: most free GPUs first, and for tasks without GPUs most free cores."""
    cores = CORES_SHOWN - 1 - np.clip(room.cpu // 1000, 0, CORES_SHOWN - 1)
    if need.wants_gpu:
        first = KEY_MAX // CORES_SHOWN // 2 - room.milli.sum(axis=1) // 10
    else:
        first = room.layout.has_gpus.astype(np.int64)
    keys: Ints = first * CORES_SHOWN + cores
    return keys


def _fullest_gpu(room: Room, need: Need, kinds: Sequence[int]) -> Ints:
    """Per node the thousandths free on its fullest GPU that holds one more share."""
    fits = _fits_share(room, need, kinds)
    fullest: Ints = np.where(fits, room.milli, GPU_MILLI).min(axis=1)
    return fullest

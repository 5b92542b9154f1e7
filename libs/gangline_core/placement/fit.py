"""How many tasks each node can hold, and how well a node suits them: vectors with one entry per node."""

from collections.abc import Sequence

import numpy as np

from gangline_core.placement.devices import share_of
from gangline_core.placement.gang import Need
from gangline_core.room.capacity import CORES_SHOWN, CROWDED_BELOW, Flags, Ints, Room
from gangline_core.room.layout import Layout
from gangline_core.room.mig import geometry, how_many
from gangline_core.spec import GPU_MILLI

SLOTS_MAX = 1 << 20
"""More tasks than this on one node are not told apart."""
KEY_MAX = 1 << 40
"""Above every key."""
CORES_SQUARED = CORES_SHOWN * CORES_SHOWN
SPLIT, SCATTERED = 1 << 10, 1 << 11
"""Tightness of a node on which the task would need several whole islands, or parts of several."""


def slots(room: Room, need: Need, kinds: Sequence[int], mask: Flags) -> Ints:
    """How many tasks of a role each node can hold, 0 outside of the mask; for a single task only whether it can."""
    if need.count == 1:
        return holds_one(room, need, kinds, mask).astype(np.int64)
    if need.gpus:
        free = whole_free(room, kinds)
        found = free if need.gpus == 1 else free // need.gpus
    elif need.is_share:
        found = share_slots(room, need, kinds).sum(axis=1)
    else:
        found = np.full(len(mask), SLOTS_MAX, dtype=np.int64)
    if need.cpu_milli:
        found = np.minimum(found, room.cpu // need.cpu_milli)
    if need.memory_mib:
        found = np.minimum(found, room.memory // need.memory_mib)
    for name, amount in need.devices.items():
        if amount:
            found = np.minimum(found, room.devices[name] // amount if name in room.devices else 0)
    if room.crowded or not need.gpus or room.layout.width > CROWDED_BELOW:
        found = np.minimum(found, room.places)
    return np.where(need.within(room.layout, mask) & (found > 0), found, 0)


def holds_one(room: Room, need: Need, kinds: Sequence[int], mask: Flags) -> Flags:
    """Which nodes can hold one task."""
    able = need.within(room.layout, mask)
    able = able & (room.places > 0) if room.crowded else able
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
        able = able & fits_share(room, need, kinds).any(axis=1)
    return able


def fits_share(room: Room, need: Need, kinds: Sequence[int]) -> Flags:
    """Which GPUs can hold one more share (or slice)."""
    if need.mig:
        return np.asarray(share_slots(room, need, kinds) > 0)
    fits = np.zeros_like(room.milli, dtype=np.bool_)
    for number in kinds:
        milli, memory = share_of_kind(room, need, number)
        fits |= (room.layout.kind == number) & (room.milli >= milli) & (room.gpu_memory >= memory)
    return fits


def whole_free(room: Room, kinds: Sequence[int]) -> Ints:
    """Whole free GPUs of these kinds, by node."""
    free: Ints = room.whole[kinds[0]] if len(kinds) == 1 else room.whole[list(kinds)].sum(axis=0)
    return free


def most_free(room: Room, level: str) -> Ints:
    """Per node the most whole free GPUs in one part of a level inside nodes."""
    return {"nvlink": room.linked, "switch": room.switched, "socket": room.socketed, "node": room.free}[level]


def whole_gpus(room: Room, kinds: Sequence[int]) -> Flags:
    """Which GPUs of these kinds are wholly free."""
    layout = room.layout
    empty = (room.milli == GPU_MILLI) & (room.gpu_memory == layout.uncut)
    return empty if len(kinds) == len(layout.kinds) else np.asarray(empty & np.isin(layout.kind, kinds))


def share_slots(room: Room, need: Need, kinds: Sequence[int]) -> Ints:
    """How many shares (or slices) each GPU can hold."""
    found = np.zeros_like(room.milli)
    for number in kinds:
        kind = room.layout.kinds[number]
        if need.mig and room.slots is not None:
            counts = _slice_counts(room.layout, kind.mig, need.mig)
            fits = counts[np.where(room.layout.kind == number, room.slots.clip(0), 0)]
        else:
            milli, memory = share_of_kind(room, need, number)
            by_milli = room.milli // milli if milli else SLOTS_MAX
            fits = np.minimum(by_milli, room.gpu_memory // memory if memory else SLOTS_MAX)
        np.copyto(found, fits, where=room.layout.kind == number)
    held: Ints = np.maximum(found, 0, out=found)
    return held


def _slice_counts(layout: Layout, name: str, profile: str) -> Ints:
    """Per mask of free slots how many slices fit."""
    masks = range(1 << geometry(name).slots)
    asked = ("slices", name, profile)
    return layout.remember(asked, lambda: np.array([how_many(name, profile, free) for free in masks]))


def share_of_kind(room: Room, need: Need, kind: int) -> tuple[int, int]:
    """Thousandths and MiB that a share takes of a GPU of this kind (see `devices.share_of`)."""
    return share_of(need, room.layout.kinds[kind].memory_mib)


def fullest_first(room: Room, need: Need, kinds: Sequence[int]) -> Ints:
    """A key per node, smaller is better: leave as little as possible behind, and do not break links.

    GPU tasks: nodes whose tightest NVLink island that can link the task's GPUs has fewest free ones, so that full
    islands stay whole; then fewest free GPUs, then fewest free cores. Shares: the node with the fullest GPU that still
    fits. CPU tasks: nodes without GPUs, then with fewest free GPUs, then fewest free cores.
    """
    if need.gpus:
        if _is_one_island(room.layout):
            return room.fullness
        first = tightness(room, need.gpus)
    elif need.is_share:
        first = _fullest_gpu(room, need, kinds)
    else:
        first = room.layout.has_gpus.astype(np.int64)
    keys: Ints = first * CORES_SQUARED + room.fullness
    return keys


def fullest_keys(room: Room, need: Need, kinds: Sequence[int], rows: Sequence[int]) -> list[int]:
    """The same for a few nodes; KEY_MAX where the task does not fit."""
    return [_fullest_key(room, need, kinds, row) for row in rows]


def _fullest_key(room: Room, need: Need, kinds: Sequence[int], row: int) -> int:
    """The same for one node."""
    if need.cpu_milli > room.cpu.item(row) or need.memory_mib > room.memory.item(row):
        return KEY_MAX
    if room.crowded and room.places.item(row) < 1:
        return KEY_MAX
    if need.devices:
        for name, amount in need.devices.items():
            if amount and (name not in room.devices or amount > room.devices[name][row]):
                return KEY_MAX
    fullness = room.fullness.item(row)
    if need.gpus:
        if sum([room.whole.item(kind, row) for kind in kinds]) < need.gpus:
            return KEY_MAX
        if _is_one_island(room.layout):
            return fullness
        return _row_tightness(room, need.gpus, row) * CORES_SQUARED + fullness
    if need.is_share:
        fullest = _row_fullest(room, need, kinds, row)
        return KEY_MAX if fullest is None else fullest * CORES_SQUARED + fullness
    return int(room.layout.has_gpus[row]) * CORES_SQUARED + fullness


def tightness(room: Room, gpus: int) -> Ints:
    """Per node the free GPUs of the smallest island that can link so many; more where several islands are needed."""
    layout = room.layout
    empty = (room.milli == GPU_MILLI) & (room.gpu_memory == layout.uncut)
    tight = np.where(room.linked >= np.minimum(gpus, layout.island_size), SPLIT, SCATTERED)
    for number in range(_islands(layout)):
        count = (empty & (layout.island == number)).sum(axis=1)
        np.minimum(tight, count, out=tight, where=count >= gpus)
    return tight


def _row_tightness(room: Room, gpus: int, row: int) -> int:
    if int(room.linked[row]) < gpus:
        return SPLIT if int(room.linked[row]) >= min(gpus, int(room.layout.island_size[row])) else SCATTERED
    counts: dict[int, int] = {}
    uncut = room.layout.uncut[row].tolist()
    for k, (milli, memory) in enumerate(zip(room.milli[row].tolist(), room.gpu_memory[row].tolist(), strict=True)):
        if milli == GPU_MILLI and memory == uncut[k]:
            island = int(room.layout.island[row, k])
            counts[island] = counts.get(island, 0) + 1
    return min(count for count in counts.values() if count >= gpus)


def _islands(layout: Layout) -> int:
    """The most NVLink islands that a node has."""
    return layout.remember(("islands",), lambda: int(layout.island.max(initial=-1)) + 1)


def _is_one_island(layout: Layout) -> bool:
    """True when every node is one island, whose free GPUs are the node's."""
    return _islands(layout) <= 1


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
    fits = fits_share(room, need, kinds)
    fullest: Ints = np.where(fits, room.milli, GPU_MILLI).min(axis=1)
    return fullest


def _row_fullest(room: Room, need: Need, kinds: Sequence[int], row: int) -> int | None:
    best: int | None = None
    own = room.layout.kind[row].tolist()
    for k, (milli, memory) in enumerate(zip(room.milli[row].tolist(), room.gpu_memory[row].tolist(), strict=True)):
        if own[k] not in kinds or (best is not None and milli >= best):
            continue
        if need.mig:
            geometry = room.layout.kinds[own[k]].mig
            if room.slots is None or not how_many(geometry, need.mig, max(0, int(room.slots[row, k]))):
                continue
        else:
            wanted_milli, wanted_memory = share_of(need, room.layout.kinds[own[k]].memory_mib)
            if wanted_milli > milli or wanted_memory > memory:
                continue
        best = milli
    return best

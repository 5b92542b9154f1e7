"""Where a node has several islands, switches or sockets: free GPUs in blocks, and which block a task should break.

A block is a part of a node (island, switch, socket, the node) in which every GPU is free and that lies in no larger
such part. As a buddy allocator does, a task breaks the smallest block that holds it, so that large ones stay whole.
"""

from collections.abc import Sequence

import numpy as np

from gangline_core.placement.devices import NodeView, choose_whole
from gangline_core.placement.fit import KEY_MAX
from gangline_core.placement.gang import Need
from gangline_core.room.capacity import Flags, Ints, Room
from gangline_core.room.layout import Layout
from gangline_core.spec import GPU_MILLI

PARTS = ("nvlink", "switch", "socket", "node")
NO_BLOCK = 255
KNOWN_MAX = 65_536
"""Choices that are remembered for nodes that look alike."""
_SCORES = 1 << 24
"""Above every score."""


def has_parts(layout: Layout) -> bool:
    """True when some node consists of several parts, so that it matters which GPUs are taken."""
    return layout.remember(
        ("several parts",), lambda: any(bool(layout.part(level).max(initial=-1) > 0) for level in PARTS[:-1])
    )


def linked_first(room: Room, need: Need, kinds: Sequence[int], rows: Ints, scores: Ints) -> Ints:
    """Keys of these rows: how close the GPUs would lie, then how small a block is broken, then the score."""
    able = scores < KEY_MAX
    free = _free(room, kinds, rows)
    closeness = np.zeros(len(rows), dtype=np.int64)
    for parted in (room.linked, room.switched, room.socketed) if need.gpus > 1 else ():
        closeness += parted[rows] < need.gpus
    sizes = blocks(room.layout, rows, free)
    smallest = np.where(free & (sizes >= need.gpus), sizes, NO_BLOCK).min(axis=1)
    keys: Ints = np.where(
        able, (closeness * (NO_BLOCK + 1) + smallest) * _SCORES + scores.clip(0, _SCORES - 1), KEY_MAX
    )
    return keys


def blocks(layout: Layout, rows: Ints, free: Flags) -> Ints:
    """Per free GPU the size of its block, 0 where it is not free."""
    sizes = free.astype(np.int64)
    for level in PARTS:
        part = layout.part(level)[rows]
        for number in range(int(part.max(initial=-1)) + 1):
            own = part == number
            count = own.sum(axis=1)
            is_whole = (free | ~own).all(axis=1) & (count > 0)
            np.maximum(sizes, count[:, None], out=sizes, where=own & is_whole[:, None])
    return sizes


def choose_gpus(room: Room, need: Need, kinds: Sequence[int], row: int) -> tuple[int, ...]:
    """The GPUs of one node for a task: of the smallest block that holds it, else as close together as can be."""
    known = room.layout.remember(("chosen GPUs",), dict[tuple[object, ...], tuple[int, ...]])
    looks = (room.layout.build(row), room.milli[row].tobytes(), room.gpu_memory[row].tobytes(), tuple(kinds), need.gpus)
    found = known.get(looks)
    if found is None:
        if len(known) >= KNOWN_MAX:
            known.clear()
        found = known[looks] = _choose_gpus(room, need, kinds, row)
    return found


def _choose_gpus(room: Room, need: Need, kinds: Sequence[int], row: int) -> tuple[int, ...]:
    rows = np.array([row])
    free = _free(room, kinds, rows)
    sizes = blocks(room.layout, rows, free)[0]
    view = NodeView(room, row)
    islands, switches, sockets = (view.part(level) for level in PARTS[:-1])
    usable = [k for k in range(len(sizes)) if free[0, k]]
    if max(int(room.linked[row]), int(room.switched[row]), int(room.socketed[row])) >= need.gpus:
        fitting = [int(sizes[k]) for k in usable if sizes[k] >= need.gpus]
        if fitting:
            usable = [k for k in usable if sizes[k] == min(fitting)]
    links = view.links if need.gpus > 1 else ()
    return tuple(choose_whole(usable, islands, switches, sockets, count=need.gpus, links=links))


def _free(room: Room, kinds: Sequence[int], rows: Ints) -> Flags:
    layout = room.layout
    whole = (room.milli[rows] == GPU_MILLI) & (room.gpu_memory[rows] == layout.uncut[rows])
    of_kinds = layout.remember(("of kinds", *kinds), lambda: np.isin(layout.kind, kinds))
    found: Flags = whole & of_kinds[rows]
    return found

"""What is free when nodes joined or left: rows are moved together, and only those who came are looked at."""

from collections.abc import Sequence

import numpy as np

from gangline_core.cluster import Node
from gangline_core.ids import NodeId
from gangline_core.room.capacity import Ints, Room


def with_others(room: Room, joined: Sequence[Node], left: frozenset[NodeId]) -> Room | None:
    """The room when these nodes joined, which are to be refreshed yet, and those left; None where all begins anew."""
    layout = room.layout
    if not all(layout.takes(node) for node in joined) or (left and not layout.spares(left)):
        return None
    twin_layout, before = layout.with_others(joined, left)
    twin = Room(twin_layout, room.tasks_max)
    stays = np.flatnonzero(before >= 0)
    come_from = before[stays]
    columns = ("places", "cpu", "memory", "free", "fullness", "linked", "switched", "socketed", "milli", "gpu_memory")
    for name in columns:
        _move(getattr(room, name), getattr(twin, name), come_from, stays)
    for name, own in room.devices.items():
        _move(own, twin.devices[name], come_from, stays)
    if room.slots is not None and twin.slots is not None:
        _move(room.slots, twin.slots, come_from, stays)
    twin.whole[:, stays] = room.whole[:, come_from]
    twin.total = twin.whole.sum(axis=1).tolist()
    after = dict(zip(come_from.tolist(), stays.tolist(), strict=True))
    twin.crowded = {after[row] for row in room.crowded if row in after} | set(np.flatnonzero(before < 0).tolist())
    twin.look = [room.look[row] if row >= 0 else None for row in before.tolist()]
    return twin


def _move(own: Ints, other: Ints, come_from: Ints, stays: Ints) -> None:
    other[stays] = own[come_from]

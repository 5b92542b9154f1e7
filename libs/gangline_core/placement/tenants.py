"""GPUs on which others keep only memory: whole ones for a job that says how much memory it uses of each.

Paused jobs (standby workers of inference, say) and jobs beside others hold memory of a GPU and none of its time. A job
that declares `gpu_memory_most` takes such a GPU as it takes an empty one, where there is none of those left.
"""

from collections.abc import Callable

import numpy as np

from gangline_core.placement.gang import Gang, Seats
from gangline_core.room.capacity import Room
from gangline_core.room.layout import NEVER_MIB
from gangline_core.spec import GPU_MILLI

Seek = Callable[[Room, Gang], Seats | None]
View = Callable[[Room, Gang], Room]


def beside_tenants(placer: Seek) -> Seek:
    """The placer, which looks at GPUs with tenants where it finds no seats without them."""

    def seek(room: Room, gang: Gang) -> Seats | None:
        seats = placer(room, gang)
        if seats is not None:
            return seats
        opened = opened_to(room, gang)
        return None if opened is room else placer(opened, gang)

    return seek


def seen_beside_tenants(view: View) -> View:
    """What of a room a gang may use: GPUs with tenants, too."""
    return lambda room, gang: opened_to(view(room, gang), gang)


def opened_to(room: Room, gang: Gang) -> Room:
    """The room in which GPUs are whole that have all of their time, and as much memory as the gang takes of each.

    The room itself where there are none, or where a task of the gang takes all of a GPU's memory or a share of it:
    what then is free of a card is not one question.
    """
    most_mib = _most_mib(gang)
    if not most_mib:
        return room
    uncut = room.layout.uncut
    cards = (room.milli == GPU_MILLI) & (room.gpu_memory >= most_mib) & (room.gpu_memory < uncut) & (uncut < NEVER_MIB)
    rows = np.flatnonzero(cards.any(axis=1)).tolist()
    if not rows:
        return room
    opened = room.copy()
    opened.gpu_memory[cards] = uncut[cards]
    for row in rows:
        opened.count_whole(row)
    return opened


def _most_mib(gang: Gang) -> int:
    """MiB that a task takes of each of its GPUs at most; 0 where some task takes another part of one."""
    on_gpus = [need for need in gang.needs if need.wants_gpu]
    bounds = [need.gpu_memory_most_mib if need.gpus else 0 for need in on_gpus]
    return max(bounds) if bounds and all(bounds) else 0

"""Where GPUs over the network come from: servers go to the offering machine with most bandwidth left, least busy first.

The clients are placed as the pool places everybody, on what is left. Machines whose load nobody measured lately count
as fully busy, never as idle.
"""

from collections.abc import Callable

import numpy as np
from msgspec.structs import replace

from gangline_core.beside import Beside
from gangline_core.capacity import Room
from gangline_core.facts import TaskPlacement
from gangline_core.placement.devices import NodeView
from gangline_core.placement.gang import ANYWHERE, Gang, Need, Seats
from gangline_core.placement.models import acceptable
from gangline_core.placement.ranks import level_of
from gangline_core.remote import NIC, REMOTE_GPU

UNKNOWN_PERCENT = 100


class WithServers:
    """A placer for gangs with and without servers."""

    def __init__(self, placer: Callable[[Room, Gang], Seats | None], beside: Beside) -> None:
        """Gangs without servers go straight to the pool's placer."""
        self._placer = placer
        self._beside = beside

    def __call__(self, room: Room, gang: Gang) -> Seats | None:
        """Seats for the whole gang, or None."""
        if not any([need.devices and REMOTE_GPU in need.devices for need in gang.needs]):
            return self._placer(room, gang)
        inside = room.copy()
        servers: list[TaskPlacement] = []
        for need in gang.needs:
            if REMOTE_GPU in need.devices:
                for index in range(need.first_index, need.first_index + need.count):
                    place = self._serve(inside, gang, need, index)
                    if place is None:
                        return None
                    inside.take(place)
                    servers.append(place)
        clients = tuple(need for need in gang.needs if REMOTE_GPU not in need.devices)
        seats = self._placer(inside, replace(gang, needs=clients)) if clients else Seats(tasks=(), level=ANYWHERE)
        if seats is None:
            return None
        tasks = (*seats.tasks, *servers)
        return Seats(tasks=tasks, level=level_of(room.layout, gang.levels, tasks))

    def _serve(self, room: Room, gang: Gang, need: Need, index: int) -> TaskPlacement | None:
        """One server on the machine with most bandwidth left; of equal ones the least busy, then the first by name."""
        kinds = tuple(number for own in acceptable(room.layout, need).values() for number in own)
        offered, left = room.devices.get(REMOTE_GPU), room.devices.get(NIC)
        if offered is None or left is None or not kinds:
            return None
        able = need.within(room.layout, gang.mask(room.layout)) & (offered >= 1) & (left >= need.devices.get(NIC, 0))
        loads = self._beside.loads(room)
        busy = {row: load.gpu_mean if load.gpu_mean >= 0 else UNKNOWN_PERCENT for row, load in loads.items()}
        rows = np.flatnonzero(able).tolist()
        for row in sorted(rows, key=lambda row: (-int(left[row]), busy.get(row, UNKNOWN_PERCENT), row)):
            place = NodeView(room, row).seat(need, kinds, index)
            if place is not None:
                return place
        return None

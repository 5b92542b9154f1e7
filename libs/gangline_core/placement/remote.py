"""Where GPUs over the network come from: servers go to the offering machine with most bandwidth left, least busy first.

The clients are placed as the pool places everybody, on what is left. Machines whose load nobody measured lately count
as fully busy, never as idle.
"""

from collections.abc import Callable

import numpy as np
from msgspec.structs import replace

from gangline_core.facts import TaskPlacement
from gangline_core.placement.devices import NodeView
from gangline_core.placement.gang import ANYWHERE, Gang, Need, Seats
from gangline_core.placement.models import acceptable
from gangline_core.placement.ranks import level_of
from gangline_core.room.beside import Beside
from gangline_core.room.capacity import Room
from gangline_core.room.remote import NIC, REMOTE_GPU

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
        for widest_first in (True, False):
            inside = room.copy()
            servers = self._servers(inside, gang, widest_first=widest_first)
            clients = self._clients(inside, gang) if servers is not None else None
            if servers is not None and clients is not None:
                return _together(room, gang, (*clients, *servers))
        # Both want the network of the same machines: the clients choose first, where servers that do leave them none.
        inside = room.copy()
        clients = self._clients(inside, gang)
        servers = self._servers(inside, gang) if clients is not None else None
        if servers is None or clients is None:
            return None
        return _together(room, gang, (*clients, *servers))

    def _clients(self, room: Room, gang: Gang) -> tuple[TaskPlacement, ...] | None:
        """Seats for all clients, which the room then no longer has."""
        needs = tuple(need for need in gang.needs if REMOTE_GPU not in need.devices)
        seats = self._placer(room, replace(gang, needs=needs)) if needs else Seats(tasks=(), level=ANYWHERE)
        if seats is None:
            return None
        for place in seats.tasks:
            room.take(place)
        return seats.tasks

    def _servers(self, room: Room, gang: Gang, *, widest_first: bool = True) -> list[TaskPlacement] | None:
        """Seats for all servers, which the room then no longer has."""
        servers: list[TaskPlacement] = []
        for need in gang.needs:
            for index in range(need.first_index, need.first_index + need.count) if REMOTE_GPU in need.devices else ():
                place = self._serve(room, gang, need, index, widest_first=widest_first)
                if place is None:
                    return None
                room.take(place)
                servers.append(place)
        return servers

    def _serve(self, room: Room, gang: Gang, need: Need, index: int, *, widest_first: bool) -> TaskPlacement | None:
        """One server on the machine with most (or least) bandwidth left.

        Of equal ones it is the least busy one, then the first by name.
        """
        kinds = tuple(number for own in acceptable(room.layout, need).values() for number in own)
        offered, left = room.devices.get(REMOTE_GPU), room.devices.get(NIC)
        if offered is None or left is None or not kinds:
            return None
        able = need.within(room.layout, gang.mask(room.layout)) & (offered >= 1) & (left >= need.devices.get(NIC, 0))
        loads = self._beside.loads(room)
        busy = {row: load.gpu_mean if load.gpu_mean >= 0 else UNKNOWN_PERCENT for row, load in loads.items()}
        rows = np.flatnonzero(able).tolist()
        sign = -1 if widest_first else 1
        for row in sorted(rows, key=lambda row: (sign * int(left[row]), busy.get(row, UNKNOWN_PERCENT), row)):
            place = NodeView(room, row).seat(need, kinds, index)
            if place is not None:
                return place
        return None


def _together(room: Room, gang: Gang, tasks: tuple[TaskPlacement, ...]) -> Seats:
    return Seats(tasks=tasks, level=level_of(room.layout, gang.levels, tasks))

"""Topology: the smallest domain that holds the gang, even when the job did not ask for one; best fit inside it."""

from gangline_core.placement.fit import fullest_first, fullest_keys
from gangline_core.placement.gang import Gang, Seats
from gangline_core.placement.search import Manner, search
from gangline_core.room.capacity import Room

_MANNER = Manner(keys=fullest_first, row_keys=fullest_keys, compact=True)


def topology(room: Room, gang: Gang) -> Seats | None:
    """One island if any holds the gang, then one socket, one node, one rack, and so on up to the whole pool."""
    return search(room, gang, _MANNER)

"""Spread: one task per node as far as that goes, emptiest nodes first, for services that must survive a node."""

from gangline_core.placement.fit import emptiest_first
from gangline_core.placement.gang import Gang, Seats
from gangline_core.placement.search import Manner, search
from gangline_core.room.capacity import Room

_MANNER = Manner(keys=emptiest_first, spreads=True)


def spread(room: Room, gang: Gang) -> Seats | None:
    """As many and as empty nodes as possible inside the job's own topology wish."""
    return search(room, gang, _MANNER)

"""Best fit: fill partly used nodes first, so that whole nodes and linked GPUs stay free for those who need them."""

from gangline_core.placement.fit import fullest_first, fullest_keys
from gangline_core.placement.gang import Gang, Seats
from gangline_core.placement.search import Manner, search
from gangline_core.room.capacity import Room

_MANNER = Manner(keys=fullest_first, row_keys=fullest_keys)


def best_fit(room: Room, gang: Gang) -> Seats | None:
    """As few and as full nodes as possible; the job's own topology wish is honoured."""
    return search(room, gang, _MANNER)

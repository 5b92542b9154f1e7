"""First fit over a fixed permutation: the first node that holds the task, in an order that never changes.

The order is drawn from the nodes' names, so that it has nothing to do with racks or models and yet is the same for
every decision. A share goes to the card with the least sufficient part left. Simple, and hard to beat: a fixed order
keeps the nodes at its end empty.
"""

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np

from gangline_core.placement.each import by_keys, each
from gangline_core.placement.gang import Gang, Need, Seats
from gangline_core.room.capacity import Ints, Room


def first_fit(room: Room, gang: Gang) -> Seats | None:
    """Each task on the first node of the permutation that holds it."""
    return each(room, gang, by_keys(_keys), keys=_keys)


def _keys(room: Room, need: Need, kinds: Sequence[int]) -> Ints:
    return room.layout.remember(("permutation",), lambda: _permutation([str(node.id) for node in room.nodes]))


def _permutation(names: Sequence[str]) -> Ints:
    """Per node its place in the order."""
    drawn = sorted(range(len(names)), key=lambda k: (blake2b(names[k].encode(), digest_size=8).digest(), names[k]))
    places = np.empty(len(names), dtype=np.int64)
    places[drawn] = np.arange(len(names))
    return places

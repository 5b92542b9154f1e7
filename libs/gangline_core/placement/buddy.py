"""Buddy cells: the smallest free part that holds the task is split, so that coarse parts stay whole.

Source: buddy cell allocation of HiveD (Zhao et al., OSDI 2020, section 3.2) inside one pool without tenants: islands,
switches, sockets and nodes are the levels. A gang takes the smallest domain that holds it.
"""

from collections.abc import Sequence

import numpy as np

from gangline_core.placement.blocks import choose_gpus, linked_first
from gangline_core.placement.each import by_keys, each, is_free_of_wishes
from gangline_core.placement.fit import fullest_first
from gangline_core.placement.gang import Gang, Need, Seats
from gangline_core.placement.topology import topology
from gangline_core.room.capacity import Ints, Room


def buddy(room: Room, gang: Gang) -> Seats | None:
    """Gangs as close as can be; a single task splits the smallest sufficient cell."""
    if gang.tasks > 1 or not is_free_of_wishes(gang):
        return topology(room, gang)
    return each(room, gang, by_keys(_keys, _pick), keys=_keys)


def _keys(room: Room, need: Need, kinds: Sequence[int]) -> Ints:
    if not need.gpus:
        return fullest_first(room, need, kinds)
    rows = np.arange(len(room.cpu), dtype=np.int64)
    return linked_first(room, need, kinds, rows, np.zeros(len(rows), dtype=np.int64))


def _pick(room: Room, need: Need, kinds: Sequence[int], row: int) -> tuple[int, ...]:
    return choose_gpus(room, need, kinds, row) if need.gpus else ()

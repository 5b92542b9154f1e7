"""gpu-admission: the node with fewest free cores first, and on it the card with fewest free cores.

Source: tkestack/gpu-admission, predicate on vcuda-core and vcuda-memory. Nodes are ordered by free GPU thousandths,
free GPU memory, then name, and the first that holds the task takes it. Inside a node a share takes the card with
fewest free thousandths, then least free memory, then lowest index; whole cards are taken in the order of their
indexes.
"""

from collections.abc import Sequence

from gangline_core.placement.each import by_keys, each
from gangline_core.placement.fit import whole_gpus
from gangline_core.placement.gang import Gang, Need, Seats
from gangline_core.room.capacity import NO_KIND, Ints, Room

_MEMORY_SHOWN = 1 << 24
"""More free MiB than this on one node are not told apart."""


def gpu_admission(room: Room, gang: Gang) -> Seats | None:
    """Fewest free cores first, nodes as well as cards."""
    return each(room, gang, by_keys(_keys, _pick), keys=_keys)


def _keys(room: Room, need: Need, kinds: Sequence[int]) -> Ints:
    usable = room.layout.kind != NO_KIND
    cores = (room.milli * usable).clip(0).sum(axis=1)
    memory = (room.gpu_memory * usable).clip(0).sum(axis=1).clip(0, _MEMORY_SHOWN - 1)
    keys: Ints = cores.clip(0, 1 << 15) * _MEMORY_SHOWN + memory
    return keys


def _pick(room: Room, need: Need, kinds: Sequence[int], row: int) -> tuple[int, ...]:
    if need.is_share:
        return ()
    free = whole_gpus(room, kinds)[row]
    return tuple(k for k in range(len(free)) if free[k])[: need.gpus]

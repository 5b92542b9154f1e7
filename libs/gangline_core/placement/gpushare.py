"""gpushare: a share goes to the card with least free memory that still holds it.

Source: the gpushare scheduler extender (AliyunContainerService), best fit by device memory. Unlike there, cards of a
node may differ in size, and the node is chosen by the same rule: the one whose best card would be left fullest.
"""

from collections.abc import Sequence

import numpy as np

from gangline_core.placement.each import by_keys, each
from gangline_core.placement.fit import KEY_MAX, fits_share, fullest_first
from gangline_core.placement.gang import Gang, Need, Seats
from gangline_core.room.capacity import Ints, Room


def gpushare(room: Room, gang: Gang) -> Seats | None:
    """Shares on the card with least free memory; whole cards by best fit."""
    return each(room, gang, by_keys(_keys, _pick), keys=_keys)


def _keys(room: Room, need: Need, kinds: Sequence[int]) -> Ints:
    if not need.is_share:
        return fullest_first(room, need, kinds)
    fits = fits_share(room, need, kinds)
    keys: Ints = np.where(fits, room.gpu_memory, KEY_MAX - 1).min(axis=1)
    return keys


def _pick(room: Room, need: Need, kinds: Sequence[int], row: int) -> tuple[int, ...]:
    if not need.is_share:
        return ()
    fits = fits_share(room, need, kinds)[row]
    return (best_card([int(free) if able else None for free, able in zip(room.gpu_memory[row], fits, strict=True)]),)


def best_card(free_mib: Sequence[int | None]) -> int:
    """The card with least free memory among those that hold the share (None: does not); the first of equal ones."""
    return min((free, k) for k, free in enumerate(free_mib) if free is not None)[1]

"""Scores by what cards have: memory, free memory, and how little of the node is spoken for.

Source: the Yoda scheduler's metric score, with the weights of its free and total memory and of what is spoken for.
Its faults are left out: every metric is divided by its own largest value, what a task asks for counts once per card,
a task that was just placed counts at once, and models are accepted rather than clocks compared for equality. Clock,
bandwidth, cores and power are the same for all cards of a model, so the order of models that a job gives stands for
them.
"""

from collections.abc import Sequence

import numpy as np

from gangline_core.placement.each import by_keys, each
from gangline_core.placement.fit import fits_share, whole_gpus
from gangline_core.placement.gang import Gang, Need, Seats
from gangline_core.room.capacity import Ints, Room

FREE_WEIGHT, TOTAL_WEIGHT = 2, 1
"""Of one card's free and total memory."""
ACTUAL_WEIGHT, ALLOCATE_WEIGHT = 2, 3
"""Of the node's free memory, and of what nobody has spoken for."""
SCORE_MAX = 100


def metric_score(room: Room, gang: Gang) -> Seats | None:
    """The node whose cards score highest."""
    return each(room, gang, by_keys(_keys), keys=_keys)


def _keys(room: Room, need: Need, kinds: Sequence[int]) -> Ints:
    qualifying = fits_share(room, need, kinds) if need.is_share else whole_gpus(room, kinds)
    if not need.wants_gpu:
        qualifying = room.layout.kind >= 0
    memory, free = room.layout.memory, room.gpu_memory.clip(0)
    cards = np.where(
        qualifying,
        FREE_WEIGHT * _of_largest(free, qualifying) + TOTAL_WEIGHT * _of_largest(memory, qualifying),
        0,
    ).sum(axis=1)
    total = memory.sum(axis=1)
    left = free.sum(axis=1) * SCORE_MAX // np.maximum(total, 1)
    raw = cards + (ACTUAL_WEIGHT + ALLOCATE_WEIGHT) * left
    low, high = int(raw.min()), int(raw.max())
    if low == high:
        return np.zeros_like(raw)
    keys: Ints = SCORE_MAX - (raw - low) * SCORE_MAX // (high - low)
    return keys


def _of_largest(values: Ints, among: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> Ints:
    found: Ints = values * SCORE_MAX // max(1, int(np.where(among, values, 0).max(initial=0)))
    return found

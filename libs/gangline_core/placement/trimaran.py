"""Placement by measured load: up to a target and no further, or away from nodes that are busy or restless.

Source: the Trimaran plugins of kubernetes-sigs/scheduler-plugins, TargetLoadPacking (`target_load`) and
LoadVariationRiskBalancing (`load_risk`), with their defaults. What is measured comes from the telemetry summaries in
the log, so a decision can be repeated. A node without a fresh measurement is judged by what its tasks asked for, with
no variation: it is neither avoided nor preferred for being silent. Risk needs both mean and deviation; a mean alone is
no measurement there, rather than one without variation.
"""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from gangline_core.placement.allocatable import owned
from gangline_core.placement.each import by_keys, each
from gangline_core.placement.gang import Gang, Need, Seats
from gangline_core.room.beside import NOTHING, Beside
from gangline_core.room.capacity import Ints, Room

Floats = NDArray[np.float64]
SCORE_MAX = 100
TARGET_PERCENT = 40
"""Nodes are filled up to this, then avoided."""
MARGIN = 1.0
SENSITIVITY = 1.0


class Risk(Struct, frozen=True):
    """How much variation counts."""

    margin: float = MARGIN
    sensitivity: float = SENSITIVITY


def target_load(room: Room, gang: Gang, beside: Beside = NOTHING) -> Seats | None:
    """The node whose CPU would be closest below the target; those above it last."""

    def keys(room: Room, need: Need, kinds: Sequence[int]) -> Ints:
        cpu = owned(room)[0]
        used = _used(room, beside, "cpu")[0] * cpu
        return SCORE_MAX - target_scores(100 * (used + need.cpu_milli) / np.maximum(cpu, 1))

    return each(room, gang, by_keys(keys), keys=keys)


def load_risk(room: Room, gang: Gang, beside: Beside = NOTHING) -> Seats | None:
    """The node where mean and deviation of the load leave least risk, by its worse of CPU and memory."""

    def keys(room: Room, need: Need, kinds: Sequence[int]) -> Ints:
        scores = []
        for name, capacity, asked in zip(
            ("cpu", "memory"), owned(room), (need.cpu_milli, need.memory_mib), strict=True
        ):
            mean, deviation = _used(room, beside, name, with_spread=True)
            scores.append(risk_scores(capacity, mean * capacity, deviation * capacity, asked))
        return SCORE_MAX - _rounded(np.minimum(*scores))

    return each(room, gang, by_keys(keys), keys=keys)


def target_scores(percent: Floats) -> Ints:
    """0..100 for the load that each node would have, in per cent: rising to 100 at the target, then falling from it."""
    target = TARGET_PERCENT
    below = (SCORE_MAX - target) * percent / target + target
    above = target * (100 - percent) / (100 - target)
    found = np.where(percent <= target, below, above)
    return _rounded(np.where(percent > 100, 0, found))


def risk_scores(capacity: Ints, mean: Floats, deviation: Floats, asked: int, risk: Risk | None = None) -> Floats:
    """0..100 for each node, in the units of its capacity; nodes without capacity get 0."""
    chosen = risk or Risk()
    has = np.maximum(capacity, 1)
    load = ((mean.clip(0) + asked) / has).clip(0, 1)
    spread = (deviation / has).clip(0, 1)
    if chosen.sensitivity > 0:
        spread = spread ** (1 / chosen.sensitivity)
    elif chosen.sensitivity == 0:
        spread = np.where(spread >= 1, 1.0, 0.0)
    spread = (spread * chosen.margin).clip(0, 1)
    found: Floats = np.where(capacity > 0, 100 * (1 - (load + spread) / 2), 0)
    return found


def _used(room: Room, beside: Beside, name: str, *, with_spread: bool = False) -> tuple[Floats, Floats]:
    """Mean and deviation of each node's load, as parts of 1: measured, or else as asked for."""
    capacity = owned(room)[0 if name == "cpu" else 1]
    free = room.cpu if name == "cpu" else room.memory
    mean = ((capacity - free) / np.maximum(capacity, 1)).clip(0, 1)
    deviation = np.zeros_like(mean)
    for row, load in beside.loads(room).items():
        measured, spread = load.cpu_mean, load.cpu_deviation
        if name == "memory":
            measured, spread = load.memory_mean, load.memory_deviation
        if measured >= 0 and (spread >= 0 or not with_spread):
            mean[row], deviation[row] = measured / 100, max(0, spread) / 100
    return mean, deviation


def _rounded(scores: Floats) -> Ints:
    """Half away from zero, as the original rounds."""
    found: Ints = np.floor(scores + 0.5).astype(np.int64)
    return found

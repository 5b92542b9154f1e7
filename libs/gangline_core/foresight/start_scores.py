"""How far can a forecast of a start be trusted? The range in which so many of those before turned out to be.

Every forecast that a round writes down is scored when its job starts, as true wait over forecast wait, and the stated
range leaves out a part of these scores at either end (split conformal prediction). Forecasts of one hour err alike: a
burst of jobs behind the same running ones is all early or all late. So it is hours that are counted, each as much as
any other, however many forecasts it had, and before there are many hours, a few that are assumed stand beside them.
How large the left out parts are is learnt, too: whenever a start falls outside of what was stated, on its side less is
left out from then on, and a little more whenever it does not, so that in the long run as many ranges hold as are said
to, whatever changes (adaptive conformal inference, Gibbs and Candes, NeurIPS 2021, one side at a time).
"""

from functools import lru_cache
from itertools import chain
from math import lcm

import numpy as np
from msgspec import Struct

from gangline_core.job import Job
from gangline_core.scoring.columns import Ints
from gangline_core.spec import JobSpec, gpu_milli_wanted
from gangline_core.state import PoolState

LEVEL_PERCENT = 80
"""Part of the stated ranges that should hold."""
TAIL = (100 - LEVEL_PERCENT) * 1_000_000 // 200
"""Part of the starts, in millionths, that should lie below the range, and as many above it."""
STEP = 2_000
"""How far one start moves what is left out, in millionths of its surprise."""
TAIL_LEAST, TAIL_MOST = -50_000, 400_000
"""What is left out stays between these; below 0 the range is wider than all scores."""
SCORES_LEAST = 20
"""Fewer scores say nothing."""
HOUR_MS = 3_600_000
HOURS_KEPT = 200
"""Hours whose scores are remembered, per size of job."""
HOUR_SCORES_KEPT = 16
"""Scores remembered of one hour, the last ones."""
ASSUMED = (
    *(337, 378, 424, 475, 533, 597, 670, 751, 842, 944),
    *(1059, 1187, 1332, 1493, 1674, 1878, 2105, 2361, 2647, 2969),
)
"""Scores of as many hours before anything was seen: spread evenly by their logarithms, eight of ten in 0.4 to 2.5."""
HOUR_WEIGHT = lcm(*range(1, HOUR_SCORES_KEPT + 1))
"""What an hour counts, so that each of its scores is a whole number of it."""
SHORT_MS = 60_000
"""Added to waits before they are compared, so that a few seconds more or less of a short one are no large error."""
RATIO_MAX = 1_000_000
"""Scores are in thousandths, up to this."""

Hours = tuple[tuple[int, ...], ...]


class Range(Struct, frozen=True):
    """A wait in ms: where it probably lies, and its middle."""

    low_ms: int
    middle_ms: int
    high_ms: int
    scores: int
    """On so many scored forecasts this rests."""


def stated_range(pool: PoolState, spec: JobSpec, wait_ms: int) -> Range | None:
    """The range of a forecast by how earlier ones of the size, else of all sizes, turned out; None with too few."""
    return Scores(pool).stated_range(spec, wait_ms)


class Scores:
    """How earlier forecasts of a pool turned out, looked at once for each size for as long as nothing changes."""

    def __init__(self, pool: PoolState) -> None:
        """Those that the pool remembers now."""
        self._pool = pool
        self._known: dict[str, tuple[int, tuple[int, int, int]] | None] = {}

    def stated_range(self, spec: JobSpec, wait_ms: int) -> Range | None:
        """The range of a forecast by those of the size, else of all sizes; None with too few."""
        for name in (size_class(spec), ""):
            if name not in self._known:
                self._known[name] = self._look(name)
            if (found := self._known[name]) is not None:
                count, (low, middle, high) = found
                return Range(_wait(wait_ms, low), _wait(wait_ms, middle), _wait(wait_ms, high), count)
        return None

    def _look(self, name: str) -> tuple[int, tuple[int, int, int]] | None:
        """How many forecasts of the size were scored, and how they turned out; None where they are too few."""
        hours = tuple(self._pool.start_scores.get(name, {}).values())
        count = sum(map(len, hours))
        return (count, _quantiles(hours, self._pool.tails.get(name, (TAIL, TAIL)))) if count >= SCORES_LEAST else None


def score(pool: PoolState, job: Job, at: int) -> None:
    """A job starts: see how its forecast turned out. Called by the fold."""
    known, stated = pool.foreseen.pop(job.id, None), pool.stated.pop(job.id, None)
    if known is None:
        return
    made_at, wait_ms = known
    true_ms = max(0, at - made_at)
    ratio = min(RATIO_MAX, 1000 * (true_ms + SHORT_MS) // (max(0, wait_ms) + SHORT_MS))
    for name in (size_class(job.spec), ""):
        _remember(pool.start_scores.setdefault(name, {}), made_at // HOUR_MS, ratio)
        if stated is not None:
            below, above = pool.tails.get(name, (TAIL, TAIL))
            low_ms, high_ms = stated
            pool.tails[name] = (
                _learnt(below, is_outside=true_ms < low_ms),
                _learnt(above, is_outside=true_ms > high_ms),
            )


def size_class(spec: JobSpec) -> str:
    """Jobs of about the same size wait alike: sizes by powers of two."""
    return str((gpu_milli_wanted(spec) // 1000).bit_length())


def _remember(hours: dict[int, tuple[int, ...]], hour: int, ratio: int) -> None:
    """One more score of an hour; of too many hours the oldest is forgotten."""
    hours[hour] = (*hours.get(hour, ())[1 - HOUR_SCORES_KEPT :], ratio)
    while len(hours) > HOURS_KEPT:
        del hours[min(hours)]


def _learnt(tail: int, *, is_outside: bool) -> int:
    """What is left out on one side after one more start."""
    surprise = TAIL - (1_000_000 if is_outside else 0)
    return max(TAIL_LEAST, min(TAIL_MOST, tail + STEP * surprise // 1_000_000))


def _wait(wait_ms: int, ratio: int) -> int:
    """The wait that would score so, for a forecast of `wait_ms`."""
    return max(0, (max(0, wait_ms) + SHORT_MS) * ratio // 1000 - SHORT_MS)


@lru_cache(maxsize=64)
def _quantiles(hours: Hours, tails: tuple[int, int]) -> tuple[int, int, int]:
    """Thousandths of the forecast wait: the low end, the middle, and the high end."""
    below, above = tails
    weighed = _weighed(hours)
    whole = (len(hours) + len(ASSUMED)) * HOUR_WEIGHT
    low = _at(weighed, below * whole // 1_000_000) if below > 0 else 0
    high = _at(weighed, (1_000_000 - above) * whole // 1_000_000) if above > 0 else 2 * int(weighed[0][-1])
    middle = _at(weighed, whole // 2)
    return min(low, middle), middle, max(high, middle)


def _weighed(hours: Hours) -> tuple[Ints, Ints]:
    """All scores in order, and what each and all before it count together."""
    scores = np.array([*ASSUMED, *chain.from_iterable(hours)], dtype=np.int64)
    sizes = np.fromiter(map(len, hours), dtype=np.int64, count=len(hours))
    counts = np.concatenate([np.ones(len(ASSUMED), dtype=np.int64), np.repeat(sizes, sizes)])
    order = np.argsort(scores, kind="stable")
    return scores[order], np.cumsum(HOUR_WEIGHT // counts[order])


def _at(weighed: tuple[Ints, Ints], part: int) -> int:
    """The score that scores of this weight do not exceed."""
    scores, sums = weighed
    return int(scores[min(len(scores) - 1, int(np.searchsorted(sums, part)))])

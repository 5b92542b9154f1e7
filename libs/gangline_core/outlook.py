"""When will a waiting job start, and how far can that be trusted? Forecasts that are scored against what happened.

Run times are drawn from what jobs like each one took (given how long it runs already), room is handed out in today's
order, and the middle of several such futures is the forecast. How wrong such forecasts are is not assumed but measured:
every forecast that a round writes down is scored when its job starts, as true wait over forecast wait, and the stated
range is the one into which that many of the last scores fell (split conformal prediction).
"""

from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache

from msgspec import Struct

from gangline_core.facts import Candidate, Foreseen
from gangline_core.forecast import Ask, Pile, Release, best_pile, plan_of
from gangline_core.history import recall
from gangline_core.ids import JobId
from gangline_core.job import Job
from gangline_core.placement.why_not import ROOM_CODES
from gangline_core.run_times import RunTimes
from gangline_core.spec import JobSpec, gpu_milli_wanted
from gangline_core.state import PoolState, State

FUTURES = 9
"""Futures that are simulated; fewer when very many jobs wait."""
FUTURES_FEW = 3
MANY = 2_000
LEVEL_PERCENT = 80
"""Part of the stated ranges that should hold."""
LOW, HIGH = 0.05, 0.95
"""Parts of the scores below and above the range: further out than asked, because queues change meanwhile."""
SCORES_LEAST = 20
"""Fewer scores say nothing."""
SCORES_KEPT = 800
"""Scores remembered per size of job: enough that one burst of jobs, which all turn out alike, is not all there is."""
EVERY_MS = 30_000
"""Rounds write down forecasts no more often than this."""
AT_ONCE_MAX = 64
"""Forecasts that one round writes down."""
SAMPLES_LEAST = 5
RATIO_MAX = 1_000_000
"""Scores are in thousandths, up to this."""


class Range(Struct, frozen=True):
    """A wait in ms: where it probably lies, and its middle."""

    low_ms: int
    middle_ms: int
    high_ms: int
    scores: int
    """On so many scored forecasts this rests."""


def foresee(state: State, pool: PoolState, candidates: Sequence[Candidate], now: int) -> tuple[Foreseen, ...]:
    """Forecasts for candidates that were refused once and have none yet, for a round to write down."""
    if now - pool.foreseen_at < EVERY_MS:
        return ()
    new: list[int] = []
    for place, candidate in enumerate(candidates):
        if candidate.job not in pool.foreseen:
            reason = state.kept.jobs[candidate.job].reason
            if reason is not None and reason.code in ROOM_CODES:
                new.append(place)
                if len(new) == AT_ONCE_MAX:
                    break
    if not new:
        return ()
    jobs = [state.kept.jobs[candidate.job] for candidate in candidates[: new[-1] + 1]]
    waits = middle_waits(state, pool.pool.name, jobs, times=RunTimes(state, pool.pool.name), now=now)
    found = []
    for place in new:
        wait_ms = waits[jobs[place].id]
        if wait_ms is not None:
            stated = stated_range(pool, jobs[place].spec, wait_ms)
            low, middle, high = (stated.low_ms, stated.middle_ms, stated.high_ms) if stated else (0, wait_ms, -1)
            found.append(Foreseen(job=jobs[place].id, wait_ms=wait_ms, low_ms=low, middle_ms=middle, high_ms=high))
    return tuple(found)


def stated_range(pool: PoolState, spec: JobSpec, wait_ms: int) -> Range | None:
    """The range of a forecast by how earlier ones of the size, else of all sizes, turned out; None with too few."""
    for name in (size_class(spec), ""):
        scores = pool.start_scores.get(name, ())
        if len(scores) >= SCORES_LEAST:
            low, middle, high = _quantiles(scores)
            return Range(wait_ms * low // 1000, wait_ms * middle // 1000, wait_ms * high // 1000, len(scores))
    return None


@lru_cache(maxsize=256)
def _quantiles(scores: tuple[int, ...]) -> tuple[int, int, int]:
    ordered = sorted(scores)
    low, middle, high = (ordered[min(len(ordered) - 1, int(part * len(ordered)))] for part in (LOW, 0.5, HIGH))
    return low, middle, high


def score(pool: PoolState, job: Job, at: int) -> None:
    """A job starts: see how its forecast turned out. Called by the fold."""
    known = pool.foreseen.pop(job.id, None)
    if known is None:
        return
    made_at, wait_ms = known
    ratio = min(RATIO_MAX, 1000 * max(0, at - made_at) // max(1, wait_ms))
    for name in (size_class(job.spec), ""):
        pool.start_scores[name] = (*pool.start_scores.get(name, ())[1 - SCORES_KEPT :], ratio)


def size_class(spec: JobSpec) -> str:
    """Jobs of about the same size wait alike: sizes by powers of two."""
    return str((gpu_milli_wanted(spec) // 1000).bit_length())


def middle_waits(state: State, pool: str, jobs: Sequence[Job], *, times: RunTimes, now: int) -> dict[JobId, int | None]:
    """Per job, given in their order, the middle of its waits in ms over several futures; None when nobody knows."""
    free, releases, asks = plan_of(state, pool, jobs, times=times, now=now)
    draws = _Draws(state, now)
    futures = FUTURES if len(jobs) <= MANY else FUTURES_FEW
    waits: dict[JobId, list[int | None]] = {job.id: [] for job in jobs}
    for future in range(futures):
        piles = {name: Pile(amount, now) for name, amount in free.items()}
        for release in releases:
            left = draws.left(release, future)
            for name, amount in release.amounts.items() if left is not None else ():
                if name in piles:
                    piles[name].give_back(now + (left or 0), amount)
        for ask in asks:
            pile = best_pile(piles, ask)
            start = pile.take(ask.amount) if pile else None
            waits[ask.job].append(None if start is None else start - now)
            whole = draws.whole(ask, future) if start is not None else None
            if pile and start is not None and whole is not None:
                pile.give_back(start + whole, ask.amount)
    return {job: _middle(found) for job, found in waits.items()}


class _Draws:
    """Run times drawn for futures; the same job in the same future always gets the same draw."""

    def __init__(self, state: State, now: int) -> None:
        self._state = state
        self._now = now
        self._samples: dict[tuple[str, str, int], list[int]] = {}

    def left(self, release: Release, future: int) -> int | None:
        """How much longer a live job runs, in ms; None when nobody knows."""
        job = self._state.kept.jobs[release.job]
        if release.span is None or not job.started_ms or job.outcome is not None:
            return release.span.latest_ms if release.span is not None else None
        ran = max(0, self._now - job.started_ms)
        samples = self._of(job.spec)
        later = samples[bisect_right(samples, ran) :]
        span = release.span
        if later:
            left = later[_mix(job.id, future) % len(later)] - ran
        else:
            left = span.soonest_ms + (span.latest_ms - span.soonest_ms) * (_mix(job.id, future) % 1000) // 1000
        limit_ms = job.spec.time_limit_s * 1000
        return max(0, min(left, limit_ms - ran) if limit_ms else left)

    def whole(self, ask: Ask, future: int) -> int | None:
        """How long a waiting job will run, in ms; None when nobody knows."""
        spec = self._state.kept.jobs[ask.job].spec
        samples = self._of(spec)
        if samples:
            run_ms = samples[_mix(ask.job, future) % len(samples)]
        elif ask.span is not None:
            run_ms = ask.span.soonest_ms
            run_ms += (ask.span.latest_ms - ask.span.soonest_ms) * (_mix(ask.job, future) % 1000) // 1000
        else:
            return None
        return min(run_ms, spec.time_limit_s * 1000) if spec.time_limit_s else run_ms

    def _of(self, spec: JobSpec) -> list[int]:
        key = (f"{spec.group}:{spec.user}", spec.name, gpu_milli_wanted(spec))
        found = self._samples.get(key)
        if found is None:
            found = self._samples[key] = sorted(recall(self._state.kept.history, spec, least=SAMPLES_LEAST))
        return found


def _middle(found: list[int | None]) -> int | None:
    known = sorted(wait for wait in found if wait is not None)
    return known[len(known) // 2] if len(known) == len(found) and known else None


def _mix(job: int, future: int) -> int:
    """A number without pattern for a job in a future (the finaliser of SplitMix64)."""
    value = (job * 0x9E3779B97F4A7C15 + future * 0xD1B54A32D192ED03 + 1) & 0xFFFFFFFFFFFFFFFF
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & 0xFFFFFFFFFFFFFFFF
    return value ^ (value >> 31)

"""When will a waiting job start? Futures that are drawn from what is known, and the middle of them.

Run times are drawn from what jobs like each one took (given how long it runs already), room is handed out in today's
order, and the middle of several such futures is the forecast. How far it can be trusted is not assumed but measured:
rounds write forecasts down, and `start_scores` makes a range of how they turned out.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from gangline_core.facts import Candidate, Foreseen
from gangline_core.foresight.forecast import Ask, Pile, best_pile, comes_back, free_and_asks, held_by, idle_nodes
from gangline_core.foresight.history import classes
from gangline_core.foresight.run_times import RunTimes, Span
from gangline_core.foresight.start_scores import Scores
from gangline_core.ids import JobId
from gangline_core.job import Job
from gangline_core.pauses.pausing import stood_ms
from gangline_core.placement.why_not import ROOM_CODES
from gangline_core.scoring.columns import Ints
from gangline_core.state import PoolState, State

FUTURES = 9
"""Futures that are simulated; fewer when very many jobs wait."""
FUTURES_FEW = 3
MANY = 2_000
EVERY_MS = 30_000
"""Rounds write down forecasts no more often than this, for each `EVERY_JOBS` that wait."""
EVERY_JOBS, EVERY_MOST = 30, 20
"""The more jobs wait, the longer they do, and the less do minutes matter to a forecast; up to so many times as long."""
AT_ONCE_MAX = 64
"""Forecasts that one round writes down."""
SAMPLES_LEAST = 5
FOR_EVER_MS = 1 << 60
SPAN_STEPS = 1_000
"""A span of which nothing is known but its ends is drawn from in so many steps."""


def foresee(
    state: State, pool: PoolState, candidates: Sequence[Candidate], *, waiting: int, now: int
) -> tuple[Foreseen, ...]:
    """Forecasts for candidates that were refused once and have none yet, for a round to write down.

    `waiting` is how many jobs wait, in view or not.
    """
    if now - pool.foreseen_at < EVERY_MS * max(1, min(EVERY_MOST, waiting // EVERY_JOBS)):
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
    found, scores = [], Scores(pool)
    for place in new:
        wait_ms = waits[jobs[place].id]
        if wait_ms is not None:
            stated = scores.stated_range(jobs[place].spec, wait_ms)
            low, middle, high = (stated.low_ms, stated.middle_ms, stated.high_ms) if stated else (0, wait_ms, -1)
            found.append(Foreseen(job=jobs[place].id, wait_ms=wait_ms, low_ms=low, middle_ms=middle, high_ms=high))
    return tuple(found)


def middle_waits(state: State, pool: str, jobs: Sequence[Job], *, times: RunTimes, now: int) -> dict[JobId, int | None]:
    """Per job, given in their order, the middle of its waits in ms over several futures; None when nobody knows."""
    free, asks = free_and_asks(state, pool, jobs, times=times)
    draws = _Draws(state, pool, now, FUTURES if len(jobs) <= MANY else FUTURES_FEW)
    live = [state.kept.jobs[job] for job in sorted(state.live.get(pool, {}))]
    coming = draws.coming(live, {name for ask in asks for name in ask.classes if name in free}, times)
    wholes = draws.wholes(asks, {job.id: job for job in jobs})
    waits: list[list[int | None]] = [[] for _ in asks]
    for future in range(draws.futures):
        piles = {name: Pile(free[name], now) for name in coming}
        for name, (total, own) in coming.items():
            piles[name].expect(own[future], total)
        for ask, whole, found in zip(asks, wholes, waits, strict=True):
            pile = piles.get(ask.classes[0]) if len(ask.classes) == 1 else best_pile(piles, ask)
            start = pile.take(ask.amount) if pile else None
            if pile is None or start is None:
                found.append(None)
                continue
            found.append(start - now)
            if whole is not None:
                pile.give_back(start + whole[future], ask.amount)
    return {ask.job: _middle(found) for ask, found in zip(asks, waits, strict=True)}


Coming = tuple[int, list[list[tuple[int, int]]]]
"""All that comes back, and per future what comes back when as (time, amount), soonest first."""


class _Draws:
    """Run times drawn for futures; the same job in the same future always gets the same draw."""

    def __init__(self, state: State, pool: str, now: int, futures: int) -> None:
        self._state = state
        self._pool = pool
        self._now = now
        self.futures = futures
        self._alike: dict[tuple[str, ...], tuple[list[int], Ints] | None] = {}
        """What jobs of these classes took, as far as somebody asked."""

    def coming(self, live: Sequence[Job], wanted: set[str], times: RunTimes) -> dict[str, Coming]:
        """What of each class that somebody asks for comes back when."""
        lines, jobs, amounts = _Lines(), [], []
        idle = idle_nodes(self._state, self._pool)
        for job in live:
            held = held_by(self._state, job)
            if not wanted.isdisjoint(held.amounts) and self._add(lines, job, held.classes, times):
                jobs.append(job.id)
                amounts.append(comes_back(self._state, job, idle))
        ends = self._now + lines.draw(mixed(jobs, self.futures))
        found: dict[str, Coming] = {}
        for name in sorted(wanted):
            milli = np.array([own.get(name, 0) for own in amounts], dtype=np.int64)
            own = np.flatnonzero(milli)
            found[name] = (int(milli.sum()), _in_order(ends[own], milli[own]))
        return found

    def _add(self, lines: "_Lines", job: Job, names: tuple[str, ...], times: RunTimes) -> bool:
        """How much longer a live job of these classes runs, in ms; False when nobody knows."""
        is_under_way = bool(job.started_ms) and job.outcome is None
        ran = max(0, self._now - job.started_ms - stood_ms(self._state, job, self._now))
        limit_ms = job.spec.time_limit_s * 1000
        most = limit_ms - ran if limit_ms else FOR_EVER_MS
        if is_under_way and (samples := self._samples(job, names)):
            first = bisect_right(samples[0], ran)
            if first < len(samples[0]):
                lines.add(samples[1], first=first, less=ran, most=most)
                return True
        span = times.remaining(job, self._now, names)
        if span is None:
            return False
        if is_under_way:
            lines.add_span(span, most=most)
        else:
            lines.add_number(span.latest_ms)
        return True

    def _samples(self, job: Job, names: tuple[str, ...]) -> tuple[list[int], Ints] | None:
        """Run times that the job may have, shortest first: what was learnt of it, or what jobs like it took."""
        if job.learnt_ms:
            return list(job.learnt_ms), np.array(job.learnt_ms, dtype=np.int64)
        if names not in self._alike:
            self._alike[names] = self._state.run_times.of_classes(names, least=SAMPLES_LEAST)
        return self._alike[names]

    def wholes(self, asks: Sequence[Ask], jobs: Mapping[JobId, Job]) -> list[list[int] | None]:
        """How long waiting jobs will run in each future, in ms; None when nobody knows."""
        lines, unknown = _Lines(), set[JobId]()
        for ask in asks:
            job = jobs[ask.job]
            most = job.spec.time_limit_s * 1000 or FOR_EVER_MS
            samples = self._samples(job, classes(job.spec))
            if samples is not None:
                lines.add(samples[1], most=most)
            elif ask.span is not None:
                lines.add_span(ask.span, most=most)
            else:
                unknown.add(ask.job)
                lines.add_number(0)
        drawn = lines.draw(mixed([ask.job for ask in asks], self.futures)).tolist()
        return [None if ask.job in unknown else own for ask, own in zip(asks, drawn, strict=True)]


def _in_order(ends: Ints, amounts: Ints) -> list[list[tuple[int, int]]]:
    """Per future (end, amount) of all jobs, soonest first; of equal times the smallest first."""
    smallest_first = np.argsort(amounts, kind="stable")
    ends, amounts = ends.T[:, smallest_first], amounts[smallest_first]
    order = np.argsort(ends, axis=1, kind="stable")
    times, sums = np.take_along_axis(ends, order, axis=1).tolist(), amounts[order].tolist()
    return [list(zip(*future, strict=True)) for future in zip(times, sums, strict=True)]


NOTHING = np.zeros(1, dtype=np.int64)


class _Lines:
    """What may be drawn for each job: one of some numbers, or anything between the ends of a span."""

    def __init__(self) -> None:
        self._numbers: list[Ints] = [NOTHING]
        """Arrays to draw from, each once however many jobs draw from it; the first is a single 0."""
        self._begins: dict[int, int] = {}
        """Where each array begins, by its identity."""
        self._count = 1
        self._lines: list[tuple[int, int, int, int, int]] = []
        """Where a job's numbers begin, how many there are, how wide its span is, what is taken off, and the most."""

    def add(self, numbers: Ints, *, first: int = 0, less: int = 0, most: int = FOR_EVER_MS) -> None:
        """One of these numbers, from the `first` one on."""
        begin = self._begins.get(id(numbers))
        if begin is None:
            begin = self._begins[id(numbers)] = self._count
            self._numbers.append(numbers)
            self._count += len(numbers)
        self._lines.append((begin + first, len(numbers) - first, 0, less, most))

    def add_span(self, span: Span, *, most: int) -> None:
        """Anything from the soonest to the latest."""
        self._lines.append((0, 1, span.latest_ms - span.soonest_ms, -span.soonest_ms, most))

    def add_number(self, number: int) -> None:
        """This number alone."""
        self._lines.append((0, 1, 0, -number, FOR_EVER_MS))

    def draw(self, chance: NDArray[np.uint64]) -> Ints:
        """A number per job and future, from a number without pattern each; never below 0."""
        if not self._lines:
            return np.zeros(chance.shape, dtype=np.int64)
        begin, count, width, less, most = np.array(self._lines, dtype=np.int64).T[:, :, None]
        place = (chance % count.astype(np.uint64)).astype(np.int64)
        step = (chance % np.uint64(SPAN_STEPS)).astype(np.int64)
        drawn = np.concatenate(self._numbers)[begin + place] + width * step // SPAN_STEPS - less
        found: Ints = np.maximum(0, np.minimum(drawn, most))
        return found


def _middle(found: list[int | None]) -> int | None:
    known = sorted(wait for wait in found if wait is not None)
    return known[len(known) // 2] if len(known) == len(found) and known else None


def mixed(jobs: Sequence[int], futures: int) -> NDArray[np.uint64]:
    """A number without pattern for each job in each future (the finaliser of SplitMix64)."""
    job = np.array(jobs, dtype=np.uint64)[:, None]
    future = np.arange(futures, dtype=np.uint64)
    value = job * np.uint64(0x9E3779B97F4A7C15) + future * np.uint64(0xD1B54A32D192ED03) + np.uint64(1)
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    found: NDArray[np.uint64] = value ^ (value >> np.uint64(31))
    return found

"""How long will a job run, at the soonest and at the latest? Said from its limit, its estimate, or what ran before.

The latest end is the time limit where there is one: nothing runs longer. Without a limit it is what nine of ten recent
jobs stayed under, and for a job that already runs longer than those, as long again as it has run. The soonest end is
what only one of four recent jobs stayed under, or half of the user's estimate; with a limit alone it may be at once.
"""

from enum import IntEnum

from msgspec import Struct

from gangline_core.cluster import Policy
from gangline_core.foresight.history import classes
from gangline_core.job import Job, JobState
from gangline_core.pauses.pausing import stood_ms
from gangline_core.state import State

SAMPLES_LEAST = 5
"""Fewer ended jobs of a class say nothing; then a wider class is asked, in the end the whole pool."""


class Basis(IntEnum):
    """What a statement rests on, weakest first."""

    HISTORY = 1
    ESTIMATE = 2
    LIMIT = 3


class Span(Struct, frozen=True):
    """A duration in ms: soonest and latest, and what the latest rests on."""

    soonest_ms: int
    latest_ms: int
    basis: Basis


class RunTimes:
    """Run times of recent jobs of one pool, by what they have in common with others."""

    def __init__(self, state: State, pool: str, *, by_limits: bool = False) -> None:
        """What recently ended jobs of the pool tell; `by_limits`, every job is taken to run to its time limit."""
        self._by_limits = by_limits
        self._state = state
        self._history = state.run_times
        self._known: dict[tuple[str, int, int, tuple[int, ...]], Span | None] = {}

    def whole(self, job: Job) -> Span | None:
        """How long a job that has not begun will run; None when nothing is known."""
        spec = job.spec
        key = (classes(spec)[0], spec.time_limit_s, spec.estimate_s, job.learnt_ms)
        if key not in self._known:
            self._known[key] = self._span(job, elapsed_ms=0)
        return self._known[key]

    def remaining(self, job: Job, now: int, names: tuple[str, ...] = ()) -> Span | None:
        """How much longer a live job, whose classes are these, will hold its room; None when nothing is known."""
        if job.state == JobState.STOPPING:
            return Span(soonest_ms=0, latest_ms=job.spec.grace_s * 1000, basis=Basis.LIMIT)
        worked_ms = now - job.started_ms - stood_ms(self._state, job, now)
        elapsed_ms = max(0, worked_ms) if job.started_ms else 0
        return self._span(job, names, elapsed_ms=elapsed_ms) if elapsed_ms else self.whole(job)

    def _span(self, job: Job, names: tuple[str, ...] = (), *, elapsed_ms: int) -> Span | None:
        spec = job.spec
        if self._by_limits:
            left_ms = max(0, spec.time_limit_s * 1000 - elapsed_ms)
            return Span(soonest_ms=left_ms, latest_ms=left_ms, basis=Basis.LIMIT) if spec.time_limit_s else None
        samples = list(job.learnt_ms) or self._history.recall(spec, least=SAMPLES_LEAST, or_pool=True, names=names)
        limit_ms, estimate_ms = spec.time_limit_s * 1000, spec.estimate_s * 1000
        if limit_ms:
            latest_ms, basis = limit_ms - elapsed_ms, Basis.LIMIT
        elif samples:
            usual_ms = max(_quantile(samples, 0.9), estimate_ms)
            latest_ms = usual_ms - elapsed_ms if elapsed_ms < usual_ms else elapsed_ms
            basis = Basis.ESTIMATE if estimate_ms > elapsed_ms else Basis.HISTORY
        elif estimate_ms:
            latest_ms = 2 * estimate_ms - elapsed_ms if elapsed_ms < estimate_ms else elapsed_ms
            basis = Basis.ESTIMATE
        else:
            return None
        early = [estimate_ms // 2] if estimate_ms else []
        if samples:
            early.append(_quantile(samples, 0.25))
        soonest_ms = max(0, min(early, default=0) - elapsed_ms)
        latest_ms = max(0, latest_ms)
        return Span(soonest_ms=min(soonest_ms, latest_ms), latest_ms=latest_ms, basis=basis)


def expected_run_ms(state: State, job: Job, policy: Policy, *, names: tuple[str, ...] = ()) -> int:
    """How long a job without a limit is taken to run where dates depend on it; 0 when nothing like it ran before.

    It is the policy's part of what nine of ten jobs like it stayed under. `names` are its classes, where known already.
    """
    if job.spec.time_limit_s or policy.unlimited_run_percent <= 0:
        return 0
    samples = list(job.learnt_ms) or state.run_times.recall(job.spec, least=SAMPLES_LEAST, names=names)
    return _quantile(samples, 0.9) * policy.unlimited_run_percent // 100 if samples else 0


def _quantile(samples: list[int], part: float) -> int:
    """The sample that this part of all samples does not exceed; samples are sorted and not empty."""
    return samples[min(len(samples) - 1, int(part * len(samples)))]

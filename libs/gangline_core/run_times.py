"""How long will a job run, at the soonest and at the latest? Said from its limit, its estimate, or what ran before.

The latest end is the time limit where there is one: nothing runs longer. Without a limit it is what nine of ten recent
jobs stayed under, and for a job that already runs longer than those, as long again as it has run. The soonest end is
what only one of four recent jobs stayed under, or half of the user's estimate; with a limit alone it may be at once.
"""

from enum import IntEnum
from itertools import islice

from msgspec import Struct

from gangline_core.job import Job, JobState
from gangline_core.spec import JobSpec
from gangline_core.state import State

RECENT_MAX = 500
"""Most ended jobs looked at."""
SAMPLES_LEAST = 5
"""Fewer ended jobs of a group say nothing; then those of its whole pool are asked."""


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
    """Run times of recent jobs of one pool, by group."""

    def __init__(self, state: State, pool: str) -> None:
        """What recently ended jobs of the pool tell."""
        self._by_group: dict[str, list[int]] = {}
        self._all: list[int] = []
        for job_id in islice(reversed(state.kept.ended), RECENT_MAX):
            job = state.kept.jobs.get(job_id)
            if job is None or job.spec.pool != pool or not job.started_ms or job.state == JobState.CANCELLED:
                continue
            ran = max(0, job.ended_ms - job.started_ms)
            self._all.append(ran)
            self._by_group.setdefault(job.spec.group, []).append(ran)
        self._all.sort()
        for samples in self._by_group.values():
            samples.sort()
        self._known: dict[tuple[str, int, int], Span | None] = {}

    def whole(self, spec: JobSpec) -> Span | None:
        """How long a job that has not begun will run; None when nothing is known."""
        key = (spec.group, spec.time_limit_s, spec.estimate_s)
        if key not in self._known:
            self._known[key] = self._span(spec, elapsed_ms=0)
        return self._known[key]

    def remaining(self, job: Job, now: int) -> Span | None:
        """How much longer a live job will hold its room; None when nothing is known."""
        if job.state == JobState.STOPPING:
            return Span(soonest_ms=0, latest_ms=job.spec.grace_s * 1000, basis=Basis.LIMIT)
        elapsed_ms = max(0, now - job.started_ms) if job.started_ms else 0
        return self._span(job.spec, elapsed_ms=elapsed_ms) if elapsed_ms else self.whole(job.spec)

    def _span(self, spec: JobSpec, *, elapsed_ms: int) -> Span | None:
        samples = self._samples(spec.group)
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

    def _samples(self, group: str) -> list[int]:
        own = self._by_group.get(group, [])
        return own if len(own) >= SAMPLES_LEAST else self._all


def _quantile(samples: list[int], part: float) -> int:
    """The sample that this part of all samples does not exceed; samples are sorted and not empty."""
    return samples[min(len(samples) - 1, int(part * len(samples)))]

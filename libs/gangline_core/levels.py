"""Queue levels with rules: where a job moves by itself, and who must wait behind the first of a strict level.

A level without a rule is best-effort: whoever fits may start. In a strict level nobody starts before the one in front
of it, until that one has been in front, blocked, for `head_wait_s`: then it loses its place and the others go on, while
it still has its turn and its reservation. Jobs that a limit, a hold or a dependency keeps out block nobody.
"""

from gangline_core.attained import GPU_SECOND
from gangline_core.cluster import LevelRule, Policy
from gangline_core.ids import JobId
from gangline_core.job import Job
from gangline_core.reasons import Reason, ReasonCode

HOPS_MAX = 8
"""Levels through which a job may move at one look."""


def level_after(level: str, policy: Policy, *, attained: int, waited_ms: int) -> str:
    """The level of a job that was submitted to `level`: moved on by service attained, or by the time it has waited."""
    for _ in range(HOPS_MAX):
        rule = policy.levels.get(level)
        if rule is None or not rule.to or not _moves(rule, attained=attained, waited_ms=waited_ms):
            break
        level = rule.to
    return level


def _moves(rule: LevelRule, *, attained: int, waited_ms: int) -> bool:
    by_service = 0 < rule.after_gpu_s * GPU_SECOND <= attained
    return by_service or 0 < rule.after_wait_s * 1000 <= waited_ms


class Heads:
    """Who stands in front of each strict level in one round."""

    def __init__(self, policy: Policy, known: dict[str, tuple[JobId, int]], now: int) -> None:
        """`known` is who stood there before and since when."""
        self._rules = {level: rule for level, rule in policy.levels.items() if rule.strict}
        self._known = known
        self._now = now
        self._first: dict[str, JobId] = {}
        self._blocked: dict[str, JobId] = {}

    def in_the_way(self, job: Job) -> Reason | None:
        """Why the job must wait behind another of its level; None when it need not."""
        first = self._blocked.get(job.spec.level) if self._blocked else None
        if first is None:
            return None
        numbers: dict[str, int | str] = {"job": first, "level": job.spec.level}
        return Reason(ReasonCode.BEHIND_HEAD, numbers)

    def refused(self, job: Job) -> None:
        """The job found no room: it stands in front of its level unless another already does, or it lost its place."""
        if not self._rules:
            return
        level = job.spec.level
        rule = self._rules.get(level)
        if rule is None or level in self._blocked:
            return
        before, since_ms = self._known.get(level, (JobId(0), self._now))
        if level not in self._first:
            self._first[level] = job.id
            if before == job.id and rule.head_wait_s and self._now - since_ms >= rule.head_wait_s * 1000:
                return
        elif rule.head_wait_s:
            # The one in front lost its place, so those behind it are best-effort until it starts.
            return
        self._blocked[level] = job.id

    def recorded(self) -> tuple[tuple[str, JobId], ...]:
        """Who stood in front of which level, for the fold to remember since when."""
        return tuple(sorted(self._first.items())) if self._first else ()


def remembered(
    known: dict[str, tuple[JobId, int]], heads: tuple[tuple[str, JobId], ...], at: int
) -> dict[str, tuple[JobId, int]]:
    """Who stands in front of which level since when, after a round."""
    fresh = (JobId(0), at)
    return {level: known[level] if known.get(level, fresh)[0] == job else (job, at) for level, job in heads}


def losing_place_ms(policy: Policy, known: dict[str, tuple[JobId, int]]) -> list[int]:
    """When those in front of strict levels lose their places."""
    waits = {level: rule.head_wait_s for level, rule in policy.levels.items() if rule.strict and rule.head_wait_s}
    return [since_ms + waits[level] * 1000 for level, (_, since_ms) in known.items() if level in waits]

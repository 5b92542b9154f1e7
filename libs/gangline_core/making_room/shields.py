"""Who was kept from its work for long is left to work: priority that it passed by its age does not send it away again.

Time in vain is what a job waited and what it ran in runs that evictions cut off. When that is more than the policy's
`starvation_s`, a job that was evicted before, or that starts before others of higher priority who wait, is safe from
priority for as long as its time in vain. Each eviction by priority after that at least doubles the time, so a job that
runs for R is evicted no more often than log2(R / `starvation_s`) + 1 times more, and ends. A guarantee takes back what
is lent all the same, an opportunistic job makes way for everybody, and time slices end.
"""

from collections.abc import Sequence
from itertools import takewhile

from msgspec.structs import replace

from gangline_core.aged_part import AgedPart
from gangline_core.facts import Candidate, Placement
from gangline_core.ids import JobId
from gangline_core.job import Job, JobState
from gangline_core.making_room.losses import effective_priority, is_shielded
from gangline_core.scoring.ageing import in_vain_ms
from gangline_core.scoring.first_by_age import goes_first_on_a_part
from gangline_core.sizes import resizing
from gangline_core.spec import ServiceClass
from gangline_core.table import Table

LOWEST = -(1 << 62)
"""Less important than this nobody is."""


def with_marks(table: Table, candidates: Sequence[Candidate]) -> list[Placement]:
    """The round's placements, those marked that are left to work, and those that went first since they starved.

    One of several schedulers does not know whom the others start meanwhile: for its share those still wait.
    """
    policy = table.policy
    if policy.starvation_s <= 0:
        return table.placements
    left = _left_to_work(table, candidates) if policy.preemption else frozenset()
    first = _went_first(table) if goes_first_on_a_part(policy) else frozenset()
    if not (left or first):
        return table.placements
    return [
        replace(one, aged=one.job in left, first_by_age=one.job in first) if one.job in left | first else one
        for one in table.placements
    ]


def _left_to_work(table: Table, candidates: Sequence[Candidate]) -> frozenset[JobId]:
    aged = [placement.job for placement in table.placements if is_due(table, table.state.kept.jobs[placement.job])]
    if not aged:
        return frozenset()
    passed = _passed(table, candidates)
    return frozenset(name for name in aged if _is_in_danger(table, name, passed))


def _went_first(table: Table) -> frozenset[JobId]:
    """Who starts again for its own change of size is as it was."""
    jobs = table.state.kept.jobs
    again = (jobs[one.job] for one in table.placements if jobs[one.job].first_by_age)
    return frozenset(
        (
            *(job.id for job in again if resizing.is_active(job)),
            *AgedPart(table).went,
        )
    )


def is_due(table: Table, job: Job) -> bool:
    """True when the job waited for so long that it is left to its work when it starts now, whom it passes or not."""
    if not job.spec.preemptible or job.spec.service_class == ServiceClass.OPPORTUNISTIC:
        return False
    return in_vain_ms(table.state, job, table.now) >= table.policy.starvation_s * 1000


def will_be_left_to_work(table: Table, job: Job) -> bool:
    """True when a waiting job is left to its work if it starts in this round, as far as the round's order tells."""
    opened = table.pool.open_round
    if not is_due(table, job) or job.preemptions > 0 or opened is None:
        return is_due(table, job)
    jobs, pool = table.state.kept.jobs, table.pool.pool
    mine = effective_priority(pool, job.spec)
    behind = takewhile(lambda one: one.job != job.id, reversed(opened.opened.candidates))
    others = (jobs.get(one.job) for one in behind)
    return any(
        other is not None and other.state == JobState.WAITING and effective_priority(pool, other.spec) > mine
        for other in others
    )


def _is_in_danger(table: Table, name: JobId, passed: dict[JobId, int]) -> bool:
    """It was evicted before, or somebody of higher priority waits whom it passed, or it was left to work already.

    Who starts again for its own change of size goes on with the work that it was left to.
    """
    job = table.state.kept.jobs[name]
    if resizing.is_active(job) and is_shielded(job, table.now):
        return True
    mine = effective_priority(table.pool.pool, job.spec)
    return job.preemptions > 0 or passed.get(name, LOWEST) > mine


def _passed(table: Table, candidates: Sequence[Candidate]) -> dict[JobId, int]:
    """Per candidate the highest priority of those behind it that start nowhere in this round."""
    jobs, pool, highest = table.state.kept.jobs, table.pool.pool, LOWEST
    started = {placement.job for placement in table.placements}
    passed: dict[JobId, int] = {}
    for candidate in reversed(candidates):
        passed[candidate.job] = highest
        job = jobs.get(candidate.job)
        if job is not None and job.state == JobState.WAITING and candidate.job not in started:
            highest = max(highest, effective_priority(pool, job.spec))
    return passed

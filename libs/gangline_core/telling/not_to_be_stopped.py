"""What is told to who waits, and could have others make way: how many of those may not be stopped, or not yet."""

from collections.abc import Callable, Iterator

from gangline_core.counted import counted
from gangline_core.job import Job, JobState
from gangline_core.limits.quota import Ledger, job_amounts, minimum_sizes
from gangline_core.limits.rungs import lowered
from gangline_core.making_room.losses import effective_priority, is_protected
from gangline_core.placement.why_not import ROOM_CODES
from gangline_core.reasons import utc
from gangline_core.state import State


def not_stopped_note(state: State, job: Job, now: int) -> str | None:
    """One sentence about jobs that it outranks, or that borrow what its group is guaranteed; None where all may go."""
    pool = state.pool_of(job)
    waits = job.state == JobState.WAITING and job.reason is not None and job.reason.code in ROOM_CODES
    if not waits or not pool.policy.preemption or not job.spec.preempts:
        return None
    mine, borrows = effective_priority(pool.pool, job.spec), _borrows(state, job, now)
    safe = [
        other
        for other in _safe(state, job.spec.pool)
        if (effective_priority(pool.pool, other.spec) < mine or borrows(other))
        and (not other.spec.preemptible or is_protected(other, now, mine))
    ]
    if not safe:
        return None
    ends = [
        other.started_ms + other.spec.protected_s * 1000
        for other in safe
        if other.spec.preemptible and other.spec.protected_s > 0 and other.started_ms
    ]
    first = utc(min(ends)) if ends else ""
    if len(ends) < len(safe):
        when = f"; {len(ends)} of these may from {first} on" if ends else ""
    else:
        when = f" before {first}" if len(ends) == 1 else f" yet, the first of them from {first} on"
    return f"{counted(len(safe), 'job')} that could make way for it may not be stopped{when}."


def _borrows(state: State, job: Job, now: int) -> Callable[[Job], bool]:
    """Whether another job is of a group that uses more than it is guaranteed of what this one has a guarantee for."""
    ledger, wanted = Ledger(state, now), lowered(job_amounts(job.spec, minimum_sizes(job.spec)))
    if not ledger.within_guarantee(job, wanted):
        return lambda other: False
    return lambda other: (
        other.spec.group != job.spec.group
        and any(amount and ledger.borrowed(other.spec.group, dimension) for dimension, amount in wanted.items())
    )


def _safe(state: State, pool: str) -> Iterator[Job]:
    """Jobs of the pool that run and have something which may keep them from being stopped."""
    index = state.live_index
    names = dict(index.protected.get(pool, {}))
    for sort, jobs in index.sorts.get(pool, {}).items():
        names |= {} if sort.preemptible else jobs
    for name in names:
        job = state.kept.jobs[name]
        if job.tasks and job.state in (JobState.STARTING, JobState.RUNNING, JobState.RESIZING):
            yield job

"""Since when a job waits, and from when on it goes before everything younger: no job starves."""

from gangline_core.cluster import Policy
from gangline_core.door.terms import followed
from gangline_core.job import ENDS, Job, JobState
from gangline_core.scoring.first_by_age import NOTHING, is_part_left
from gangline_core.scoring.yield_queue import patience_ms, yield_queue
from gangline_core.state import State


def ready_ms(state: State, job: Job) -> int:
    """When the job could first have started in its present turn: not before its time and what it depends on."""
    return _after_terms(state, job, job.queued_ms)


def _after_terms(state: State, job: Job, ready: int) -> int:
    ready = max(ready, job.spec.not_before_ms)
    for other in followed(state, job.spec):
        ready = max(ready, other.ended_ms)
    return ready


def waited_ms(state: State, job: Job, at: int) -> int:
    """All that a job has waited by `at` while it could have started; what it had to wait for itself is no wait.

    A predecessor that has not ended, or a time that has not come, is nobody's queue.
    """
    if job.state != JobState.WAITING:
        return job.waited_ms
    if any(other.state not in ENDS for other in followed(state, job.spec)):
        return job.waited_ms
    return job.waited_ms + max(0, at - ready_ms(state, job))


def in_vain_ms(state: State, job: Job, at: int) -> int:
    """How long a job was kept from its work: all its waits, and all that it ran in runs that evictions cut off."""
    return waited_ms(state, job, at) + job.cut_off_ms


def since_ms(state: State, job: Job) -> int:
    """The moment that makes a job's age: when it became ready, moved back by its earlier waits.

    A job that ran and had to wait again has not lost the time it had waited before. One that lost its machines is
    repaired before younger ones start: it is as old as if it had never run. Its waits do not become longer by that.
    """
    return _after_terms(state, job, job.submitted_ms) if job.losses else wait_since_ms(state, job)


def wait_since_ms(state: State, job: Job) -> int:
    """Since when the job would have waited, had it waited without a break: all its waits, no time in which it ran."""
    ready = ready_ms(state, job) if job.spec.after or job.spec.not_before_ms else job.queued_ms
    return ready - job.waited_ms


def is_starving(state: State, job: Job, policy: Policy, now: int) -> bool:
    """True when the job has waited so long that it goes before everything younger; never when the policy says 0.

    Nor while those that went first for that hold their part of its pool (see `first_by_age`).
    """
    return is_overdue(state, job, policy, now) and may_go_first(state, job.spec.pool, policy)


def is_overdue(state: State, job: Job, policy: Policy, now: int) -> bool:
    """True when the job has waited for so long as jobs do before they starve."""
    return policy.starvation_s > 0 and starves_from_ms(state, job, policy) <= now


def may_go_first(state: State, pool: str, policy: Policy) -> bool:
    """True when jobs of the pool that are overdue go before everything younger now."""
    used = state.live_index.first_by_age.used(pool)
    return used == NOTHING or is_part_left(used, state.room(pool).layout, policy)


def starves_from_ms(state: State, job: Job, policy: Policy) -> int:
    """From when on a waiting job starves, where jobs do."""
    return since_ms(state, job) + starving_wait_ms(job, policy)


def starving_wait_ms(job: Job, policy: Policy) -> int:
    """After which wait it does; one that lets others pass does so for longer."""
    if yield_queue(job.spec, job.attained - job.forgiven, policy):
        return patience_ms(policy)
    return policy.starvation_s * 1000

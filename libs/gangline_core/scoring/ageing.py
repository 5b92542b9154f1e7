"""Since when a job waits, and from when on it goes before everything younger: no job starves."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gangline_core.cluster import Policy
from gangline_core.door.terms import followed
from gangline_core.job import ENDS, Job, JobState
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


def waiting_since_ms(state: State, jobs: Sequence[Job]) -> NDArray[np.int64]:
    """Per job the moment that makes its age: when it became ready, moved back by its earlier waits.

    A job that ran and had to wait again has not lost the time it had waited before.
    """
    return np.fromiter((since_ms(state, job) for job in jobs), dtype=np.int64, count=len(jobs))


def since_ms(state: State, job: Job) -> int:
    """The same of one job.

    A job that lost its machines is repaired before younger ones start: it is as old as if it had never run. Its waits
    do not become longer by that.
    """
    return _after_terms(state, job, job.submitted_ms) if job.losses else wait_since_ms(state, job)


def wait_since_ms(state: State, job: Job) -> int:
    """Since when the job would have waited, had it waited without a break: all its waits, no time in which it ran."""
    ready = ready_ms(state, job) if job.spec.after or job.spec.not_before_ms else job.queued_ms
    return ready - job.waited_ms


def starving(since_ms: NDArray[np.int64], *, policy: Policy, now: int) -> NDArray[np.bool_]:
    """Which jobs have waited so long that they go before everything younger; none when the policy says 0."""
    if policy.starvation_s <= 0:
        return np.zeros(len(since_ms), dtype=np.bool_)
    return since_ms <= now - policy.starvation_s * 1000


def is_starving(state: State, job: Job, policy: Policy, now: int) -> bool:
    """The same of one job."""
    return policy.starvation_s > 0 and since_ms(state, job) <= now - policy.starvation_s * 1000

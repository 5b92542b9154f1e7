"""How much service has a job had, in which of the policy's queues is it therefore, and who had a turn last?

Service is two-dimensional: GPUs times time (Tiresias, NSDI 2019). The queues are bounded by the policy's thresholds;
a job that waited long compared with what it ran is promoted: what it attained is forgiven.
"""

from collections.abc import Iterable

from gangline_core.cluster import Policy
from gangline_core.groups import ancestors, user_key
from gangline_core.job import Job, Task
from gangline_core.spec import JobSpec
from gangline_core.state import State

GPU_SECOND = 1_000_000
"""One GPU for one second, in thousandths of GPUs times ms."""


def attained(state: State, job: Job, now: int) -> int:
    """Service that counts, of tasks that are gone and of live ones, in thousandths of GPUs times ms."""
    live = sum(task.served_until(now) for task in state.tasks_of(job))
    return job.attained - job.forgiven + live


def queue_of(attained_milli_ms: int, policy: Policy) -> int:
    """The number of the policy's queue, 0 for the least service; a threshold itself already belongs to the next."""
    return sum(attained_milli_ms >= bound * GPU_SECOND for bound in policy.service_thresholds)


def is_promoted(job: Job, policy: Policy, now: int) -> bool:
    """True when a job that ran before has waited so long since that it is back in the first queue."""
    since_ms = promoted_ms(job, policy)
    return since_ms is not None and now >= since_ms


def promoted_ms(job: Job, policy: Policy) -> int | None:
    """From when on a job that ran before and waits is back in the first queue, in ms; None when it never left it."""
    counts = job.attained - job.forgiven
    if policy.promote_after <= 0 or counts <= 0 or queue_of(counts, policy) == 0:
        return None
    return job.queued_ms + policy.promote_after * (counts // max(1, service_milli(job.spec)))


def service_milli(spec: JobSpec) -> int:
    """What a millisecond of the whole job counts as service, at the size it asks for."""
    return sum(role.count * role.resources.service_milli for role in spec.roles)


def crossings(job: Job, tasks: Iterable[Task], policy: Policy, now: int) -> int | None:
    """When a running job crosses its next threshold if its size stays, in ms; None when it never does."""
    held = list(tasks)
    rate = sum(task.service_milli for task in held)
    counts = job.attained - job.forgiven + sum(task.served_until(now) for task in held)
    bound = next((b * GPU_SECOND for b in policy.service_thresholds if b * GPU_SECOND > counts), None)
    if bound is None or rate <= 0:
        return None
    return now - (counts - bound) // rate


def sank_ms(job: Job, tasks: Iterable[Task], policy: Policy, now: int) -> int:
    """When a running job came into its present queue, if its size stayed, in ms; 0 when it began in it."""
    held = list(tasks)
    rate = sum(task.service_milli for task in held)
    before = job.attained - job.forgiven
    counts = before + sum(task.served_until(now) for task in held)
    bound = max((b * GPU_SECOND for b in policy.service_thresholds if b * GPU_SECOND <= counts), default=0)
    return 0 if bound <= before or rate <= 0 else now - (counts - bound) // rate


def note_turn(state: State, job: Job, seq: int) -> None:
    """The job's group, those above it and its user had their turn."""
    turns = state.pool_of(job).turns
    for holder in (*ancestors(job.spec.group), user_key(job.spec.group, job.spec.user)):
        turns[holder] = seq

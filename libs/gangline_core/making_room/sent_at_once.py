"""Who would be sent away for a waiting job as soon as it works: by its class, by priority or service, for a guarantee.

Whoever takes room all the same holds it until the next event, and then loses it to one that waited for nothing else.
So it does not go on or start before that one (see `standing_back`), and what is being cleared for it is the other's
(see `overtaking`).
"""

from gangline_core.groups import ancestors
from gangline_core.job import Job, JobState
from gangline_core.making_room.losses import effective_priority, is_protected, is_shielded
from gangline_core.making_room.service_order import sinks_below, would_be_below
from gangline_core.making_room.shields import will_be_left_to_work
from gangline_core.reserving.passing import promises
from gangline_core.spec import JobSpec, ServiceClass, may_pause
from gangline_core.table import Table


def owing(table: Table, job: Job) -> frozenset[str]:
    """The groups that promised the job what it asks for, where they still owe it; whoever is below none lent it."""
    return frozenset(path for path, _ in promises(table, job).values()) if table.is_owed(job) else frozenset()


def takes_whole(table: Table, job: Job) -> bool:
    """True where jobs that fit their group's guarantee only in part go for this one (see `Victims.goes_whole`)."""
    return (job.spec.preemptible and not job.spec.protected_s) or table.is_owed(job)


def might_be_sent(table: Table, job: Job, other: Job, owed_by: frozenset[str]) -> bool:
    """A cheap look whether class, priority or service might let the other be sent away, or a guarantee let it be.

    Who need only be paused loses nothing when what it borrowed is asked back.
    """
    if _ranks_below(table, other, effective_priority(table.pool.pool, job.spec)) or sinks_below(table, job, other):
        return True
    return _is_owed(other, owed_by)


def would_be_sent(table: Table, job: Job, other: Job, owed_by: frozenset[str]) -> bool:
    """True when that lets the other be sent away for this job, once it works.

    Who is left to its work is safe from priority only: what is lent is taken back all the same.
    """
    mine = effective_priority(table.pool.pool, job.spec)
    if not other.spec.preemptible or is_protected(other, table.now, mine):
        return False
    is_below = sinks_below(table, job, other)
    # Service points one way only, so it does not matter who went for whom before.
    if other.id in job.yielded_to and not is_below:
        return False
    if other.service_class == ServiceClass.OPPORTUNISTIC:
        return True
    if _is_owed(other, owed_by):
        return not table.ledger.is_sheltered(other)
    if is_shielded(other, table.now):
        return False
    if not is_below and _ranks_below(table, other, mine) and would_be_below(table, job, other):
        return False
    return not table.ledger.is_sheltered(other) and not _will_be_shielded(table, other)


def _is_owed(other: Job, owed_by: frozenset[str]) -> bool:
    """True when the other has what these groups promised, as a loan."""
    return bool(owed_by) and not only_pauses(other.spec) and owed_by.isdisjoint(ancestors(other.spec.group))


def only_pauses(spec: JobSpec) -> bool:
    """True when such a job can be paused and then leaves all of its GPUs: nobody has it evicted for what it keeps."""
    return may_pause(spec) and (spec.pausing is None or not spec.pausing.gpu_memory_mib)


def _ranks_below(table: Table, other: Job, mine: int) -> bool:
    """A cheap look whether class or priority might let the other be sent away."""
    return other.service_class == ServiceClass.OPPORTUNISTIC or effective_priority(table.pool.pool, other.spec) < mine


def _will_be_shielded(table: Table, other: Job) -> bool:
    """True when it starts by its age, and nobody more important is to have it sent away."""
    return other.state == JobState.WAITING and table.policy.starvation_s > 0 and will_be_left_to_work(table, other)

"""Who may take room that a reservation counts on."""

from gangline_core.groups import ancestors
from gangline_core.job import Job
from gangline_core.quota import job_amounts, minimum_sizes
from gangline_core.spec import ServiceClass
from gangline_core.state import State
from gangline_core.table import Table


def may_pass(table: Table, job: Job) -> bool:
    """True when the job need not look at reservations at all.

    Its time limit ends before the first of them; or it is owed its guarantee and no reserved job is; or every reserved
    job may push it away again when its time comes.
    """
    if not table.reservations or table.ends_before_reservations(job):
        return True
    reserved = [table.state.kept.jobs[reservation.job] for reservation in table.reservations]
    if not table.policy.preemption:
        return False
    if is_owed(table, job):
        return not any(is_owed(table, other) for other in reserved)
    return all(may_push_away(table, other, job) for other in reserved)


def is_owed(table: Table, job: Job) -> bool:
    """True when the job, at its smallest, stays within what its group is guaranteed."""
    return table.ledger.within_guarantee(job, job_amounts(job.spec, minimum_sizes(job.spec)))


def may_push_away(table: Table, reserved: Job, job: Job) -> bool:
    """True when the reserved job could evict this one later, whatever runs now.

    Lower priority is not enough: the reserved job would then start only after the other's grace.
    """
    if not job.spec.preemptible or job.spec.protected_s:
        return False
    if job.spec.service_class == ServiceClass.OPPORTUNISTIC:
        return reserved.spec.service_class != ServiceClass.OPPORTUNISTIC
    return _is_promised(table.state, reserved) and job.spec.group != reserved.spec.group


def _is_promised(state: State, job: Job) -> bool:
    """True when the job alone fits every guarantee above it, and there is one."""
    amounts = {dimension.lower(): amount for dimension, amount in job_amounts(job.spec, {}).items()}
    promises = [
        (dimension.lower(), promised)
        for path in ancestors(job.spec.group)
        if path in state.kept.groups
        for dimension, promised in state.kept.groups[path].guaranteed.items()
        if amounts.get(dimension.lower())
    ]
    return bool(promises) and all(amounts[dimension] <= promised for dimension, promised in promises)

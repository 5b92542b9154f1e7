"""Who may take room that a reservation counts on."""

from gangline_core.groups import ancestors
from gangline_core.job import Job
from gangline_core.limits.quota import covers
from gangline_core.limits.rungs import GPU_MEMORY, lowered
from gangline_core.making_room.losses import effective_priority
from gangline_core.room.cards import is_open, with_cards
from gangline_core.scoring.ageing import is_starving
from gangline_core.spec import ServiceClass
from gangline_core.table import Table


def may_pass(table: Table, job: Job, *, delay_ms: int = 0) -> bool:
    """True when the job, starting so much later, need not look at reservations at all.

    Its time limit ends before the first of them; or it is owed its guarantee (see `passes_as_owed`); or every reserved
    job may push it away again when its time comes.
    """
    if not table.reservations or table.ends_before_reservations(job, delay_ms=delay_ms):
        return True
    if not table.policy.preemption:
        return False
    reserved = [table.state.kept.jobs[reservation.job] for reservation in table.reservations]
    if table.is_owed(job):
        return all(passes_as_owed(table, job, other, other_is_owed=table.is_owed(other)) for other in reserved)
    return all(may_push_away(table, other, job) for other in reserved)


def passes_as_owed(table: Table, job: Job, other: Job, *, other_is_owed: bool) -> bool:
    """True when a job that is owed its guarantee goes before a dated one for that.

    Not where the same promise covers both: the dated job is not owed only as long as such small ones use the promise
    up, and they would keep it waiting for ever.
    """
    if other_is_owed:
        return False
    promisers = {path for path, _ in promises(table, job).values()}
    return promisers.isdisjoint(ancestors(other.spec.group))


def may_push_away(table: Table, reserved: Job, job: Job) -> bool:
    """True when the reserved job could evict this one later, whatever runs now.

    Lower priority is not enough: the reserved job would then start only after the other's grace.
    """
    if not job.spec.preemptible or job.spec.protected_s:
        return False
    if job.spec.service_class == ServiceClass.OPPORTUNISTIC:
        return reserved.spec.service_class != ServiceClass.OPPORTUNISTIC
    promised = promises(table, reserved)
    if not promised:
        return False
    least = lowered(table.seating.least(reserved).amounts)
    asked = with_cards(table.state.inventory(reserved.spec.pool), reserved.spec, least)
    return all(asked.get(dimension, 0) <= amount for dimension, (_, amount) in promised.items()) and not {
        path for path, _ in promised.values()
    } & set(ancestors(job.spec.group))


def holds_against(table: Table, reserved: Job, job: Job) -> bool:
    """True when a reserved job need not let the other make room in what it counts on: one that starves, for nobody."""
    if is_starving(table.state, reserved, table.policy, table.now):
        return True
    pool = table.pool.pool
    return effective_priority(pool, reserved.spec) >= effective_priority(pool, job.spec)


def keeps_from_all(table: Table) -> bool:
    """True when a job that has a reservation starves: even who is owed its guarantee first looks elsewhere for it."""
    reserved = (table.state.kept.jobs[reservation.job] for reservation in table.reservations)
    return any(is_starving(table.state, job, table.policy, table.now) for job in reserved)


def promises(table: Table, job: Job) -> dict[str, tuple[str, int]]:
    """Per dimension that the job asks for: the nearest group above it that is guaranteed any, and how much."""
    found: dict[str, tuple[str, int]] = {}
    if not table.has_guarantees:
        return found
    wanted = {dimension.lower() for dimension in table.seating.least(job).amounts}
    if is_open(job.spec, GPU_MEMORY):
        wanted.add(GPU_MEMORY)  # how much of it is known only with the card
    for path in ancestors(job.spec.group):
        group = table.state.kept.groups.get(path)
        for dimension, promised in group.guaranteed.items() if group is not None else ():
            if dimension.lower() in wanted:
                found.setdefault(dimension.lower(), (path, promised))
    return found if covers(found, wanted) else {}

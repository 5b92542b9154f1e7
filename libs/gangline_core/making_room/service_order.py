"""Who may evict whom where attained service orders: below is who had more, and nothing else turns that round.

Service only grows while a job runs, so nobody is evicted in turn for whom it evicts now, as long as no other rule goes
against this order: priority decides only between jobs that service does not tell apart.

Source: Gu et al., "Tiresias", NSDI 2019: preemption between discretised queues of attained service.
"""

from gangline_core.cluster import Policy
from gangline_core.ids import JobId
from gangline_core.job import Job
from gangline_core.making_room.losses import is_shielded
from gangline_core.scoring.attained import attained, is_promoted, queue_of
from gangline_core.table import Table

LAST_MS = 1 << 62
"""Younger than this nobody is."""


def orders_by_service(policy: Policy) -> bool:
    """True where attained service decides who goes first, and with preemption who goes on."""
    return policy.preemption and policy.ordering == "least_attained"


def sunk_below(table: Table, job: Job) -> frozenset[JobId]:
    """Live preemptible jobs that have sunk below this job's service queue and stand in no higher queue level.

    Not those that are left to work, since they were kept from it for long (see `shields`).

    Where the policy lets the oldest preempt, younger jobs of the same queue count as below: they can only have passed.
    """
    state, bands = table.state, table.pool.pool.levels
    own = _own(table, job)
    band = bands.get(job.spec.level, 0)
    live = (state.kept.jobs[name] for name in state.live.get(table.pool.pool.name, {}))
    return frozenset(
        other.id
        for other in live
        if other.spec.preemptible and bands.get(other.spec.level, 0) <= band and _behind(table, other) > own
        if not is_shielded(other, table.now)
    )


def would_be_below(table: Table, job: Job, other: Job) -> bool:
    """True when a waiting job, once it ran, would be below a live one by service, which could evict it at once."""
    if not orders_by_service(table.policy) or not job.spec.preemptible:
        return False
    bands = table.pool.pool.levels
    if bands.get(job.spec.level, 0) > bands.get(other.spec.level, 0):
        return False
    queue, submitted_ms = _behind(table, other)
    return _behind(table, job) > (queue, submitted_ms if table.policy.oldest_preempts else LAST_MS)


def _own(table: Table, job: Job) -> tuple[int, int]:
    """What a waiting job compares with: its queue, and its age where that counts."""
    queue = 0 if is_promoted(job, table.policy, table.now) else queue_of(job.attained - job.forgiven, table.policy)
    return queue, job.submitted_ms if table.policy.oldest_preempts else LAST_MS


def _behind(table: Table, job: Job) -> tuple[int, int]:
    """What sorts jobs where service orders: their queue, then their age. Looked up once in a decision."""
    known = table.served.get(job.id)
    if known is None:
        queue = queue_of(attained(table.state, job, table.now), table.policy)
        known = table.served[job.id] = (queue, job.submitted_ms)
    return known

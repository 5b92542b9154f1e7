"""Who may evict whom where attained service orders: below is who had more, and nothing else turns that round.

Service only grows while a job runs, so nobody is evicted in turn for whom it evicts now, as long as no other rule goes
against this order: priority decides only between jobs that service does not tell apart.

Source: Gu et al., "Tiresias", NSDI 2019: preemption between discretised queues of attained service.
"""

from bisect import bisect_right
from itertools import accumulate
from operator import itemgetter

from gangline_core.cluster import Policy
from gangline_core.ids import JobId
from gangline_core.job import LIVE, Job
from gangline_core.making_room.losses import is_left_to_work
from gangline_core.scoring.attained import attained, is_promoted, queue_of, sank_ms, sinking
from gangline_core.table import ByService, Table

LAST_MS = 1 << 62
"""Younger than this nobody is."""


def orders_by_service(policy: Policy) -> bool:
    """True where attained service decides who goes first, and with preemption who goes on."""
    return policy.preemption and policy.ordering == "least_attained"


def sunk_below(table: Table, job: Job) -> frozenset[JobId]:
    """Live preemptible jobs that have sunk below this job's service queue and stand in no higher queue level.

    Not those that are left to work, since they were kept from it for long (see `shields`).

    Where the policy lets the oldest preempt, younger jobs of the same queue count as below: they can only have passed.
    Where who sinks goes last, so do those that came into the same queue since the last round was decided: in that order
    they stand behind all who wait there, and before them again once a round has left them their room.
    """
    if job.id not in table.sunk:
        band = table.pool.pool.levels.get(job.spec.level, 0)
        standing = _by_service(table)
        below = standing[bisect_right(standing, _own(table, job), key=itemgetter(0)) :]
        table.sunk[job.id] = frozenset(name for _, theirs, name in below if theirs <= band)
    return table.sunk[job.id]


def milli_below(table: Table, job: Job) -> int:
    """Thousandths of GPUs that these hold, and those of any level; worked out once for everybody of a decision."""
    standing = _by_service(table)
    if not table.milli_behind:
        jobs = (table.state.kept.jobs[name] for _, _, name in reversed(standing))
        held = (sinking(table.state, other, table.policy, table.now).milli for other in jobs)
        table.milli_behind = list(accumulate(held, initial=0))
    return table.milli_behind[len(standing) - bisect_right(standing, _own(table, job), key=itemgetter(0))]


def anybody_sank_below(table: Table, job: Job) -> bool:
    """True when that would find anybody."""
    band, own = table.pool.pool.levels.get(job.spec.level, 0), _own(table, job)
    for behind, theirs, _ in reversed(_by_service(table)):
        if behind <= own:
            return False
        if theirs <= band:
            return True
    return False


def _by_service(table: Table) -> ByService:
    """Live preemptible jobs that are not left to work: place by service, band of the level, id.

    Sorted once in a decision: nobody starts or ends while a round is decided.
    """
    if not table.by_service:
        state, bands = table.state, table.pool.pool.levels
        live = (state.kept.jobs[name] for name in state.live.get(table.pool.pool.name, {}))
        table.by_service = sorted(
            (_behind(table, other), bands.get(other.spec.level, 0), other.id)
            for other in live
            if other.spec.preemptible and not is_left_to_work(table, other)
        )
    return table.by_service


def would_be_below(table: Table, job: Job, other: Job) -> bool:
    """True when a waiting job, once it ran, would be below a live one by service, which could evict it at once."""
    if not orders_by_service(table.policy) or not job.spec.preemptible:
        return False
    bands = table.pool.pool.levels
    if bands.get(job.spec.level, 0) > bands.get(other.spec.level, 0):
        return False
    step, submitted_ms = _behind(table, other)
    return _behind(table, job) > (step, submitted_ms if table.policy.oldest_preempts else LAST_MS)


def _own(table: Table, job: Job) -> tuple[int, int]:
    """What a waiting job compares with: its queue in half steps, and its age where that counts."""
    queue = 0 if is_promoted(job, table.policy, table.now) else queue_of(job.attained - job.forgiven, table.policy)
    return 2 * queue, job.submitted_ms if table.policy.oldest_preempts else LAST_MS


def _behind(table: Table, job: Job) -> tuple[int, int]:
    """What sorts jobs where service orders: their queue in half steps, then their age. Looked up once in a decision.

    The half step is for those that have just sunk, where the policy has them go last.
    """
    known = table.served.get(job.id)
    if known is None:
        queue = _queue(table, job)
        known = table.served[job.id] = (2 * queue + _just_sank(table, job), job.submitted_ms)
    return known


def _queue(table: Table, job: Job) -> int:
    """The service queue of a job; a live one's is remembered until it sinks."""
    if job.state in LIVE:
        return sinking(table.state, job, table.policy, table.now).queue
    return queue_of(attained(table.state, job, table.now), table.policy)


def _just_sank(table: Table, job: Job) -> bool:
    """True for a live job that came into its queue since the last round was decided, where that makes it the last."""
    if not table.policy.sinks_last:
        return False
    return sank_ms(job, table.state.tasks_of(job), table.policy, table.now) > table.pool.decided_at

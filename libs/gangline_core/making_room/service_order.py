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
from gangline_core.job import Job, JobState
from gangline_core.making_room.losses import is_left_to_work
from gangline_core.making_room.service_index import ServiceIndex, Standing
from gangline_core.scoring.attained import attained, crossings, is_promoted, queue_of, sank_ms
from gangline_core.state import PoolState, State
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
    Where who sinks goes last, so do those that came into the same queue since the last round was decided: in that order
    they stand behind all who wait there, and before them again once a round has left them their room.
    """
    if job.id not in table.sunk:
        band = table.pool.pool.levels.get(job.spec.level, 0)
        standing = _by_service(table)
        below = standing[bisect_right(standing, own_place(table, job), key=itemgetter(0)) :]
        table.sunk[job.id] = frozenset(one.job for one in below if one.band <= band)
    return table.sunk[job.id]


def milli_below(table: Table, job: Job) -> int:
    """Thousandths of GPUs that these hold, and those of any level; worked out once for everybody of a decision."""
    standing = _by_service(table)
    if not table.milli_behind:
        table.milli_behind = list(accumulate((one.milli for one in reversed(standing)), initial=0))
    return table.milli_behind[len(standing) - bisect_right(standing, own_place(table, job), key=itemgetter(0))]


def anybody_sank_below(table: Table, job: Job) -> bool:
    """True when that would find anybody."""
    band, own = table.pool.pool.levels.get(job.spec.level, 0), own_place(table, job)
    for one in reversed(_by_service(table)):
        if one.place <= own:
            return False
        if one.band <= band:
            return True
    return False


def _by_service(table: Table) -> list[Standing]:
    """Live preemptible jobs that are not left to work, in order; nobody starts or ends while a round is decided."""
    if table.by_service is None:
        state, pool = table.state, table.pool.pool.name
        standing = by_service(state, table.pool, table.now).standing.copy()
        if state.kept.packs or state.live_index.shielded.get(pool):
            standing = [one for one in standing if not is_left_to_work(table, state.kept.jobs[one.job])]
        if table.policy.sinks_last:
            places = (_behind(table, state.kept.jobs[one.job]) for one in standing)
            standing = sorted(one._replace(place=place) for one, place in zip(standing, places, strict=True))
        table.by_service = standing
    return table.by_service


def by_service(state: State, pool: PoolState, now: int) -> ServiceIndex:
    """The live jobs of a pool by service, brought up to date."""
    name, live = pool.pool.name, state.live.get(pool.pool.name, {})
    rules = (pool.policy.service_thresholds, tuple(pool.pool.levels.items()))
    index = state.live_index.by_service.get(name)
    if index is None or index.rules != rules or now < index.now:
        index = state.live_index.by_service[name] = ServiceIndex(rules, live)
    for job_id in index.changed(now):
        index.drop(job_id)
        if job_id in live:
            _put(index, state, pool, state.kept.jobs[job_id], now)
    return index


def _put(index: ServiceIndex, state: State, pool: PoolState, job: Job, now: int) -> None:
    tasks, standing = state.tasks_of(job), None
    if job.spec.preemptible:
        place = (2 * queue_of(attained(state, job, now), pool.policy), job.submitted_ms)
        milli = sum(task.gpu_milli for task in tasks)
        standing = Standing(place, pool.pool.levels.get(job.spec.level, 0), job.id, milli)
    index.put(job.id, standing, crossings(job, tasks, pool.policy, now))
    if any((task.span_ms or task.placed_ms) > now for task in tasks):
        index.stale.add(job.id)  # What it has from then on is not known by what it had until now.


def would_be_below(table: Table, job: Job, other: Job) -> bool:
    """True when a waiting job, once it ran, would be below a live one by service, which could evict it at once."""
    if not orders_by_service(table.policy) or not job.spec.preemptible:
        return False
    bands = table.pool.pool.levels
    if bands.get(job.spec.level, 0) > bands.get(other.spec.level, 0):
        return False
    step, submitted_ms = _behind(table, other)
    return _behind(table, job) > (step, submitted_ms if table.policy.oldest_preempts else LAST_MS)


def sinks_below(table: Table, job: Job, other: Job) -> bool:
    """True when another job that waits or stands still would be below this waiting one as soon as it worked.

    By then a round has been decided, so nobody has just sunk.
    """
    if not orders_by_service(table.policy):
        return False
    bands = table.pool.pool.levels
    if bands.get(other.spec.level, 0) > bands.get(job.spec.level, 0):
        return False
    return place_at_work(table, other) > own_place(table, job)


def place_at_work(table: Table, other: Job) -> tuple[int, int]:
    """Where a job that waits or stands still would be by service as soon as it worked."""
    if other.state == JobState.WAITING:
        return 2 * _queue(table, other), other.submitted_ms
    return _behind(table, other)[0] // 2 * 2, other.submitted_ms


def own_place(table: Table, job: Job) -> tuple[int, int]:
    """What a waiting job compares with: its queue in half steps, and its age where that counts."""
    return 2 * _queue(table, job), job.submitted_ms if table.policy.oldest_preempts else LAST_MS


def _queue(table: Table, job: Job) -> int:
    """The service queue of a waiting job."""
    return 0 if is_promoted(job, table.policy, table.now) else queue_of(job.attained - job.forgiven, table.policy)


def _behind(table: Table, job: Job) -> tuple[int, int]:
    """What sorts jobs where service orders: their queue in half steps, then their age. Looked up once in a decision.

    The half step is for those that have just sunk, where the policy has them go last.
    """
    known = table.served.get(job.id)
    if known is None:
        queue = queue_of(attained(table.state, job, table.now), table.policy)
        known = table.served[job.id] = (2 * queue + _just_sank(table, job), job.submitted_ms)
    return known


def _just_sank(table: Table, job: Job) -> bool:
    """True for a live job that came into its queue since the last round was decided, where that makes it the last."""
    if not table.policy.sinks_last:
        return False
    return sank_ms(job, table.state.tasks_of(job), table.policy, table.now) > table.pool.decided_at

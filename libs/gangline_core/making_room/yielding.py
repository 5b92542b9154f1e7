"""Who checkpoints and had its share of service makes way for whom that needs less still: only a restart is lost.

The beneficiary checkpoints as well, so whoever passes others lets them pass in its turn, and is no less important. It
is in a lower queue (see `scoring.yield_queue`), or it starves. Who waits stays in its queue and who makes way was in a
higher one, a run is left alone in its first seconds, and whoever waited for long and went first for it makes way no
more: so nobody goes and comes in turn for ever.
"""

from gangline_core.cluster import Policy
from gangline_core.ids import JobId
from gangline_core.job import Job, JobState
from gangline_core.making_room.losses import effective_priority
from gangline_core.pauses.packing import guests_of
from gangline_core.pauses.pausing import stood_ms
from gangline_core.scoring.ageing import is_starving
from gangline_core.scoring.attained import attained
from gangline_core.scoring.first_by_age import goes_first_on_a_part
from gangline_core.scoring.yield_queue import has_yielding, patience_ms, rises_at, yield_queue
from gangline_core.state import State
from gangline_core.table import Table

NEVER_MS = 1 << 62


class Yielders:
    """Live jobs that make way in one round; read once, when a job that checkpoints asks."""

    def __init__(self, table: Table) -> None:
        """Those of the table's pool."""
        self._table = table
        self._found: dict[tuple[int, int], frozenset[JobId]] | None = None
        """By priority and queue, those that are that important and in that queue; no empty entries."""
        self._asked: dict[tuple[int, int], frozenset[JobId]] = {}
        """By priority and queue of the beneficiary, all who make way for it."""

    def of(self, beneficiary: Job) -> frozenset[JobId]:
        """Those that make way for this waiting job."""
        table = self._table
        queue = passes_above(table, beneficiary)
        if queue is None:
            return frozenset()
        if self._found is None:
            self._found = _by_priority(table)
        mine = effective_priority(table.pool.pool, beneficiary.spec), queue
        if mine not in self._asked:
            own = (jobs for (rank, theirs), jobs in self._found.items() if rank <= mine[0] and theirs > queue)
            self._asked[mine] = frozenset().union(*own)
        return self._asked[mine]


def passes_above(table: Table, job: Job) -> int | None:
    """In which queue this waiting job is: those in higher ones make way for it. None when it does not checkpoint.

    One that starves goes before all of them.
    """
    policy = table.policy
    if not job.spec.checkpoints or not has_yielding(policy):
        return None
    queue = yield_queue(job.spec, job.attained - job.forgiven, policy)
    return 0 if queue and is_starving(table.state, job, policy, table.now) else queue


def yields_in(state: State, job: Job, policy: Policy, now: int) -> int:
    """In which queue a live job is that makes way for those in lower ones; 0 of one that makes way for nobody."""
    if not _may_yield(state, job, policy, now) or now < _left_alone_until_ms(job, policy):
        return 0
    return live_queue(state, job, policy, now)


def live_queue(state: State, job: Job, policy: Policy, now: int) -> int:
    """In which queue a live job is at a time; where that is to come, as things are now."""
    ran_ms = now - job.started_ms - stood_ms(state, job, now) if job.started_ms else 0
    return yield_queue(job.spec, attained(state, job, now), policy, ran_ms=ran_ms)


def yields_more_ms(state: State, job: Job, policy: Policy, now: int) -> int:
    """When, later than now, a live job may make way for more of those that wait; NEVER_MS if it does not."""
    if not _may_yield(state, job, policy, now):
        return NEVER_MS
    rate = sum(task.service_milli for task in state.tasks_of(job))
    at = max(now, _left_alone_until_ms(job, policy))
    had = attained(state, job, now) + rate * (at - now)
    if at > now and live_queue(state, job, policy, at):
        return at
    return at - (had - rises_at(job.spec, had, policy)) // rate if rate > 0 else NEVER_MS


def _may_yield(state: State, job: Job, policy: Policy, now: int) -> bool:
    if job.state not in (JobState.RUNNING, JobState.RESIZING) or not job.started_ms or not job.spec.preemptible:
        return False
    return is_patient(job, policy, now) and not guests_of(state, job.id)


def _left_alone_until_ms(job: Job, policy: Policy) -> int:
    return job.started_ms + policy.yield_run_s * 1000


def is_patient(job: Job, policy: Policy, now: int) -> bool:
    """True when a running job makes way: it did not wait so long that it went first, and would be in front again."""
    if job.losses:
        has_waited = now - max(job.submitted_ms, job.spec.not_before_ms) >= patience_ms(policy)
    else:
        has_waited = job.waited_ms >= patience_ms(policy)
    # Where only a part of the pool goes by age, who started otherwise would not be.
    return not has_waited or (goes_first_on_a_part(policy) and not job.first_by_age)


def _by_priority(table: Table) -> dict[tuple[int, int], frozenset[JobId]]:
    found: dict[tuple[int, int], set[JobId]] = {}
    state, pool, now = table.state, table.pool.pool, table.now
    for name in state.live_index.checkpoints.get(pool.name, {}):
        job = state.kept.jobs[name]
        if queue := yields_in(state, job, table.policy, now):
            found.setdefault((effective_priority(pool, job.spec), queue), set()).add(name)
    return {key: frozenset(jobs) for key, jobs in found.items()}

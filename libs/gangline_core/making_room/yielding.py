"""Who checkpoints and had its share of service makes way for whom that has not: nothing but a restart is lost.

The beneficiary checkpoints as well, so whoever passes others lets them pass in its turn, and is no less important. It
had less than its share, or it starves. Service only grows, a run is left alone in its first seconds, and whoever waited
for long and went first for it makes way no more: so nobody goes and comes in turn for ever.
"""

from gangline_core.cluster import Policy
from gangline_core.ids import JobId
from gangline_core.job import Job, JobState
from gangline_core.making_room.losses import effective_priority
from gangline_core.pauses.packing import guests_of
from gangline_core.scoring.ageing import is_starving
from gangline_core.scoring.attained import attained
from gangline_core.scoring.first_by_age import goes_first_on_a_part
from gangline_core.scoring.had_share import has_had_share, has_yielding, patience_ms, share
from gangline_core.state import State
from gangline_core.table import Table

NEVER_MS = 1 << 62


class Yielders:
    """Live jobs that make way in one round; read once, when a job that checkpoints asks."""

    def __init__(self, table: Table) -> None:
        """Those of the table's pool."""
        self._table = table
        self._found: dict[int, frozenset[JobId]] | None = None
        """By priority, those that are that important; no empty entries."""
        self._asked: dict[int, frozenset[JobId]] = {}
        """By priority of the beneficiary, all who make way for it."""

    def of(self, beneficiary: Job) -> frozenset[JobId]:
        """Those that make way for this waiting job."""
        table = self._table
        if not may_pass_others(table, beneficiary):
            return frozenset()
        if self._found is None:
            self._found = _by_priority(table)
        mine = effective_priority(table.pool.pool, beneficiary.spec)
        if mine not in self._asked:
            own = (jobs for priority, jobs in self._found.items() if priority <= mine)
            self._asked[mine] = frozenset().union(*own)
        return self._asked[mine]


def may_pass_others(table: Table, job: Job) -> bool:
    """True when others that had their share make way for this waiting job: it checkpoints, and had less or starves."""
    policy = table.policy
    if not job.spec.checkpoints or not has_yielding(policy):
        return False
    had_less = not has_had_share(job.spec, job.attained - job.forgiven, policy)
    return had_less or is_starving(table.state, job, policy, table.now)


def yields_from_ms(state: State, job: Job, policy: Policy, now: int) -> int:
    """From when on a live job that checkpoints makes way, if it runs on as it does; NEVER_MS if it does not."""
    if job.state not in (JobState.RUNNING, JobState.RESIZING) or not job.started_ms or not job.spec.preemptible:
        return NEVER_MS
    if not is_patient(job, policy, now) or guests_of(state, job.id):
        return NEVER_MS
    had, rate = attained(state, job, now), sum(task.service_milli for task in state.tasks_of(job))
    lacks = share(policy) - had
    if lacks > 0 and rate <= 0:
        return NEVER_MS
    had_it_ms = now if lacks <= 0 else now + -(-lacks // rate)
    return max(had_it_ms, job.started_ms + policy.yield_run_s * 1000)


def is_patient(job: Job, policy: Policy, now: int) -> bool:
    """True when a running job makes way: it did not wait so long that it went first, and would be in front again."""
    if job.losses:
        has_waited = now - max(job.submitted_ms, job.spec.not_before_ms) >= patience_ms(policy)
    else:
        has_waited = job.waited_ms >= patience_ms(policy)
    # Where only a part of the pool goes by age, who started otherwise would not be.
    return not has_waited or (goes_first_on_a_part(policy) and not job.first_by_age)


def _by_priority(table: Table) -> dict[int, frozenset[JobId]]:
    found: dict[int, set[JobId]] = {}
    state, pool, now = table.state, table.pool.pool, table.now
    for name in state.live_index.checkpoints.get(pool.name, {}):
        job = state.kept.jobs[name]
        if yields_from_ms(state, job, table.policy, now) <= now:
            found.setdefault(effective_priority(pool, job.spec), set()).add(name)
    return {priority: frozenset(jobs) for priority, jobs in found.items()}

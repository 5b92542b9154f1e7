"""Who is stopped since it goes on where it stopped: what must be true of both jobs, by our own count."""

from collections.abc import Iterator

from gangline_core import facts as f
from gangline_core.cluster import Policy
from gangline_core.fold import Message
from gangline_core.job import Job
from gangline_core.pauses.pausing import stood_ms
from gangline_core.spec import JobSpec
from gangline_core.state import State

GPU_SECOND = 1_000_000


class Policies:
    """Which policy each pool had when: a decision follows the one that it had read."""

    def __init__(self) -> None:
        """Every pool has the usual one."""
        self._set: dict[str, list[tuple[int, Policy]]] = {}

    def note(self, state: State, message: Message) -> None:
        """Take in what a message changed."""
        for fact in message.facts:
            if isinstance(fact, f.PolicySet) and (known := state.kept.pools.get(fact.pool)) is not None:
                self._set.setdefault(fact.pool, []).append((message.seq, known.policy))

    def read_at(self, pool: str, seq: int) -> Policy:
        """The pool's policy after this message."""
        return next((policy for at, policy in reversed(self._set.get(pool, [])) if at <= seq), Policy())


def yields(state: State, eviction: f.Eviction, policy: Policy) -> Iterator[str]:
    """Faults of one such eviction under the policy that the decision had read, looked at when it is folded."""
    victim, other = state.kept.jobs[eviction.job], state.kept.jobs[eviction.beneficiary]
    now = state.kept.pools[victim.spec.pool].decided_at
    who = f"job {victim.id} makes way for job {other.id}"
    if not (victim.spec.checkpoints and other.spec.checkpoints):
        yield f"{who}, but not both go on where they stopped"
    if victim.started_ms and now - victim.started_ms < policy.yield_run_s * 1000:
        yield f"{who} after {now - victim.started_ms} ms"
    ran_ms = now - victim.started_ms - stood_ms(state, victim, now) if victim.started_ms else 0
    queue = _queue(victim.spec, _had(state, victim, now), policy, ran_ms=ran_ms)
    if not queue:
        yield f"{who} before it had its share"
    patience_ms = max(policy.starvation_s, policy.yield_wait_s) * 1000
    goes_by_part = policy.starvation_s > 0 and policy.starvation_percent < 100 and policy.ordering != "fifo"
    if not victim.losses and victim.waited_ms >= patience_ms and (victim.first_by_age or not goes_by_part):
        yield f"{who} although it waited for {victim.waited_ms} ms in all"
    since = other.submitted_ms if other.losses else other.queued_ms - other.waited_ms
    starves = policy.starvation_s > 0 and now - since >= patience_ms
    if not starves and (theirs := _queue(other.spec, other.attained - other.forgiven, policy)) >= queue:
        yield f"{who}, which had its share as well, and is in queue {theirs} where the first is in queue {queue}"


def _queue(spec: JobSpec, had: int, policy: Policy, *, ran_ms: int = 0) -> int:
    """How often a share is doubled in what the job needs still: what it said, or, taken by the 64-fold, as it had.

    A run that lasts for `ran_ms` needs no more than its time limit leaves of it.
    """
    share = policy.yield_after_gpu_s * GPU_SECOND
    if had < share:
        return 0
    rate = sum(role.count * role.resources.service_milli for role in spec.roles)
    told, limit = 1_000 * spec.estimate_s * rate - had, (1_000 * spec.time_limit_s - ran_ms) * rate
    queue = _steps(told, share, 2) if told > 0 else 6 * _steps(had, share, 64) - 5
    return min(queue, _steps(limit, share, 2)) if spec.time_limit_s else queue


def _steps(amount: int, share: int, factor: int) -> int:
    """How many of `share`, that times `factor`, that times `factor` again, and so on, the amount reaches."""
    count = 0
    while amount >= share:
        count, share = count + 1, share * factor
    return count


def _had(state: State, job: Job, now: int) -> int:
    """Service of tasks that are gone, and of those that live."""
    live = [state.kept.tasks[name] for name in job.tasks if name in state.kept.tasks]
    return job.attained - job.forgiven + sum(task.served_until(now) for task in live)

"""What every group and user has used up to a moment, what it costs, and what running jobs can still cost."""

from msgspec import Struct
from msgspec.structs import replace

from gangline_core.door.terms import limit_s
from gangline_core.groups import ancestors, holders
from gangline_core.job import LIVE, Job, Task, TaskState
from gangline_core.limits.budget_periods import period_start_ms
from gangline_core.limits.budgets import ENDLESS, cost_of, rest_cost, worst_cost
from gangline_core.spec import JobSpec, costs_gpu_time
from gangline_core.state import State, count


class Spent(Struct, frozen=True):
    """Use in GPU thousandths times milliseconds, by group path (ancestors included) and user_key."""

    charged: dict[str, int]
    """Allocations that ended, whether already written down or not."""
    running: dict[str, int]
    """Allocations that still hold GPUs."""
    cost: dict[str, int] = {}
    """What all of it costs by the price list, in the same unit."""
    before: dict[str, int] = {}
    """What of the cost belongs to earlier periods of a group's budget."""

    def total(self, holder: str) -> int:
        """Everything a holder has used up to now."""
        return self.charged.get(holder, 0) + self.running.get(holder, 0)

    def cost_of(self, holder: str) -> int:
        """What everything a holder has used up to now costs."""
        return self.cost.get(holder, 0)

    def of_budget(self, group: str) -> int:
        """What a group's budget has paid in its present period."""
        return self.cost_of(group) - self.before.get(group, 0)


def spent(state: State, now: int) -> Spent:
    """What every group and user has used up to `now`."""
    charged, cost = dict(state.kept.charged), dict(state.kept.charged)
    for holder, extra in state.kept.surcharge.items():
        count(cost, holder, extra)
    for usage in state.kept.uncharged.values():
        for holder in holders(usage.group, usage.user):
            count(charged, holder, usage.gpu_milli_ms)
            count(cost, holder, usage.gpu_milli_ms if usage.cost < 0 else usage.cost)
    running: dict[str, int] = {}
    for task in state.kept.tasks.values():
        used = task_usage(task, now)
        if used:
            price = cost_of(used, state.kept.prices, task.gpu_model)
            for holder in holders(task.group, task.user):
                count(running, holder, used)
                count(cost, holder, price)
    before = {group: paid for group, (_, paid) in state.kept.renewed.items()}
    return Spent(charged=charged, running=running, cost=cost, before=before)


def at_renewal(state: State, used: Spent, now: int) -> Spent:
    """The same with the periods that have begun since the last message of the log."""
    if not state.door.next_renewal_ms or now < state.door.next_renewal_ms:
        return used
    before = dict(used.before)
    for path, (began_ms, _) in state.kept.renewed.items():
        start_ms = period_start_ms(state.kept.groups[path], now)
        if start_ms > began_ms:
            before[path] = spent(state, start_ms).cost_of(path)
    return replace(used, before=before)


def task_usage(task: Task, now: int) -> int:
    """What a live allocation has used; one of a lost node stopped being its group's when the node was lost."""
    end = task.stop_ms if task.state == TaskState.LOST else now
    return task.used_until(end)


def bound_cost(state: State, now: int) -> dict[str, int]:
    """Per group what its budget has paid in this period, and what running jobs can still cost until their limits."""
    used = at_renewal(state, spent(state, now), now)
    bound = {holder: used.of_budget(holder) for holder in used.cost}
    for job in state.live_jobs():
        cost = left_cost(state, job, job.spec, now)
        for path in ancestors(job.spec.group):
            count(bound, path, cost)
    return bound


def run_cost(state: State, job: Job, now: int) -> int:
    """The most that a run of the job can cost; of one that is live, what it will not cost if it is told to stop now.

    What it has cost stays paid, and it may take its grace.
    """
    if job.state not in LIVE:
        return worst_cost(job.spec, state.kept.prices)
    stopping = rest_cost(job.spec, state.kept.prices, left_ms=job.spec.grace_s * 1000)
    return max(0, left_cost(state, job, job.spec, now) - stopping)


def left_cost(state: State, job: Job, spec: JobSpec, now: int) -> int:
    """The most that a live job with these terms can still cost, its grace included."""
    if job.outcome is not None:
        return rest_cost(spec, state.kept.prices, left_ms=spec.grace_s * 1000)
    began_ms = job.started_ms or now
    length_s = limit_s(spec, began_ms)
    if not length_s:
        return ENDLESS if costs_gpu_time(spec) else 0
    # Time in which it stood still does not count as run time, so it may go on for as much longer.
    stood_ms = max((task.paused_ms for task in state.tasks_of(job)), default=0)
    end_ms = began_ms + int((length_s + spec.grace_s) * 1000) + stood_ms
    return rest_cost(spec, state.kept.prices, left_ms=max(0, end_ms - now))

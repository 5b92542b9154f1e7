"""What was used, charged once, and whose budget is used up.

Usage is GPU thousandths times milliseconds. An ended allocation is charged by its task id; what still runs counts
towards budgets as it goes, so that a budget ends a group's starts on time and not when its jobs end.
"""

from msgspec import Struct

from gangline_core.facts import BudgetExhausted, Fact
from gangline_core.job import Task, TaskState
from gangline_core.quota import holders
from gangline_core.state import State, count

GPU_HOUR = 1000 * 3_600_000
"""One GPU-hour in GPU thousandths times milliseconds."""
CHARGES_MAX = 2_000
"""Most allocations charged in one message; the rest follows in the next."""


class Spent(Struct, frozen=True):
    """Use in GPU thousandths times milliseconds, by group path (ancestors included) and user_key."""

    charged: dict[str, int]
    """Allocations that ended, whether already written down or not."""
    running: dict[str, int]
    """Allocations that still hold GPUs."""

    def total(self, holder: str) -> int:
        """Everything a holder has used up to now."""
        return self.charged.get(holder, 0) + self.running.get(holder, 0)


def charge(state: State, now: int) -> tuple[Fact, ...]:
    """Charges for ended allocations, in order of their task ids, and what changed about budgets."""
    charges = [usage for _, usage in sorted(state.kept.uncharged.items())[:CHARGES_MAX]]
    return (*charges, *budget_changes(state, now))


def budget_changes(state: State, now: int) -> tuple[BudgetExhausted, ...]:
    """Groups that have just used up their budget, and groups that have one again."""
    budgets = {path: group.budget_gpu_hours for path, group in sorted(state.kept.groups.items())}
    watched = {path: hours for path, hours in budgets.items() if hours or path in state.kept.exhausted}
    if not watched:
        return ()
    used = spent(state, now)
    changes = []
    for path, hours in watched.items():
        is_exhausted = bool(hours) and used.total(path) >= hours * GPU_HOUR
        if is_exhausted != (path in state.kept.exhausted):
            changes.append(BudgetExhausted(group=path, used_gpu_milli_ms=used.total(path), exhausted=is_exhausted))
    return tuple(changes)


def spent(state: State, now: int) -> Spent:
    """What every group and user has used up to `now`."""
    charged = dict(state.kept.charged)
    for usage in state.kept.uncharged.values():
        for holder in holders(usage.group, usage.user):
            count(charged, holder, usage.gpu_milli_ms)
    running: dict[str, int] = {}
    for task in state.kept.tasks.values():
        used = task_usage(task, now)
        if used:
            for holder in holders(task.group, task.user):
                count(running, holder, used)
    return Spent(charged=charged, running=running)


def task_usage(task: Task, now: int) -> int:
    """What a live allocation has used; one of a lost node stopped being its group's when the node was lost."""
    end = task.stop_ms if task.state == TaskState.LOST else now
    return task.gpu_milli * max(0, end - task.placed_ms)


def next_budget_end_ms(state: State, now: int) -> int | None:
    """When the next budget will be used up if everything that runs goes on; None when none will."""
    used = spent(state, now)
    ends = []
    for path, group in sorted(state.kept.groups.items()):
        rate = state.usage.get(path, {}).get("gpu_milli", 0)
        if group.budget_gpu_hours and path not in state.kept.exhausted and rate:
            left = group.budget_gpu_hours * GPU_HOUR - used.total(path)
            ends.append(now + max(0, -(-left // rate)))
    return min(ends, default=None)

"""What a used-up budget does to what runs: nothing, or it goes back to the queue; and how budgets begin anew."""

from gangline_core.fold.life import order_stop
from gangline_core.groups import BudgetMode, ancestors
from gangline_core.job import Outcome
from gangline_core.limits.budget_periods import next_renewal_ms, period_start_ms
from gangline_core.limits.spending import spent
from gangline_core.reasons import Reason, ReasonCode
from gangline_core.spec import costs_gpu_time
from gangline_core.state import State
from gangline_core.step import Step


def renew_budgets(state: State, at: int) -> None:
    """Periods are over: what was used until they were belongs to them. Nothing later than that is folded yet."""
    for path, (began_ms, _) in list(state.kept.renewed.items()):
        group = state.kept.groups[path]
        start_ms = period_start_ms(group, at)
        if start_ms > began_ms:
            state.kept.renewed[path] = (start_ms, spent(state, start_ms).cost_of(path))
    _note_next(state)


def note_period(state: State, path: str, at: int) -> None:
    """A group was set or removed: a budget that now has periods begins its first one with nothing used."""
    group, renewed = state.kept.groups.get(path), state.kept.renewed
    if group is None or group.budget_period is None:
        renewed.pop(path, None)
    elif path not in renewed:
        renewed[path] = (period_start_ms(group, at), spent(state, at).cost_of(path))
    _note_next(state)


def _note_next(state: State) -> None:
    state.door.next_renewal_ms = next_renewal_ms(state.kept.groups.values(), state.kept.renewed)


def stop_for_budget(state: State, group: str, step: Step) -> None:
    """In mode `stop` all jobs below the group that use GPUs stop with their grace, and wait for a larger budget."""
    known = state.kept.groups.get(group)
    if known is None or known.budget_mode != BudgetMode.STOP:
        return
    reason = Reason(
        ReasonCode.BUDGET_EXHAUSTED,
        {"group": group or "(all)", "used": known.budget_gpu_hours, "budget": known.budget_gpu_hours},
    )
    for job in state.live_jobs():
        if group in ancestors(job.spec.group) and costs_gpu_time(job.spec):
            order_stop(state, job.id, Outcome.REQUEUED, reason, step)

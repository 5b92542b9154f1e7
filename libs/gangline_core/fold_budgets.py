"""What a used-up budget does to what runs: nothing, or it goes back to the queue, by the group's choice."""

from gangline_core.fold_life import order_stop
from gangline_core.groups import BudgetMode, ancestors
from gangline_core.job import Outcome
from gangline_core.reasons import Reason, ReasonCode
from gangline_core.state import State
from gangline_core.step import Step


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
        if group in ancestors(job.spec.group) and any(role.resources.wants_gpu for role in job.spec.roles):
            order_stop(state, job.id, Outcome.REQUEUED, reason, step)

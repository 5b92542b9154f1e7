"""Giving a job that has started more or less time: until when it may run, and who may change that."""

from collections.abc import Iterator

from gangline_core.door.edits import JobEdit, edited, given
from gangline_core.door.terms import limit_s
from gangline_core.job import Job, JobState
from gangline_core.limits.budgets import GPU_HOUR, safe_budgets, short_reason
from gangline_core.limits.spending import bound_cost, left_cost
from gangline_core.pauses.pausing import stood_ms
from gangline_core.reasons import Reason, utc
from gangline_core.spec import JobSpec
from gangline_core.state import State

TIMES = frozenset({"time_limit_s", "deadline_ms"})
"""Terms that say until when a job may run."""


def end_ms(spec: JobSpec, began_ms: int) -> int | None:
    """When a job that began then must stop; None when it may run for ever."""
    length = limit_s(spec, began_ms)
    return began_ms + int(length * 1000) if length else None


def is_longer(before: int | None, after: int | None) -> bool:
    """True when the second end is later than the first."""
    return before is not None and (after is None or after > before)


def retime_problem(state: State, job: Job, edit: JobEdit, *, is_owner: bool, is_admin: bool, at: int) -> str | None:
    """Why the time of a job that has started may not be changed so; None when it may, or is not changed at all.

    "forbidden" problems begin with "only".
    """
    if not given(edit).keys() & TIMES:
        return None
    if job.outcome is not None or job.state == JobState.STOPPING:
        return "it is stopping"
    tasks = state.tasks_of(job)
    if any(state.kept.nodes[task.node].is_watched for task in tasks if task.node in state.kept.nodes):
        return "its pods were told their time when they were made, and Kubernetes lets nobody change it"
    after = edited(job.spec, edit)
    began_ms = job.started_ms or min((task.placed_ms for task in tasks), default=at)
    # Time in which it stood still does not count as run time.
    began_ms += stood_ms(state, job, at)
    ends_ms, was_ms = end_ms(after, began_ms), end_ms(job.spec, began_ms)
    if ends_ms is not None and ends_ms <= at:
        return f"would have ended it at {utc(ends_ms)}, which is over; cancel it instead"
    if not is_longer(was_ms, ends_ms):
        return None
    if is_owner:
        return "only a head of its group or an administrator gives a job that runs more time"
    if not is_admin and (window := next(_new_windows(state, job, was_ms, ends_ms), None)) is not None:
        return f"it would run into {window}; only an administrator lets it"
    return None


def budget_problem(state: State, job: Job, edit: JobEdit, at: int) -> Reason | None:
    """The safe budget inside which the job could no longer end if it had this much time."""
    if not given(edit).keys() & TIMES or not state.door.safe_groups:
        return None
    after = edited(job.spec, edit)
    more = left_cost(state, job, after, at) - left_cost(state, job, job.spec, at)
    if more <= 0:
        return None
    bound = bound_cost(state, at)
    for budget in safe_budgets(state, job.spec.group):
        left = budget.hours * GPU_HOUR - bound.get(budget.group, 0)
        if more > left:
            return short_reason(budget.group, left=left, cost=more)
    return None


def _new_windows(state: State, job: Job, was_ms: int | None, ends_ms: int | None) -> Iterator[str]:
    """Dated capacity on the job's nodes that it would reach only with the new time."""
    nodes = {task.node for task in state.tasks_of(job)}
    for name, window in sorted(state.kept.windows.items()):
        is_on = window.pool == job.spec.pool and (not window.nodes or nodes & set(window.nodes))
        is_reached = (ends_ms is None or ends_ms > window.start_ms) and (was_ms is None or was_ms <= window.start_ms)
        if is_on and is_reached and not window.admits(job.spec):
            yield name

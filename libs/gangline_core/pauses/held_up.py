"""What keeps a paused job that wants to go on from doing so, said to its owner in one sentence."""

from gangline_core.counted import counted
from gangline_core.door.arrays import label
from gangline_core.job import Job, JobState
from gangline_core.limits.quota import Ledger
from gangline_core.making_room.losses import effective_priority, is_protected
from gangline_core.pauses.pausing import can_be_paused, resume_fault, taken_up
from gangline_core.reasons import sentence
from gangline_core.spec import ServiceClass, may_pause
from gangline_core.state import State, task_amounts

SHOWN_MAX = 3
"""So many jobs in its way are named."""


def held_up_note(state: State, job: Job, now: int) -> str | None:
    """Who or what is in the way of a paused job; None where it was not asked to go on, or does so next."""
    if job.state != JobState.PAUSED or job.pause is None or not job.pause.wants:
        return None
    fault = resume_fault(state, job)
    if fault is None:
        return _limit(state, job, now)
    ways = [_why(state, job, other, now) for other in _in_the_way(state, job)]
    more = f" and {counted(len(ways) - SHOWN_MAX, 'other')}" if len(ways) > SHOWN_MAX else ""
    return f"{fault}: {', '.join(ways[:SHOWN_MAX])}{more}." if ways else f"{fault}."


def _limit(state: State, job: Job, now: int) -> str | None:
    amounts: dict[str, int] = {}
    for task in state.tasks_of(job):
        for dimension, amount in task_amounts(taken_up(task)).items():
            amounts[dimension] = amounts.get(dimension, 0) + amount
    reason = Ledger(state, now).fault(job, amounts)
    return sentence(reason) if reason is not None else None


def _in_the_way(state: State, job: Job) -> list[Job]:
    """Jobs that work on its GPUs, or on its machines where it has none, by id."""
    found = set()
    for task in state.tasks_of(job):
        wanted = {share.index for share in task.gpus if task.working is not None}
        for name in state.node_tasks.get(task.node, {}):
            other = state.kept.tasks[name]
            works = other.job != job.id and other.working is None
            if works and (not wanted or any(share.milli and share.index in wanted for share in other.gpus)):
                found.add(other.job)
    return [state.kept.jobs[one] for one in sorted(found)]


def _why(state: State, job: Job, other: Job, now: int) -> str:
    """The other job, and why it does not make way for an urgent one."""
    name, pool = f"job {label(state, other.id)}", state.pool_of(job)
    if job.pause is None or not job.pause.urgent:
        return name
    mine, theirs = effective_priority(pool.pool, job.spec), effective_priority(pool.pool, other.spec)
    if other.state == JobState.STOPPING or other.state == JobState.PAUSED:
        return f"{name} (makes way)"
    if not may_pause(other.spec):
        return f"{name} (may not be paused)"
    if theirs >= mine and other.service_class != ServiceClass.OPPORTUNISTIC:
        return f"{name} (does not rank below it)"
    if is_protected(other, now, mine):
        return f"{name} (is in its protected time)"
    return name if can_be_paused(state, other) else f"{name} (is {other.state})"

"""What pauses and their ends do to jobs and tasks: told to stand still, seen standing still, going on."""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from gangline_core import facts as f
from gangline_core.fold.life import move_job
from gangline_core.fold.pack import note_unpacked, unpack
from gangline_core.ids import JobId, TaskId
from gangline_core.job import Job, JobState, Move, Pause
from gangline_core.pauses.packing import RULE as PACKING
from gangline_core.pauses.pausing import can_be_paused, going_on, paused, resume_fault, taken_up
from gangline_core.reasons import Reason, ReasonCode
from gangline_core.room.holds import going_on_fault
from gangline_core.state import State
from gangline_core.step import Step


def pause(state: State, job: Job, why: Pause, reason: Reason, step: Step) -> bool:
    """Tell all members to stand still; False when the job cannot be paused now."""
    if not can_be_paused(state, job):
        return False
    for task in state.tasks_of(job):
        state.put_task(replace(task, pause=True))
        step.tasks.append(task.id)
    move_job(state, replace(job, pause=why, reason=reason), Move.PAUSE, step)
    return True


def pause_by_request(state: State, job: Job, by: str, step: Step) -> bool:
    """Somebody asked for it; the job goes on when somebody asks for that."""
    return pause(state, job, Pause(since_ms=step.at, by=by), Reason(ReasonCode.PAUSED, {"by": by}), step)


def pause_for(state: State, decided: f.JobPaused, step: Step) -> None:
    """A round paused it for another job; it goes on by itself."""
    job = state.job(decided.job)
    if job is None:
        return
    why = Pause(since_ms=step.at, beneficiary=decided.beneficiary, wants=True)
    numbers: dict[str, int | str] = {"job": decided.beneficiary, "rule": decided.rule}
    if not pause(state, job, why, Reason(ReasonCode.PAUSED_FOR, numbers), step):
        step.voided.append(job.id)
    elif decided.rule == PACKING:
        note_unpacked(state, job.id, decided.beneficiary)


def ask_to_go_on(state: State, job: Job, *, urgent: bool, step: Step) -> None:
    """A paused job goes on as soon as its place is free, or is made free when it is urgent."""
    if job.pause is None:
        return
    why = replace(job.pause, wants=True, urgent=urgent or job.pause.urgent)
    state.put_job(replace(job, pause=why, reason=Reason(ReasonCode.PLACE_TAKEN)))
    step.settings = True


def task_paused(state: State, fact: f.TaskPaused, step: Step) -> None:
    """A member stands still: what it does not keep is free."""
    task = state.kept.tasks.get(fact.task)
    if task is None or not task.pause or task.working is not None or task.stop:
        return
    state.put_task(paused(task, state.kept.jobs[task.job].spec, step.at))
    unpack(state, task.job, step.at)
    step.tasks.append(task.id)
    step.freed = True


def resume(state: State, job_id: JobId, step: Step) -> None:
    """The job goes on where it is, unless its place is taken, or a limit was lowered, since that was decided."""
    job = state.job(job_id)
    if job is None or job.state != JobState.PAUSED:
        return
    if (resume_fault(state, job) or going_on_fault(state, job, map(taken_up, state.tasks_of(job)))) is not None:
        step.voided.append(job.id)
        return
    for task in state.tasks_of(job):
        state.put_task(going_on(task, step.at))
        step.tasks.append(task.id)
    _wait_no_more_for(state, set(job.tasks))
    move_job(state, replace(job, pause=None, reason=None, resumed_ms=step.at), Move.RESUME, step)


def _wait_no_more_for(state: State, tasks: set[TaskId]) -> None:
    """Who goes on found room beside what claims keep: it is in nobody's way, though it was paused for one of them."""
    for claim in list(state.kept.claims.values()):
        if not tasks.isdisjoint(claim.victims):
            left = tuple(name for name in claim.victims if name not in tasks)
            state.put_claim(replace(claim, victims=left))


HANDLERS: dict[type[f.Fact], Callable[[State, Any, Step], None]] = {f.TaskPaused: task_paused}
"""The facts that this file folds."""

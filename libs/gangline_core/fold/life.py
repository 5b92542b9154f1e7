"""How a job moves when its tasks do: stopping, going back to the queue, settling, ending."""

from collections.abc import Iterable

from msgspec.structs import replace

from gangline_core.ids import JobId
from gangline_core.job import LIVE, OUTCOME_RANK, Job, JobState, Move, Outcome, Task, TaskState, move
from gangline_core.reasons import Reason, ReasonCode
from gangline_core.scoring.yield_queue import BY_YIELD
from gangline_core.sizes import resizing
from gangline_core.sizes.resizing import ResizeEvent
from gangline_core.state import State
from gangline_core.step import JobMoved, Step

NEVER_RAN = -1
"""Exit code of a member that never ran."""


def order_stop(state: State, job_id: JobId, outcome: Outcome, reason: Reason, step: Step) -> None:
    """All tasks of a live job must stop; when they are gone the job takes the outcome."""
    job = state.job(job_id)
    if job is None or job.state not in LIVE:
        return
    if outcome == Outcome.REQUEUED and job.pause is not None and not job.pause.wants:
        # Nobody asked for it to go on yet.
        outcome = Outcome.SUSPENDED
    if job.outcome is not None and OUTCOME_RANK[outcome] <= OUTCOME_RANK[job.outcome]:
        return
    for task in state.tasks_of(job):
        stop_task(state, task, step)
    if outcome != Outcome.REQUEUED:
        state.drop_claim(job.id)
    if job.id not in state.kept.claims:
        # A job with a claim starts again at another size: stopping is part of that.
        job = resizing.advanced(job, ResizeEvent.OVERTAKEN, step.at)
    move_job(state, replace(job, outcome=outcome, reason=reason, pause=None, missing={}, missing_ms=0), Move.STOP, step)
    finish_if_empty(state, job_id, step)


def stop_task(state: State, task: Task, step: Step) -> None:
    """Tell one member to stop, once; one that had a notice has no more time to save when all of its gang stops."""
    if not task.stop:
        state.put_task(replace(task, stop=True, stop_ms=step.at))
        step.tasks.append(task.id)
    elif task.leaves:
        state.put_task(replace(task, leaves=False, stop_ms=step.at))
        step.tasks.append(task.id)


def requeue(state: State, job_id: JobId, reason: Reason, step: Step) -> None:
    """The job lost a member through no fault of its own: it stops and goes back to the queue."""
    job = state.kept.jobs[job_id]
    if job.outcome is None:
        state.put_job(replace(job, losses=job.losses + 1))
    order_stop(state, job_id, Outcome.REQUEUED, reason, step)


def fail_or_retry(state: State, job_id: JobId, code: int, reason: Reason, step: Step) -> None:
    """A member failed: the whole gang stops, and starts anew while it has retries left."""
    job = state.kept.jobs[job_id]
    left = job.spec.retries - job.retries_used
    if job.outcome is not None and OUTCOME_RANK[Outcome.FAILED] <= OUTCOME_RANK[job.outcome]:
        return
    if left > 0 and job.outcome is None and is_worth_another(job, code):
        numbers: dict[str, int | str] = {"attempt": job.attempt, "exit_code": code, "left": left - 1}
        state.put_job(replace(job, retries_used=job.retries_used + 1, exit_code=code))
        order_stop(state, job_id, Outcome.REQUEUED, Reason(ReasonCode.RETRYING, numbers), step)
    else:
        state.put_job(replace(job, exit_code=code))
        order_stop(state, job_id, Outcome.FAILED, reason, step)


def is_worth_another(job: Job, code: int) -> bool:
    """True when a failure with this exit code may be tried again: any that never ran, else by the job's own bound."""
    return code == NEVER_RAN or code >= job.spec.retry_from


def finish_if_empty(state: State, job_id: JobId, step: Step) -> None:
    """A job without tasks takes its outcome."""
    job = state.kept.jobs[job_id]
    if job.tasks or job.state not in LIVE:
        return
    if job.state != JobState.STOPPING:
        # The last task is gone without a word about its end: the process was lost with it.
        requeue(state, job_id, Reason(ReasonCode.PROCESS_LOST, {"task": "all"}), step)
        return
    outcome = job.outcome or Outcome.LOST
    requeued = outcome in (Outcome.REQUEUED, Outcome.SUSPENDED)
    preempted = job.reason is not None and job.reason.code == ReasonCode.PREEMPTED
    in_vain = preempted and job.reason is not None and job.reason.numbers.get("rule") != BY_YIELD
    job = replace(
        job,
        outcome=None,
        sizes={},
        ended_ms=0 if requeued else step.at,
        queued_ms=step.at if requeued else job.queued_ms,
        exit_code=0 if outcome == Outcome.SUCCEEDED else job.exit_code,
        preemptions=job.preemptions + (1 if preempted else 0),
        cut_off_ms=job.cut_off_ms + (step.at - job.started_ms if in_vain and job.started_ms else 0),
    )
    move_job(state, job, outcome.move, step)


def give_up_start(state: State, job_id: JobId, step: Step) -> None:
    """A gang that has room does not come up in time: it gives the room back, and is tried again while it has retries.

    Without that bound it would take the same room again and again, and keep it from all others.
    """
    job = state.job(job_id)
    if job is None or job.state != JobState.STARTING:
        return
    tasks = state.tasks_of(job)
    numbers: dict[str, int | str] = {
        "started": sum(task.state != TaskState.PLACED for task in tasks),
        "tasks": len(tasks),
        "limit_s": job.spec.start_limit_s or state.pool_of(job).policy.start_limit_s,
    }
    fail_or_retry(state, job_id, NEVER_RAN, Reason(ReasonCode.START_LIMIT, numbers), step)


def settle(state: State, job_id: JobId, step: Step) -> None:
    """A resizing job runs again when every new member started, every leaving one is gone, and the gang said so."""
    job = state.kept.jobs[job_id]
    if job.state != JobState.RESIZING:
        return
    tasks, stage = state.tasks_of(job), job.resize.stage if job.resize is not None else None
    if any(task.state == TaskState.PLACED or task.stop for task in tasks):
        if not any(task.leaves for task in tasks):
            state.put_job(resizing.advanced(job, ResizeEvent.SAFE, step.at))
    elif resizing.awaits_word(job) and resizing.is_active(job):
        state.put_job(resizing.advanced(job, ResizeEvent.MET, step.at))
    else:
        move_job(state, resizing.advanced(job, ResizeEvent.ARRIVED, step.at), Move.SETTLE, step)
    after = state.kept.jobs[job_id].resize
    if after is not None and after.stage != stage:
        step.sized.append(job_id)


def move_job(state: State, job: Job, event: Move, step: Step) -> Job:
    """Make a legal move and note it; the job as it then is."""
    after = move(job.state, event)
    step.moves.append(JobMoved(job=job.id, before=job.state, after=after))
    job = replace(job, state=after)
    state.put_job(job)
    return job


def without(job: Job, task: Task, at: int) -> Job:
    """The job when one of its tasks is gone, which adds to the service it attained."""
    left = tuple(other for other in job.tasks if other != task.id)
    return replace(job, tasks=left, attained=job.attained + task.served_until(at))


def staying(tasks: Iterable[Task]) -> list[Task]:
    """Members that were not told to leave."""
    return [task for task in tasks if not task.stop]

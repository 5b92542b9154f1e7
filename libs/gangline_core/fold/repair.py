"""What a lost member means for its gang: it is placed again alone, the others go on without it, or all start anew.

The first where the job asks for it (`repair`). The second where its members can meet anew or need no meeting (kinds
`tasks`, `torchrun` and `signal`), the member at which they meet is still there, and what is left is a size that the job
may have. Whatever had to be given up for an allowed size leaves as at any change of size.
"""

from msgspec.structs import replace

from gangline_core.fold.life import order_stop, requeue, staying, stop_task
from gangline_core.fold.resize import go_on_without
from gangline_core.ids import JobId
from gangline_core.job import Job, JobState, Outcome, Task, TaskState
from gangline_core.reasons import Reason, ReasonCode
from gangline_core.sizes.allowed import sizes, targets_with, too_many
from gangline_core.spec import ResizeKind
from gangline_core.state import State
from gangline_core.step import Step


def lose(state: State, lost: Task, reason: Reason, step: Step) -> None:
    """A member is gone through no fault of its job: it is missed from now on, or the whole gang starts anew."""
    job = state.kept.jobs[lost.job]
    if not _can_run_on(state, job, lost):
        requeue(state, job.id, reason, step)
        return
    if not job.spec.repair_s:
        _go_on(state, job, lost, reason, step)
        return
    known = state.kept.tasks.get(lost.id)
    if known is not None:
        stop_task(state, known, step)
    job = replace(
        job,
        missing={**job.missing, lost.role: job.missing.get(lost.role, 0) + 1},
        missing_ms=job.missing_ms or step.at,
        sizes=sizes(staying(state.tasks_of(job))),
        losses=job.losses + 1,
    )
    state.put_job(job)
    step.freed = True


def _can_run_on(state: State, job: Job, lost: Task) -> bool:
    """True where somebody is left, and the others do not meet at the one who is lost."""
    if job.state not in (JobState.RUNNING, JobState.RESIZING) or job.spec.elastic.kind == ResizeKind.RESTART:
        return False
    if job.outcome is not None or job.winding_down or (lost.rank == 0 and job.spec.elastic.kind != ResizeKind.TASKS):
        return False
    return any(task.id != lost.id and task.state != TaskState.EXITED for task in staying(state.tasks_of(job)))


def _go_on(state: State, job: Job, lost: Task, reason: Reason, step: Step) -> None:
    """The others go on at the largest size that they may have, or all start anew when there is none."""
    members = [task for task in staying(state.tasks_of(job)) if task.id != lost.id]
    targets = targets_with(job, members)
    if targets is None:
        requeue(state, job.id, reason, step)
        return
    known = state.kept.tasks.get(lost.id)
    if known is not None:
        stop_task(state, known, step)
    state.put_job(replace(job, losses=job.losses + 1))
    if sizes(members) != job.sizes:
        # Else the others know already: another one was lost in the same moment.
        why = f"a member was lost: {reason.code}"
        go_on_without(state, state.kept.jobs[job.id], too_many(job, members, targets), why=why, step=step)
    step.freed = True


def ranks_for(job: Job, members: list[Task], count: int) -> list[int]:
    """Ranks of so many new members: those that are missing first, then the ones that follow."""
    if not job.missing:
        first = 1 + max(task.rank for task in members)
        return list(range(first, first + count))
    taken = {task.rank for task in staying(members)}
    return [rank for rank in range(len(taken) + count) if rank not in taken][:count]


def found_again(job: Job, tasks: list[Task]) -> Job:
    """The job with these of its missing members placed."""
    missing = dict(job.missing)
    for task in tasks:
        missing[task.role] = missing.get(task.role, 0) - 1
    missing = {role: count for role, count in missing.items() if count > 0}
    return replace(job, missing=missing, missing_ms=job.missing_ms if missing else 0)


def give_up_repair(state: State, job_id: JobId, step: Step) -> None:
    """Nobody took the place of those who are missing: the job goes on at a smaller size that it allows, or anew.

    A role that is below all of its sizes gives its room back, where it may be left out; else the whole gang does.
    """
    job = state.job(job_id)
    if job is None or not job.missing or job.state not in (JobState.RUNNING, JobState.RESIZING):
        return
    members = staying(state.tasks_of(job))
    targets = targets_with(job, members)
    numbers: dict[str, int | str] = {"missing": sum(job.missing.values()), "limit_s": job.spec.repair_s}
    if job.winding_down or targets is None:
        order_stop(state, job.id, Outcome.REQUEUED, Reason(ReasonCode.REPAIR_LIMIT, numbers), step)
        return
    go_on_without(state, job, too_many(job, members, targets), why="members are missing", step=step)

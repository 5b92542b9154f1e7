"""What a lost member means for its gang: it is placed again alone where the job allows that, else all start anew."""

from msgspec.structs import replace

from gangline_core import resizing
from gangline_core.fold_life import move_job, order_stop, requeue, settle, sizes, staying, stop_task
from gangline_core.ids import JobId
from gangline_core.job import Job, JobState, Move, Outcome, Task, TaskState
from gangline_core.reasons import Reason, ReasonCode
from gangline_core.spec import ResizeKind, Role
from gangline_core.state import State
from gangline_core.step import Step


def lose(state: State, lost: Task, reason: Reason, step: Step) -> None:
    """A member is gone through no fault of its job: it is missed from now on, or the whole gang starts anew."""
    job = state.kept.jobs[lost.job]
    if not _can_be_repaired(state, job, lost):
        requeue(state, job.id, reason, step)
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


def _can_be_repaired(state: State, job: Job, lost: Task) -> bool:
    """True where the job asks for it, somebody is left, and the others do not meet at the one who is lost."""
    if not job.spec.repair_s or job.state not in (JobState.RUNNING, JobState.RESIZING):
        return False
    if job.outcome is not None or job.winding_down or job.spec.elastic.kind == ResizeKind.RESTART:
        return False
    if lost.rank == 0 and job.spec.elastic.kind != ResizeKind.TASKS:
        return False
    return any(task.id != lost.id and task.state != TaskState.EXITED for task in staying(state.tasks_of(job)))


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
    have = sizes(members)
    targets = {role.name: _largest(role, have.get(role.name, 0)) for role in job.spec.roles}
    numbers: dict[str, int | str] = {"missing": sum(job.missing.values()), "limit_s": job.spec.repair_s}
    if job.winding_down or any(target is None for target in targets.values()) or not any(targets.values()):
        order_stop(state, job.id, Outcome.REQUEUED, Reason(ReasonCode.REPAIR_LIMIT, numbers), step)
        return
    for role in job.spec.roles:
        own = sorted((task for task in members if task.role == role.name), key=lambda task: task.rank)
        for task in own[targets[role.name] :]:
            stop_task(state, task, step)
    after = sizes(staying(state.tasks_of(job)))
    job = replace(resizing.begun(job, after, noticed=False, why="members are missing", at=step.at), sizes=after)
    move_job(state, replace(job, missing={}, missing_ms=0), Move.RESIZE, step)
    step.sized.append(job.id)
    settle(state, job.id, step)


def _largest(role: Role, have: int) -> int | None:
    """The largest size the role may have with so many members; None when there is none."""
    able = (size for size in range(have, -1, -1) if role.allows(size) or (size == 0 and role.min_count == 0))
    return next(able, None)

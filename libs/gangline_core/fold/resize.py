"""What grants, words and time-outs do to jobs that change their size: grow, shrink, start again, confirm, take back."""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from gangline_core import facts as f
from gangline_core.fold.life import move_job, order_stop, requeue, settle, staying, stop_task
from gangline_core.ids import JobId, TaskId
from gangline_core.job import LIVE, Job, JobState, Move, Outcome, ResizeStage, Task, TaskState
from gangline_core.kept import PoolState
from gangline_core.pauses.packing import is_packed
from gangline_core.reasons import Reason, ReasonCode
from gangline_core.room.company import limit_set, note_steps
from gangline_core.room.holds import budget_fault, limit_fault, room_fault
from gangline_core.sizes import resizing
from gangline_core.sizes.allowed import sizes, targets_with, too_many
from gangline_core.sizes.news import Known, is_news
from gangline_core.sizes.progress import merged
from gangline_core.sizes.resizing import ResizeEvent
from gangline_core.spec import ResizeKind
from gangline_core.state import State
from gangline_core.step import Step

WITH_NOTICE = frozenset({ResizeKind.TORCHRUN, ResizeKind.SIGNAL})
"""Kinds whose leaving members always get a notice first, however short."""


def shrink(state: State, less: f.Shrink, step: Step) -> None:
    """Some members of a running elastic job leave: told first where the job wants that, or by starting again."""
    job = state.job(less.job)
    if job is None or shrink_fault(state, less) is not None:
        return
    names = set(less.tasks)
    if job.spec.elastic.kind == ResizeKind.RESTART:
        _restart_smaller(state, job, names, step)
        return
    if job.state not in (JobState.RUNNING, JobState.RESIZING):
        return
    leaving = [task for task in state.tasks_of(job) if task.id in names and not task.stop]
    if not leaving:
        return
    why = f"room for job {less.beneficiary}" if less.beneficiary else "policy"
    go_on_without(state, job, leaving, why=why, step=step)


def go_on_without(state: State, job: Job, leaving: list[Task], *, why: str, step: Step) -> None:
    """A running job goes on with the members that are neither leaving nor told to stop already."""
    told = [task for task in leaving if _gets_notice(job, task)]
    for task in leaving:
        if task in told:
            state.put_task(replace(task, stop=True, stop_ms=step.at, leaves=True))
            step.tasks.append(task.id)
        else:
            stop_task(state, task, step)
    after = sizes(staying(state.tasks_of(job)))
    job = resizing.begun(state.kept.jobs[job.id], after, noticed=bool(told), why=why, at=step.at)
    move_job(state, replace(job, sizes=after, missing={}, missing_ms=0), Move.RESIZE, step)
    step.sized.append(job.id)
    settle(state, job.id, step)


def shrink_fault(state: State, less: f.Shrink) -> str | None:
    """Why these members cannot go any more: others ended since the decision, and too few would be left."""
    job = state.job(less.job)
    if job is None or job.state not in (JobState.RUNNING, JobState.RESIZING):
        return None
    left = [task for task in staying(state.tasks_of(job)) if task.state != TaskState.EXITED]
    if {task.id for task in left}.isdisjoint(less.tasks):
        return None
    after = sizes(task for task in left if task.id not in less.tasks)
    if all(after.get(role.name, 0) >= role.min_count for role in job.spec.roles):
        return None
    return f"members of job {job.id} have ended meanwhile"


def _gets_notice(job: Job, task: Task) -> bool:
    elastic = job.spec.elastic
    return task.state == TaskState.STARTED and (elastic.notice_s > 0 or elastic.kind in WITH_NOTICE)


def waiting_growth(state: State, pool: PoolState, decided: f.RoundDecided) -> dict[JobId, f.ResizeProposed]:
    """Growth for which this round only began to make room; nothing more once a round has looked at it again."""
    if not pool.proposals:
        return pool.later
    makes_room = {less.job for less in decided.shrinks} | {restart.job for restart in decided.restarts}
    if makes_room.isdisjoint(pool.proposals):
        return {}
    given = {restart.job for restart in decided.restarts} | {less.job for less in decided.shrinks}
    for growth in decided.growths:
        # Some of what was proposed may have been free already.
        job, proposal = state.job(growth.job), pool.proposals.get(growth.job)
        if job is None or proposal is None or job.sizes.get(proposal.role, 0) + len(growth.tasks) >= proposal.size:
            given.add(growth.job)
    return {job: proposal for job, proposal in pool.proposals.items() if job not in given}


def start_again(state: State, restarts: tuple[f.Restart, ...], step: Step) -> None:
    """Gangs stop whole and start again at another size; where one cannot any more, it and who waits for it run on."""
    able = {restart.job: restart for restart in restarts}
    while faulty := [restart for restart in able.values() if _is_void(state, restart, able)]:
        for restart in faulty:
            del able[restart.job]
    for restart in restarts:
        if restart.job not in able:
            step.voided.append(restart.job)
            continue
        there = tuple(name for name in restart.after if name in state.kept.tasks)
        _restart(state, state.kept.jobs[restart.job], restart.placement, after=there, why=restart.why, step=step)


def _is_void(state: State, restart: f.Restart, able: dict[JobId, f.Restart]) -> bool:
    """True when the job runs no more, or the room is not there and not left by others that start again."""
    job, placement = state.job(restart.job), restart.placement
    if job is None or job.state != JobState.RUNNING or job.winding_down or placement.attempt != job.attempt + 1:
        return True
    leaving = tuple(name for name in restart.after if name in state.kept.tasks)
    if any(state.kept.tasks[name].job not in able for name in leaving):
        return True
    fault = room_fault(state, placement.tasks, without=(*job.tasks, *leaving))
    return bool(fault or limit_fault(state, job, placement, without=job.tasks) or budget_fault(state, job, placement))


def _restart(
    state: State, job: Job, placement: f.Placement, *, why: str, step: Step, after: tuple[TaskId, ...] = ()
) -> None:
    sizes_after = sizes_of(placement.tasks)
    claim = f.Claim(job=job.id, placement=placement, victims=(*job.tasks, *after), made_ms=step.at)
    size = len(placement.tasks)
    numbers: dict[str, int | str] = {"before": sum(job.sizes.values()), "size": size, "why": why or "policy"}
    job = resizing.begun(job, sizes_after, noticed=True, why=why, at=step.at)
    state.put_job(job)
    state.put_claim(claim)
    order_stop(state, job.id, Outcome.REQUEUED, Reason(ReasonCode.RESIZING, numbers), step)


def _restart_smaller(state: State, job: Job, leaving: set[TaskId], step: Step) -> None:
    """The members that stay keep their places; a gang that starts again already gives up these of the places it has."""
    if job.state == JobState.STOPPING and (claim := state.kept.claims.get(job.id)) is not None:
        gone = [state.kept.tasks[name] for name in sorted(leaving) if name in state.kept.tasks]
        held = {(task.node, task.gpus, task.role) for task in gone}
        places = tuple(place for place in claim.placement.tasks if (place.node, place.gpus, place.role) not in held)
        if places:
            state.put_claim(replace(claim, placement=replace(claim.placement, tasks=_numbered(places))))
        else:
            state.drop_claim(job.id)
        return
    if job.state != JobState.RUNNING:
        return
    stay = [task for task in state.tasks_of(job) if task.id not in leaving and not task.stop]
    if not stay or len(stay) == len(job.tasks):
        return
    port = int(stay[0].endpoint.rpartition(":")[2] or 0)
    placement = f.Placement(job=job.id, attempt=job.attempt + 1, tasks=places_of(stay), port=port)
    _restart(state, job, placement, why="shrunk", step=step)


def places_of(tasks: list[Task], *, more: tuple[f.TaskPlacement, ...] = ()) -> tuple[f.TaskPlacement, ...]:
    """Where these members are, and `more`, as places of a gang that starts anew there."""
    return _numbered(
        tuple(
            f.TaskPlacement(
                role=task.role,
                index=0,
                node=task.node,
                gpus=task.gpus,
                cpu_milli=task.cpu_milli,
                memory_mib=task.memory_mib,
                devices=task.devices,
                cells=task.cells,
            )
            for task in tasks
        )
        + more
    )


def _numbered(places: tuple[f.TaskPlacement, ...]) -> tuple[f.TaskPlacement, ...]:
    """Indexes count from 0 in every role of a new attempt."""
    count: dict[str, int] = {}
    numbered = []
    for place in places:
        numbered.append(replace(place, index=count.get(place.role, 0)))
        count[place.role] = count.get(place.role, 0) + 1
    return tuple(numbered)


def sizes_of(places: tuple[f.TaskPlacement, ...]) -> dict[str, int]:
    """Members per role."""
    count: dict[str, int] = {}
    for place in places:
        count[place.role] = count.get(place.role, 0) + 1
    return count


# --- words of the job, of users and of time ---------------------------------------------------------------


def member_safe(state: State, fact: f.MemberSafe, step: Step) -> None:
    """A leaving member has saved what it must; when all have, nobody waits for them any more."""
    task = state.kept.tasks.get(fact.task)
    job = state.job(task.job) if task is not None else None
    if task is None or job is None or not task.leaves or task.safe:
        return
    state.put_task(replace(task, safe=True))
    step.tasks.append(task.id)
    if all(other.safe for other in state.tasks_of(job) if other.leaves):
        state.put_job(resizing.advanced(job, ResizeEvent.SAFE, step.at))
        step.sized.append(job.id)


def resize_confirmed(state: State, fact: f.ResizeConfirmed, step: Step) -> None:
    """The gang works at its new size."""
    job = state.job(fact.job)
    if job is None or job.resize is None or job.resize.number != fact.number:
        return
    if job.resize.stage != ResizeStage.CONFIRMING or not resizing.is_size_of(job, fact.size):
        return
    job = resizing.advanced(job, ResizeEvent.CONFIRMED, step.at)
    if job.state == JobState.RESIZING:
        move_job(state, job, Move.SETTLE, step)
    else:
        state.put_job(job)
    step.sized.append(job.id)


def resize_failed(state: State, fact: f.ResizeFailed, step: Step) -> None:
    """It took too long: members that did not come are given back; a gang that did not meet starts anew.

    With those that came the job may have a size that it does not allow: then the last of them leave again.
    """
    job = state.job(fact.job)
    if job is None or job.resize is None or job.resize.number != fact.number or not resizing.is_active(job):
        return
    if job.resize.stage == ResizeStage.CONFIRMING and job.state in LIVE:
        state.put_job(resizing.advanced(job, ResizeEvent.STUCK, step.at))
        numbers: dict[str, int | str] = {"number": fact.number, "stage": fact.stage}
        requeue(state, job.id, Reason(ReasonCode.RESIZE_FAILED, numbers), step)
        return
    if job.state != JobState.RESIZING:
        return
    for task in state.tasks_of(job):
        if task.state == TaskState.PLACED:
            stop_task(state, task, step)
    job = resizing.advanced(state.kept.jobs[job.id], ResizeEvent.STUCK, step.at)
    job = replace(job, sizes=sizes(staying(state.tasks_of(job))))
    state.put_job(job)
    step.sized.append(job.id)
    members = staying(state.tasks_of(job))
    targets = targets_with(job, members)
    extra = [] if targets is None else too_many(job, members, targets)
    if extra:
        go_on_without(state, job, extra, why="the others did not start", step=step)
    else:
        settle(state, job.id, step)


def resize_asked(state: State, fact: f.ResizeAsked, step: Step) -> None:
    """A size by hand; the elastic service proposes it, and keeps to it until it is taken back with 0."""
    job = state.job(fact.job)
    if job is None:
        return
    asked = {role: size for role, size in job.asked.items() if role != fact.role}
    if fact.size > 0:
        asked[fact.role] = fact.size
    state.put_job(replace(job, asked=asked))
    step.settings = True


def progress_reported(state: State, fact: f.ProgressReported, step: Step) -> None:
    """What a job said of itself, kept while it is not over."""
    if (job := state.job(fact.job)) is not None and job.ended_ms == 0:
        new = replace(fact.progress, told_ms=step.at)
        said = state.kept.progress[fact.job] = merged(state.kept.progress.get(fact.job), new)
        if fact.progress.points:
            note_steps(state, job, fact.progress, step.at)
        if is_news(state.kept.known_news.get(fact.job), said, step.at):
            state.kept.known_news[fact.job] = Known(said=said, at=step.at)
            state.kept.outside_seq = step.seq
        if state.kept.packs and is_packed(state, job.id):
            # A round judges whether it pays.
            state.kept.changed_seq = step.seq
        step.touched = True


HANDLERS: dict[type[f.Fact], Callable[[State, Any, Step], None]] = {
    f.MemberSafe: member_safe,
    f.ResizeConfirmed: resize_confirmed,
    f.ResizeFailed: resize_failed,
    f.ResizeAsked: resize_asked,
    f.ProgressReported: progress_reported,
    f.LimitSet: limit_set,
}
"""The facts that this file folds."""

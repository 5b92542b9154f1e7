"""What agents saw of single tasks, and what that means for their jobs."""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from gangline_core.facts import ExitCause, TaskExited, TaskStarted, UsageCharged
from gangline_core.fold.killed import killed
from gangline_core.fold.life import (
    fail_or_retry,
    finish_if_empty,
    move_job,
    order_stop,
    requeue,
    settle,
    staying,
    without,
)
from gangline_core.fold.pack import forget_packs, unpack
from gangline_core.fold.repair import lose
from gangline_core.ids import JobId, NodeId, TaskId
from gangline_core.job import LIVE, Job, JobState, Move, Outcome, Task, TaskState
from gangline_core.limits.budgets import cost_of
from gangline_core.reasons import Reason, ReasonCode
from gangline_core.sizes import resizing
from gangline_core.sizes.resizing import ResizeEvent
from gangline_core.state import State
from gangline_core.step import Step


def task_started(state: State, fact: TaskStarted, step: Step) -> None:
    """A member runs; when all do, so does the job."""
    task = state.kept.tasks.get(fact.task)
    if task is None or task.state != TaskState.PLACED:
        return
    state.put_task(replace(task, state=TaskState.STARTED, started_ms=step.at, pod=fact.pod))
    step.tasks.append(task.id)
    job = state.kept.jobs[task.job]
    if job.state == JobState.STARTING and all(t.state != TaskState.PLACED for t in state.tasks_of(job)):
        _all_started(state, job, step)
    elif job.state == JobState.RESIZING:
        settle(state, job.id, step)


def task_exited(state: State, fact: TaskExited, step: Step) -> None:
    """A member's process ended: judge what that means for its job."""
    task = state.kept.tasks.get(fact.task)
    if task is None or task.state in (TaskState.EXITED, TaskState.LOST):
        return
    ended = replace(task, state=TaskState.EXITED, exited_ms=step.at, exit_code=fact.exit_code)
    state.put_task(ended)
    step.tasks.append(task.id)
    job = state.kept.jobs[task.job]
    if fact.ports:
        state.ports.leave_alone(task.endpoint, fact.ports)
    if fact.silent:
        # No index depends on it, so the job is put back in place.
        job = state.kept.jobs[job.id] = replace(job, silent=job.silent + 1)
    if task.stop and job.state != JobState.STOPPING:
        return
    if fact.cause == ExitCause.EXITED and fact.exit_code == 0 and not _leaves_clients(state, job, task):
        _one_succeeded(state, job, step)
    elif not (task.stop and fact.cause in (ExitCause.STOPPED, ExitCause.EXITED)):
        _one_failed(state, job, ended, fact, step)


def tasks_empty(state: State, tasks: Iterable[TaskId], step: Step) -> None:
    """The agent saw nothing left of these tasks: their room is free. A repeat changes nothing."""
    jobs: dict[JobId, list[Task]] = {}
    for name in tasks:
        task = state.kept.tasks.get(name)
        if task is None:
            continue
        state.remove_task(task)
        state.kept.uncharged[task.id] = _charge(task, step.at, state.kept.prices)
        step.tasks.append(task.id)
        step.freed = True
        job = state.kept.jobs.get(task.job)
        if job is not None and task.id in job.tasks:
            state.put_job(without(job, task, step.at))
            vanished = not task.stop and task.state != TaskState.EXITED
            jobs.setdefault(job.id, []).extend([task] if vanished else [])
            if state.kept.packs:
                # What is left of an earlier attempt shares nothing with anybody.
                unpack(state, job.id, step.at)
    for job_id, vanished_ones in jobs.items():
        for lost in vanished_ones:
            # Gone without a word about its end.
            lose(state, lost, Reason(ReasonCode.PROCESS_LOST, {"task": "unknown"}), step)
        finish_if_empty(state, job_id, step)
        settle(state, job_id, step)


def tasks_lost(state: State, node: NodeId, step: Step) -> None:
    """A node is lost: its tasks keep its room but leave their jobs, which go back to the queue."""
    reason = Reason(ReasonCode.NODE_LOST, {"node": node})
    gone: dict[JobId, list[Task]] = {}
    for name in sorted(state.node_tasks.get(node, {})):
        task = state.kept.tasks[name]
        if task.state == TaskState.LOST:
            continue
        # Marked lost before any job stops, so that its usage ends here, nobody waits for its agent, and a gang knows
        # of all that it lost when it is judged.
        state.put_task(replace(task, state=TaskState.LOST, stop=True, stop_ms=step.at))
        step.tasks.append(name)
        state.put_job(without(state.kept.jobs[task.job], task, step.at))
        # Both of a pack are lost with the node, and keep their halves until they are seen to be gone.
        forget_packs(state, task.job)
        gone.setdefault(task.job, []).append(task)
    for job_id, tasks in gone.items():
        for task in tasks:
            if not task.stop:
                lose(state, task, reason, step)
        finish_if_empty(state, job_id, step)
        settle(state, job_id, step)


def gpu_failed(state: State, node: NodeId, gpu: int, step: Step) -> None:
    """Jobs that use a GPU that failed stop and go back to the queue."""
    reason = Reason(ReasonCode.GPU_FAILED, {"gpu": gpu, "node": node})
    for name in sorted(state.node_tasks.get(node, {})):
        task = state.kept.tasks.get(name)
        if task is None or task.stop or task.state not in (TaskState.PLACED, TaskState.STARTED):
            continue
        if any(share.index == gpu for share in task.gpus) and state.kept.jobs[task.job].state in LIVE:
            lose(state, task, reason, step)


def _all_started(state: State, job: Job, step: Step) -> Job:
    state.kept.affinities.began(job.id, state.tasks_of(job))
    first = job.first_started_ms or step.at
    met = ResizeEvent.MET if resizing.awaits_word(job) else ResizeEvent.ARRIVED
    if resizing.is_active(job):
        step.sized.append(job.id)
    job = resizing.advanced(job, met, step.at)
    return move_job(state, replace(job, started_ms=step.at, first_started_ms=first), Move.ALL_STARTED, step)


def _one_succeeded(state: State, job: Job, step: Step) -> None:
    serving = {role.name for role in job.spec.roles if role.serves}
    left = [task for task in staying(state.tasks_of(job)) if task.role not in serving]
    if job.state == JobState.STARTING and all(t.state != TaskState.PLACED for t in left):
        # A member can be over before another has started; the job ran all the same.
        job = _all_started(state, job, step)
    if not job.winding_down:
        # No index depends on it, so the job is put back in place.
        job = state.kept.jobs[job.id] = replace(job, winding_down=True)
    if job.state != JobState.STOPPING and all(t.state == TaskState.EXITED for t in left):
        order_stop(state, job.id, Outcome.SUCCEEDED, Reason(ReasonCode.COMPLETED), step)


def _leaves_clients(state: State, job: Job, task: Task) -> bool:
    """True when a server of GPUs over the network ended by itself, however well, and its clients have not."""
    serving = {role.name for role in job.spec.roles if role.serves}
    clients = (other for other in state.tasks_of(job) if other.role not in serving)
    return task.role in serving and not task.stop and any(other.state != TaskState.EXITED for other in clients)


def _one_failed(state: State, job: Job, task: Task, fact: TaskExited, step: Step) -> None:
    code = fact.exit_code if fact.exit_code is not None else -1
    match fact.cause:
        case ExitCause.TIME_LIMIT:
            reason = _time_is_up(job, task, step.at)
            order_stop(state, job.id, Outcome.TIMED_OUT, reason, step)
        case ExitCause.PROCESS_LOST if fact.witnessed:
            killed(state, task, step)
        case ExitCause.PROCESS_LOST | ExitCause.BUS_LOST:
            lose(state, task, Reason(ReasonCode.PROCESS_LOST, {"task": task.id}), step)
        case ExitCause.START_FAILED | ExitCause.PLACE_REFUSED if _is_newcomer(job, task):
            reason = Reason(ReasonCode.START_FAILED, {"task": task.id, "error": fact.error})
            lose(state, task, reason, step)
        case ExitCause.PLACE_REFUSED:
            numbers: dict[str, int | str] = {"task": task.id, "node": task.node, "error": fact.error}
            requeue(state, job.id, Reason(ReasonCode.PLACE_REFUSED, numbers), step)
        case ExitCause.GPU_FAILED:
            gpu = task.gpus[0].index if task.gpus else -1
            lose(state, task, Reason(ReasonCode.GPU_FAILED, {"gpu": gpu, "node": task.node}), step)
        case ExitCause.START_FAILED:
            reason = Reason(ReasonCode.START_FAILED, {"task": task.id, "error": fact.error})
            fail_or_retry(state, job.id, code, reason, step)
        case ExitCause.EXITED | ExitCause.STOPPED:
            reason = Reason(ReasonCode.EXIT_CODE, {"task": task.id, "exit_code": code})
            fail_or_retry(state, job.id, code, reason, step)


def _is_newcomer(job: Job, task: Task) -> bool:
    """True for a member that a change of size brought to a job that works: that it cannot start is not the job's doing.

    The others go on without it; a gang that has to start whole for a change goes back to the queue and starts anew.
    """
    return resizing.is_active(job) and not task.started_ms


def _time_is_up(job: Job, task: Task, at: int) -> Reason:
    """Whichever came first: the time limit, to which pauses do not count, or the deadline."""
    limit_s, deadline_ms = job.spec.time_limit_s, job.spec.deadline_ms
    stood_ms = task.paused_ms + (at - task.span_ms if task.working is not None else 0)
    if deadline_ms and (not limit_s or task.started_ms + limit_s * 1000 + stood_ms > deadline_ms):
        return Reason(ReasonCode.DEADLINE, {"deadline_ms": deadline_ms, "stopped": 1})
    return Reason(ReasonCode.TIME_LIMIT, {"limit_s": limit_s})


def _charge(task: Task, at: int, prices: Mapping[str, int]) -> UsageCharged:
    # A lost node's tasks stopped being their group's when it was lost, however much later it is seen again.
    end = task.stop_ms if task.state == TaskState.LOST else at
    used = task.used_until(end)
    return UsageCharged(
        task=task.id,
        job=task.job,
        group=task.group,
        user=task.user,
        gpu_model=task.gpu_model,
        gpu_milli_ms=used,
        cost=cost_of(used, prices, task.gpu_model) if prices else -1,
    )

"""How facts move jobs and their tasks through their lives."""

from collections.abc import Iterable

from msgspec.structs import replace

from gangline_core.facts import (
    CancelRequested,
    Eviction,
    ExitCause,
    Growth,
    HoldSet,
    JobAdmitted,
    Placement,
    Shrink,
    TaskExited,
    TaskPlacement,
    TaskStarted,
    UsageCharged,
)
from gangline_core.holds import placement_fault
from gangline_core.ids import JobId, NodeId, TaskId, task_id
from gangline_core.job import (
    ENDS,
    LIVE,
    OUTCOME_RANK,
    Job,
    JobState,
    Move,
    Outcome,
    Task,
    TaskState,
    move,
)
from gangline_core.reasons import Reason, ReasonCode
from gangline_core.state import ENDED_JOBS_KEPT, State
from gangline_core.step import JobMoved, Step


def admit(state: State, fact: JobAdmitted, step: Step) -> None:
    """A new job enters, waiting or held."""
    held = fact.spec.hold
    job = Job(
        id=fact.job,
        spec=fact.spec,
        state=JobState.HELD if held else JobState.WAITING,
        submitted_ms=step.at,
        queued_ms=step.at,
        submitted_by=fact.by,
        reason=Reason(ReasonCode.HELD, {"by": fact.by}) if held else None,
        trace=fact.trace,
    )
    state.kept.next_job = max(state.kept.next_job, fact.job + 1)
    state.put_job(job)
    step.moves.append(JobMoved(job=job.id, before=None, after=job.state))


def cancel(state: State, fact: CancelRequested, step: Step) -> None:
    """The job ends now if nothing of it runs; otherwise it stops first."""
    job = state.job(fact.job)
    if job is None or job.state in ENDS:
        return
    reason = Reason(ReasonCode.CANCELLED, {"by": fact.by})
    state.drop_claim(job.id)
    if job.state in LIVE:
        order_stop(state, job.id, Outcome.CANCELLED, reason, step)
    else:
        _move(state, replace(job, reason=reason, ended_ms=step.at), Move.CANCEL_WAITING, step)


def hold(state: State, fact: HoldSet, step: Step) -> None:
    """Hold a waiting job, suspend a running one, or release either."""
    job = state.job(fact.job)
    if job is None or job.state in ENDS:
        return
    if fact.held:
        state.drop_claim(job.id)
        if job.state in LIVE:
            reason = Reason(ReasonCode.SUSPENDED, {"by": fact.by})
            order_stop(state, job.id, Outcome.SUSPENDED, reason, step)
        elif job.state == JobState.WAITING:
            reason = Reason(ReasonCode.HELD, {"by": fact.by})
            waited = job.waited_ms + step.at - job.queued_ms
            _move(state, replace(job, reason=reason, waited_ms=waited), Move.HOLD, step)
    elif job.state in (JobState.HELD, JobState.SUSPENDED):
        _move(state, replace(job, reason=None, queued_ms=step.at), Move.RELEASE, step)
    elif job.outcome == Outcome.SUSPENDED:
        state.put_job(replace(job, outcome=Outcome.REQUEUED))


def give_up(state: State, job_id: JobId, reason: Reason, step: Step) -> None:
    """A job that can never run any more ends as failed."""
    job = state.job(job_id)
    if job is not None and job.state in (JobState.WAITING, JobState.HELD):
        _move(state, replace(job, reason=reason, ended_ms=step.at), Move.GIVE_UP, step)


def set_reason(state: State, job_id: JobId, reason: Reason, step: Step) -> None:
    """Remember why a waiting job waits."""
    job = state.job(job_id)
    if job is not None and job.state == JobState.WAITING and job.reason != reason:
        # The indexes do not depend on the reason, so the job is put back in place without re-indexing.
        state.kept.jobs[job_id] = replace(job, reason=reason)


def add_placement(state: State, placement: Placement, step: Step) -> None:
    """Book a whole gang, or void the placement if it no longer holds."""
    fault = placement_fault(state, placement)
    job = state.job(placement.job)
    if fault is not None or job is None:
        step.voided.append(placement.job)
        if job is not None:
            set_reason(state, job.id, Reason(ReasonCode.PLACEMENT_VOIDED, {"cause": fault or "gone"}), step)
        return
    state.drop_claim(job.id)
    tasks = [_task(state, job, place, placement.attempt, rank, step.at) for rank, place in enumerate(placement.tasks)]
    endpoint = f"{state.kept.nodes[tasks[0].node].address}:{placement.port}"
    for task in tasks:
        state.put_task(replace(task, endpoint=endpoint))
        step.tasks.append(task.id)
    job = replace(
        job,
        attempt=placement.attempt,
        tasks=tuple(task.id for task in tasks),
        sizes=_sizes(tasks),
        reason=None,
        outcome=None,
        exit_code=None,
        started_ms=0,
        waited_ms=job.waited_ms + step.at - job.queued_ms,
    )
    _move(state, job, Move.PLACE, step)


def add_growth(state: State, growth: Growth, step: Step) -> None:
    """Book further members of a running elastic job, or void them."""
    job = state.job(growth.job)
    if job is None or placement_fault(state, growth) is not None:
        step.voided.append(growth.job)
        return
    first = state.kept.tasks[job.tasks[0]]
    next_rank = 1 + max(state.kept.tasks[task].rank for task in job.tasks)
    tasks = [_task(state, job, place, growth.attempt, next_rank + k, step.at) for k, place in enumerate(growth.tasks)]
    for task in tasks:
        state.put_task(replace(task, endpoint=first.endpoint))
        step.tasks.append(task.id)
    members = [*state.tasks_of(job), *tasks]
    job = replace(job, tasks=tuple(task.id for task in members), sizes=_sizes(_staying(members)))
    _move(state, job, Move.RESIZE, step)


def shrink(state: State, less: Shrink, step: Step) -> None:
    """Tell some members of a running elastic job to stop."""
    job = state.job(less.job)
    if job is None or job.state not in (JobState.RUNNING, JobState.RESIZING):
        return
    for task_name in less.tasks:
        task = state.kept.tasks.get(task_name)
        if task is not None and task.id in job.tasks:
            _stop_task(state, task, step)
    job = replace(job, sizes=_sizes(_staying(state.tasks_of(job))))
    _move(state, job, Move.RESIZE, step)
    _settle(state, job.id, step)


def evict(state: State, eviction: Eviction, step: Step) -> None:
    """A victim stops; it goes back to the queue and does not lose its turn."""
    numbers: dict[str, int | str] = {"job": eviction.beneficiary, "rule": eviction.rule}
    order_stop(state, eviction.job, Outcome.REQUEUED, Reason(ReasonCode.PREEMPTED, numbers), step)


def order_stop(state: State, job_id: JobId, outcome: Outcome, reason: Reason, step: Step) -> None:
    """All tasks of a live job must stop; when they are gone the job takes the outcome."""
    job = state.job(job_id)
    if job is None or job.state not in LIVE:
        return
    if job.outcome is not None and OUTCOME_RANK[outcome] <= OUTCOME_RANK[job.outcome]:
        return
    for task in state.tasks_of(job):
        _stop_task(state, task, step)
    _move(state, replace(job, outcome=outcome, reason=reason), Move.STOP, step)
    _finish_if_empty(state, job_id, step)


def task_started(state: State, fact: TaskStarted, step: Step) -> None:
    """A member runs; when all do, so does the job."""
    task = state.kept.tasks.get(fact.task)
    if task is None or task.state != TaskState.PLACED:
        return
    state.put_task(replace(task, state=TaskState.STARTED, started_ms=step.at))
    step.tasks.append(task.id)
    job = state.kept.jobs[task.job]
    if job.state == JobState.STARTING and all(t.state != TaskState.PLACED for t in state.tasks_of(job)):
        first = job.first_started_ms or step.at
        _move(state, replace(job, started_ms=step.at, first_started_ms=first), Move.ALL_STARTED, step)
    elif job.state == JobState.RESIZING:
        _settle(state, job.id, step)


def task_exited(state: State, fact: TaskExited, step: Step) -> None:
    """A member's process ended: judge what that means for its job."""
    task = state.kept.tasks.get(fact.task)
    if task is None or task.state in (TaskState.EXITED, TaskState.LOST):
        return
    ended = replace(task, state=TaskState.EXITED, exited_ms=step.at, exit_code=fact.exit_code)
    state.put_task(ended)
    step.tasks.append(task.id)
    job = state.kept.jobs[task.job]
    if task.stop and job.state != JobState.STOPPING:
        return
    if fact.cause == ExitCause.EXITED and fact.exit_code == 0:
        _one_succeeded(state, job, step)
    elif not (task.stop and fact.cause in (ExitCause.STOPPED, ExitCause.EXITED)):
        _one_failed(state, job, ended, fact, step)


def _one_succeeded(state: State, job: Job, step: Step) -> None:
    staying = _staying(state.tasks_of(job))
    if job.state == JobState.STARTING and all(t.state != TaskState.PLACED for t in staying):
        # A member can be over before another has started; the job ran all the same.
        job = replace(job, started_ms=step.at, first_started_ms=job.first_started_ms or step.at)
        job = _move(state, job, Move.ALL_STARTED, step)
    if job.state != JobState.STOPPING and all(t.state == TaskState.EXITED for t in staying):
        order_stop(state, job.id, Outcome.SUCCEEDED, Reason(ReasonCode.COMPLETED), step)


def _one_failed(state: State, job: Job, task: Task, fact: TaskExited, step: Step) -> None:
    code = fact.exit_code if fact.exit_code is not None else -1
    match fact.cause:
        case ExitCause.TIME_LIMIT:
            reason = Reason(ReasonCode.TIME_LIMIT, {"limit_s": job.spec.time_limit_s})
            order_stop(state, job.id, Outcome.TIMED_OUT, reason, step)
        case ExitCause.PROCESS_LOST | ExitCause.BUS_LOST:
            _requeue(state, job, Reason(ReasonCode.PROCESS_LOST, {"task": task.id}), step)
        case ExitCause.GPU_FAILED:
            gpu = task.gpus[0].index if task.gpus else -1
            _requeue(state, job, Reason(ReasonCode.GPU_FAILED, {"gpu": gpu, "node": task.node}), step)
        case ExitCause.START_FAILED:
            reason = Reason(ReasonCode.START_FAILED, {"task": task.id, "error": fact.error})
            _fail_or_retry(state, job, code, reason, step)
        case ExitCause.EXITED | ExitCause.STOPPED:
            reason = Reason(ReasonCode.EXIT_CODE, {"task": task.id, "exit_code": code})
            _fail_or_retry(state, job, code, reason, step)


def _requeue(state: State, job: Job, reason: Reason, step: Step) -> None:
    if job.outcome is None:
        state.put_job(replace(job, losses=job.losses + 1))
    order_stop(state, job.id, Outcome.REQUEUED, reason, step)


def _fail_or_retry(state: State, job: Job, code: int, reason: Reason, step: Step) -> None:
    left = job.spec.retries - job.retries_used
    if job.outcome is not None and OUTCOME_RANK[Outcome.FAILED] <= OUTCOME_RANK[job.outcome]:
        return
    if left > 0 and job.outcome is None:
        numbers: dict[str, int | str] = {"attempt": job.attempt, "exit_code": code, "left": left - 1}
        state.put_job(replace(job, retries_used=job.retries_used + 1, exit_code=code))
        order_stop(state, job.id, Outcome.REQUEUED, Reason(ReasonCode.RETRYING, numbers), step)
    else:
        state.put_job(replace(job, exit_code=code))
        order_stop(state, job.id, Outcome.FAILED, reason, step)


def tasks_empty(state: State, tasks: Iterable[TaskId], step: Step) -> None:
    """The agent saw nothing left of these tasks: their room is free. A repeat changes nothing."""
    jobs: dict[JobId, None] = {}
    for name in tasks:
        task = state.kept.tasks.get(name)
        if task is None:
            continue
        state.remove_task(task)
        state.kept.uncharged[task.id] = _charge(task, step.at)
        step.tasks.append(task.id)
        step.freed = True
        job = state.kept.jobs.get(task.job)
        if job is not None and task.id in job.tasks:
            state.put_job(replace(job, tasks=tuple(t for t in job.tasks if t != task.id)))
            jobs[job.id] = None
    for job_id in jobs:
        _finish_if_empty(state, job_id, step)
        _settle(state, job_id, step)


def tasks_lost(state: State, node: NodeId, step: Step) -> None:
    """A node is lost: its tasks keep its room but leave their jobs, which go back to the queue."""
    reason = Reason(ReasonCode.NODE_LOST, {"node": node})
    for name in list(state.node_tasks.get(node, {})):
        task = state.kept.tasks[name]
        if task.state == TaskState.LOST:
            continue
        job = state.kept.jobs[task.job]
        # Marked lost before the job stops, so that its usage ends here and nobody waits for its agent.
        state.put_task(replace(task, state=TaskState.LOST, stop=True, stop_ms=step.at))
        step.tasks.append(name)
        state.put_job(replace(job, tasks=tuple(t for t in job.tasks if t != name)))
        _requeue(state, state.kept.jobs[job.id], reason, step)
        _finish_if_empty(state, job.id, step)


def forget_ended(state: State) -> None:
    """Keep only the newest ended jobs."""
    ended = state.kept.ended
    while len(ended) > ENDED_JOBS_KEPT:
        oldest = next(iter(ended))
        del ended[oldest]
        state.kept.jobs.pop(oldest, None)


def _finish_if_empty(state: State, job_id: JobId, step: Step) -> None:
    job = state.kept.jobs[job_id]
    if job.tasks or job.state not in LIVE:
        return
    if job.state != JobState.STOPPING:
        # The last task is gone without a word about its end: the process was lost with it.
        _requeue(state, job, Reason(ReasonCode.PROCESS_LOST, {"task": "all"}), step)
        return
    outcome = job.outcome or Outcome.LOST
    requeued = outcome in (Outcome.REQUEUED, Outcome.SUSPENDED)
    preempted = job.reason is not None and job.reason.code == ReasonCode.PREEMPTED
    job = replace(
        job,
        outcome=None,
        sizes={},
        ended_ms=0 if requeued else step.at,
        queued_ms=step.at,
        exit_code=0 if outcome == Outcome.SUCCEEDED else job.exit_code,
        preemptions=job.preemptions + (1 if preempted else 0),
    )
    _move(state, job, outcome.move, step)


def _settle(state: State, job_id: JobId, step: Step) -> None:
    job = state.kept.jobs[job_id]
    if job.state != JobState.RESIZING:
        return
    tasks = state.tasks_of(job)
    if all(task.state != TaskState.PLACED and not task.stop for task in tasks):
        _move(state, job, Move.SETTLE, step)


def _move(state: State, job: Job, event: Move, step: Step) -> Job:
    after = move(job.state, event)
    step.moves.append(JobMoved(job=job.id, before=job.state, after=after))
    job = replace(job, state=after)
    state.put_job(job)
    return job


def _stop_task(state: State, task: Task, step: Step) -> None:
    if not task.stop:
        state.put_task(replace(task, stop=True, stop_ms=step.at))
        step.tasks.append(task.id)


def _task(state: State, job: Job, place: TaskPlacement, attempt: int, rank: int, at: int) -> Task:
    node = state.kept.nodes[place.node]
    model = node.gpus[place.gpus[0].index].model if place.gpus else ""
    return Task(
        id=task_id(job.id, attempt=attempt, role=place.role, index=place.index),
        job=job.id,
        attempt=attempt,
        role=place.role,
        index=place.index,
        rank=rank,
        node=place.node,
        group=job.spec.group,
        user=job.spec.user,
        state=TaskState.PLACED,
        placed_ms=at,
        gpus=place.gpus,
        gpu_model=model,
        cpu_milli=place.cpu_milli,
        memory_mib=place.memory_mib,
        devices=place.devices,
    )


def _staying(tasks: Iterable[Task]) -> list[Task]:
    return [task for task in tasks if not task.stop]


def _sizes(tasks: Iterable[Task]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for task in tasks:
        sizes[task.role] = sizes.get(task.role, 0) + 1
    return sizes


def _charge(task: Task, at: int) -> UsageCharged:
    return UsageCharged(
        task=task.id,
        job=task.job,
        group=task.group,
        user=task.user,
        gpu_model=task.gpu_model,
        gpu_milli_ms=task.gpu_milli * max(0, at - task.placed_ms),
    )

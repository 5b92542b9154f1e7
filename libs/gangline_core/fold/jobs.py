"""What the door and the rounds do to jobs: admit, hold, cancel, place, grow, shrink, evict, claim."""

from collections.abc import Iterable

from msgspec.structs import replace

from gangline_core.cluster import model_of
from gangline_core.facts import (
    CancelRequested,
    Claim,
    Eviction,
    Growth,
    HoldSet,
    JobAdmitted,
    Lowering,
    Placement,
)
from gangline_core.fold.arrays import admit_array, cancel_array, hold_array
from gangline_core.fold.learnt import with_learnt
from gangline_core.fold.life import move_job, order_stop, staying
from gangline_core.fold.pack import gives_to_others, settle_beside, start_beside
from gangline_core.fold.pause import ask_to_go_on, pause_by_request
from gangline_core.fold.repair import found_again, ranks_for
from gangline_core.foresight.run_times import expected_run_ms
from gangline_core.foresight.start_scores import score
from gangline_core.ids import JobId, task_id
from gangline_core.job import ENDS, LIVE, Job, JobState, Move, Outcome, Task, TaskState
from gangline_core.reasons import Reason, ReasonCode
from gangline_core.room.clearing import Clearing
from gangline_core.room.holds import placement_fault
from gangline_core.scoring.ageing import in_vain_ms, waited_ms
from gangline_core.scoring.attained import is_promoted, note_turn
from gangline_core.sizes import resizing
from gangline_core.sizes.allowed import sizes
from gangline_core.sizes.resizing import ResizeEvent
from gangline_core.state import ENDED_JOBS_KEPT, State
from gangline_core.step import JobMoved, Step

YIELDED_KEPT = 16
"""Beneficiaries that an evicted job remembers."""


def admit(state: State, fact: JobAdmitted, step: Step) -> None:
    """A new job enters, waiting or held."""
    if fact.spec.array is not None:
        admit_array(state, fact, step)
        return
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
    state.put_job(with_learnt(state, job, step.at))
    step.moves.append(JobMoved(job=job.id, before=None, after=job.state))


def cancel(state: State, fact: CancelRequested, step: Step) -> None:
    """The job ends now if nothing of it runs; otherwise it stops first."""
    job = state.job(fact.job)
    if job is None:
        for element in cancel_array(state, fact, step) or ():
            cancel(state, replace(fact, job=element), step)
        return
    if job.state in ENDS:
        return
    reason = Reason(ReasonCode.CANCELLED, {"by": fact.by})
    state.drop_claim(job.id)
    if job.state in LIVE:
        order_stop(state, job.id, Outcome.CANCELLED, reason, step)
    else:
        move_job(state, replace(job, reason=reason, ended_ms=step.at), Move.CANCEL_WAITING, step)


def hold(state: State, fact: HoldSet, step: Step) -> None:
    """Hold a waiting job, suspend a running one, or release either."""
    job = state.job(fact.job)
    if job is None:
        for element in hold_array(state, fact, step) or ():
            hold(state, replace(fact, job=element), step)
        return
    if job.state in ENDS:
        return
    if fact.held:
        state.drop_claim(job.id)
        if fact.pause and (job.state == JobState.PAUSED or pause_by_request(state, job, fact.by, step)):
            _stay_paused(state, job.id, fact.by, step)
        elif job.state in LIVE:
            reason = Reason(ReasonCode.SUSPENDED, {"by": fact.by})
            order_stop(state, job.id, Outcome.SUSPENDED, reason, step)
        elif job.state == JobState.WAITING:
            reason = Reason(ReasonCode.HELD, {"by": fact.by})
            waited = waited_ms(state, job, step.at)
            move_job(state, replace(job, reason=reason, waited_ms=waited), Move.HOLD, step)
    elif job.state == JobState.PAUSED:
        ask_to_go_on(state, job, urgent=fact.urgent, step=step)
    elif job.state in (JobState.HELD, JobState.SUSPENDED):
        move_job(state, replace(job, reason=None, killed=None, queued_ms=step.at), Move.RELEASE, step)
    elif job.outcome == Outcome.SUSPENDED:
        state.put_job(replace(job, outcome=Outcome.REQUEUED, killed=None))


def _stay_paused(state: State, job_id: JobId, by: str, step: Step) -> None:
    """A job that a round had paused, or that wants to go on, stays paused from now on."""
    job = state.kept.jobs[job_id]
    if job.pause is not None and job.pause.wants:
        pause = replace(job.pause, by=by, wants=False, urgent=False)
        state.put_job(replace(job, pause=pause, reason=Reason(ReasonCode.PAUSED, {"by": by})))
        step.settings = True


def give_up(state: State, job_id: JobId, reason: Reason, step: Step) -> None:
    """A job that can never run any more ends as failed."""
    job = state.job(job_id)
    if job is not None and job.state in (JobState.WAITING, JobState.HELD, JobState.SUSPENDED):
        state.drop_claim(job_id)
        move_job(state, replace(job, reason=reason, ended_ms=step.at), Move.GIVE_UP, step)


def set_reason(state: State, job_id: JobId, reason: Reason, step: Step) -> None:
    """Remember why a waiting job waits."""
    job = state.job(job_id)
    if job is not None and job.state == JobState.WAITING and job.reason != reason:
        state.put_reason(job, reason)


def add_placement(state: State, placement: Placement, step: Step) -> None:
    """Book a whole gang, or void the placement if it no longer holds; either way its claim is used up."""
    beside = placement.beside
    fault = start_beside(state, placement, step.at) if beside else None
    shares = bool(beside) and fault is None
    fault = fault or placement_fault(state, placement)
    state.drop_claim(placement.job)
    job = state.job(placement.job)
    if fault is not None or job is None:
        if shares:
            settle_beside(state, placement, step.at, started=False)
        _void(state, placement.job, fault or "job is gone", step)
        return
    endpoint = f"{state.kept.nodes[placement.tasks[0].node].address}:{placement.port}"
    tasks = _book(state, job, placement, range(len(placement.tasks)), step, endpoint=endpoint)
    job = _begun(state, job, placement, tasks, step.at)
    note_turn(state, job, step.seq)
    score(state.pool_of(job), job, step.at)
    if resizing.is_active(job):
        # A gang that starts again at another size has its room; any other placement is not that change.
        is_it = job.resize is not None and job.resize.after == job.sizes
        job = resizing.advanced(job, ResizeEvent.SAFE if is_it else ResizeEvent.OVERTAKEN, step.at)
    move_job(state, job, Move.PLACE, step)
    if shares:
        # Whoever waits below another limit than the job's may start in what the others gave up.
        step.freed |= gives_to_others(state, placement)
        settle_beside(state, placement, step.at, started=True)


def _begun(state: State, job: Job, placement: Placement, tasks: list[Task], at: int) -> Job:
    """The job as it is when a new attempt of it has these tasks: what was true of the last one is no longer."""
    policy = state.pool_of(job).policy
    return replace(
        job,
        attempt=placement.attempt,
        tasks=tuple(task.id for task in tasks),
        sizes=sizes(tasks),
        reason=None,
        outcome=None,
        exit_code=None,
        started_ms=0,
        silent=0,
        winding_down=False,
        retimed=False,
        lowered_for=0,
        lowered_ms=0,
        pause=None,
        resumed_ms=0,
        next_index=_next_index({}, tasks),
        waited_ms=waited_ms(state, job, at),
        shield_ms=in_vain_ms(state, job, at) if placement.aged else 0,
        first_by_age=placement.first_by_age,
        forgiven=job.attained if is_promoted(job, policy, at) else job.forgiven,
        expected_ms=job.expected_ms if job.spec.estimate_s else expected_run_ms(state, job, policy),
    )


def add_growth(state: State, growth: Growth, step: Step) -> None:
    """Book further members of a running elastic job, or void them."""
    job = state.job(growth.job)
    if job is None or placement_fault(state, growth) is not None:
        step.voided.append(growth.job)
        return
    endpoint = state.kept.tasks[job.tasks[0]].endpoint
    ranks = ranks_for(job, state.tasks_of(job), len(growth.tasks))
    tasks = _book(state, job, growth, ranks, step, endpoint=endpoint)
    members = sorted([*state.tasks_of(job), *tasks], key=lambda task: task.rank)
    why = "repair" if job.missing else "growth"
    job = found_again(resizing.begun(job, sizes(staying(members)), noticed=False, why=why, at=step.at), tasks)
    job = replace(
        job,
        tasks=tuple(task.id for task in members),
        sizes=sizes(staying(members)),
        next_index=_next_index(job.next_index, tasks),
    )
    move_job(state, job, Move.RESIZE, step)
    step.sized.append(job.id)


def evict(state: State, eviction: Eviction, step: Step) -> None:
    """A victim stops; it goes back to the queue and does not lose its turn."""
    job = state.job(eviction.job)
    if job is not None and job.outcome is None:
        state.put_job(yields_to(job, eviction.beneficiary))
    numbers: dict[str, int | str] = {"job": eviction.beneficiary, "rule": eviction.rule}
    order_stop(state, eviction.job, Outcome.REQUEUED, Reason(ReasonCode.PREEMPTED, numbers), step)


def yields_to(job: Job, other: JobId) -> Job:
    """The job, which went for the other one."""
    yielded_to = (*(one for one in job.yielded_to if one != other), other)
    return replace(job, yielded_to=yielded_to[-YIELDED_KEPT:])


def lower(state: State, lowering: Lowering, step: Step) -> None:
    """A job gives its cells to another one of its group and runs on, unless the other did not get them after all."""
    job = state.job(lowering.job)
    if job is None or job.state not in LIVE or job.lowered_for or lowering.beneficiary in step.voided:
        return
    state.put_job(replace(job, lowered_for=lowering.beneficiary, lowered_ms=step.at))
    for task in state.tasks_of(job):
        state.put_task(replace(task, cells=()))
    step.touched = True


def keep_claim(state: State, claim: Claim, clearing: Clearing, step: Step, *, fault: str | None = None) -> bool:
    """Keep a claim's room for its job, unless it could not start there with its victims gone, or they cannot go."""
    fault = fault or clearing.keep(claim)
    if fault is not None:
        _void(state, claim.job, fault, step)
        return False
    reason = Reason(ReasonCode.WAITING_FOR_VICTIMS, {"victims": len(claim.victims)})
    set_reason(state, claim.job, reason, step)
    return True


def forget_ended(state: State) -> None:
    """Keep only the newest ended jobs."""
    ended = state.kept.ended
    while len(ended) > ENDED_JOBS_KEPT:
        oldest = next(iter(ended))
        del ended[oldest]
        gone = state.kept.jobs.pop(oldest, None)
        if gone is not None:
            state.asked.leave(gone)


def _void(state: State, job: JobId, fault: str, step: Step) -> None:
    step.voided.append(job)
    set_reason(state, job, Reason(ReasonCode.PLACEMENT_VOIDED, {"cause": fault}), step)


def _next_index(known: dict[str, int], tasks: list[Task]) -> dict[str, int]:
    """Per role the first index that no member of this attempt has had, so that no task name comes twice."""
    following = dict(known)
    for task in tasks:
        following[task.role] = max(following.get(task.role, 0), task.index + 1)
    return following


def _book(
    state: State, job: Job, placed: Placement | Growth, ranks: Iterable[int], step: Step, *, endpoint: str
) -> list[Task]:
    """Members of a gang that meets at the endpoint, in their places and with these ranks."""
    tasks = []
    for rank, place in zip(ranks, placed.tasks, strict=True):
        model = model_of(state.kept.nodes[place.node], place.gpus[0].index) if place.gpus else ""
        task = Task(
            id=task_id(job.id, attempt=placed.attempt, role=place.role, index=place.index),
            job=job.id,
            attempt=placed.attempt,
            role=place.role,
            index=place.index,
            rank=rank,
            node=place.node,
            group=job.spec.group,
            user=job.spec.user,
            state=TaskState.PLACED,
            placed_ms=step.at,
            gpus=place.gpus,
            gpu_model=model,
            cpu_milli=place.cpu_milli,
            memory_mib=place.memory_mib,
            devices=place.devices,
            cells=place.cells,
            endpoint=endpoint,
        )
        state.put_task(task)
        step.tasks.append(task.id)
        tasks.append(task)
    return tasks

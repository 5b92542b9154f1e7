"""Room that is being cleared for a job: kept through its victims' whole slow shutdown, and honoured before all else.

A claim ends in one of four ways. Its job starts as soon as the last victim is gone. It is dropped when its job or its
nodes are gone, or when the job's own terms or a budget keep it from starting by now. Or its victims did not die soon:
then it is dropped too, and the job is planned anew elsewhere, since what still runs there is not handed out. Or a more
important job takes it over (see `overtaking`); where a limit alone was in the way it is kept, and the other gets the
room of its victims.
"""

from collections import Counter
from collections.abc import Collection, Iterable

from gangline_core.door.terms import terms_reason
from gangline_core.facts import Claim
from gangline_core.groups import ancestors
from gangline_core.ids import JobId, TaskId
from gangline_core.job import Job, JobState, Task
from gangline_core.limits.handover import count_claim, going_parts, whole
from gangline_core.limits.quota import JOBS
from gangline_core.pauses.pausing import is_gone
from gangline_core.placement.gang import Seats
from gangline_core.reasons import Reason, ReasonCode
from gangline_core.reserving.closures import window_fault
from gangline_core.room.holds import claim_fault, placed_amounts
from gangline_core.spec import costs_gpu_time, has_terms
from gangline_core.state import State, task_amounts
from gangline_core.table import Table

MARGIN_MS = 30_000
"""How long after its grace a victim may take to die before nobody waits for it any more."""


def honour_claims(table: Table, overtaken: Collection[JobId] = (), ceding: Collection[JobId] = ()) -> None:
    """Keep, start or drop every claim of the pool, oldest first; those of `overtaken` jobs are dropped.

    Those of `ceding` jobs are kept, but somebody else gets the room of whoever goes for them on other nodes.
    """
    pool = table.pool.pool.name
    kept = table.state.kept
    ready: list[Claim] = []
    shared = _shared(kept.claims.values())
    for claim in sorted(kept.claims.values(), key=lambda claim: (claim.made_ms, claim.job)):
        job = kept.jobs.get(claim.job)
        alive = alive_victims(table.state, claim)
        if job is not None and job.spec.pool != pool:
            _count_elsewhere(table, claim, job, alive)
            continue
        is_late = alive and table.now >= gives_up_ms(table.state, claim)
        may_not = job is not None and job.state == JobState.WAITING and _may_not_start(table, job, claim)
        if is_late or may_not or claim.job in overtaken or claim_fault(table.state, claim) is not None:
            table.claims_dropped.append(claim.job)
        elif alive:
            far = far_victims(table.state, claim, alive)
            others = far if claim.job in ceding else far & shared
            table.hold(claim, alive, claimed_amounts(table, claim, alive), others=others)
        else:
            ready.append(claim)
    for claim in ready:
        _start(table, claim)


def _count_elsewhere(table: Table, claim: Claim, job: Job, alive: tuple[TaskId, ...]) -> None:
    """What another pool clears for a job counts here as well: limits and guarantees hold over all pools."""
    if claim_fault(table.state, claim) is None:
        tasks = [table.state.kept.tasks[task] for task in alive if task not in table.leaving_elsewhere]
        parts, left = going_parts(table, tasks), table.rests_elsewhere.take(alive)
        amounts = claimed_amounts(table, claim, alive)
        count_claim(table, job, amounts, parts, left)
        table.rests_elsewhere.leave(claim, [*whole(parts), *left], amounts)
        table.leaving_elsewhere.update(alive)


def _may_not_start(table: Table, job: Job, claim: Claim) -> bool:
    """True when a window keeps the job out by now, or it is kept out anyhow: no room is kept for who may not use it."""
    nodes = {task.node for task in claim.placement.tasks}
    return window_fault(table.state, job.spec, nodes) is not None or is_kept_out(table.state, job, table.now)


def is_kept_out(state: State, job: Job, now: int) -> bool:
    """True when a waiting job's terms or a budget keep it from starting, wherever it would."""
    if has_terms(job.spec) and terms_reason(state, job, now) is not None:
        return True
    exhausted = state.kept.exhausted
    uses_budget = bool(exhausted) and costs_gpu_time(job.spec)
    return uses_budget and any(path in exhausted for path in ancestors(job.spec.group))


def alive_victims(state: State, claim: Claim) -> tuple[TaskId, ...]:
    """The claim's victims that still hold their room."""
    return tuple(task for task in claim.victims if not is_gone(state, task))


def far_victims(state: State, claim: Claim, alive: tuple[TaskId, ...]) -> frozenset[TaskId]:
    """Those who go where the claim's job does not: it waits for what they use of a limit, and not for their room."""
    nodes = {place.node for place in claim.placement.tasks}
    return frozenset(task for task in alive if state.kept.tasks[task].node not in nodes)


def _shared(claims: Iterable[Claim]) -> frozenset[TaskId]:
    """Who is waited for by more than one."""
    numbers = Counter(task for claim in claims for task in claim.victims)
    return frozenset(task for task, number in numbers.items() if number > 1)


def gives_up_ms(state: State, claim: Claim) -> int:
    """When the claim stops waiting for victims that do not die."""
    graces = [_grace_s(state, state.kept.tasks[task]) for task in alive_victims(state, claim)]
    return claim.made_ms + max(graces, default=0) * 1000 + MARGIN_MS


def is_overdue(state: State, task: Task, now: int) -> bool:
    """True when a task was told to stop so long ago that nobody should count on its room."""
    return task.stop and now >= overdue_ms(state, task)


def overdue_ms(state: State, task: Task) -> int:
    """When a task that was told to stop should have been gone for long."""
    return task.stop_ms + _grace_s(state, task) * 1000 + MARGIN_MS


def _grace_s(state: State, task: Task) -> int:
    """How long a member may take to stop, with the notice that a leaving one gets first."""
    job = state.kept.jobs.get(task.job)
    if job is None:
        return 0
    if task.pause and not task.stop:
        return job.spec.pausing.notice_s if job.spec.pausing is not None else 0
    return job.spec.grace_s + (job.spec.elastic.notice_s if task.leaves else 0)


def waiting_reason(alive: tuple[TaskId, ...]) -> Reason:
    """Why a job with a claim does not run yet."""
    return Reason(ReasonCode.WAITING_FOR_VICTIMS, {"victims": len(alive)})


def _start(table: Table, claim: Claim) -> None:
    job = table.state.kept.jobs[claim.job]
    amounts = _amounts(table, claim)
    if table.ledger.fault(job, amounts) is not None:
        table.claims_dropped.append(claim.job)
        return
    seats = Seats(tasks=claim.placement.tasks, level=claim.placement.level)
    table.place(job, seats, amounts, guarded=False, backfilled=False)


def claimed_amounts(table: Table, claim: Claim, alive: tuple[TaskId, ...]) -> dict[str, int]:
    """What the claim will count beyond what the job has now: one that starts again at another size has some."""
    amounts = _amounts(table, claim)
    own = [table.state.kept.tasks[name] for name in alive if table.state.kept.tasks[name].job == claim.job]
    if own:
        del amounts[JOBS]
        for task in own:
            for dimension, amount in task_amounts(task).items():
                amounts[dimension] = max(0, amounts.get(dimension, 0) - amount)
    return amounts


def _amounts(table: Table, claim: Claim) -> dict[str, int]:
    return {**placed_amounts(table.state, claim.placement.tasks), JOBS: 1}

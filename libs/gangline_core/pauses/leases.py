"""Who has room until the lease ends: those that run and those that wait in one order, and nobody for longer.

Gavel (OSDI 2020, section 5): time is cut into leases. At the end of each, jobs that run and jobs that wait are put into
one order and taken greedily while their GPUs last. Who is taken and runs goes on where it is; who is not makes way for
those that wait and were taken. Under the `gavel` ordering the order is by model: part of time allocated over time had
there, since the parts were last worked out.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from gangline_core.facts.queue import Candidate, Lease, Part, RoundOpened
from gangline_core.ids import JobId
from gangline_core.job import Job, JobState, Task
from gangline_core.kept import PoolState
from gangline_core.limits.budgets import price_of
from gangline_core.making_room.losses import is_protected, makes_up_ms
from gangline_core.ordering import rank
from gangline_core.ordering.gavel import models_of, parts_by_model, speeds_of
from gangline_core.reasons import Reason, ReasonCode
from gangline_core.room.capacity import Room
from gangline_core.scoring.attained import attained
from gangline_core.scoring.first_by_age import Amounts, goes_first_on_a_part, is_part_left
from gangline_core.scoring.waiting import Waiting
from gangline_core.sharing.beside import INTERLEAVED
from gangline_core.sharing.grouping import grouped, may_regroup
from gangline_core.spec import JobSpec, ServiceClass, gpu_milli_wanted
from gangline_core.state import State

RESET_MS = 1_000_000
"""Parts of time are worked out again at most so often, as in the published simulator."""
MICRO = 1_000_000
ORDERED_BY_PART = "gavel"


def is_over(pool: PoolState, now: int) -> bool:
    """True when the present lease has ended, or there was none yet."""
    lease_ms = pool.policy.lease_s * 1000
    return lease_ms > 0 and (not pool.leased_at or now >= pool.leased_at + lease_ms)


def leases_end_ms(pool: PoolState) -> int | None:
    """When the present lease ends; None where room is not lent."""
    return pool.leased_at + pool.policy.lease_s * 1000 if pool.policy.lease_s else None


def renewable_from(state: State, pool: PoolState) -> Iterator[int]:
    """When the lease of each running job may end at the earliest, in ms; none of those whose lease never does."""
    for job in _at_work(state, pool):
        if job.spec.protected_s >= 0:
            yield max(job.started_ms + 1000 * job.spec.protected_s, makes_up_ms(job))


def parts_end_ms(pool: PoolState) -> int:
    """From when on parts of time may be worked out anew."""
    return pool.parts_at + RESET_MS


def may_move(state: State, pool: PoolState) -> bool:
    """True when leases may put somebody on another model, or on GPUs of its own, although nobody waits."""
    name = pool.pool.name
    if may_regroup(state, pool):
        return True
    return pool.policy.ordering == ORDERED_BY_PART and len(models_of(state, name)) > 1 and bool(state.live.get(name))


def moves(state: State, pool: PoolState, now: int) -> bool:
    """True when a new lease may do that now: there is somebody whose lease is over."""
    return may_move(state, pool) and bool(renewable(state, pool, now))


class Lent(Struct, frozen=True):
    """The order in which room is lent until the next lease ends."""

    leases: tuple[Lease, ...] = ()
    parts: tuple[Part, ...] = ()
    """Parts of time, where they are worked out anew."""
    companies: tuple[tuple[JobId, ...], ...] = ()
    """Who shares GPUs with whom."""


def lend(state: State, pool: PoolState, candidates: Sequence[Candidate], now: int) -> Lent:
    """To whom room is lent until the next lease ends."""
    running_jobs = renewable(state, pool, now)
    if not running_jobs and not candidates:
        return Lent()
    running = [_as_waiting(state, job, now) for job in running_jobs]
    waiting = [state.kept.jobs[candidate.job] for candidate in candidates]
    both = Waiting.of(state, pool, [*waiting, *running], now=now)
    if pool.policy.ordering != ORDERED_BY_PART:
        free = free_by_model(state, state.room(pool.pool.name), running_jobs)
        ranking = rank(both, starving=_first_by_age(both, free, waiting=len(waiting)))
        ranked = _firm_first(state, [JobId(job) for job in ranking.ids.tolist()])
        if pool.policy.sharing == INTERLEAVED:
            companies = grouped(state, pool, ranked, running_jobs)
            return Lent(
                leases=tuple(Lease(job) for company in companies for job in company),
                companies=tuple(company for company in companies if len(company) > 1),
            )
        return Lent(leases=tuple(map(Lease, ranked)))
    parts = _parts(state, pool, both, now) if _is_outdated(pool, both, now) else ()
    had = {} if parts else time_had(state, pool, now)
    known = {part.job: {} for part in parts} if parts else {job: dict(own) for job, own in pool.parts.items()}
    for part in parts:
        known[part.job][part.model] = part.micro
    owed = owed_then(state, pool, now) if parts else pool.owed
    return Lent(leases=tuple(_by_part(state, pool, both, known=known, had=had, owed=owed)), parts=parts)


def _first_by_age(both: Waiting, free: dict[str, int], *, waiting: int) -> NDArray[np.bool_]:
    """Which of those that wait and starve go first: those that have what is left of their part of the pool, if taken.

    All of a pool may be lent anew at once, and if all of them went first a busy pool would be lent by age alone. Whom
    what is `free` and lent is too little for keeps nobody back: it goes first, and will have none of the part.
    """
    starving = both.starving & (np.arange(len(both)) < waiting)
    policy, name = both.policy, both.pool.pool.name
    if not starving.any() or not goes_first_on_a_part(policy):
        return starving
    used, layout = both.state.live_index.first_by_age.used(name), both.state.room(name).layout
    for row in filter(starving.item, both.by_age.tolist()):
        starving[row] = is_part_left(used, layout, policy)
        if not starving[row]:
            continue
        job = both.jobs[row]
        if job.service_class != ServiceClass.OPPORTUNISTIC and _take(free, job.spec):
            used = used.plus(Amounts.of(job.spec), 1)
    return starving


def _firm_first(state: State, ordered: list[JobId]) -> list[JobId]:
    """Opportunistic jobs make way for everybody and nobody for them, so they have what all others leave."""
    return sorted(ordered, key=lambda job: state.kept.jobs[job].service_class == ServiceClass.OPPORTUNISTIC)


def waits_for_part(pool: PoolState, job: JobId) -> Reason | None:
    """Why a job that came since parts of time were worked out does not start yet, where the policy has it so."""
    policy = pool.policy
    if not policy.newcomers_wait or not policy.lease_s or policy.ordering != ORDERED_BY_PART or job in pool.parts:
        return None
    return Reason(ReasonCode.NO_PART_YET, {"due_ms": parts_end_ms(pool)})


def renewable(state: State, pool: PoolState, now: int) -> list[Job]:
    """Running jobs whose lease may end: others keep their room."""
    return [job for job in _at_work(state, pool) if not is_protected(job, now) and now >= makes_up_ms(job)]


def _at_work(state: State, pool: PoolState) -> Iterator[Job]:
    """Running jobs that may be told to go, by id."""
    for name in sorted(state.live.get(pool.pool.name, {})):
        job = state.kept.jobs[name]
        if job.state == JobState.RUNNING and job.spec.preemptible and not job.outcome:
            yield job


def _as_waiting(state: State, job: Job, now: int) -> Job:
    """The job as if it had just come back to the queue, with all the service it has had."""
    return replace(job, attained=attained(state, job, now) + job.forgiven, queued_ms=now)


def time_had(state: State, pool: PoolState, now: int) -> dict[JobId, dict[str, int]]:
    """Per job and model the ms that it had since parts were last worked out."""
    had = {job: dict(own) for job, own in pool.had.items()}
    for job_id in sorted(state.live.get(pool.pool.name, {})):
        job = state.kept.jobs[job_id]
        tasks = state.tasks_of(job)
        if job.started_ms and tasks:
            since = max(job.started_ms, pool.leased_at)
            own = had.setdefault(job_id, {})
            own[tasks[0].gpu_model.lower()] = own.get(tasks[0].gpu_model.lower(), 0) + max(0, now - since)
    return had


def ran_on(state: State, pool: PoolState, at: int) -> dict[JobId, dict[str, int]]:
    """Per job and model the ms that it had since its first lease."""
    found = {job: dict(own) for job, own in pool.ran_on.items()}
    for job, own in time_had(state, pool, at).items():
        total = found.setdefault(job, {})
        for model, ms in own.items():
            total[model] = total.get(model, 0) + ms
    return found


def owed_then(state: State, pool: PoolState, at: int) -> dict[JobId, dict[str, int]]:
    """What is owed to each job, in ms by model, if its parts end at this time."""
    had = time_had(state, pool, at)
    owed = {job: dict(own) for job, own in pool.owed.items()}
    for job, parts in pool.parts.items():
        own = owed.setdefault(job, {})
        for model, micro in parts.items():
            promised = micro * max(0, at - pool.parts_at) // MICRO
            own[model] = own.get(model, 0) + promised - had.get(job, {}).get(model, 0)
    return owed


def note(state: State, fact: RoundOpened, at: int) -> None:
    """Remember what a round lent, and what time everybody had until now."""
    pool = state.kept.pools[fact.pool]
    if not fact.leases:
        return
    if pool.policy.ordering == ORDERED_BY_PART:
        had = {} if fact.parts else time_had(state, pool, at)
        if fact.parts:
            parts: dict[JobId, dict[str, int]] = {}
            for part in fact.parts:
                parts.setdefault(part.job, {})[part.model] = part.micro
            pool.ran_on = {job: own for job, own in ran_on(state, pool, at).items() if job in parts}
            pool.owed = {job: own for job, own in owed_then(state, pool, at).items() if job in parts}
            pool.parts, pool.parts_at = parts, at
        pool.had = had
    pool.leases, pool.companies, pool.leased_at = fact.leases, fact.companies, at


# --- parts of time --------------------------------------------------------------------------------------


def _is_outdated(pool: PoolState, both: Waiting, now: int) -> bool:
    """True when other jobs are there than when parts were worked out, and that was not just now.

    Parts of a job that was alone divide nothing: they are worked out again as soon as somebody comes.
    """
    is_due = len(pool.parts) <= 1 or now >= parts_end_ms(pool)
    return is_due and set(both.ids.tolist()) != set(pool.parts)


def _parts(state: State, pool: PoolState, both: Waiting, now: int) -> tuple[Part, ...]:
    models = models_of(state, pool.pool.name)
    parts = parts_by_model(both, models, ran_on(state, pool, now))
    return tuple(
        Part(JobId(job), model, round(float(parts[row, k]) * MICRO))
        for row, job in enumerate(both.ids.tolist())
        for k, model in enumerate(models)
    )


def _by_part(
    state: State,
    pool: PoolState,
    both: Waiting,
    *,
    known: dict[JobId, dict[str, int]],
    had: dict[JobId, dict[str, int]],
    owed: dict[JobId, dict[str, int]],
) -> Iterator[Lease]:
    """Model by model, those who lag most behind their part first, then to whom most is owed, then the oldest."""
    half_ms = pool.policy.lease_s * 500
    ids = sorted(JobId(job) for job in both.ids.tolist() if job in known or not pool.policy.newcomers_wait)
    for model in _best_first(state, pool, both):
        lag = {
            job: known.get(job, {}).get(model, 0) * MICRO // (half_ms + had.get(job, {}).get(model, 0)) for job in ids
        }
        ordered = _in_order(ids, lag, {job: owed.get(job, {}).get(model, 0) for job in ids})
        yield from (Lease(job, model) for job in _firm_first(state, ordered))


def _best_first(state: State, pool: PoolState, both: Waiting) -> list[str]:
    """GPU models in the order in which they are handed out: a job that several would do for has the first of them.

    That on which these jobs say that they go fastest; where they say the same of two, the dearer one, which is likely
    to be the faster; then by name.
    """
    models = models_of(state, pool.pool.name)
    speeds = np.array([speeds_of(job.spec, models) for job in both.jobs]).sum(axis=0).tolist()
    said = dict(zip(models, speeds, strict=True))
    return sorted(models, key=lambda model: (-said[model], -price_of(state.kept.prices, model), model))


def _in_order(ids: list[JobId], lag: dict[JobId, int], owed: dict[JobId, int]) -> list[JobId]:
    return sorted(ids, key=lambda job: (-lag[job], -owed[job], job))


# --- taking ---------------------------------------------------------------------------------------------


def taken(state: State, leases: Sequence[Lease], free: dict[str, int], holding: dict[JobId, str]) -> dict[JobId, str]:
    """Who has room, and on which model ("" for any): greedily in order while GPUs last.

    `free` are GPU thousandths by model and lent; `holding` says on which model each renewable job is.
    """
    left = dict(free)
    chosen: dict[JobId, str] = {}
    for lease in leases:
        job = state.job(lease.job)
        if job is None or lease.job in chosen or (job.state != JobState.WAITING and lease.job not in holding):
            continue
        if _take(left, job.spec, model=lease.model, held=holding.get(lease.job, "")):
            chosen[lease.job] = lease.model
    return chosen


def free_by_model(state: State, room: Room, running: Iterable[Job]) -> dict[str, int]:
    """GPU thousandths by model that are free or lent to these jobs, on nodes of this room."""
    free: dict[str, int] = {}
    for number, kind in enumerate(room.layout.kinds):
        there = int(room.milli[room.layout.kind == number].clip(0).sum())
        free[kind.model] = free.get(kind.model, 0) + there
    for job in running:
        for task in in_room(state, room, job):
            model = task.gpu_model.lower()
            free[model] = free.get(model, 0) + task.gpu_milli
    return free


def in_room(state: State, room: Room, job: Job) -> list[Task]:
    """The job's tasks on nodes that still serve the pool: what others have is nobody's here."""
    return [task for task in state.tasks_of(job) if task.node in room.layout.row]


def _take(left: dict[str, int], spec: JobSpec, *, model: str = "", held: str = "") -> bool:
    """Take what a job asks for from what is left, first of the model that it holds; False when that is too little."""
    wanted = gpu_milli_wanted(spec)
    accepted = {name.lower() for role in spec.roles for name in role.resources.gpu_models}
    if model and accepted and model not in accepted:
        return False
    models = [model] if model else [one for one in left if not accepted or one in accepted]
    if sum(left.get(one, 0) for one in models) < wanted:
        return False
    for one in sorted(models, key=lambda name: (name != held, name)):
        part = min(wanted, max(0, left.get(one, 0)))
        left[one] = left.get(one, 0) - part
        wanted -= part
    return True

"""When must a pool be looked at again although nothing happens? Only for things that time alone changes."""

from collections.abc import Iterator

from gangline_core.cluster import Policy
from gangline_core.door.terms import aside, last_start_ms
from gangline_core.ids import JobId
from gangline_core.job import Job, JobState
from gangline_core.late_starts import start_limits_end
from gangline_core.limits.budget_room import budget_room_ms
from gangline_core.limits.calendar import next_change_ms
from gangline_core.limits.rungs import seasons_of
from gangline_core.making_room.claims import gives_up_ms, overdue_ms
from gangline_core.making_room.hanging import hangs_until_ms
from gangline_core.making_room.losses import shield_ends_ms
from gangline_core.making_room.service_order import by_service, orders_by_service
from gangline_core.making_room.yielding import yields_more_ms
from gangline_core.pauses.leases import leases_end_ms, may_move, parts_end_ms, renewable_from
from gangline_core.pauses.pausing import slice_ends_ms
from gangline_core.repairing import repairs_end
from gangline_core.scoring import columns as c
from gangline_core.scoring.ageing import may_go_first, since_ms, starves_from_ms, wait_since_ms
from gangline_core.scoring.attained import promoted_ms
from gangline_core.scoring.levels import losing_place_ms, waits_that_move
from gangline_core.scoring.yield_queue import has_yielding, share
from gangline_core.spec import may_pause
from gangline_core.state import PoolState, State

SETTLES_MS = 3_000
"""Whoever ends or is told to go is mostly gone within this time, and its room is looked at then anyway."""


def next_wake_ms(state: State, pool_name: str, now: int) -> int | None:
    """The next time in ms after `now` at which a new round could decide otherwise; None when only events matter."""
    pool = state.kept.pools[pool_name]
    times = [*_always(state, pool, now), *_while_somebody_runs(state, pool, now)]
    if state.waiting.get(pool_name):
        times += _while_somebody_waits(state, pool, now)
    later = [time for time in times if time > now]
    return min(later) if later else None


def _always(state: State, pool: PoolState, now: int) -> Iterator[int]:
    """Times that are known whoever waits: of dates, seasons, windows, claims, and of who starts or is put aside."""
    name = pool.pool.name
    yield from (reservation.start_ms for reservation in pool.reservations)
    if (change := next_change_ms(seasons_of(state), now)) is not None:
        yield change
    yield from (window.end_ms for window in state.kept.windows.values() if window.pool == name)
    yield from start_limits_end(state, name)
    yield from repairs_end(state, name)
    yield from (last_start_ms(spec, had=had) + 1 for _, spec, had in aside(state, name) if spec.deadline_ms)
    for claim in state.kept.claims.values():
        job = state.kept.jobs[claim.job]
        if job.spec.pool == name and job.state == JobState.WAITING:
            yield gives_up_ms(state, claim)


def _while_somebody_runs(state: State, pool: PoolState, now: int) -> Iterator[int]:
    """When room of those who run may pass to others, who wait or are paused and want to go on."""
    name = pool.pool.name
    waits, paused = bool(state.waiting.get(name)), state.paused.get(name, {})
    # Where nothing runs, nobody's room can pass to another when a lease ends.
    runs = bool(state.live.get(name))
    if runs and (waits or may_move(state, pool)) and (ends := leases_end_ms(pool)) is not None:
        yield from [ends] if ends > now else renewable_from(state, pool)
    if pool.policy.time_slice_s and (waits or paused):
        running = (state.kept.jobs[job] for job in state.live.get(name, {}))
        yield from (slice_ends_ms(job, pool.policy) for job in running if _ends_with_its_slice(job, pool.policy))
    wanting = (pause for job in paused if (pause := state.kept.jobs[job].pause) is not None and pause.wants)
    if any(wanting) or (waits and pool.policy.preemption):
        # Whoever may be paused or evicted for them may not be before his protected time is over.
        yield from (job.started_ms + job.spec.protected_s * 1000 for job in _protected(state, name))


def _while_somebody_waits(state: State, pool: PoolState, now: int) -> Iterator[int]:
    """When those who wait have another place, date or limit, or others may go for them."""
    name, policy = pool.pool.name, pool.policy
    if policy.newcomers_wait:
        yield parts_end_ms(pool)
    if state.door.safe_groups:
        yield from _of_budgets(state, name, now)
    yield from (date.start_ms for date in pool.limit_dates)
    # While those that went first since they starved hold their part, only what happens makes others go first.
    starvation_ms = policy.starvation_s * 1000 if may_go_first(state, name, policy) else 0
    yield from _of_waiting(state, name, starvation_ms, now)
    # From then on a task that does not die is no longer counted on, and its node takes no work.
    yield from (overdue_ms(state, state.kept.tasks[task]) for task in state.stopping_tasks)
    yield from (hangs_until_ms(state, state.kept.tasks[task]) for task in state.stopping_tasks)
    yield from _leaving_since(state, pool)
    yield from losing_place_ms(policy, pool.heads)
    yield from _level_moves(state, name, policy)
    yield from _by_service(state, name, policy, now)
    if policy.preemption:
        yield from (shield_ends_ms(state.kept.jobs[job]) for job in state.live_index.shielded.get(name, {}))


def _of_budgets(state: State, pool_name: str, now: int) -> Iterator[int]:
    """That budgets are used up, and are not any more, is told by a fact; what is left of a safe one is not."""
    yield state.door.next_renewal_ms
    if (has_room := budget_room_ms(state, pool_name, now)) is not None:
        yield has_room


def _leaving_since(state: State, pool: PoolState) -> Iterator[int]:
    """When to look again for the sake of who takes its time to go, and went after the last round was decided.

    Its room is counted on earlier than before, so others have another date, or go for whom its room alone is too small.
    """
    for name in state.stopping_tasks:
        told_ms = state.kept.tasks[name].stop_ms
        if told_ms > pool.decided_at:
            yield told_ms + SETTLES_MS


def _ends_with_its_slice(job: Job, policy: Policy) -> bool:
    """True for a running job that makes way for others after its time slice: paused, or stopped at its checkpoint."""
    may_stop = policy.preemption and job.spec.checkpoints and job.spec.preemptible
    return job.state == JobState.RUNNING and (may_stop or may_pause(job.spec))


def _of_waiting(state: State, pool_name: str, starvation_ms: int, now: int) -> Iterator[int]:
    """Times that lie in the waiting jobs themselves: their own terms, and from when on they starve."""
    columns = state.columns[pool_name]
    slots = columns.slots()
    ids, since, has_terms = (columns.field(slots, field) for field in (c.ID, c.SINCE, c.HAS_TERMS))
    if starvation_ms > 0:
        starves = since[has_terms == 0] + starvation_ms
        later = starves[starves > now]
        if len(later):
            yield int(later.min())
    for job_id in ids[has_terms != 0].tolist():
        job = state.kept.jobs[JobId(job_id)]
        yield job.spec.not_before_ms
        if job.spec.deadline_ms:
            yield last_start_ms(job.spec, had=job.attained) + 1
        if starvation_ms > 0:
            yield since_ms(state, job) + starvation_ms


def _by_service(state: State, pool_name: str, policy: Policy, now: int) -> Iterator[int]:
    """When others may take the room of running jobs for the service that these had."""
    if orders_by_service(policy):
        next_ms = by_service(state, state.kept.pools[pool_name], now).next_ms()
        if next_ms is not None:
            yield next_ms
        yield from _promotions(state, pool_name, policy)
    if has_yielding(policy):
        yield from _yields(state, pool_name, policy, now)


def _promotions(state: State, pool_name: str, policy: Policy) -> Iterator[int]:
    """When waiting jobs have waited long enough to be back in the first service queue, above some that run."""
    if policy.promote_after <= 0:
        return
    columns = state.columns[pool_name]
    slots = columns.slots()
    for job_id in columns.field(slots[columns.field(slots, c.ATTAINED) > 0], c.ID).tolist():
        if (promoted := promoted_ms(state.kept.jobs[JobId(job_id)], policy)) is not None:
            yield promoted


def _yields(state: State, pool_name: str, policy: Policy, now: int) -> Iterator[int]:
    """When running jobs that checkpoint make way for more, and when those that wait after their share starve."""
    for job_id in state.live_index.checkpoints.get(pool_name, {}):
        yield yields_more_ms(state, state.kept.jobs[job_id], policy, now)
    if policy.starvation_s > 0:
        columns = state.columns[pool_name]
        slots = columns.slots()
        had_share = (columns.field(slots, c.CHECKPOINTS) > 0) & (columns.field(slots, c.ATTAINED) >= share(policy))
        for job_id in columns.field(slots[had_share], c.ID).tolist():
            yield starves_from_ms(state, state.kept.jobs[JobId(job_id)], policy)


def _protected(state: State, pool_name: str) -> Iterator[Job]:
    """Running jobs that nobody may evict in the first seconds of their run."""
    for job_id in state.live_index.protected.get(pool_name, {}):
        job = state.kept.jobs[job_id]
        if job.started_ms:
            yield job


def _level_moves(state: State, pool_name: str, policy: Policy) -> list[int]:
    """When waiting jobs have waited long enough to move to another level."""
    columns = state.columns[pool_name]
    slots = columns.slots()
    times: list[int] = []
    for number, level in enumerate(columns.levels.names if policy.levels else ()):
        waits = waits_that_move(level, policy)
        if not waits:
            continue
        inside = slots[columns.field(slots, c.LEVEL) == number]
        alone = columns.field(inside, c.HAS_TERMS) > 0
        since = columns.field(inside, c.WAITS_SINCE)[~alone].tolist()
        jobs = (state.kept.jobs[JobId(job)] for job in columns.field(inside[alone], c.ID).tolist())
        since += [wait_since_ms(state, job) for job in jobs]
        times += [began + wait for began in since for wait in waits]
    return times

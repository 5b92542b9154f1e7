"""Paused jobs that want to go on: where their place is free they do, and where the rules allow it is made free.

They come before waiting jobs, oldest pause first, since they hold memory while they stand still. Others give way to an
urgent one (inference over training: Bai et al., "PipeSwitch", OSDI 2020) where they rank lower and may be paused; and
to everybody once they have had their time slice, where the pool has slices (Xiao et al., "Gandiva", OSDI 2018).
"""

from msgspec.structs import replace

from gangline_core.facts import JobPaused
from gangline_core.foresight.forecast import held_by
from gangline_core.ids import JobId, NodeId
from gangline_core.job import Job, Task
from gangline_core.limits.amounts import add_all
from gangline_core.pauses.making_way import Way, fits, goes, may_send, may_shrink, send_off, who_makes_way
from gangline_core.pauses.packing import RULE as PACKING
from gangline_core.pauses.packing import halved, host_for, that_do_not_pay
from gangline_core.pauses.pausing import can_be_paused, taken_up
from gangline_core.pauses.standstill import Places, Still, StillHere
from gangline_core.room.capacity import Room
from gangline_core.state import State, task_amounts
from gangline_core.table import Table


def honour_paused(table: Table, last: frozenset[JobId] = frozenset(), *, clears: bool = True) -> None:
    """Let every paused job go on that can, and clear the place of those that wait longer than anybody who waits.

    Some may go on `last`, see `go_on_last`. Who does not clear keeps such a place free all the same: one of several
    schedulers sends nobody away, and knows of a node what it saw last, and not who is there now.
    """
    for guest, host in that_do_not_pay(table.state, table.pool.pool.name) if table.state.kept.packs else ():
        if can_be_paused(table.state, table.state.kept.jobs[guest]):
            table.pauses.append(JobPaused(job=guest, beneficiary=host, rule=PACKING))
    _honour(table, _oldest_wait(table), last, clears=clears)


def go_on_last(table: Table, jobs: frozenset[JobId]) -> None:
    """After the waiting jobs: those of these paused ones go on whose place is still free, oldest pause first."""
    waiting = _standstill(table).everybody() if jobs else ()
    for name, _ in waiting:
        job = table.state.kept.jobs[name]
        if name not in jobs or name in table.resumes or name in table.kept_for:
            continue
        parts, amounts = taken_up_by(table.state.tasks_of(job))
        if table.ledger.fault(job, amounts) is None and fits(table.room, parts):
            table.go_on(job, parts, amounts)


def clear_late(table: Table) -> None:
    """After the waiting jobs: clear the place of the other paused ones."""
    if table.policy.time_slice_s and table.state.paused.get(table.pool.pool.name):
        _honour(table, None)


def keep_for_paused(table: Table, room: Room) -> None:
    """Nobody grows into the place of a paused job that wants to go on and may, though others are still in its way."""
    for name, _ in _standstill(table).everybody():
        job = table.state.kept.jobs[name]
        if name in table.kept_for:
            continue
        parts, amounts = taken_up_by(table.state.tasks_of(job))
        if table.ledger.fault(job, amounts) is None:
            for part in parts:
                room.take(part)


def _honour(table: Table, before_ms: int | None, last: frozenset[JobId] = frozenset(), *, clears: bool = True) -> None:
    """With a bound, only those paused before it, and urgent ones, have others sent away."""
    going = {one.job for one in table.evictions} | {one.job for one in table.pauses}
    if not table.state.paused.get(table.pool.pool.name):
        return
    stirring = _stirring(table)
    above: set[tuple[object, ...]] = set()
    for name, places in _who_could(table, stirring):
        job = table.state.kept.jobs[name]
        if job.id in table.resumes or job.id in table.kept_for or job.id in last or _is_packed(table, job, going):
            continue
        if _is_stuck(table, job, places, stirring) or _is_above(table, job, places, above):
            continue
        parts, amounts = taken_up_by(table.state.tasks_of(job))
        if table.ledger.fault(job, amounts) is not None:
            continue
        if fits(table.room, parts):
            table.go_on(job, parts, amounts)
        elif before_ms is not None and not _may_clear(job, before_ms):
            continue
        elif (clearing := _clearing(table, job, parts, going, clears=clears)) is not None:
            for way in clearing:
                send_off(table, way, job)
                if not way.leaving:
                    going.add(way.job.id)
            table.keep_place(job, parts, amounts)


def _clearing(table: Table, job: Job, parts: list[Task], going: set[JobId], *, clears: bool) -> list[Way] | None:
    """Who makes way for it; None when its place is not to be kept, since nobody may."""
    if clears:
        return who_makes_way(table, job, parts, going)
    return [] if may_send(table, job) or may_shrink(table, job) else None


def _is_above(table: Table, job: Job, places: Places, above: set[tuple[object, ...]]) -> bool:
    """A cheap look: a limit has no room for what a job on no GPU takes up, nor had it for equal ones (`above`)."""
    cpu_milli = sum(cpu for _, cpu in places)
    if not cpu_milli or not held_by(table.state, job).is_bare:
        return False
    key = (job.spec.group, job.spec.user, cpu_milli, len(table.taken))
    if key not in above and next(table.ledger.broken(job, {"cpu_milli": cpu_milli}), None) is not None:
        above.add(key)
    return key in above


def taken_up_by(tasks: list[Task]) -> tuple[list[Task], dict[str, int]]:
    """What these take more when they go on, and what that counts."""
    parts = [taken_up(task) for task in tasks]
    amounts: dict[str, int] = {}
    for part in parts:
        add_all(amounts, task_amounts(part).items())
    return parts, amounts


def _is_packed(table: Table, job: Job, going: set[JobId]) -> bool:
    """True when the job goes on beside the one that works on its GPUs, where the pool packs jobs."""
    if not table.policy.packing or table.policy.lease_s:
        return False
    if (host := host_for(table.state, job)) is None or host.id in going:
        return False
    if any(host.id == other for _, other in table.packings) or host.id in table.resumes:
        return False
    whole = [taken_up(task) for task in table.state.tasks_of(job)]
    parts = [replace(part, gpus=tuple(replace(share, milli=0) for share in part.gpus)) for part in whole]
    amounts = task_amounts(halved(whole[0]))
    if table.ledger.fault(job, amounts) is not None or not fits(table.room, parts):
        return False
    table.pack(job, host, parts, amounts)
    return True


def _is_stuck(table: Table, job: Job, places: Places, stirring: frozenset[NodeId]) -> bool:
    """A cheap look: its place is taken, nobody may be sent away for it, and nobody there goes (see `_stirring`)."""
    if not _is_taken(table.room, places) or (stirring and not stirring.isdisjoint([node for node, _ in places])):
        return False
    return not (may_send(table, job) or may_shrink(table, job))


def _is_taken(room: Room, places: Places) -> bool:
    """True when somewhere the CPU that the job gave up is not there."""
    row, cpu = room.layout.row, room.cpu
    for node, wanted in places:
        at = row.get(node)
        if at is None or wanted > max(0, cpu.item(at)):
            return True
    return False


def _stirring(table: Table) -> frozenset[NodeId]:
    """The nodes on which some task goes whose room is nobody's yet."""
    told, tasks = table.state.told, table.state.kept.tasks
    return frozenset(tasks[name].node for name in (*told.stopping, *told.pausing) if goes(table, name))


def wants_to_go_on(state: State, pool: str) -> bool:
    """True when a paused job of the pool waits for its place, or one that went on beside another should not."""
    if state.kept.packs and that_do_not_pay(state, pool):
        return True
    jobs = (state.kept.jobs[name] for name in state.paused.get(pool, {}))
    return any(job.pause is not None and job.pause.wants for job in jobs)


def _may_clear(job: Job, before_ms: int) -> bool:
    return job.pause is not None and (job.pause.urgent or job.pause.since_ms <= before_ms)


def _oldest_wait(table: Table) -> int:
    """Since when the oldest waiting job waits."""
    if not table.policy.time_slice_s or not table.state.paused.get(table.pool.pool.name):
        return table.now
    waiting = table.state.waiting.get(table.pool.pool.name, {})
    return min((table.state.kept.jobs[job].queued_ms for job in waiting), default=table.now)


def _who_could(table: Table, stirring: frozenset[NodeId]) -> list[tuple[JobId, Places]]:
    """Jobs that want to go on, all of whose tasks stand still, with where: urgent ones first, then oldest pause.

    Where only a free place lets them go on those are left out who have none (see `_is_stuck`).
    """
    still, policy = _standstill(table), table.policy
    sorts = table.state.live_sorts.get(table.pool.pool.name, {})
    if policy.packing or policy.time_slice_s or (policy.shrink and any(sort.elastic for sort in sorts)):
        return still.everybody()
    return still.with_room(table.room, stirring)


def _standstill(table: Table) -> StillHere:
    """The paused jobs of the pool."""
    state, pool = table.state, table.pool.pool.name

    def read(name: JobId) -> Still | None:
        job = state.kept.jobs[name]
        places = held_by(state, job).still if job.pause is not None and job.pause.wants else None
        if job.pause is None or places is None:
            return None
        return Still((not job.pause.urgent, job.pause.since_ms, name), places)

    return state.live_index.still.of_pool(pool, state.paused.get(pool, {}), read)

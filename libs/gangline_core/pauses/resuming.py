"""Paused jobs that want to go on: where their place is free they do, and where the rules allow it is made free.

They come before waiting jobs, oldest pause first, since they hold memory while they stand still. Others give way to an
urgent one (inference over training: Bai et al., "PipeSwitch", OSDI 2020) where they rank lower and may be paused; and
to everybody once they have had their time slice, where the pool has slices (Xiao et al., "Gandiva", OSDI 2018).
"""

from collections.abc import Iterator

from msgspec.structs import replace

from gangline_core.facts import Eviction, JobPaused
from gangline_core.ids import JobId, NodeId, TaskId
from gangline_core.job import Job, JobState, Task, TaskState
from gangline_core.making_room.losses import effective_priority, is_protected
from gangline_core.pauses.packing import RULE as PACKING
from gangline_core.pauses.packing import halved, host_for, that_do_not_pay
from gangline_core.pauses.pausing import can_be_paused, given_up, leaving_part, slice_ends_ms, taken_up
from gangline_core.room.capacity import Room
from gangline_core.spec import ServiceClass
from gangline_core.state import State, task_amounts
from gangline_core.table import Table

BY_SLICE, BY_SWITCH = "slice", "switch"
"""The rules by which others make way."""


def honour_paused(table: Table) -> None:
    """Let every paused job go on that can, and clear the place of those that wait longer than anybody who waits."""
    for guest, host in that_do_not_pay(table.state, table.pool.pool.name) if table.state.kept.packs else ():
        if can_be_paused(table.state, table.state.kept.jobs[guest]):
            table.pauses.append(JobPaused(job=guest, beneficiary=host, rule=PACKING))
    _honour(table, _oldest_wait(table))


def clear_late(table: Table) -> None:
    """After the waiting jobs: clear the place of the other paused ones."""
    if table.policy.time_slice_s and table.state.paused.get(table.pool.pool.name):
        _honour(table, None)


def _honour(table: Table, before_ms: int | None) -> None:
    """With a bound, only those paused before it, and urgent ones, have others sent away."""
    going = {one.job for one in table.evictions} | {one.job for one in table.pauses}
    stirs: dict[NodeId, bool] = {}
    for job, tasks in _who_want(table):
        if job.id in table.resumes or job.id in table.kept_for or _is_packed(table, job, going):
            continue
        if _is_stuck(table, job, tasks, stirs):
            continue
        parts = [taken_up(task) for task in tasks]
        amounts: dict[str, int] = {}
        for part in parts:
            for dimension, amount in task_amounts(part).items():
                amounts[dimension] = amounts.get(dimension, 0) + amount
        if table.ledger.fault(job, amounts) is not None:
            continue
        if fits(table.room, parts):
            table.go_on(job, parts, amounts)
        elif before_ms is not None and not _may_clear(job, before_ms):
            continue
        elif (clearing := _clearing(table, job, parts, going)) is not None:
            for victim, rule in clearing:
                _send_off(table, victim, job, rule)
                going.add(victim.id)
            table.keep_place(job, parts, amounts)


def _is_packed(table: Table, job: Job, going: set[JobId]) -> bool:
    """True when the job goes on beside the one that works on its GPUs, where the pool packs jobs."""
    if not table.policy.packing or (host := host_for(table.state, job)) is None or host.id in going:
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


def _is_stuck(table: Table, job: Job, tasks: list[Task], stirs: dict[NodeId, bool]) -> bool:
    """A cheap look: its place is taken, nobody may be sent away for it, and nobody there goes (`stirs`, by node)."""
    if _may_send(table, job):
        return False
    room = table.room
    if not any(_is_taken(room, task) for task in tasks):
        return False
    for task in tasks:
        known = stirs.get(task.node)
        if known is None:
            known = stirs[task.node] = any(_goes(table, name) for name in table.state.node_tasks.get(task.node, ()))
        if known:
            return False
    return True


def _is_taken(room: Room, task: Task) -> bool:
    """True when the CPU that the paused task gave up is not there."""
    row, given = room.layout.row.get(task.node), task.working
    return row is None or (given is not None and given.cpu_milli > max(0, room.cpu[row]))


def _may_send(table: Table, job: Job) -> bool:
    """True when any rule could have others make way for this paused job."""
    return bool(table.policy.time_slice_s) or (job.pause is not None and job.pause.urgent)


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


def _who_want(table: Table) -> list[tuple[Job, list[Task]]]:
    """Jobs that want to go on, all of whose tasks stand still, with these: urgent ones first, then oldest pause."""
    state = table.state
    found: list[tuple[tuple[bool, int, JobId], Job, list[Task]]] = []
    for name in state.paused.get(table.pool.pool.name, {}):
        job = state.kept.jobs[name]
        if job.pause is None or not job.pause.wants:
            continue
        tasks = state.tasks_of(job)
        if all([task.working is not None for task in tasks]):
            found.append(((not job.pause.urgent, job.pause.since_ms, job.id), job, tasks))
    found.sort(key=lambda entry: entry[0])
    return [(job, tasks) for _, job, tasks in found]


def fits(room: Room, parts: list[Task]) -> bool:
    """True when all of these are free together; the room is left as it was."""
    if any(
        (row := room.layout.row.get(part.node)) is None or (part.cpu_milli and part.cpu_milli > room.cpu[row])
        for part in parts
    ):
        return False
    for part in parts:
        room.take(part)
    enough = all(_is_whole(room, part) for part in parts)
    for part in parts:
        room.give(part)
    return enough


def _is_whole(room: Room, part: Task) -> bool:
    row = room.layout.row.get(part.node)
    if row is None or (part.cpu_milli and room.cpu[row] < 0):
        return False
    return all(
        share.index < room.layout.width and room.milli[row, share.index] >= 0 and room.gpu_memory[row, share.index] >= 0
        for share in part.gpus
    )


def _clearing(table: Table, job: Job, parts: list[Task], going: set[JobId]) -> list[tuple[Job, str]] | None:
    """Who has to make way, fewest first, none when those who go already do; None when nothing that may go helps."""
    leaving = list(_on_their_way(table, {part.node for part in parts}))
    others = _who_may_go(table, job, parts) if _may_send(table, job) else []
    if not leaving and not others:
        return None
    room = table.room.copy()
    for task in leaving:
        room.give(leaving_part(table.state, task))
    if fits(room, parts):
        return []
    chosen: list[tuple[Job, str]] = []
    for victim, rule in others:
        if victim.id in going:
            continue
        for task in table.state.tasks_of(victim):
            room.give(given_up(task, victim.spec) if can_be_paused(table.state, victim) else task)
        chosen.append((victim, rule))
        if fits(room, parts):
            return _needed(table, room, parts, chosen)
    return None


def _needed(table: Table, room: Room, parts: list[Task], chosen: list[tuple[Job, str]]) -> list[tuple[Job, str]]:
    """Those of the chosen without whom it would not fit; the room is used up."""
    kept = list(chosen)
    for entry in chosen[-2::-1]:
        tasks = table.state.tasks_of(entry[0])
        gone = [given_up(t, entry[0].spec) if can_be_paused(table.state, entry[0]) else t for t in tasks]
        for part in gone:
            room.take(part)
        if fits(room, parts):
            kept.remove(entry)
        else:
            for part in gone:
                room.give(part)
    return kept


def _on_their_way(table: Table, nodes: set[NodeId]) -> Iterator[Task]:
    """Tasks on these nodes that were told to go and that no claim waits for."""
    for node in sorted(nodes):
        for name in sorted(table.state.node_tasks.get(node, {})):
            if _goes(table, name):
                yield table.state.kept.tasks[name]


def _goes(table: Table, name: TaskId) -> bool:
    """True when the task was told to go and no claim waits for it."""
    task = table.state.kept.tasks[name]
    goes = task.stop or (task.pause and task.working is None)
    return goes and task.state != TaskState.LOST and name not in table.leaving


def _who_may_go(table: Table, job: Job, parts: list[Task]) -> list[tuple[Job, str]]:
    """Jobs on the GPUs and CPUs that the job left, whom a rule tells to make way, cheapest first."""
    kept, mine = table.state.kept, effective_priority(table.pool.pool, job.spec)
    wanted = {(part.node, share.index) for part in parts for share in part.gpus}
    found: dict[int, tuple[tuple[int, int, int], Job, str]] = {}
    for node in sorted({part.node for part in parts}):
        for name in sorted(table.state.node_tasks.get(node, {})):
            task = kept.tasks[name]
            other = kept.jobs[task.job]
            on_it = not wanted or any((node, share.index) in wanted for share in task.gpus)
            if (
                other.id in found
                or not on_it
                or other.state != JobState.RUNNING
                or is_protected(other, table.now, mine)
            ):
                continue
            rule = _rule(table, job, other, mine)
            if rule:
                theirs = effective_priority(table.pool.pool, other.spec)
                found[other.id] = ((theirs, -other.started_ms, -other.id), other, rule)
    return [(other, rule) for _, other, rule in sorted(found.values(), key=lambda entry: entry[0])]


def _rule(table: Table, job: Job, other: Job, mine: int) -> str:
    """Which rule tells the other job to make way; empty when none does."""
    theirs = effective_priority(table.pool.pool, other.spec)
    gently = can_be_paused(table.state, other)
    ranks_lower = theirs < mine or other.service_class == ServiceClass.OPPORTUNISTIC
    if job.pause is not None and job.pause.urgent and gently and ranks_lower:
        return BY_SWITCH
    had_its_slice = bool(table.policy.time_slice_s) and table.now >= slice_ends_ms(other, table.policy)
    may_go = gently or (table.policy.preemption and other.spec.preemptible)
    if had_its_slice and theirs <= mine and may_go and not table.ledger.is_sheltered(other):
        return BY_SLICE
    return ""


def _send_off(table: Table, victim: Job, job: Job, rule: str) -> None:
    if can_be_paused(table.state, victim):
        table.pauses.append(JobPaused(job=victim.id, beneficiary=job.id, rule=rule))
        return
    lost_ms = table.now - victim.started_ms if victim.started_ms else 0
    table.evictions.append(Eviction(job=victim.id, beneficiary=job.id, rule=rule, lost_ms=lost_ms))

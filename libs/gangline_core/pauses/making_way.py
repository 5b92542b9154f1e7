"""Who leaves the place of a paused job that wants to go on: members of elastic jobs first, then whole jobs by a rule.

An elastic job gives the members that stand in the place, and as many more as the next size that it may have is smaller;
one that would then be below its least, or lose rank 0 where members meet, gives none. As for a job that waits, its rank
does not matter: what it has beyond its least is lent. Whole jobs go where a rule says so: an urgent one has others
paused, and a time slice ends.
"""

from collections.abc import Iterator

from msgspec import Struct

from gangline_core.facts import Eviction, JobPaused, Shrink, TaskPlacement
from gangline_core.ids import JobId, NodeId, TaskId
from gangline_core.job import Job, JobState, Task, TaskState
from gangline_core.limits.amounts import add_all, task_amounts
from gangline_core.making_room.losses import effective_priority, is_protected
from gangline_core.pauses.packing import can_all_be_paused, guests_of
from gangline_core.pauses.pausing import given_up, leaving_part, slice_ends_ms
from gangline_core.room.capacity import Room
from gangline_core.sizes.allowed import targets_with, too_many
from gangline_core.sizes.leaving import leaving_order
from gangline_core.spec import ResizeKind, ServiceClass
from gangline_core.table import Table

BY_SLICE, BY_SWITCH = "slice", "switch"
"""The rules by which whole jobs make way."""


class Way(Struct, frozen=True):
    """One job that makes way: whole by a rule, or with these members."""

    job: Job
    parts: tuple[Task, ...]
    """What comes back."""
    rule: str = ""
    leaving: tuple[Task, ...] = ()
    guests: tuple[Job, ...] = ()
    """Whoever is packed with it and goes as well: what one of them leaves is the others'."""


def who_makes_way(table: Table, job: Job, parts: list[Task], going: set[JobId]) -> list[Way] | None:
    """Who has to make way, none when those who go already do; None when nothing that may go helps."""
    leaving = list(_on_their_way(table, {part.node for part in parts}))
    room = table.room.copy()
    for task in leaving:
        room.give(leaving_part(table.state, task))
    if leaving and fits(room, parts):
        return []
    trial = _Trial(table, room, parts, job.spec.group)
    if may_shrink(table, job) and any(trial.shrinks(other) for other in _elastic_there(table, job, parts, going)):
        return trial.needed()
    whole = _who_may_go(table, job, parts) if may_send(table, job) else []
    if any(trial.goes(other, rule) for other, rule in whole if other.id not in going):
        return trial.needed()
    trial.undo()
    return None


def may_send(table: Table, job: Job) -> bool:
    """True when any rule could have whole jobs make way for this paused one."""
    return bool(table.policy.time_slice_s) or (job.pause is not None and job.pause.urgent)


def may_shrink(table: Table, job: Job) -> bool:
    """A cheap look whether any live job could give members for this paused one."""
    sorts = table.state.live_sorts.get(table.pool.pool.name, {})
    return table.policy.shrink and job.spec.preempts and any(sort.elastic for sort in sorts)


def send_off(table: Table, way: Way, job: Job) -> None:
    """The round tells it to make way for the paused job."""
    if way.leaving:
        names = tuple(sorted(task.id for task in way.leaving))
        table.shrinks.append(Shrink(job=way.job.id, tasks=names, beneficiary=job.id))
        return
    gently = can_all_be_paused(table.state, way.job)
    for one in (way.job, *way.guests):
        if gently:
            table.pauses.append(JobPaused(job=one.id, beneficiary=job.id, rule=way.rule))
        else:
            lost_ms = table.now - one.started_ms if one.started_ms else 0
            table.evictions.append(Eviction(job=one.id, beneficiary=job.id, rule=way.rule, lost_ms=lost_ms))


class _Trial:
    """Room as it would be when these made way, one after the other."""

    def __init__(self, table: Table, room: Room, parts: list[Task], group: str) -> None:
        self._table, self._room, self._parts, self._group = table, room, parts, group
        self._ways: list[Way] = []
        self._ledger = table.after if table.has_guarantees else None
        """What members give counts against what their groups are guaranteed; whole jobs that a rule lets go do not."""

    def shrinks(self, other: Job) -> bool:
        """The elastic job gives as few members as are enough; all it can where none are, and False."""
        most: Way | None = None
        for way in _ways_to_shrink(self._table, other, self._parts):
            if not self._keeps_guarantee(way):
                continue
            self._make(way)
            if fits(self._room, self._parts):
                return True
            self._take_back(way)
            most = way
        if most is not None:
            self._make(most)
        return False

    def goes(self, other: Job, rule: str) -> bool:
        """The whole job goes, and not only some of its members; True when that is enough."""
        for way in [way for way in self._ways if way.job.id == other.id]:
            self._take_back(way)
        state, guests = self._table.state, guests_of(self._table.state, other.id)
        gently = can_all_be_paused(state, other)
        everybody = (other, *guests)
        parts = [given_up(task, one.spec) if gently else task for one in everybody for task in state.tasks_of(one)]
        self._make(Way(job=other, parts=tuple(parts), rule=rule, guests=guests))
        return fits(self._room, self._parts)

    def needed(self) -> list[Way]:
        """Those without whom it would not fit, which is tried from the last but one on."""
        order = list(self._ways)
        for way in self._ways[-2::-1]:
            self._take_back(way)
            if not fits(self._room, self._parts):
                self._make(way)
        return sorted(self._ways, key=order.index)

    def undo(self) -> None:
        """Nobody makes way after all."""
        for way in list(self._ways):
            self._take_back(way)

    def _keeps_guarantee(self, way: Way) -> bool:
        """True when the group of an elastic job keeps what it is guaranteed without these members."""
        own = self._ledger
        return own is None or own.over_guarantee(way.job, _amounts(way.leaving), beneficiary=self._group)

    def _make(self, way: Way) -> None:
        for part in way.parts:
            self._room.give(part)
        if self._ledger is not None and way.leaving:
            self._ledger.give(way.job, _amounts(way.parts))
        self._ways.append(way)

    def _take_back(self, way: Way) -> None:
        for part in way.parts:
            self._room.take(part)
        if self._ledger is not None and way.leaving:
            self._ledger.take(way.job, _amounts(way.parts))
        self._ways.remove(way)


def _amounts(tasks: tuple[Task, ...]) -> dict[str, int]:
    amounts: dict[str, int] = {}
    for task in tasks:
        add_all(amounts, task_amounts(task).items())
    return amounts


# --- members of elastic jobs ----------------------------------------------------------------------------


def _elastic_there(table: Table, job: Job, parts: list[Task], going: set[JobId]) -> list[Job]:
    """Elastic jobs on the nodes of the place, the least important first, of equal ones the youngest."""
    pool, found = table.pool.pool, dict[JobId, Job]()
    for node in sorted({part.node for part in parts}):
        for name in sorted(table.state.node_tasks.get(node, {})):
            other = table.state.kept.jobs[table.state.kept.tasks[name].job]
            changes = any(role.is_elastic for role in other.spec.roles)
            if changes and other.id not in going and other.id != job.id and not other.winding_down:
                found[other.id] = other
    able = (other for other in found.values() if other.state in (JobState.RUNNING, JobState.RESIZING))
    return sorted(able, key=lambda one: (effective_priority(pool, one.spec), -one.started_ms, -one.id))


def _ways_to_shrink(table: Table, other: Job, parts: list[Task]) -> Iterator[Way]:
    """The job without the first of its members in the place, without the first two, and so on, where it may be so."""
    gone = {name for less in table.shrinks for name in less.tasks} | table.leaving
    state = table.state
    members = [task for task in state.tasks_of(other) if not (task.stop or task.id in gone)]
    members = [task for task in members if task.state != TaskState.EXITED]
    there = _in_place(table, members, parts)
    keeps_first = other.spec.elastic.kind != ResizeKind.RESTART
    for count in range(1, len(there) + 1):
        first = {task.id for task in there[:count]}
        stay = [task for task in members if task.id not in first]
        targets = targets_with(other, stay)
        if targets is None or len(stay) < other.spec.stays:
            continue
        extra = {task.id for task in too_many(other, stay, targets)}
        leaving = tuple(task for task in members if task.id in first or task.id in extra)
        keeps_most = len(members) - len(leaving) >= other.spec.stays
        if keeps_most and not (keeps_first and any(task.rank == 0 for task in leaving)):
            yield Way(job=other, parts=leaving, leaving=leaving)


def _in_place(table: Table, members: list[Task], parts: list[Task]) -> list[Task]:
    """Members on GPUs of the place, then those on nodes of it whose CPU does not do; of each those that leave first."""
    gpus = {(part.node, share.index) for part in parts for share in part.gpus}
    cpu: dict[NodeId, int] = {}
    for part in parts:
        cpu[part.node] = cpu.get(part.node, 0) + part.cpu_milli
    row = table.room.layout.row
    short = {node for node, wanted in cpu.items() if node in row and wanted > table.room.cpu[row[node]]}
    on_gpus = {task.id for task in members for share in task.gpus if (task.node, share.index) in gpus}
    there = [task for task in members if task.id in on_gpus or task.node in short]
    return sorted(
        there, key=lambda task: (task.id not in on_gpus, *leaving_order(table.state.kept.jobs[task.job])(task))
    )


# --- whole jobs -----------------------------------------------------------------------------------------


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
            guests = guests_of(table.state, other.id)
            if other.id in kept.packs or not all(_rule(table, job, guest, mine) for guest in guests):
                continue
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
    gently = can_all_be_paused(table.state, other)
    ranks_lower = theirs < mine or other.service_class == ServiceClass.OPPORTUNISTIC
    if job.pause is not None and job.pause.urgent and gently and ranks_lower and other.spec.preemptible:
        return BY_SWITCH
    had_its_slice = bool(table.policy.time_slice_s) and table.now >= slice_ends_ms(other, table.policy)
    may_stop = other.spec.checkpoints and other.spec.preemptible and job.spec.preempts
    may_go = gently or (table.policy.preemption and may_stop)
    if had_its_slice and theirs <= mine and may_go and not table.ledger.is_sheltered(other):
        return BY_SLICE
    return ""


# --- room ----------------------------------------------------------------------------------------------


def _on_their_way(table: Table, nodes: set[NodeId]) -> Iterator[Task]:
    """Tasks on these nodes that were told to go and that no claim waits for."""
    for node in sorted(nodes):
        for name in sorted(table.state.node_tasks.get(node, {})):
            if goes(table, name):
                yield table.state.kept.tasks[name]


def goes(table: Table, name: TaskId) -> bool:
    """True when the task was told to go and no claim waits for it."""
    task = table.state.kept.tasks[name]
    is_told = task.stop or (task.pause and task.working is None)
    return is_told and task.state != TaskState.LOST and not _is_spoken_for(table, task)


def _is_spoken_for(table: Table, task: Task) -> bool:
    """True when its room is somebody's; what a gang that starts again leaves for good is nobody's yet."""
    if task.id not in table.leaving:
        return False
    claims = [held.claim for held in table.held if task.id in held.alive]
    return any(claim.job != task.job or any(_meet(place, task) for place in claim.placement.tasks) for claim in claims)


def _meet(place: TaskPlacement, task: Task) -> bool:
    indexes = {share.index for share in task.gpus}
    return place.node == task.node and (not indexes or any(share.index in indexes for share in place.gpus))


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

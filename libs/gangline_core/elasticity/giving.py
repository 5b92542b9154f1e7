"""The round's part: proposed sizes get their room after all candidates, and only room that no refused one could use."""

from msgspec.structs import replace

from gangline_core.elasticity.anew import Wish, beyond, in_the_way, of_budget, pack, wish
from gangline_core.elasticity.room import more, wanted
from gangline_core.elasticity.view import begins_again
from gangline_core.facts import Placement, ResizeProposed, Restart, Shrink
from gangline_core.ids import JobId
from gangline_core.job import Job, JobState
from gangline_core.limits.amounts import add_all
from gangline_core.pauses.resuming import keep_for_paused
from gangline_core.placement.gang import Seats, gang_of, need_of
from gangline_core.placement.why_not import ROOM_CODES
from gangline_core.room.capacity import Room
from gangline_core.room.holds import placed_amounts
from gangline_core.seating import allowed_sizes
from gangline_core.sizes import resizing
from gangline_core.sizes.leaving import leaving_order
from gangline_core.spec import ResizeKind, Role, starts_again
from gangline_core.state import task_amounts
from gangline_core.table import Table

NOBODY = JobId(0)
"""The beneficiary of a shrink that was not made for another job."""


def grow(table: Table) -> None:
    """Give or take what was proposed: smaller sizes first, since their room comes back only later."""
    proposals = table.pool.proposals
    if not proposals:
        return
    room = (table.room if table.guarded is None else table.guarded).copy()
    room.close(wanted(table, (job for job, reason in table.refused if reason.code in ROOM_CODES)))
    keep_for_paused(table, room)
    gives = {less.job for less in table.shrinks}
    goes = {eviction.job for eviction in table.evictions} | {pause.job for pause in table.pauses}
    wishes: list[Wish] = []
    for job_id in sorted(proposals):
        job, proposal = table.state.job(job_id), proposals[job_id]
        role = next((role for role in job.spec.roles if role.name == proposal.role), None) if job else None
        if job is None or role is None or job.winding_down or job.state != JobState.RUNNING or resizing.is_active(job):
            continue
        if job.missing or job_id in goes:
            continue
        if proposal.model:
            _move(table, room, job, role, proposal)
        elif job.spec.elastic.kind == ResizeKind.RESTART:
            wishes += _wishes(table, job, role, proposal)
        elif proposal.size < job.sizes.get(role.name, 0):
            _take_back(table, job, role, proposal.size)
        elif not table.unseen and job.id not in gives:
            _add(table, room, job, role, proposal.size)
    _start_over(table, room, wishes)


def _wishes(table: Table, job: Job, role: Role, proposal: ResizeProposed) -> list[Wish]:
    """What a gang that starts again is to get; nothing where this round does something else with it already."""
    size = job.sizes.get(role.name, 0)
    gives = {shrink.job for shrink in table.shrinks}
    allowed = [one for one in reversed(allowed_sizes(role)) if one <= proposal.size]
    if proposal.size >= size:
        allowed = [one for one in allowed if one > size or (one == size and proposal.moves)]
        allowed = [] if table.unseen else allowed
    allowed = allowed if begins_again(table.state, job, table.now) else []
    if job.id in gives or not allowed or (proposal.moves and proposal.size != size):
        return []
    sizes = allowed if proposal.size >= size else allowed[:1]
    return [wish(table, job, role, sizes, why=proposal.why, moves=proposal.moves)]


def _start_over(table: Table, room: Room, wishes: list[Wish]) -> None:
    """Gangs start again together; who is to shrink and found no other seats keeps some of those it has."""
    packed = pack(table, room, wishes)
    restarts = []
    for one, seats in packed:
        others = [other for other, _ in packed if other is not one]
        port = table.port_for(seats.tasks)
        placement = Placement(
            job=one.job.id, attempt=one.job.attempt + 1, tasks=seats.tasks, port=port, level=seats.level
        )
        after = in_the_way(seats, others)
        restarts.append(Restart(job=one.job.id, placement=placement, why=one.why, after=after))
    own = [task for one, _ in packed for task in one.own]
    amounts = [beyond(table, seats.tasks, one.own) for one, seats in packed]
    table.start_over(restarts, own, amounts)
    room.keep_both(own, [place for _, seats in packed for place in seats.tasks])
    seated = {one.job.id for one, _ in packed}
    for one in wishes:
        if one.job.id not in seated and one.sizes[0] < one.job.sizes.get(one.role.name, 0):
            _take_back(table, one.job, one.role, one.sizes[0])


def _add(table: Table, room: Room, job: Job, role: Role, size: int) -> None:
    """Further members join those there are, as many as there is room for up to this size."""
    present = job.sizes.get(role.name, 0)
    for target in reversed([allowed for allowed in allowed_sizes(role) if present < allowed <= size]):
        tasks = more(table, room, job, role, count=target - present)
        if tasks is not None:
            for place in tasks:
                room.take(place)
            table.grow(job, tasks, placed_amounts(table.state, tasks))
            break


def _move(table: Table, room: Room, job: Job, role: Role, proposal: ResizeProposed) -> None:
    """The whole gang starts again on another model, if all of it fits there."""
    if not starts_again(job.spec) or len(job.sizes) != 1 or not role.allows(proposal.size):
        return
    if not begins_again(table.state, job, table.now):
        return
    seats = seats_on(table, room, job, role, proposal.size, proposal.model)
    # Its group may have been promised something since the move was proposed.
    if seats is None or not keeps_shelter(table, job, seats):
        return
    if table.ledger.fault(job, {**placed_amounts(table.state, seats.tasks), **of_budget(table, job)}) is not None:
        return
    for place in seats.tasks:
        room.take(place)
    port = table.port_for(seats.tasks)
    placement = Placement(job=job.id, attempt=job.attempt + 1, tasks=seats.tasks, port=port, level=seats.level)
    table.start_again(job, placement, seats.tasks, proposal.why)


def seats_on(table: Table, room: Room, job: Job, role: Role, size: int, model: str) -> Seats | None:
    """Seats of another model, beside what the job has now, for a run that begins now."""
    gang = gang_of(job.spec, {role.name: size}, table.pool.pool)
    need = replace(need_of(role, size), models=(model.lower(),))
    closed = table.seating.closures.nodes(job.spec)
    return table.seating.placer(room, replace(gang, needs=(need,), excluded=(*gang.excluded, *closed)))


def keeps_shelter(table: Table, job: Job, seats: Seats) -> bool:
    """False for a job that its group's guarantee keeps from making way for others here, and would not there."""
    if not table.has_guarantees:
        return True
    ledger, here, there = table.ledger, dict[str, int](), placed_amounts(table.state, seats.tasks)
    for task in table.state.tasks_of(job):
        add_all(here, task_amounts(task).items())
    if ledger.over_guarantee(job, here):
        return True
    ledger.give(job, here)
    ledger.take(job, there)
    keeps = not ledger.over_guarantee(job, there)
    ledger.give(job, there)
    ledger.take(job, here)
    return keeps


def _take_back(table: Table, job: Job, role: Role, wanted_size: int) -> None:
    """Members leave until the role has the largest allowed size that is not above the proposed one."""
    size = max((allowed for allowed in allowed_sizes(role) if allowed <= wanted_size), default=0)
    members = [task for task in table.state.tasks_of(job) if task.role == role.name and not task.stop]
    taken = {name for shrink in table.shrinks if shrink.job == job.id for name in shrink.tasks}
    if not size or taken or len(members) <= size:
        return
    names = [task.id for task in sorted(members, key=leaving_order(job))[: len(members) - size]]
    table.shrinks.append(Shrink(job=job.id, tasks=tuple(sorted(names)), beneficiary=NOBODY))

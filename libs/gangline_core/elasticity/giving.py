"""The round's part: proposed sizes get their room after all candidates, and only room that no refused one could use."""

from msgspec.structs import replace

from gangline_core import resizing
from gangline_core.capacity import Room
from gangline_core.elasticity.room import more, wanted
from gangline_core.facts import Placement, ResizeProposed, Shrink, TaskPlacement
from gangline_core.fold_resize import places_of
from gangline_core.holds import placed_amounts
from gangline_core.ids import JobId
from gangline_core.job import Job, JobState, Task, TaskState
from gangline_core.placement.gang import Seats, gang_of, need_of
from gangline_core.placement.ranks import level_of
from gangline_core.placement.why_not import ROOM_CODES
from gangline_core.seating import allowed_sizes
from gangline_core.spec import ResizeKind, Role
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
    for job_id in sorted(proposals):
        job, proposal = table.state.job(job_id), proposals[job_id]
        role = next((role for role in job.spec.roles if role.name == proposal.role), None) if job else None
        if job is None or role is None or job.winding_down or job.state != JobState.RUNNING or resizing.is_active(job):
            continue
        if job.missing:
            continue
        size = job.sizes.get(role.name, 0)
        if proposal.model or proposal.moves:
            _move(table, room, job, role, proposal)
        elif proposal.size < size:
            _take_back(table, job, role, proposal.size)
        elif not table.unseen:
            for target in reversed([allowed for allowed in allowed_sizes(role) if size < allowed <= proposal.size]):
                tasks = more(table, room, job, role, count=target - size)
                if tasks is not None:
                    for place in tasks:
                        room.take(place)
                    _give(table, job, tasks, proposal)
                    break


def _give(table: Table, job: Job, tasks: tuple[TaskPlacement, ...], proposal: ResizeProposed) -> None:
    if job.spec.elastic.kind != ResizeKind.RESTART:
        table.grow(job, tasks, placed_amounts(table.state, tasks))
        return
    places = places_of(table.state.tasks_of(job), more=tasks)
    placement = Placement(job=job.id, attempt=job.attempt + 1, tasks=places, port=table.port_for(places))
    table.start_again(job, placement, tasks, proposal.why)


def _move(table: Table, room: Room, job: Job, role: Role, proposal: ResizeProposed) -> None:
    """The whole gang starts again on another model or closer together, if all of it fits beside what it has now."""
    if job.spec.elastic.kind != ResizeKind.RESTART or len(job.sizes) != 1 or not role.allows(proposal.size):
        return
    seats = _seats_elsewhere(table, room, job, role, proposal)
    if seats is None or table.ledger.fault(job, placed_amounts(table.state, seats.tasks)) is not None:
        return
    for place in seats.tasks:
        room.take(place)
    port = table.port_for(seats.tasks)
    placement = Placement(job=job.id, attempt=job.attempt + 1, tasks=seats.tasks, port=port, level=seats.level)
    table.start_again(job, placement, seats.tasks, proposal.why)


def _seats_elsewhere(table: Table, room: Room, job: Job, role: Role, proposal: ResizeProposed) -> Seats | None:
    """Seats of another model, or of its own closer together."""
    tasks = table.state.tasks_of(job)
    own = tuple(sorted({task.gpu_model.lower() for task in tasks if task.gpu_model}))
    need = replace(need_of(role, proposal.size), models=(proposal.model.lower(),) if proposal.model else own)
    gang = replace(gang_of(job.spec, {role.name: proposal.size}, table.pool.pool), needs=(need,))
    seats = table.seating.placer(room, gang)
    if seats is None or proposal.model:
        return seats
    ladder = gang.ladder()
    present = level_of(table.frozen.layout, gang.levels, tasks)
    return seats if ladder.index(seats.level) < ladder.index(present) else None


def _take_back(table: Table, job: Job, role: Role, wanted_size: int) -> None:
    """Members leave until the role has the largest allowed size that is not above the proposed one."""
    size = max((allowed for allowed in allowed_sizes(role) if allowed <= wanted_size), default=0)
    members = [task for task in table.state.tasks_of(job) if task.role == role.name and not task.stop]
    taken = {name for shrink in table.shrinks if shrink.job == job.id for name in shrink.tasks}
    evicted = any(eviction.job == job.id for eviction in table.evictions)
    if not size or evicted or taken or len(members) <= size:
        return
    names = [task.id for task in sorted(members, key=leaves_first)[: len(members) - size]]
    table.shrinks.append(Shrink(job=job.id, tasks=tuple(sorted(names)), beneficiary=NOBODY))


def leaves_first(task: Task) -> tuple[bool, int]:
    """Members that have not started go first, then the last to come; rank 0 stays to the end."""
    return task.state != TaskState.PLACED, -task.rank

"""How big running elastic jobs should be: they grow into GPUs that nobody else could use.

Growing happens in two steps. `propose` names sizes when a pool has come to rest; the next round gives them room after
all candidates, and only room that no refused candidate could use (`grow`). Sizes are proposed once after each outside
change, never because of an own proposal, so nothing swings. Shrinking for a job that needs the room is decided in the
round itself (see `preemption`).
"""

from collections.abc import Iterable
from heapq import heapify, heappop, heappush

import numpy as np
from msgspec.structs import replace

from gangline_core.capacity import Flags, Room
from gangline_core.claims import honour_claims
from gangline_core.facts import ResizeProposed, TaskPlacement
from gangline_core.holds import placed_amounts
from gangline_core.job import Job, JobState, Task
from gangline_core.placement.gang import ANYWHERE, Gang, need_of
from gangline_core.placement.ranks import level_of
from gangline_core.placement.why_not import ROOM_CODES
from gangline_core.reasons import ReasonCode
from gangline_core.reserve import usable_nodes
from gangline_core.seating import allowed_sizes
from gangline_core.spec import Role
from gangline_core.state import State
from gangline_core.table import Table

KEPT_OUT_CODES = frozenset(
    {
        ReasonCode.DEPENDENCY,
        ReasonCode.NOT_BEFORE,
        ReasonCode.GROUP_LIMIT,
        ReasonCode.USER_LIMIT,
        ReasonCode.BORROW_LIMIT,
        ReasonCode.NOT_LENT,
        ReasonCode.BUDGET_SHORT,
        ReasonCode.SINGLETON,
        ReasonCode.BUDGET_EXHAUSTED,
        ReasonCode.WAITING_FOR_VICTIMS,
    }
)
"""Reasons for which a waiting job could not use free room anyway."""
STEPS_MAX = 512
"""Steps of growth looked at in one proposal."""


def propose(state: State, pool: str, now: int) -> tuple[ResizeProposed, ...]:
    """Sizes that running elastic jobs of the pool could grow to now, in GPUs that no waiting job could use."""
    known = state.kept.pools[pool]
    if not known.policy.elastic_growth or known.open_round is not None or known.proposals:
        return ()
    if state.kept.changed_seq <= known.proposed_seq:
        return ()
    growing = _growing(state, pool)
    if not growing:
        return ()
    table = Table(state, pool, now)
    honour_claims(table)
    waiting = (state.kept.jobs[job] for job in sorted(state.waiting.get(pool, {})))
    wanted = _wanted(table, (job for job in waiting if job.reason is None or job.reason.code not in KEPT_OUT_CODES))
    for reservation in known.reservations:
        wanted[[table.frozen.layout.row[place.node] for place in reservation.tasks]] = True
    table.room.close(wanted)
    return tuple(
        ResizeProposed(pool=pool, job=job.id, role=role.name, size=size, why="idle GPUs")
        for job, role, size in _shares(table, growing)
    )


def grow(table: Table) -> None:
    """Give proposed growth its room, after all candidates and beside what the refused ones could use."""
    proposals = table.pool.proposals
    if not proposals or table.unseen:
        return
    room = (table.room if table.guarded is None else table.guarded).copy()
    room.close(_wanted(table, (job for job, reason in table.refused if reason.code in ROOM_CODES)))
    for job_id in sorted(proposals):
        job = table.state.job(job_id)
        proposal = proposals[job_id]
        role = next((role for role in job.spec.roles if role.name == proposal.role), None) if job else None
        if job is None or role is None or job.state != JobState.RUNNING:
            continue
        size = job.sizes.get(role.name, 0)
        for target in reversed([allowed for allowed in allowed_sizes(role) if size < allowed <= proposal.size]):
            tasks = _more(table, room, job, role, count=target - size)
            if tasks is not None:
                for place in tasks:
                    room.take(place)
                table.grow(job, tasks, placed_amounts(table.state, tasks))
                break


def _growing(state: State, pool: str) -> list[tuple[Job, Role]]:
    """Running elastic jobs and the first role of each that may still grow."""
    found: list[tuple[Job, Role]] = []
    if not any(sort.elastic for sort in state.live_sorts.get(pool, {})):
        return found
    for job_id in sorted(state.live.get(pool, {})):
        job = state.kept.jobs[job_id]
        if job.state == JobState.RUNNING:
            able = (
                role for role in job.spec.roles if role.is_elastic and _next_size(role, job.sizes.get(role.name, 0))
            )
            role = next(able, None)
            if role is not None:
                found.append((job, role))
    return found


def _shares(table: Table, growing: list[tuple[Job, Role]]) -> list[tuple[Job, Role, int]]:
    """Share the room out: always the job with the fewest GPUs beyond what it wanted grows by its next step."""
    by_job = {job.id: (job, role) for job, role in growing}
    sizes = {job.id: job.sizes.get(role.name, 0) for job, role in growing}
    queue = [(_extra(role, sizes[job.id]), job.id) for job, role in growing]
    heapify(queue)
    for _ in range(STEPS_MAX):
        if not queue:
            break
        _, job_id = heappop(queue)
        job, role = by_job[job_id]
        size = sizes[job_id]
        following = _next_size(role, size)
        if following is None:
            continue
        grown = size - job.sizes.get(role.name, 0)
        tasks = _more(table, table.room, job, role, count=following - size, after=grown)
        if tasks is not None:
            table.grow(job, tasks, placed_amounts(table.state, tasks))
            sizes[job_id] = following
            heappush(queue, (_extra(role, following), job_id))
    return [(job, role, sizes[job.id]) for job, role in growing if sizes[job.id] > job.sizes.get(role.name, 0)]


def _next_size(role: Role, size: int) -> int | None:
    return next((allowed for allowed in allowed_sizes(role) if allowed > size), None)


def _extra(role: Role, size: int) -> int:
    return (size - role.count) * max(1, role.resources.gpu_milli)


def _wanted(table: Table, jobs: Iterable[Job]) -> Flags:
    """Nodes of which any of these jobs could use anything."""
    wanted = np.zeros(len(table.frozen.nodes), dtype=np.bool_)
    seen: set[int] = set()
    for job in jobs:
        shape = table.state.shapes[job.id]
        if shape not in seen:
            seen.add(shape)
            wanted |= usable_nodes(table.frozen, table.seating.least(job).gang)
            if wanted.all():
                break
    return wanted


def _more(
    table: Table, room: Room, job: Job, role: Role, *, count: int, after: int = 0
) -> tuple[TaskPlacement, ...] | None:
    """Seats for so many members more, near those there are: on their nodes, else anywhere their topology allows."""
    members = table.state.tasks_of(job)
    need = need_of(role, count, first_index=job.next_index.get(role.name, 0) + after)
    # A gang on one model stays on it: a slower member would only hold up the others.
    models = {task.gpu_model.lower() for task in members if task.gpu_model}
    if need.wants_gpu and len(models) == 1:
        need = replace(need, models=tuple(models))
    rows = sorted({table.frozen.layout.row[task.node] for task in members if task.node in table.frozen.layout.row})
    gang = Gang(
        needs=(need,),
        selector=job.spec.node_selector,
        tolerations=job.spec.tolerations,
        required=ANYWHERE,
        preferred=ANYWHERE,
        levels=tuple(table.pool.pool.topology.items()),
    )
    for near in (_only(len(table.frozen.nodes), rows), _domain(table, job, gang, rows)):
        inside = room.copy()
        inside.close(~near)
        seats = table.seating.placer(inside, gang)
        if seats is not None and _holds(table, job, gang, members, seats.tasks):
            return seats.tasks
    return None


def _only(count: int, rows: list[int]) -> Flags:
    flags = np.zeros(count, dtype=np.bool_)
    flags[rows] = True
    return flags


def _domain(table: Table, job: Job, gang: Gang, rows: list[int]) -> Flags:
    """Nodes on which members may be, given where the others are and what the job requires."""
    label = dict(gang.levels).get(job.spec.topology.required)
    if not job.spec.topology.required or not rows:
        return np.ones(len(table.frozen.nodes), dtype=np.bool_)
    if label is None:
        return _only(len(table.frozen.nodes), rows)
    codes, _ = table.frozen.layout.domains(label)
    return np.asarray(codes == codes[rows[0]])


def _holds(table: Table, job: Job, gang: Gang, members: list[Task], more: tuple[TaskPlacement, ...]) -> bool:
    """True when the grown job keeps its required topology and its limits."""
    if table.ledger.fault(job, placed_amounts(table.state, more)) is not None:
        return False
    if not job.spec.topology.required:
        return True
    ladder = gang.ladder()
    level = level_of(table.frozen.layout, gang.levels, [*members, *more])
    return job.spec.topology.required in ladder and ladder.index(level) <= ladder.index(job.spec.topology.required)

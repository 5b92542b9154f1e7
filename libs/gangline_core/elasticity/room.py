"""Where further members of a running gang could be, and which room waiting jobs could use."""

from collections.abc import Iterable

import numpy as np
from msgspec.structs import replace

from gangline_core.cluster import Node
from gangline_core.facts import TaskPlacement
from gangline_core.job import Job, Task
from gangline_core.pauses.resuming import keep_for_paused
from gangline_core.placement.gang import ANYWHERE, Gang, gang_of, need_of
from gangline_core.placement.models import acceptable
from gangline_core.placement.ranks import stands_within
from gangline_core.placement.shaped import keeps_shape
from gangline_core.reasons import ReasonCode
from gangline_core.room.capacity import Flags, Layout, Room
from gangline_core.room.holds import placed_amounts
from gangline_core.spec import Role, ServiceClass, selector_of, tolerations_of
from gangline_core.table import Table

KEPT_OUT_CODES = frozenset(
    {
        ReasonCode.DEPENDENCY,
        ReasonCode.NOT_BEFORE,
        ReasonCode.GROUP_LIMIT,
        ReasonCode.USER_LIMIT,
        ReasonCode.BORROW_LIMIT,
        ReasonCode.NOT_LENT,
        ReasonCode.LIMIT_KEPT,
        ReasonCode.BUDGET_EXHAUSTED,
        ReasonCode.WAITING_FOR_VICTIMS,
    }
)
"""Reasons for which a waiting job could not use free room anyway."""


def open_to_growth(table: Table) -> None:
    """Close the room that waiting jobs could use, is reserved, or is a paused job's: growth takes what is left."""
    state, pool = table.state, table.pool
    waiting = (state.kept.jobs[job] for job in sorted(state.waiting.get(pool.pool.name, {})))
    closed = wanted(table, (job for job in waiting if job.reason is None or job.reason.code not in KEPT_OUT_CODES))
    # A node may have left the pool since a round reserved room on it.
    row = table.frozen.layout.row
    for reservation in pool.reservations:
        closed[[row[place.node] for place in reservation.tasks if place.node in row]] = True
    table.room.close(closed)
    keep_for_paused(table, table.room)


def wanted(table: Table, jobs: Iterable[Job]) -> Flags:
    """Nodes that are large enough for a task of any of these jobs, were they empty."""
    found = np.zeros(len(table.frozen.nodes), dtype=np.bool_)
    seen: set[int] = set()
    for job in jobs:
        shape = table.state.shapes[job.id]
        if shape not in seen:
            seen.add(shape)
            found |= able_nodes(table.frozen.layout, table.seating.least(job).gang)
            if found.all():
                break
    return found


def able_nodes(layout: Layout, gang: Gang) -> Flags:
    """Nodes that could ever hold a task of the gang: of the right kind, and large enough for one."""
    sizes = tuple((need.accepts, need.of_one) for need in gang.needs)
    asked = ("able", gang.where, sizes)
    return layout.remember(asked, lambda: _able_nodes(layout, gang))


def _able_nodes(layout: Layout, gang: Gang) -> Flags:
    found = np.zeros(len(layout.nodes), dtype=np.bool_)
    mask = gang.mask(layout)
    for need in gang.needs:
        kinds = [number for own in acceptable(layout, need).values() for number in own]
        cards = np.isin(layout.kind, kinds).sum(axis=1)
        least = need.gpus or (1 if need.wants_gpu else 0)
        own = need.within(layout, mask)
        found |= own & (cards >= least) if least else own
    large = [_holds_rest(node, gang) for node in layout.nodes]
    return np.asarray(found & np.array(large, dtype=np.bool_))


def _holds_rest(node: Node, gang: Gang) -> bool:
    """True when CPU and memory of the whole node would do for a task of some role."""
    return any(need.cpu_milli <= node.cpu_milli and need.memory_mib <= node.memory_mib for need in gang.needs)


def more(
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
        selector=selector_of(job.spec, role),
        tolerations=tolerations_of(job.spec, role),
        required=ANYWHERE,
        preferred=ANYWHERE,
        levels=tuple(table.pool.pool.topology.items()),
        group=job.spec.group,
        opportunistic=job.service_class == ServiceClass.OPPORTUNISTIC,
        pinned=job.spec.pinned_cell,
        excluded=(*job.spec.exclude_nodes, *table.seating.closures.nodes(job.spec, started_ms=job.started_ms)),
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
    return np.asarray((codes == codes[rows[0]]) & (codes >= 0))


def _holds(table: Table, job: Job, gang: Gang, members: list[Task], new: tuple[TaskPlacement, ...]) -> bool:
    """True when the grown job keeps its required topology, its slices and spread, and its limits."""
    if table.ledger.fault(job, placed_amounts(table.state, new)) is not None:
        return False
    whole = gang_of(job.spec, job.sizes, table.pool.pool)
    if whole.is_shaped and not keeps_shape(table.frozen.layout, whole, [*members, *new]):
        return False
    required = job.spec.topology.required
    return not required or stands_within(table.frozen.layout, gang, required, [*members, *new])

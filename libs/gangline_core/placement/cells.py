"""Cells: groups that are owed parts of the topology start inside them at once, others use what is left (HiveD).

- A job of such a group goes into the cells that the group uses already and those that are kept for it.
- A job that asks for a pinned cell goes there, and nobody else of its group does.
- Other jobs keep away from all promised cells, used or not.
- An opportunistic job may also use promised cells while nobody needs them. It is the first to go when somebody does.

Inside what it may use, a gang takes the smallest domain that holds it. Source: see `gangline_core.room.cells`.
"""

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from gangline_core.placement.gang import Gang, Seats
from gangline_core.placement.models import acceptable
from gangline_core.placement.topology import topology
from gangline_core.room.beside import NOTHING, Beside
from gangline_core.room.capacity import Flags, Ints, Room
from gangline_core.room.cells import Owned, Tree, Wanted, kinds_of, label_of, owner_of, pack, pinned_cells
from gangline_core.spec import GPU_MILLI, ServiceClass

LOWERED = 2
"""What clearing a GPU of a job that had a cell before weighs, against 1 for any other borrower's."""


class Division(Struct, frozen=True):
    """Whose cells are whose at this moment."""

    bound: list[Owned]
    """Cells in use."""
    kept: list[Owned]
    """Cells that are owed and not in use, where they would be."""
    pinned: list[Owned]
    """Cells that groups have by name, used or not."""

    def of(self, group: str | None) -> list[Owned]:
        """Cells of one group, without pinned ones."""
        return [owned for owned in (*self.bound, *self.kept) if owned.group == group]

    def promised(self, room: Room) -> Flags:
        """GPUs in anybody's cells."""
        found = np.zeros(room.milli.shape, dtype=np.bool_)
        for owned in (*self.bound, *self.kept, *self.pinned):
            found |= owned.leaves
        return found


def cells(room: Room, gang: Gang, beside: Beside = NOTHING) -> Seats | None:
    """Seats inside the group's cells, or outside of all cells."""
    if not _divides(gang, beside):
        return topology(room, gang)
    division = divide(room, beside, gang)
    own = _own(gang, beside, division)
    while True:
        seats = topology(_narrowed(room, _closed(room, gang, beside, division, own)), gang)
        if seats is None:
            return topology(room, gang) if gang.opportunistic else None
        torn = _torn(room, seats, own)
        if torn is None:
            return _labelled(room, seats, own)
        own.remove(torn)


def _divides(gang: Gang, beside: Beside) -> bool:
    """True where anything is promised, and the gang asks for what promises are about."""
    pool = beside.pool_settings
    return pool is not None and bool(pool.cells or pool.pinned) and any(need.wants_gpu for need in gang.needs)


def allowed_room(room: Room, gang: Gang, beside: Beside) -> Room:
    """What of the room the gang may use, to tell why it finds no seats there."""
    if gang.opportunistic or not _divides(gang, beside):
        return room
    division = divide(room, beside, gang)
    return _narrowed(room, _closed(room, gang, beside, division, _own(gang, beside, division)))


def _closed(room: Room, gang: Gang, beside: Beside, division: Division, own: list[Owned]) -> Flags:
    """The GPUs that the gang had better not touch."""
    if own:
        closed: Flags = ~np.logical_or.reduce([owned.leaves for owned in own])
        return closed
    if gang.pinned or (owner_of(beside.promises, gang.group) is not None and not gang.opportunistic):
        return np.ones(room.milli.shape, dtype=np.bool_)
    return division.promised(room)


def _narrowed(room: Room, closed: Flags) -> Room:
    """The room without these GPUs."""
    narrowed = room.copy()
    narrowed.milli[closed] = 0
    narrowed.gpu_memory[closed] = 0
    narrowed.count_all()
    return narrowed


def _torn(room: Room, seats: Seats, own: list[Owned]) -> Owned | None:
    """The smaller of two cells over which a task would lie; small cells of one node are never taken for a large one."""
    for task in seats.tasks:
        row = room.layout.row[task.node]
        over = [owned for owned in own if any(owned.leaves[row, share.index] for share in task.gpus)]
        if len(over) > 1:
            return min(over, key=lambda owned: (int(owned.leaves.sum()), owned.cell))
    return None


def divide(room: Room, beside: Beside, gang: Gang | None = None) -> Division:
    """Which real cells stand for the promised ones, given what is free in this room and who is to be placed."""
    pool = beside.pool_settings
    promises, pins = beside.promises, pool.pinned if pool is not None else {}
    tree = Tree(room.layout, pool.topology if pool is not None else {}, kinds_of(promises, pins.values()))
    pinned = pinned_cells(tree, pins)
    bound: list[Owned] = []
    unbound = {group: dict(own) for group, own in promises.items()}
    for label in sorted({label for holding in beside.in_cells() for label in holding.cells}):
        group, cell = label_of(label)
        if unbound.get(group, {}).get(cell.level, 0) > 0 and (leaves := tree.leaves(cell)).any():
            unbound[group][cell.level] -= 1
            bound.append(Owned(group=group, cell=cell, leaves=leaves))
    busy = _opportunistic(room, beside)
    free = (room.milli == GPU_MILLI) & (room.gpu_memory == room.layout.uncut)
    available = (free | (busy > 0)) & tree.healthy
    for owned in (*bound, *pinned):
        available &= ~owned.leaves
    packing = pack(tree, unbound, available, busy, _wanted(room, tree.healthy, beside, gang))
    return Division(bound=bound, kept=packing.placed, pinned=pinned)


def _wanted(room: Room, healthy: Flags, beside: Beside, gang: Gang | None) -> Wanted | None:
    """Where the gang could stand at all; None where that is everywhere."""
    if gang is None or gang.pinned:
        return None
    needs = [need for need in gang.needs if need.wants_gpu]
    kinds = sorted({kind for need in needs for own in acceptable(room.layout, need).values() for kind in own})
    gpus = np.isin(room.layout.kind, kinds) & gang.mask(room.layout)[:, None]
    if bool((gpus == healthy).all()):
        return None
    return Wanted(group=None if gang.opportunistic else owner_of(beside.promises, gang.group), gpus=gpus)


def _own(gang: Gang, beside: Beside, division: Division) -> list[Owned]:
    if gang.opportunistic:
        return []
    if gang.pinned:
        return [pin for pin in division.pinned if pin.pin == gang.pinned and owner_of({pin.group: {}}, gang.group)]
    return division.of(owner_of(beside.promises, gang.group))


def _labelled(room: Room, seats: Seats, own: list[Owned]) -> Seats:
    """The seats, each task with the cells in which its GPUs are."""
    tasks = []
    for task in seats.tasks:
        row = room.layout.row[task.node]
        inside = [
            owned.label for owned in own if not owned.pin and any(owned.leaves[row, share.index] for share in task.gpus)
        ]
        tasks.append(replace(task, cells=tuple(sorted(inside))) if inside else task)
    return replace(seats, tasks=tuple(tasks))


def _opportunistic(room: Room, beside: Beside) -> Ints:
    """GPUs that only opportunistic tasks use, so that they can be cleared, with what clearing weighs.

    Of two such cells the one is cleared in which nobody runs who had a cell before.
    """
    found = np.zeros(room.milli.shape, dtype=np.int64)
    if beside.state is None:
        return found
    jobs = beside.state.kept.jobs
    for task in beside.state.kept.tasks.values():
        row = room.layout.row.get(task.node)
        job = jobs.get(task.job)
        if row is None or job is None:
            continue
        is_lowered = bool(job.lowered_for) or job.id in beside.lowered
        if is_lowered or job.service_class == ServiceClass.OPPORTUNISTIC:
            for share in task.gpus:
                if share.index < room.layout.width and share.milli == GPU_MILLI:
                    found[row, share.index] = LOWERED if is_lowered else 1
    return found

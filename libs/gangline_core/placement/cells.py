"""Cells: groups that are owed parts of the topology start inside them at once, others use what is left (HiveD).

- A job of such a group goes into the cells that the group uses already and those that are kept for it.
- Other jobs keep away from all promised cells, used or not.
- An opportunistic job may also use promised cells while nobody needs them. It is the first to go when somebody does.

Inside what it may use, a gang takes the smallest domain that holds it. Source: see `gangline_core.cells`.
"""

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from gangline_core.beside import NOTHING, Beside
from gangline_core.capacity import Flags, Room
from gangline_core.cells import Owned, Tree, label_of, levels_of, owner_of, pack
from gangline_core.placement.gang import Gang, Seats
from gangline_core.placement.topology import topology
from gangline_core.spec import GPU_MILLI, ServiceClass


class Division(Struct, frozen=True):
    """Whose cells are whose at this moment."""

    bound: list[Owned]
    """Cells in use."""
    kept: list[Owned]
    """Cells that are owed and not in use, where they would be."""

    def of(self, group: str | None) -> list[Owned]:
        """Cells of one group."""
        return [owned for owned in (*self.bound, *self.kept) if owned.group == group]

    def promised(self, room: Room) -> Flags:
        """GPUs in anybody's cells."""
        found = np.zeros(room.milli.shape, dtype=np.bool_)
        for owned in (*self.bound, *self.kept):
            found |= owned.leaves
        return found


def cells(room: Room, gang: Gang, beside: Beside = NOTHING) -> Seats | None:
    """Seats inside the group's cells, or outside of all cells."""
    pool = beside.pool_settings
    if pool is None or not pool.cells or not any(need.wants_gpu for need in gang.needs):
        return topology(room, gang)
    division = divide(room, beside)
    seats = topology(allowed(room, gang, beside, division), gang)
    if seats is not None:
        return _labelled(room, seats, _own(gang, beside, division))
    return topology(room, gang) if gang.opportunistic else None


def allowed_room(room: Room, gang: Gang, beside: Beside) -> Room:
    """What of the room the gang may use, to tell why it finds no seats there."""
    pool = beside.pool_settings
    if pool is None or not pool.cells or gang.opportunistic:
        return room
    return allowed(room, gang, beside, divide(room, beside))


def allowed(room: Room, gang: Gang, beside: Beside, division: Division) -> Room:
    """The room without GPUs that the gang had better not touch."""
    own = _own(gang, beside, division)
    if own:
        closed = ~np.logical_or.reduce([owned.leaves for owned in own])
    elif owner_of(beside.promises, gang.group) is not None and not gang.opportunistic:
        closed = np.ones(room.milli.shape, dtype=np.bool_)
    else:
        closed = division.promised(room)
    narrowed = room.copy()
    narrowed.milli[closed] = 0
    narrowed.gpu_memory[closed] = 0
    narrowed.count_all()
    return narrowed


def divide(room: Room, beside: Beside) -> Division:
    """Which real cells stand for the promised ones, given what is free in this room."""
    pool = beside.pool_settings
    promises = beside.promises
    tree = Tree(room.layout, pool.topology if pool is not None else {}, levels_of(promises))
    bound: list[Owned] = []
    unbound = {group: dict(own) for group, own in promises.items()}
    for label in sorted({label for holding in beside.in_cells() for label in holding.cells}):
        group, cell = label_of(label)
        if unbound.get(group, {}).get(cell.level, 0) > 0 and (leaves := tree.leaves(cell)).any():
            unbound[group][cell.level] -= 1
            bound.append(Owned(group=group, cell=cell, leaves=leaves))
    busy = _opportunistic(room, beside)
    free = (room.milli == GPU_MILLI) & (room.gpu_memory == room.layout.uncut)
    available = (free | busy) & tree.healthy
    for owned in bound:
        available &= ~owned.leaves
    return Division(bound=bound, kept=pack(tree, unbound, available, busy).placed)


def _own(gang: Gang, beside: Beside, division: Division) -> list[Owned]:
    return [] if gang.opportunistic else division.of(owner_of(beside.promises, gang.group))


def _labelled(room: Room, seats: Seats, own: list[Owned]) -> Seats:
    """The seats, each task with the cells in which its GPUs are."""
    tasks = []
    for task in seats.tasks:
        row = room.layout.row[task.node]
        inside = [owned.label for owned in own if any(owned.leaves[row, share.index] for share in task.gpus)]
        tasks.append(replace(task, cells=tuple(sorted(inside))) if inside else task)
    return replace(seats, tasks=tuple(tasks))


def _opportunistic(room: Room, beside: Beside) -> Flags:
    """GPUs that only opportunistic tasks use, so that they can be cleared."""
    found = np.zeros(room.milli.shape, dtype=np.bool_)
    if beside.state is None:
        return found
    jobs = beside.state.kept.jobs
    for task in beside.state.kept.tasks.values():
        row = room.layout.row.get(task.node)
        job = jobs.get(task.job)
        if row is not None and job is not None and job.spec.service_class == ServiceClass.OPPORTUNISTIC:
            for share in task.gpus:
                if share.index < room.layout.width and share.milli == GPU_MILLI:
                    found[row, share.index] = True
    return found

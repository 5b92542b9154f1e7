"""Can a job ever stand in the cells of its group, were the pool empty and well? Is a pinned one its own?"""

import msgspec
from msgspec.structs import replace

from gangline_core.cluster import NodeUse, gpu_span
from gangline_core.kept import PoolState
from gangline_core.placement.cells import cells
from gangline_core.placement.gang import gang_of
from gangline_core.reasons import Reason, ReasonCode
from gangline_core.room.beside import Beside
from gangline_core.room.capacity import Room
from gangline_core.room.cells import owner_of
from gangline_core.room.inventory import VERDICTS_MAX, Inventory, well
from gangline_core.spec import JobSpec, ServiceClass, smallest_size
from gangline_core.state import State

Verdict = tuple[Reason, str] | None


def never_fits_cells(inventory: Inventory, known: PoolState, spec: JobSpec) -> Verdict:
    """Why the job could not even stand in the cells of its group alone; None when it could, or needs none."""
    pool = known.pool
    fault = _pin_fault(known, spec)
    if fault is not None:
        return fault
    owner = owner_of(pool.cells, spec.group)
    is_bound = bool(spec.pinned_cell) or owner is not None
    if not is_bound or spec.service_class == ServiceClass.OPPORTUNISTIC or not inventory.nodes:
        return None
    sizes = {role.name: smallest_size(role) for role in spec.roles}
    gang = replace(gang_of(spec, sizes, pool), group=owner or spec.group)
    key = msgspec.json.encode(("cells", gang, pool.cells, pool.pinned), order="deterministic")
    if key not in inventory.verdicts:
        if len(inventory.verdicts) >= VERDICTS_MAX:
            inventory.verdicts.clear()
        fits = cells(_empty_room(inventory), gang, _alone(known)) is not None
        inventory.verdicts[key] = None if fits else _reason(known, spec, owner)
    return inventory.verdicts[key]


def _pin_fault(known: PoolState, spec: JobSpec) -> Verdict:
    name = spec.pinned_cell
    if not name:
        return None
    pin = known.pool.pinned.get(name)
    numbers: dict[str, int | str] = {"cell": name, "pool": known.pool.name}
    if pin is None or owner_of({pin.group: {}}, spec.group) is None:
        return Reason(ReasonCode.UNKNOWN_CELL, {**numbers, "group": spec.group}), "pinned_cell"
    if spec.service_class == ServiceClass.OPPORTUNISTIC:
        return Reason(ReasonCode.UNKNOWN_CELL, {**numbers, "group": "opportunistic jobs"}), "pinned_cell"
    return None


def _reason(known: PoolState, spec: JobSpec, owner: str | None) -> tuple[Reason, str]:
    if spec.pinned_cell:
        pin = known.pool.pinned[spec.pinned_cell]
        return Reason(
            ReasonCode.NEVER_FITS_CELLS, {"group": pin.group, "cells": f"{pin.level} {pin.cell}"}
        ), "pinned_cell"
    owed = known.pool.cells[owner or ""]
    text = ", ".join(f"{count} x {kind}" for kind, count in sorted(owed.items()))
    return Reason(ReasonCode.NEVER_FITS_CELLS, {"group": owner or "", "cells": text}), "roles"


def _alone(known: PoolState) -> Beside:
    """The pool with its promises and nobody in it."""
    blank = State()
    blank.kept.pools[known.pool.name] = PoolState(pool=known.pool, policy=known.policy)
    return Beside(blank, known.pool.name)


def _empty_room(inventory: Inventory) -> Room:
    """All machines, well and empty."""
    if inventory.empty is None:
        nodes = [well(node) for node in inventory.nodes]
        room = Room.of(nodes, inventory.tasks_max)
        for node in nodes:
            room.refresh(node, NodeUse(gpu_span(node)))
        inventory.empty = room
    return inventory.empty

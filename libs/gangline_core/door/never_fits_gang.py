"""Can the empty machines ever hold all roles of a gang side by side, as the gang wants to stand?

The sums at the door say most to a reader and come first. What no sum tells, the exact search of the placers tells, on
machines that are empty and well; where it gives up the job is let in. Of equal machines no more are looked at than the
gang has tasks.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from gangline_core.cluster import Node, NodeUse, Pool, gpu_span
from gangline_core.placement.gang import ANYWHERE, Gang, gang_of
from gangline_core.placement.thorough import WORK_MAX, fit
from gangline_core.placement.together import Work
from gangline_core.reasons import Reason, ReasonCode
from gangline_core.room.capacity import Room
from gangline_core.room.inventory import Inventory, well
from gangline_core.spec import JobSpec, smallest_size

Verdict = tuple[Reason, str] | None


def gang_verdict(inventory: Inventory, pool: Pool, spec: JobSpec) -> Verdict:
    """How many tasks the empty machines hold together, where that is fewer than the job needs."""
    gang = gang_of(spec, {role.name: smallest_size(role) for role in spec.roles}, pool)
    room = _empty_room(inventory, pool, gang)
    work = Work(WORK_MAX)
    for asked, words, field in _questions(gang):
        found = fit(room, asked, asked.mask(room.layout), asked.required, work)
        if found.is_known and found.most.tasks < asked.tasks:
            numbers: dict[str, int | str] = {
                "needed": asked.tasks,
                "dimension": f"places for tasks {words}",
                "largest": found.most.tasks,
            }
            return Reason(ReasonCode.NEVER_FITS_CLUSTER, numbers), field
    return None


def _questions(gang: Gang) -> Iterator[tuple[Gang, str, str]]:
    """The gang with more and more of what it wants, in words, and the field that says so."""
    several = len(gang.needs) > 1
    free = replace(gang, required=ANYWHERE, same_model=False, slice_tasks=0, spread_level="")
    sides = "of all roles side by side" if several else "of its role"
    if several:
        yield free, sides, "roles"
    if gang.same_model:
        yield replace(free, same_model=True), f"{sides} on GPUs of one model", "same_model"
    at_level = replace(free, same_model=gang.same_model, required=gang.required)
    if gang.required:
        yield at_level, f"{sides} inside one {gang.required}", "topology.required"
    shape = f" inside one {gang.required}" if gang.required else ""
    if gang.slice_tasks:
        shape = f" in slices of {gang.slice_tasks} inside one {gang.slice_level}, each on one model{shape}"
        for need in gang.needs if several else ():
            alone = replace(at_level, needs=(need,), slice_tasks=gang.slice_tasks)
            yield alone, f"of role {need.role}{shape}", "topology.slices"
        yield replace(gang, spread_level=""), f"{sides}{shape}", "topology.slices"
    if gang.spread_level:
        yield gang, f"{sides}{shape} with at most {gang.spread_most} in one {gang.spread_level}", "topology.spread"


def _empty_room(inventory: Inventory, pool: Pool, gang: Gang) -> Room:
    """Machines, empty and well; of those that the gang cannot tell apart as many as it has tasks."""
    levels = [pool.topology.get(level, "") for level in (gang.required, gang.slice_level, gang.spread_level)]
    wheres = [need.where for need in gang.needs if need.where is not None]
    selected = [name for where in wheres for name, _ in where.selector]
    labels = sorted({*levels, *gang.selector, *selected} - {""})
    count: dict[object, int] = {}
    chosen: list[Node] = []
    for node, kind in inventory.kinds():
        looks = (kind, tuple(node.labels.get(label, "") for label in labels))
        count[looks] = count.get(looks, 0) + 1
        if count[looks] <= gang.tasks:
            # Taints come and go, as labels do: what is certain is only what the machines have.
            chosen.append(replace(well(node), taints=()))
    room = Room.of(chosen, inventory.tasks_max)
    for node in chosen:
        room.refresh(node, NodeUse(gpu_span(node)))
    return room

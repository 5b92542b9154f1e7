"""Why a gang finds no seats although each of its roles alone would: the first cause that holds, in counted numbers.

Sums come first, for they say most to a reader: GPUs inside the level, GPUs in all, CPU, memory. What no sum tells is
told by the exact search: how many tasks fit together at most, of one role or of all.
"""

import numpy as np
from msgspec.structs import replace

from gangline_core.placement.fit import whole_free
from gangline_core.placement.gang import ANYWHERE, Gang
from gangline_core.placement.in_numbers import able_members, best_domain, fragmented, kinds_for, most_on, suitable_gpus
from gangline_core.placement.models import acceptable
from gangline_core.placement.thorough import WORK_MAX, Fit, fit
from gangline_core.placement.together import Work
from gangline_core.reasons import Reason, ReasonCode
from gangline_core.room.capacity import Flags, Room
from gangline_core.spec import GPU_MILLI

Numbers = dict[str, int | str]
SIDE_BY_SIDE = "for all of its roles side by side"
OF_ITS_PLACEMENT = "that the pool's placement would give it"


def why_not_together(room: Room, gang: Gang, mask: Flags) -> Reason:
    """The reason of a gang each of whose roles finds room in the pool."""
    work = Work(WORK_MAX)
    return (
        _too_scattered(room, gang, mask)
        or (_too_mixed(room, gang, mask) if gang.same_model else None)
        or (_too_much(room, gang, mask, work) if not gang.required else None)
        or _role_apart(room, gang, mask, work)
        or _apart(room, gang, mask, work)
    )


def _too_scattered(room: Room, gang: Gang, mask: Flags) -> Reason | None:
    """How many of the GPUs of one role, or of all, the best domain of the level has; None when it has enough."""
    if not gang.required:
        return None
    whole = [need for need in gang.needs if need.gpus]
    for need in whole:
        most, where = best_domain(room, gang, gang.required, kinds_for(room, [need]), need.within(room.layout, mask))
        if most < need.count * need.gpus:
            things = f"GPUs for role {need.role}" if len(gang.needs) > 1 else ""
            return _inside(gang, need.count * need.gpus, most, where, things)
    if whole:
        most, where = best_domain(room, gang, gang.required, kinds_for(room, whole), mask)
        if most < gang.whole_gpus:
            return _inside(gang, gang.whole_gpus, most, where)
    return None


def _inside(gang: Gang, needed: int, free: int, where: str, things: str = "") -> Reason:
    numbers: Numbers = {"needed": needed, "level": gang.required, "free": free}
    if where:
        numbers["where"] = where
    if things:
        numbers["things"] = things
    return Reason(ReasonCode.TOPOLOGY, numbers)


def _too_mixed(room: Room, gang: Gang, mask: Flags) -> Reason | None:
    """How many GPUs the model that has most could give; None when one model has enough."""
    by_model = [
        int(np.where(mask, whole_free(room, kinds), 0).sum())
        for kinds in acceptable(room.layout, max(gang.needs, key=lambda need: need.gpus)).values()
    ]
    most = max(by_model, default=0)
    if most >= gang.whole_gpus:
        return None
    numbers: Numbers = {"needed": gang.whole_gpus, "free": most, "total": sum(by_model)}
    return Reason(ReasonCode.INSUFFICIENT_GPUS, numbers)


def _too_much(room: Room, gang: Gang, mask: Flags, work: Work) -> Reason | None:
    """All roles together ask for more GPUs, CPU or memory than there is where some of them could run."""
    whole = [need for need in gang.needs if need.gpus]
    kinds = kinds_for(room, whole)
    by_node = np.where(mask, whole_free(room, kinds), 0) if kinds else np.zeros(len(mask), dtype=np.int64)
    free, on_one = int(by_node.sum()), int(by_node.max(initial=0))
    if gang.whole_gpus > free:
        total = suitable_gpus(room.layout, gang, kinds)
        return Reason(ReasonCode.INSUFFICIENT_GPUS, {"needed": gang.whole_gpus, "free": free, "total": total})
    largest = max((need.gpus for need in whole), default=0)
    if largest > on_one:
        where = room.nodes[int(by_node.argmax())].id if on_one else ""
        return fragmented(largest * GPU_MILLI, free * GPU_MILLI, on_one * GPU_MILLI, where)
    on = mask & (able_members(room, gang, mask) > 0)
    if sum(need.count * need.cpu_milli for need in gang.needs) > int(room.cpu[on].clip(0).sum()):
        most = max(need.cpu_milli for need in gang.needs)
        return _beside(ReasonCode.INSUFFICIENT_CPU, most, most_on(room.cpu, on), _held(room, gang, mask, work))
    if sum(need.count * need.memory_mib for need in gang.needs) > int(room.memory[on].clip(0).sum()):
        most = max(need.memory_mib for need in gang.needs)
        return _beside(ReasonCode.INSUFFICIENT_MEMORY, most, most_on(room.memory, on), _held(room, gang, mask, work))
    return None


def _beside(code: ReasonCode, needed: int, free: int, held: Numbers) -> Reason | None:
    """Too little for all of them together; None where for how many there is enough was not found out, but for one."""
    return Reason(code, {"needed": needed, "free": free, **held}) if held or needed > free else None


def _held(room: Room, gang: Gang, mask: Flags, work: Work) -> Numbers:
    """For how many members there is room, if that could be found out."""
    found = fit(room, gang, mask, gang.required, work)
    return {"held": found.most.tasks, "tasks": gang.tasks} if found.is_known else {}


def _role_apart(room: Room, gang: Gang, mask: Flags, work: Work) -> Reason | None:
    """The first role that could not stand as the gang wants it to, were it alone; None when each could."""
    if len(gang.needs) < 2:
        return None
    for need in gang.needs:
        alone = replace(gang, needs=(need,))
        found = fit(room, alone, mask, gang.required, work)
        if found.is_known and found.most.tasks < need.count:
            return _told(alone, found, f"for role {need.role}{_shape(gang)}")
    return None


def _apart(room: Room, gang: Gang, mask: Flags, work: Work) -> Reason:
    """How many tasks of all roles stand together at most."""
    found = fit(room, gang, mask, gang.required, work)
    if found.is_known and found.most.tasks >= gang.tasks:
        # There is room, and whoever places does not want it, such as tasks across two sockets.
        return Reason(ReasonCode.SHAPE, {"needed": gang.tasks, "shape": OF_ITS_PLACEMENT})
    several = len(gang.needs) > 1
    words = (f" {SIDE_BY_SIDE}" if several else "") + _shape(gang)
    if not words and gang.required == ANYWHERE:
        words = " on GPUs of one model each"
    return _told(gang, found, words.strip(), roles=len(gang.needs) if several else 0)


def _shape(gang: Gang) -> str:
    """What the gang wants beside a level, as words."""
    words = ""
    if gang.slice_tasks:
        words += f" in slices of {gang.slice_tasks} inside one {gang.slice_level}"
    if gang.spread_level:
        words += f" with at most {gang.spread_most} in one {gang.spread_level}"
    return words


def _told(gang: Gang, found: Fit, words: str, *, roles: int = 0) -> Reason:
    """So many places are needed and so many there are; or the search for them was given up."""
    free: Numbers = {"free": found.most.tasks}
    if not found.is_known:
        free = {"sorts": len(gang.needs)} if found.has_too_many_sorts else {"steps": WORK_MAX}
    if roles:
        free["roles"] = roles
    if gang.required:
        numbers: Numbers = {"needed": gang.tasks, "level": gang.required, "things": f"places {words}".strip()}
        if found.is_known and found.most.where:
            numbers["where"] = found.most.where
        return Reason(ReasonCode.TOPOLOGY, {**numbers, **free})
    return Reason(ReasonCode.SHAPE, {"needed": gang.tasks, "shape": words, **free})

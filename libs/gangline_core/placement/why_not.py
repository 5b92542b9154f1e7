"""Why a gang finds no seats: one primary reason with numbers that add up."""

from collections.abc import Iterable

import numpy as np

from gangline_core.capacity import Flags, Ints, Layout, Room, matches, tolerates
from gangline_core.cluster import LEVELS_INSIDE_NODE, tasks_most
from gangline_core.placement.fit import most_free, slots, whole_free
from gangline_core.placement.gang import Gang, Need, Where
from gangline_core.placement.models import acceptable
from gangline_core.placement.shaped import Shape
from gangline_core.reasons import Reason, ReasonCode
from gangline_core.spec import GPU_MILLI

ROOM_CODES = frozenset(
    {
        ReasonCode.INSUFFICIENT_GPUS,
        ReasonCode.FRAGMENTED_GPUS,
        ReasonCode.INSUFFICIENT_GPU_MEMORY,
        ReasonCode.INSUFFICIENT_CPU,
        ReasonCode.INSUFFICIENT_MEMORY,
        ReasonCode.INSUFFICIENT_DEVICES,
        ReasonCode.INSUFFICIENT_SLICES,
        ReasonCode.INSUFFICIENT_PLACES,
        ReasonCode.SHAPE,
        ReasonCode.TOPOLOGY,
        ReasonCode.NO_ELIGIBLE_NODE,
        ReasonCode.RESERVED,
        ReasonCode.POSTPONED,
    }
)
"""Reasons that more room would cure."""


def why_not(room: Room, gang: Gang) -> Reason:
    """The first cause that holds: no node, one role alone, all roles together, topology."""
    mask = gang.mask(room.layout)
    if not mask.any():
        return _no_node(room.layout, gang, next((need.where for need in gang.needs), None))
    for need in gang.needs:
        own = need.within(room.layout, mask)
        reason = _role_fault(room, gang, need, own) if own.any() else _no_node(room.layout, gang, need.where)
        if reason is not None:
            return reason
    if room.crowded and (free := _places_for_all(room, gang, mask)) < gang.tasks:
        return _too_crowded(room, gang.tasks, free, mask)
    if gang.required and (scattered := _too_scattered(room, gang, mask)) is not None:
        return scattered
    if gang.is_shaped:
        return _misshapen(room, gang, mask)
    if gang.same_model and (mixed := _too_mixed(room, gang, mask)) is not None:
        return mixed
    return _together(room, gang, mask)


def _no_node(layout: Layout, gang: Gang, where: Where | None) -> Reason:
    """Why no node takes a task of a role, whatever is free."""
    selector, tolerations = gang.selector, gang.tolerations
    if where is not None:
        selector, tolerations = dict(where.selector), where.tolerations
    count = {"drained": 0, "lost": 0, "tainted": 0, "unmatched": 0}
    for node in layout.nodes:
        if node.id in gang.excluded or not matches(node, selector):
            count["unmatched"] += 1
        elif not tolerates(node, tolerations):
            count["tainted"] += 1
        elif node.drained:
            count["drained"] += 1
        else:
            count["lost"] += 1
    return Reason(ReasonCode.NO_ELIGIBLE_NODE, dict(count))


def _role_fault(room: Room, gang: Gang, need: Need, mask: Flags) -> Reason | None:
    """Why the role alone does not fit; None when it does."""
    kinds = tuple(number for kinds in acceptable(room.layout, need).values() for number in kinds)
    if room.crowded:
        wide = room.uncrowded()
        if (reason := _role_fault(wide, gang, need, mask)) is not None:
            return reason
        held = int(slots(room, need, kinds, mask).sum())
        return _too_crowded(room, need.count, held, mask) if held < need.count else None
    able = np.ones(len(mask), dtype=np.bool_)
    if need.wants_gpu:
        reason = _gpu_fault(room, gang, need, kinds, mask)
        if reason is not None:
            return reason
        able = slots(room, bare(need), kinds, mask) > 0
    return _rest_fault(room, need, kinds, mask, able)


def _kinds(room: Room, needs: Iterable[Need]) -> tuple[int, ...]:
    """Kinds of GPUs that some of these may use."""
    return tuple(sorted({k for need in needs for own in acceptable(room.layout, need).values() for k in own}))


def _able(room: Room, gang: Gang, mask: Flags) -> Ints:
    """Per node for how many members of any role it has room, if they had it alone."""
    found = np.zeros(len(mask), dtype=np.int64)
    for need in gang.needs:
        found += slots(room, need, _kinds(room, [need]), mask)
    return found


def _places_for_all(room: Room, gang: Gang, mask: Flags) -> int:
    """How many members find a place on nodes that have room for some of them."""
    return int(np.minimum(room.places.clip(0), _able(room, gang, mask)).sum())


def _too_crowded(room: Room, needed: int, free: int, mask: Flags) -> Reason:
    """The nodes would have what so many tasks ask for, but they take no more tasks."""
    most = max((tasks_most(room.nodes[row], room.tasks_max) for row in np.flatnonzero(mask).tolist()), default=0)
    return Reason(ReasonCode.INSUFFICIENT_PLACES, {"needed": needed, "free": free, "most": most})


def _gpu_fault(room: Room, gang: Gang, need: Need, kinds: tuple[int, ...], mask: Flags) -> Reason | None:
    if need.is_share:
        return _share_fault(room, need, kinds, mask, np.isin(room.layout.kind, kinds) & mask[:, None])
    total = _suitable_gpus(room.layout, gang, kinds, need)
    if not any(room.total[number] for number in kinds):
        return Reason(ReasonCode.INSUFFICIENT_GPUS, {"needed": need.count * need.gpus, "free": 0, "total": total})
    free = np.where(mask, whole_free(room, kinds), 0)
    usable = int((free // need.gpus).sum()) * need.gpus
    wanted, free_in_all, free_on_one = need.count * need.gpus, int(free.sum()), int(free.max(initial=0))
    if usable >= wanted:
        return None
    if free_in_all >= need.gpus > free_on_one:
        where = room.nodes[int(free.argmax())].id if free_on_one else ""
        return _fragmented(need.gpus * GPU_MILLI, free_in_all * GPU_MILLI, free_on_one * GPU_MILLI, where)
    shown = usable if free_in_all >= wanted else free_in_all
    return Reason(ReasonCode.INSUFFICIENT_GPUS, {"needed": wanted, "free": shown, "total": total})


def _suitable_gpus(layout: Layout, gang: Gang, kinds: tuple[int, ...], need: Need | None = None) -> int:
    """Usable GPUs of these kinds on nodes that may take the gang, or this role of it, taken or not."""
    mask = gang.mask(layout) if need is None else need.within(layout, gang.mask(layout))
    asked = ("suitable", gang.where, None if need is None else need.where, kinds)
    return layout.remember(asked, lambda: int((np.isin(layout.kind, kinds) & mask[:, None]).sum()))


def _share_fault(room: Room, need: Need, kinds: tuple[int, ...], mask: Flags, suitable: Flags) -> Reason | None:
    held = int(slots(room, bare(need), kinds, mask).sum()) if kinds else 0
    if held >= need.count:
        return None
    if need.mig:
        numbers: dict[str, int | str] = {"needed": need.count, "profile": need.mig, "free": held}
        return Reason(ReasonCode.INSUFFICIENT_SLICES, numbers)
    most_mib = int(np.where(suitable, room.gpu_memory, 0).max(initial=0))
    if need.gpu_memory_mib > most_mib:
        return Reason(ReasonCode.INSUFFICIENT_GPU_MEMORY, {"needed": need.gpu_memory_mib, "free": max(0, most_mib)})
    free = np.where(suitable, np.maximum(room.milli, 0), 0)
    free_in_all, most = int(free.sum()), int(free.max(initial=0))
    if free_in_all >= need.milli > most:
        return _fragmented(need.milli, free_in_all, most)
    numbers = {
        "needed": _gpus(need.count * max(1, need.milli)),
        "free": _gpus(free_in_all),
        "total": int(suitable.sum()),
    }
    return Reason(ReasonCode.INSUFFICIENT_GPUS, numbers)


def _rest_fault(room: Room, need: Need, kinds: tuple[int, ...], mask: Flags, able: Flags) -> Reason | None:
    """What besides GPUs is missing on the nodes that have GPUs for it."""
    on = mask & able
    with_cpu = slots(room, bare(need, cpu=True), kinds, mask)
    if need.cpu_milli and int(with_cpu.sum()) < need.count:
        numbers: dict[str, int | str] = {"needed": need.cpu_milli, "free": _most(room.cpu, on)}
        return Reason(ReasonCode.INSUFFICIENT_CPU, numbers | _held(need, with_cpu))
    # What is missing next is told of nodes on which all before is there.
    on &= with_cpu > 0
    with_memory = slots(room, bare(need, cpu=True, memory=True), kinds, mask)
    if need.memory_mib and int(with_memory.sum()) < need.count:
        numbers = {"needed": need.memory_mib, "free": _most(room.memory, on)}
        return Reason(ReasonCode.INSUFFICIENT_MEMORY, numbers | _held(need, with_memory))
    on &= with_memory > 0
    with_devices = slots(room, need, kinds, mask)
    if int(with_devices.sum()) < need.count:
        name, amount = max(need.devices.items(), key=lambda item: (_missing(room, on, item), item[0]))
        free = _most(room.devices[name], on) if name in room.devices else 0
        numbers = {"needed": amount, "device": name, "free": free}
        return Reason(ReasonCode.INSUFFICIENT_DEVICES, numbers | _held(need, with_devices))
    return None


def _held(need: Need, room_for: Ints) -> dict[str, int | str]:
    """Of several members, how many find room; one alone needs no such number."""
    return {} if need.count < 2 else {"held": int(room_for.sum()), "tasks": need.count}


def _missing(room: Room, on: Flags, item: tuple[str, int]) -> int:
    name, amount = item
    return amount - (_most(room.devices[name], on) if name in room.devices else 0)


def _too_scattered(room: Room, gang: Gang, mask: Flags) -> Reason | None:
    """How much of what the gang needs the best domain of the required level has; None when GPUs are not what lacks."""
    needs = [need for need in gang.needs if need.gpus] or list(gang.needs)
    kinds = tuple(sorted({k for need in needs for own in acceptable(room.layout, need).values() for k in own}))
    most, where = best_domain(room, gang, gang.required, kinds, mask)
    if gang.is_shaped and most >= gang.whole_gpus:
        return None
    numbers: dict[str, int | str] = {"needed": gang.whole_gpus, "level": gang.required, "free": most}
    if where:
        numbers["where"] = where
    return Reason(ReasonCode.TOPOLOGY, numbers)


def best_domain(room: Room, gang: Gang, level: str, kinds: tuple[int, ...], mask: Flags) -> tuple[int, str]:
    """The most whole free GPUs of these kinds in one domain of a level, and which domain that is."""
    free = np.where(mask, whole_free(room, kinds), 0) if kinds else np.where(mask, room.free, 0)
    if level in LEVELS_INSIDE_NODE:
        part = most_free(room, level)
        inside = np.minimum(free, part)
        best = int(inside.argmax()) if len(inside) else 0
        most = int(inside[best]) if len(inside) else 0
        return most, f"{room.nodes[best].id}" if most else ""
    labels = dict(gang.levels)
    if level not in labels:
        return 0, ""
    codes, names = room.layout.domains(labels[level])
    inside = codes >= 0
    sums = np.bincount(codes[inside], weights=free[inside], minlength=max(1, len(names))).astype(np.int64)
    most = int(sums.max(initial=0))
    return most, names[int(sums.argmax())] if most and names else ""


def _misshapen(room: Room, gang: Gang, mask: Flags) -> Reason:
    """How many tasks could stand as the gang wants to, of those it needs."""
    worst = max(gang.needs, key=lambda need: need.count)
    kinds = tuple(k for own in acceptable(room.layout, worst).values() for k in own)
    free = slots(room, bare(worst, cpu=True, memory=True), kinds, mask)
    shape = Shape(room, gang, worst, kinds, free=free, keys=np.zeros_like(free), done=())
    words = f"with at most {gang.spread_most} in one {gang.spread_level}"
    if gang.slice_tasks:
        words = f"in slices of {gang.slice_tasks} inside one {gang.slice_level}"
        found = sum(count for _, count, _ in shape.in_slices(worst.count))
    else:
        found = int(shape.spread_out().sum())
    return Reason(ReasonCode.SHAPE, {"needed": gang.tasks, "shape": words, "free": min(found, gang.tasks - 1)})


def _too_mixed(room: Room, gang: Gang, mask: Flags) -> Reason | None:
    """How many GPUs the model that has most could give; None when one model has enough."""
    by_model = [
        int(np.where(mask, whole_free(room, kinds), 0).sum())
        for kinds in acceptable(room.layout, max(gang.needs, key=lambda need: need.gpus)).values()
    ]
    most = max(by_model, default=0)
    if most >= gang.whole_gpus:
        return None
    numbers: dict[str, int | str] = {"needed": gang.whole_gpus, "free": most, "total": sum(by_model)}
    return Reason(ReasonCode.INSUFFICIENT_GPUS, numbers)


def _together(room: Room, gang: Gang, mask: Flags) -> Reason:
    """Each role would fit alone: the GPUs of all together are too few, or they are in each other's way."""
    whole = [need for need in gang.needs if need.gpus]
    kinds = _kinds(room, whole)
    by_node = np.where(mask, whole_free(room, kinds), 0) if kinds else np.zeros(len(mask), dtype=np.int64)
    free, on_one = int(by_node.sum()), int(by_node.max(initial=0))
    if gang.whole_gpus > free:
        total = _suitable_gpus(room.layout, gang, kinds)
        return Reason(ReasonCode.INSUFFICIENT_GPUS, {"needed": gang.whole_gpus, "free": free, "total": total})
    largest = max((need.gpus for need in whole), default=0)
    if largest > on_one:
        where = room.nodes[int(by_node.argmax())].id if on_one else ""
        return _fragmented(largest * GPU_MILLI, free * GPU_MILLI, on_one * GPU_MILLI, where)
    on = mask & (_able(room, gang, mask) > 0)
    cpu, memory = (sum(n.count * n.cpu_milli for n in gang.needs), sum(n.count * n.memory_mib for n in gang.needs))
    if cpu > (there := int(room.cpu[on].clip(0).sum())):
        most = max(need.cpu_milli for need in gang.needs)
        numbers: dict[str, int | str] = {"needed": most, "free": _most(room.cpu, on)}
        return Reason(ReasonCode.INSUFFICIENT_CPU, numbers | _part(gang, there, cpu))
    if memory > (there := int(room.memory[on].clip(0).sum())):
        most = max(need.memory_mib for need in gang.needs)
        numbers = {"needed": most, "free": _most(room.memory, on)}
        return Reason(ReasonCode.INSUFFICIENT_MEMORY, numbers | _part(gang, there, memory))
    words = "for all of its roles side by side"
    return Reason(ReasonCode.SHAPE, {"needed": gang.tasks, "shape": words})


def _part(gang: Gang, there: int, wanted: int) -> dict[str, int | str]:
    """For how many members what is there would do."""
    return {"held": min(gang.tasks - 1, gang.tasks * there // wanted), "tasks": gang.tasks}


def bare(need: Need, *, cpu: bool = False, memory: bool = False) -> Need:
    """The need with its GPUs, and of the rest only what is named."""
    return Need(
        role=need.role,
        count=max(2, need.count),
        gpus=need.gpus,
        milli=need.milli,
        gpu_memory_mib=need.gpu_memory_mib,
        models=need.models,
        cpu_milli=need.cpu_milli if cpu else 0,
        memory_mib=need.memory_mib if memory else 0,
        devices={},
        exclude_models=need.exclude_models,
        near_nic=need.near_nic,
        mig=need.mig,
        where=need.where,
    )


def _most(free: Ints, on: Flags) -> int:
    return max(0, int(free[on].max(initial=0)))


def _fragmented(needed: int, free: int, free_on_one: int, where: str = "") -> Reason:
    numbers: dict[str, int | str] = {
        "needed": _gpus(needed),
        "free": _gpus(free),
        "free_on_one_node": _gpus(free_on_one),
    }
    if where:
        numbers["where"] = where
    return Reason(ReasonCode.FRAGMENTED_GPUS, numbers)


def _gpus(milli: int) -> int | str:
    """Thousandths as a user says them: 2, or "0.5"."""
    return milli // GPU_MILLI if milli % GPU_MILLI == 0 else f"{milli / GPU_MILLI:g}"

"""Why a gang finds no seats: one primary reason with numbers that add up."""

import numpy as np

from gangline_core.cluster import tasks_most
from gangline_core.placement.fit import slots, whole_free
from gangline_core.placement.gang import Gang, Need, Where
from gangline_core.placement.in_numbers import able_members, fragmented, in_gpus, most_on, suitable_gpus
from gangline_core.placement.models import acceptable
from gangline_core.placement.why_together import why_not_together
from gangline_core.reasons import Reason, ReasonCode
from gangline_core.room.capacity import Flags, Ints, Layout, Room, matches, tolerates
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
        ReasonCode.NO_LABEL,
        ReasonCode.RESERVED,
        ReasonCode.POSTPONED,
    }
)
"""Reasons that more room would cure."""


def why_not(room: Room, gang: Gang) -> Reason:
    """The first cause that holds: no node, one role alone, all roles together, topology."""
    mask = gang.mask(room.layout)
    if not np.count_nonzero(mask):
        if gang.open_to(room.layout).any():
            return _no_label(room.layout, gang)
        return _no_node(room.layout, gang, next((need.where for need in gang.needs), None))
    for need in gang.needs:
        own = need.within(room.layout, mask)
        is_anywhere = np.count_nonzero(own) > 0
        reason = _role_fault(room, gang, need, own) if is_anywhere else _no_node(room.layout, gang, need.where)
        if reason is not None:
            return reason
    if room.crowded and (free := _places_for_all(room, gang, mask)) < gang.tasks:
        return _too_crowded(room, gang.tasks, free, mask)
    return why_not_together(room, gang, mask)


def _no_label(layout: Layout, gang: Gang) -> Reason:
    """The label that no node has which could take the gang otherwise; where each has some, the first asked for."""
    levels = {label: level for level, label in gang.levels}
    open_to = gang.open_to(layout)
    missing = [label for label in gang.labels if not (open_to & (layout.domains(label)[0] >= 0)).any()]
    label = (missing or list(gang.labels))[0]
    return Reason(ReasonCode.NO_LABEL, {"label": label, "level": levels[label], "nodes": int(open_to.sum())})


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
        elif node.lost:
            count["lost"] += 1
        else:
            count["sick"] = count.get("sick", 0) + 1
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
    if not need.wants_gpu:
        return _rest_fault(room, need, kinds, mask, np.ones(len(mask), dtype=np.bool_))
    reason = _gpu_fault(room, gang, need, kinds, mask)
    if reason is not None:
        return reason
    able = slots(room, bare(need), kinds, mask) > 0
    return _rest_fault(room, need, kinds, mask, able)


def _places_for_all(room: Room, gang: Gang, mask: Flags) -> int:
    """How many members find a place on nodes that have room for some of them."""
    return int(np.minimum(room.places.clip(0), able_members(room, gang, mask)).sum())


def _too_crowded(room: Room, needed: int, free: int, mask: Flags) -> Reason:
    """The nodes would have what so many tasks ask for, but they take no more tasks."""
    most = max((tasks_most(room.nodes[row], room.tasks_max) for row in np.flatnonzero(mask).tolist()), default=0)
    return Reason(ReasonCode.INSUFFICIENT_PLACES, {"needed": needed, "free": free, "most": most})


def _gpu_fault(room: Room, gang: Gang, need: Need, kinds: tuple[int, ...], mask: Flags) -> Reason | None:
    if need.is_share:
        return _share_fault(room, need, kinds, mask, np.isin(room.layout.kind, kinds) & mask[:, None])
    total = suitable_gpus(room.layout, gang, kinds, need)
    if not any(room.total[number] for number in kinds):
        return Reason(ReasonCode.INSUFFICIENT_GPUS, {"needed": need.count * need.gpus, "free": 0, "total": total})
    free = np.where(mask, whole_free(room, kinds), 0)
    held = int((free // need.gpus).sum())
    if held >= need.count:
        return None
    wanted, free_in_all, free_on_one = need.count * need.gpus, int(free.sum()), int(free.max(initial=0))
    if free_in_all >= need.gpus > free_on_one:
        where = room.nodes[int(free.argmax())].id if free_on_one else ""
        return fragmented(need.gpus * GPU_MILLI, free_in_all * GPU_MILLI, free_on_one * GPU_MILLI, where)
    if free_in_all >= wanted:
        # There are enough, but not so many times as many on one node.
        return _places_for(need.count, f"of {need.gpus} GPUs on one node each", held)
    return Reason(ReasonCode.INSUFFICIENT_GPUS, {"needed": wanted, "free": free_in_all, "total": total})


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
    free_in_all = int(np.where(suitable, np.maximum(room.milli, 0), 0).sum())
    if need.count * need.milli <= free_in_all:
        return _places_for(need.count, f"of {share_words(need)} each", held)
    numbers = {
        "needed": in_gpus(need.count * need.milli),
        "free": in_gpus(free_in_all),
        "total": int(suitable.sum()),
    }
    return Reason(ReasonCode.INSUFFICIENT_GPUS, numbers)


def _places_for(needed: int, shape: str, held: int) -> Reason:
    """Enough in sum, but not where it is."""
    return Reason(ReasonCode.SHAPE, {"needed": needed, "shape": shape, "free": held})


def share_words(need: Need) -> str:
    """What a share takes of one GPU: "0.5 of one GPU", "2000 MiB of one GPU", "0.5 and 2000 MiB of one GPU"."""
    parts = [f"{in_gpus(need.milli)}"] if need.milli else []
    parts += [f"{need.gpu_memory_mib} MiB"] if need.gpu_memory_mib else []
    return f"{' and '.join(parts)} of one GPU"


def _rest_fault(room: Room, need: Need, kinds: tuple[int, ...], mask: Flags, able: Flags) -> Reason | None:
    """What besides GPUs is missing on the nodes that have GPUs for it."""
    on = mask & able
    with_cpu = slots(room, bare(need, cpu=True), kinds, mask)
    if need.cpu_milli and int(with_cpu.sum()) < need.count:
        numbers: dict[str, int | str] = {"needed": need.cpu_milli, "free": most_on(room.cpu, on)}
        return Reason(ReasonCode.INSUFFICIENT_CPU, numbers | _held(need, with_cpu))
    # What is missing next is told of nodes on which all before is there.
    on &= with_cpu > 0
    with_memory = slots(room, bare(need, cpu=True, memory=True), kinds, mask)
    if need.memory_mib and int(with_memory.sum()) < need.count:
        numbers = {"needed": need.memory_mib, "free": most_on(room.memory, on)}
        return Reason(ReasonCode.INSUFFICIENT_MEMORY, numbers | _held(need, with_memory))
    on &= with_memory > 0
    with_devices = slots(room, need, kinds, mask)
    if int(with_devices.sum()) < need.count:
        name, amount = max(need.devices.items(), key=lambda item: (_missing(room, on, item), item[0]))
        free = most_on(room.devices[name], on) if name in room.devices else 0
        numbers = {"needed": amount, "device": name, "free": free}
        return Reason(ReasonCode.INSUFFICIENT_DEVICES, numbers | _held(need, with_devices))
    return None


def _held(need: Need, room_for: Ints) -> dict[str, int | str]:
    """Of several members, how many find room; one alone needs no such number."""
    return {} if need.count < 2 else {"held": int(room_for.sum()), "tasks": need.count}


def _missing(room: Room, on: Flags, item: tuple[str, int]) -> int:
    name, amount = item
    return amount - (most_on(room.devices[name], on) if name in room.devices else 0)


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

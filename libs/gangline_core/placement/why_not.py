"""Why a gang finds no seats: one primary reason with numbers that add up."""

import numpy as np

from gangline_core.capacity import Flags, Ints, Layout, Room, matches, tolerates
from gangline_core.cluster import LEVELS_INSIDE_NODE
from gangline_core.placement.fit import slots, whole_free
from gangline_core.placement.gang import Gang, Need
from gangline_core.placement.models import acceptable
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
        ReasonCode.TOPOLOGY,
        ReasonCode.NO_ELIGIBLE_NODE,
        ReasonCode.RESERVED,
    }
)
"""Reasons that more room would cure."""


def why_not(room: Room, gang: Gang) -> Reason:
    """The first cause that holds: no node, one role alone, all roles together, topology."""
    mask = room.layout.eligible(gang.selector, gang.tolerations)
    if not mask.any():
        return _no_node(room.layout, gang)
    for need in gang.needs:
        reason = _role_fault(room, gang, need, mask)
        if reason is not None:
            return reason
    if gang.required:
        return _too_scattered(room, gang, mask)
    return _together(room, gang, mask)


def _no_node(layout: Layout, gang: Gang) -> Reason:
    count = {"drained": 0, "lost": 0, "tainted": 0, "unmatched": 0}
    for node in layout.nodes:
        if not matches(node, gang.selector):
            count["unmatched"] += 1
        elif not tolerates(node, gang.tolerations):
            count["tainted"] += 1
        elif node.drained:
            count["drained"] += 1
        else:
            count["lost"] += 1
    return Reason(ReasonCode.NO_ELIGIBLE_NODE, dict(count))


def _role_fault(room: Room, gang: Gang, need: Need, mask: Flags) -> Reason | None:
    """Why the role alone does not fit; None when it does."""
    kinds = tuple(number for kinds in acceptable(room.layout, need).values() for number in kinds)
    able = np.ones(len(mask), dtype=np.bool_)
    if need.wants_gpu:
        reason = _gpu_fault(room, gang, need, kinds, mask)
        if reason is not None:
            return reason
        able = slots(room, bare(need), kinds, mask) > 0
    return _rest_fault(room, need, kinds, mask, able)


def _gpu_fault(room: Room, gang: Gang, need: Need, kinds: tuple[int, ...], mask: Flags) -> Reason | None:
    if need.is_share:
        return _share_fault(room, need, kinds, mask, np.isin(room.layout.kind, kinds) & mask[:, None])
    total = _suitable_gpus(room.layout, gang, kinds)
    if not any(room.total[number] for number in kinds):
        return Reason(ReasonCode.INSUFFICIENT_GPUS, {"needed": need.count * need.gpus, "free": 0, "total": total})
    free = np.where(mask, whole_free(room, kinds), 0)
    usable = int((free // need.gpus).sum()) * need.gpus
    wanted, free_in_all, free_on_one = need.count * need.gpus, int(free.sum()), int(free.max(initial=0))
    if usable >= wanted:
        return None
    if free_in_all >= need.gpus > free_on_one:
        return _fragmented(need.gpus * GPU_MILLI, free_in_all * GPU_MILLI, free_on_one * GPU_MILLI)
    shown = usable if free_in_all >= wanted else free_in_all
    return Reason(ReasonCode.INSUFFICIENT_GPUS, {"needed": wanted, "free": shown, "total": total})


def _suitable_gpus(layout: Layout, gang: Gang, kinds: tuple[int, ...]) -> int:
    """Usable GPUs of these kinds on nodes that may take the gang, taken or not."""
    mask = layout.eligible(gang.selector, gang.tolerations)
    asked = ("suitable", tuple(sorted(gang.selector.items())), gang.tolerations, kinds)
    return layout.remember(asked, lambda: int((np.isin(layout.kind, kinds) & mask[:, None]).sum()))


def _share_fault(room: Room, need: Need, kinds: tuple[int, ...], mask: Flags, suitable: Flags) -> Reason | None:
    if kinds and int(slots(room, bare(need), kinds, mask).sum()) >= need.count:
        return None
    most_mib = int(np.where(suitable, room.gpu_memory, 0).max(initial=0))
    if need.gpu_memory_mib > most_mib:
        return Reason(ReasonCode.INSUFFICIENT_GPU_MEMORY, {"needed": need.gpu_memory_mib, "free": max(0, most_mib)})
    free = np.where(suitable, np.maximum(room.milli, 0), 0)
    free_in_all, most = int(free.sum()), int(free.max(initial=0))
    if free_in_all >= need.milli > most:
        return _fragmented(need.milli, free_in_all, most)
    numbers: dict[str, int | str] = {
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
        return Reason(ReasonCode.INSUFFICIENT_CPU, {"needed": need.cpu_milli, "free": _most(room.cpu, on)})
    # What is missing next is told of nodes on which all before is there.
    on &= with_cpu > 0
    with_memory = slots(room, bare(need, cpu=True, memory=True), kinds, mask)
    if need.memory_mib and int(with_memory.sum()) < need.count:
        return Reason(ReasonCode.INSUFFICIENT_MEMORY, {"needed": need.memory_mib, "free": _most(room.memory, on)})
    on &= with_memory > 0
    if int(slots(room, need, kinds, mask).sum()) < need.count:
        name, amount = max(need.devices.items(), key=lambda item: (_missing(room, on, item), item[0]))
        free = _most(room.devices[name], on) if name in room.devices else 0
        return Reason(ReasonCode.INSUFFICIENT_DEVICES, {"needed": amount, "device": name, "free": free})
    return None


def _missing(room: Room, on: Flags, item: tuple[str, int]) -> int:
    name, amount = item
    return amount - (_most(room.devices[name], on) if name in room.devices else 0)


def _too_scattered(room: Room, gang: Gang, mask: Flags) -> Reason:
    """How much of what the gang needs the best domain of the required level has."""
    needs = [need for need in gang.needs if need.gpus] or list(gang.needs)
    kinds = {number for need in needs for own in acceptable(room.layout, need).values() for number in own}
    free = np.where(mask, whole_free(room, tuple(sorted(kinds))), 0) if kinds else np.where(mask, room.free, 0)
    labels = dict(gang.levels)
    if gang.required in LEVELS_INSIDE_NODE:
        part = {"nvlink": room.linked, "socket": room.socketed, "node": free}[gang.required]
        most = int(np.minimum(free, part).max(initial=0))
    elif gang.required in labels:
        codes, names = room.layout.domains(labels[gang.required])
        labelled = codes >= 0
        sums = np.bincount(codes[labelled], weights=free[labelled], minlength=max(1, len(names)))
        most = int(sums.max(initial=0))
    else:
        most = 0
    numbers: dict[str, int | str] = {"needed": gang.whole_gpus, "level": gang.required, "free": most}
    return Reason(ReasonCode.TOPOLOGY, numbers)


def _together(room: Room, gang: Gang, mask: Flags) -> Reason:
    """Each role would fit alone: the GPUs of all together are too few, or they are in each other's way."""
    free = int(np.where(mask, room.free, 0).sum())
    if gang.whole_gpus > free:
        total = int((mask[:, None] & (room.layout.kind >= 0)).sum())
        return Reason(ReasonCode.INSUFFICIENT_GPUS, {"needed": gang.whole_gpus, "free": free, "total": total})
    largest = max(gang.needs, key=lambda need: (need.gpus, need.cpu_milli))
    if largest.gpus:
        on_one = int(np.where(mask, room.free, 0).max(initial=0))
        return _fragmented(largest.gpus * GPU_MILLI, free * GPU_MILLI, on_one * GPU_MILLI)
    return Reason(ReasonCode.INSUFFICIENT_CPU, {"needed": largest.cpu_milli, "free": _most(room.cpu, mask)})


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
    )


def _most(free: Ints, on: Flags) -> int:
    return max(0, int(free[on].max(initial=0)))


def _fragmented(needed: int, free: int, free_on_one: int) -> Reason:
    numbers = {"needed": _gpus(needed), "free": _gpus(free), "free_on_one_node": _gpus(free_on_one)}
    return Reason(ReasonCode.FRAGMENTED_GPUS, numbers)


def _gpus(milli: int) -> int | str:
    """Thousandths as a user says them: 2, or "0.5"."""
    return milli // GPU_MILLI if milli % GPU_MILLI == 0 else f"{milli / GPU_MILLI:g}"

"""What reasons tell in numbers: GPUs that suit, the most that is free on one node, the best domain of a level."""

from collections.abc import Iterable

import numpy as np

from gangline_core.cluster import LEVELS_INSIDE_NODE
from gangline_core.placement.fit import slots, whole_free, whole_gpus
from gangline_core.placement.gang import Gang, Need
from gangline_core.placement.models import acceptable
from gangline_core.reasons import Reason, ReasonCode
from gangline_core.room.capacity import Flags, Ints, Layout, Room
from gangline_core.spec import GPU_MILLI


def kinds_for(room: Room, needs: Iterable[Need]) -> tuple[int, ...]:
    """Kinds of GPUs that some of these may use."""
    return tuple(sorted({k for need in needs for own in acceptable(room.layout, need).values() for k in own}))


def able_members(room: Room, gang: Gang, mask: Flags) -> Ints:
    """Per node for how many members of any role it has room, if they had it alone."""
    found = np.zeros(len(mask), dtype=np.int64)
    for need in gang.needs:
        found += slots(room, need, kinds_for(room, [need]), mask)
    return found


def suitable_gpus(layout: Layout, gang: Gang, kinds: tuple[int, ...], need: Need | None = None) -> int:
    """Usable GPUs of these kinds on nodes that may take the gang, or this role of it, taken or not."""
    mask = gang.mask(layout) if need is None else need.within(layout, gang.mask(layout))
    asked = ("suitable", gang.where, None if need is None else need.where, kinds)
    return layout.remember(asked, lambda: int((np.isin(layout.kind, kinds) & mask[:, None]).sum()))


def best_domain(room: Room, gang: Gang, level: str, kinds: tuple[int, ...], mask: Flags) -> tuple[int, str]:
    """The most whole free GPUs of these kinds in one domain of a level, and which domain that is."""
    if level in LEVELS_INSIDE_NODE:
        inside = _most_in_part(room, level, kinds, mask)
        best = int(inside.argmax()) if len(inside) else 0
        most = int(inside[best]) if len(inside) else 0
        return most, f"{room.nodes[best].id}" if most else ""
    labels = dict(gang.levels)
    if level not in labels:
        return 0, ""
    free = np.where(mask, whole_free(room, kinds), 0) if kinds else np.where(mask, room.free, 0)
    codes, names = room.layout.domains(labels[level])
    labelled = codes >= 0
    sums = np.bincount(codes[labelled], weights=free[labelled], minlength=max(1, len(names))).astype(np.int64)
    most = int(sums.max(initial=0))
    return most, names[int(sums.argmax())] if most and names else ""


def _most_in_part(room: Room, level: str, kinds: tuple[int, ...], mask: Flags) -> Ints:
    """Per node the most whole free GPUs of these kinds in one of its parts."""
    whole = whole_gpus(room, kinds or range(len(room.layout.kinds))) & mask[:, None]
    part = room.layout.part(level)
    most = np.zeros(len(mask), dtype=np.int64)
    for number in range(int(part.max(initial=-1)) + 1):
        np.maximum(most, (whole & (part == number)).sum(axis=1), out=most)
    return most


def most_on(free: Ints, on: Flags) -> int:
    """The most that is free on one of these nodes."""
    return max(0, int(free[on].max(initial=0)))


def fragmented(needed: int, free: int, free_on_one: int, where: str = "") -> Reason:
    """Thousandths of GPUs that would do in sum, but not where they are."""
    numbers: dict[str, int | str] = {
        "needed": in_gpus(needed),
        "free": in_gpus(free),
        "free_on_one_node": in_gpus(free_on_one),
    }
    if where:
        numbers["where"] = where
    return Reason(ReasonCode.FRAGMENTED_GPUS, numbers)


def in_gpus(milli: int) -> int | str:
    """Thousandths as a user says them: 2, or "0.5"."""
    return milli // GPU_MILLI if milli % GPU_MILLI == 0 else f"{milli / GPU_MILLI:g}"

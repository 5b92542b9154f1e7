"""The best place that exists for a gang that finds none, and what would have to come free, as two sentences.

Both are told of the first cause that holds (see `placement.why_not`), with the numbers of that cause.
"""

from typing import NamedTuple

import numpy as np

from gangline_core.closed_hints import too_few
from gangline_core.cluster import LEVELS_INSIDE_NODE
from gangline_core.counted import singular
from gangline_core.limits.dimension_names import shown
from gangline_core.placement.fit import slots, whole_gpus
from gangline_core.placement.gang import Gang, Need
from gangline_core.placement.in_numbers import kinds_for
from gangline_core.placement.why_not import bare, why_not
from gangline_core.reasons import Reason, ReasonCode
from gangline_core.room.capacity import Flags, Ints, Room

NODE = LEVELS_INSIDE_NODE[-1]
PARTS = {"nvlink": "NVLink island", "switch": "PCIe switch", "socket": "CPU socket"}
DIMENSIONS = {ReasonCode.INSUFFICIENT_CPU: "cpu_milli", ReasonCode.INSUFFICIENT_MEMORY: "memory_mib"}


class Lack(NamedTuple):
    """Two sentences; empty where there is nothing to tell."""

    best: str = ""
    """The best there is."""
    missing: str = ""
    """What would have to come free."""


def lack_of(room: Room, gang: Gang) -> Lack:
    """What is told of a gang that its placer does not seat in this room."""
    told = _told(room, gang)
    return Lack(singular(told.best), singular(told.missing))


def _told(room: Room, gang: Gang) -> Lack:
    """The same, of many where it is of one."""
    reason = why_not(room, gang)
    numbers = reason.numbers
    match reason.code:
        case ReasonCode.INSUFFICIENT_GPUS:
            return _of_gpus(reason)
        case ReasonCode.FRAGMENTED_GPUS:
            return _in_one(room, gang, reason, level=NODE, most=numbers["free_on_one_node"])
        case ReasonCode.TOPOLOGY | ReasonCode.SHAPE:
            return _together(room, gang, reason)
        case ReasonCode.INSUFFICIENT_GPU_MEMORY:
            return _of_gpu_memory(room, gang)
        case ReasonCode.INSUFFICIENT_CPU | ReasonCode.INSUFFICIENT_MEMORY | ReasonCode.INSUFFICIENT_DEVICES:
            return _beside_gpus(room, gang, reason)
        case ReasonCode.INSUFFICIENT_SLICES:
            best = f"Needs {numbers['needed']} slices {numbers['profile']}; there is room for {numbers['free']}."
            return Lack(best, _room_for(reason, "slice"))
        case ReasonCode.INSUFFICIENT_PLACES:
            best = f"Needs places for {numbers['needed']} tasks; nodes that suit it have {numbers['free']} left."
            return Lack(best, _room_for(reason, "task"))
        case ReasonCode.NO_LABEL:
            return Lack("", f"A node that could take it would have to get the label {numbers['label']}.")
        case ReasonCode.NO_ELIGIBLE_NODE:
            back = ", ".join(f"{numbers[k]} {k}" for k in ("drained", "lost", "sick", "tainted") if numbers.get(k))
            found = f"take it again: {back}" if back else "come that has its labels and is not excluded"
            return Lack("", f"A node would have to {found}.")
        case _:
            return Lack()


# --- GPUs -----------------------------------------------------------------------------------------------------


def _of_gpus(reason: Reason) -> Lack:
    needed, free = reason.numbers["needed"], reason.numbers["free"]
    missing = f"{_more_gpus(needed, free)} would have to come free."
    if too_few(reason.numbers):
        total = reason.numbers["total"]
        others = f"All {total} that take work would have to be free, and " if total else ""
        missing = f"{others}{_more_gpus(needed, total)} would have to take work{' besides' if total else ''}."
    return Lack(f"Needs {needed} GPUs; {free} are free.", missing)


def _in_one(room: Room, gang: Gang, reason: Reason, *, level: str, most: int | str) -> Lack:
    """GPUs inside one domain of a level: the best, among those that are large enough where there are such."""
    needed, where = reason.numbers["needed"], str(reason.numbers.get("where", ""))
    things = str(reason.numbers.get("things", ""))
    name, large = PARTS.get(level, level), ""
    found = _best_large(room, gang, level, things=things, needed=int(needed))
    if found is not None:
        large = " that is large enough" if found[0] != most else ""
        most, where = found
    on = f", on {where}" if where and level in LEVELS_INSIDE_NODE else f", {where}" if where else ""
    wanted = f"{needed} {things}" if things else f"{needed}"
    best = f"Needs {wanted} in one {name}; the best free {name}{large} has {most}{on}."
    return Lack(best, f"{_more_gpus(needed, most)} would have to come free {'there' if where else f'in one {name}'}.")


def _best_large(room: Room, gang: Gang, level: str, *, things: str, needed: int) -> tuple[int, str] | None:
    """Of the domains that have so many suitable GPUs, taken or not, the one with most free; None without any."""
    layout, mask = room.layout, gang.mask(room.layout)
    whole = [need for need in gang.needs if need.gpus]
    asked = [need for need in whole if things == f"GPUs for role {need.role}"] or whole
    suitable = np.isin(layout.kind, kinds_for(room, asked)) & mask[:, None]
    free = suitable & whole_gpus(room, range(len(layout.kinds)))
    label = dict(gang.levels).get(level)
    if label is None:
        part = np.where(layout.part(level) >= 0, layout.part(level), -1)
        rows = np.broadcast_to(np.arange(len(mask))[:, None], part.shape)
        codes = np.where(part >= 0, rows * (int(part.max(initial=0)) + 1) + part, -1)
    else:
        codes = np.broadcast_to(layout.domains(label)[0][:, None], suitable.shape)
        rows = codes
    size = np.bincount(codes[suitable & (codes >= 0)])
    held = np.bincount(codes[free & (codes >= 0)], minlength=len(size))
    able = np.flatnonzero(size >= needed)
    if not len(able):
        return None
    best = int(able[int(held[able].argmax())])
    names = layout.domains(label)[1] if label is not None else ()
    return int(held[best]), names[best] if names else str(room.nodes[int(rows[codes == best][0])].id)


def _more_gpus(needed: int | str, free: int | str) -> str:
    more = round(1000 * (float(needed) - float(free)))
    return "1 more GPU" if more == 1000 else f"{shown('gpu_milli', more)[1]} more GPUs"


def _of_gpu_memory(room: Room, gang: Gang) -> Lack:
    """The memory of one GPU, among those that are large enough."""
    mask = gang.mask(room.layout)
    for need in gang.needs:
        own = need.within(room.layout, mask)
        kinds = kinds_for(room, [need])
        large = [kind for kind in kinds if room.layout.kinds[kind].memory_mib >= need.gpu_memory_mib]
        free = np.where(np.isin(room.layout.kind, large) & own[:, None], room.gpu_memory, -1)
        most = max(0, int(free.max(initial=-1)))
        if need.is_share and most < need.gpu_memory_mib:
            where = room.nodes[int(free.max(axis=1).argmax())].id
            best = f"Needs {need.gpu_memory_mib} MiB of one GPU; the best GPU has {most} MiB free, on {where}."
            return Lack(best, f"{need.gpu_memory_mib - most} more MiB of it would have to come free.")
    return Lack()


# --- beside GPUs ----------------------------------------------------------------------------------------------


def _beside_gpus(room: Room, gang: Gang, reason: Reason) -> Lack:
    """CPUs, memory or devices on one node; of several tasks, how many find room."""
    held, tasks = reason.numbers.get("held"), reason.numbers.get("tasks")
    device = str(reason.numbers.get("device", ""))
    if isinstance(held, int) and isinstance(tasks, int) and held:
        of = f"{_count(tasks - held, 'task')} with {_amount(reason)}{' each' if tasks - held > 1 else ''}"
        return Lack(f"There is room for {held} of {tasks} tasks.", f"Room for {of} would have to come free.")
    mask = gang.mask(room.layout)
    able = (need for need in gang.needs if _needed(need, reason.code, device) == reason.numbers["needed"])
    need = next(able, gang.needs[0])
    needed, dimension = _needed(need, reason.code, device), DIMENSIONS.get(reason.code, f"device:{device}")
    rows = [
        row for row in np.flatnonzero(_with_gpus(room, need, mask)).tolist() if _has(room, row, dimension) >= needed
    ]
    if not rows:
        # Those with GPUs for it are too small, so one that is large enough has none free.
        return Lack("", f"GPUs for a task would have to come free on a node with {_amount(reason)}.")
    free = {"cpu_milli": room.cpu, "memory_mib": room.memory}.get(dimension, room.devices.get(device))
    best = max(rows, key=lambda row: (0 if free is None else int(free[row]), -row))
    most = 0 if free is None else max(0, int(free[best]))
    beside = " beside its GPUs" if need.wants_gpu else ""
    there = f"the best node has {shown(dimension, most)[1]}, {room.nodes[best].id}"
    label, more = shown(dimension, needed - most)
    missing = f"{more} more {label} would have to come free there." if needed > most else ""
    return Lack(f"Needs {_amount(reason)}{beside} on one node; {there}.", missing)


def _has(room: Room, row: int, dimension: str) -> int:
    """How much of it the node has in all."""
    node = room.nodes[row]
    if dimension == "cpu_milli":
        return node.cpu_milli
    return node.memory_mib if dimension == "memory_mib" else node.devices.get(dimension.removeprefix("device:"), 0)


def _amount(reason: Reason) -> str:
    """What one task asks for: "2 CPUs"."""
    needed, device = reason.numbers["needed"], reason.numbers.get("device")
    if not isinstance(needed, int) or device is not None:
        return f"{needed} of device {device}"
    name, wanted = shown(DIMENSIONS[reason.code], needed)
    return f"{wanted} {name}"


def _needed(need: Need, code: ReasonCode, device: str) -> int:
    if code == ReasonCode.INSUFFICIENT_CPU:
        return need.cpu_milli
    return need.memory_mib if code == ReasonCode.INSUFFICIENT_MEMORY else need.devices.get(device, 0)


def _with_gpus(room: Room, need: Need, mask: Flags) -> Flags:
    """Nodes that have the GPUs for one task, whatever else they lack."""
    found: Ints = slots(room.uncrowded(), bare(need), kinds_for(room, [need]), mask)
    return found > 0


# --- tasks together -------------------------------------------------------------------------------------------


def _together(room: Room, gang: Gang, reason: Reason) -> Lack:
    """GPUs inside a level, or how many tasks stand as the gang wants them to."""
    numbers = reason.numbers
    needed, free, where = numbers["needed"], numbers.get("free"), str(numbers.get("where", ""))
    things = str(numbers.get("things", ""))
    if not isinstance(free, int):
        return Lack()
    if reason.code == ReasonCode.TOPOLOGY and not things.startswith("places"):
        return _in_one(room, gang, reason, level=gang.required, most=free)
    shape = things.removeprefix("places").strip() or str(numbers.get("shape", ""))
    level = f" inside one {PARTS.get(gang.required, gang.required)}" if reason.code == ReasonCode.TOPOLOGY else ""
    on = f" ({where})" if where else ""
    best = f"Needs {needed} places {shape}".rstrip() + f"{level}; there are at most {free}{on}."
    return Lack(best, _room_for(reason, "task"))


def _room_for(reason: Reason, thing: str) -> str:
    needed, free = reason.numbers["needed"], reason.numbers["free"]
    if not isinstance(needed, int) or not isinstance(free, int) or free >= needed:
        return ""
    return f"Room for {_count(needed - free, thing)} would have to come free."


def _count(more: int, thing: str) -> str:
    return f"1 more {thing}" if more == 1 else f"{more} more {thing}s"

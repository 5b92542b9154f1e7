"""Many holdings at once: lines of one matrix, so that a what-if with thousands of tasks costs a few vector steps.

One line per GPU share; a task's place, CPU, memory and devices stand on its first line, and a task without GPUs has
one line.
"""

from collections.abc import Sequence

import numpy as np

from gangline_core.ids import NodeId
from gangline_core.room.capacity import Holding, Ints, Layout, Room, places_of

ROW, COLUMN, MILLI, GPU_MEMORY, SLOTS, CPU, MEMORY, PLACES, FIRST_DEVICE = range(9)
"""Columns of a line; the layout's other devices follow in the order of their names."""
FEW_LINES = 4
"""Up to so many lines are taken number by number, which costs less than a vector step each."""
FEW_ROWS = 24
"""Up to so many changed nodes are counted one by one."""


def lines_of(layout: Layout, holdings: Sequence[Holding]) -> Ints:
    """The lines of these holdings, in order; those on other pools' nodes are left out."""
    found: list[list[int]] = []
    for holding in holdings:
        found.extend(task_lines(layout, holding))
    return as_lines(layout, found)


def as_lines(layout: Layout, found: list[list[int]]) -> Ints:
    """Lists of numbers as one matrix."""
    width = FIRST_DEVICE + len(layout.device_names)
    return np.array(found, dtype=np.int64).reshape(len(found), width)


def task_lines(layout: Layout, holding: Holding) -> list[list[int]]:
    """The lines of one holding."""
    row = layout.row.get(holding.node)
    if row is None:
        return []
    devices = [holding.devices.get(name, 0) for name in layout.device_names] if holding.devices else []
    devices = devices or [0] * len(layout.device_names)
    shares = [share for share in holding.gpus if share.index < layout.width]
    places = places_of(holding)
    if not shares:
        return [[row, 0, 0, 0, 0, holding.cpu_milli, holding.memory_mib, places, *devices]]
    first, *others = shares
    card = [row, first.index, first.milli, first.memory_mib, first.slots]
    lines = [[*card, holding.cpu_milli, holding.memory_mib, places, *devices]]
    nothing = [0] * len(devices)
    lines.extend([row, share.index, share.milli, share.memory_mib, share.slots, 0, 0, 0, *nothing] for share in others)
    return lines


def give_lines(room: Room, lines: Ints) -> None:
    """All of these holdings give their room back."""
    _shift(room, lines, 1)


def take_lines(room: Room, lines: Ints) -> None:
    """All of these holdings take their room."""
    _shift(room, lines, -1)


def _shift(room: Room, lines: Ints, sign: int) -> None:
    if len(lines) <= FEW_LINES:
        _shift_few(room, lines.tolist(), sign)
        return
    rows, columns = lines[:, ROW], lines[:, COLUMN]
    is_on_gpus = bool(lines[:, MILLI : SLOTS + 1].any())
    if is_on_gpus:
        np.add.at(room.milli, (rows, columns), sign * lines[:, MILLI])
        np.add.at(room.gpu_memory, (rows, columns), sign * lines[:, GPU_MEMORY])
        if room.slots is not None:
            np.add.at(room.slots, (rows, columns), sign * lines[:, SLOTS])
    np.add.at(room.cpu, rows, sign * lines[:, CPU])
    np.add.at(room.memory, rows, sign * lines[:, MEMORY])
    np.add.at(room.places, rows, sign * lines[:, PLACES])
    for k, name in enumerate(room.layout.device_names):
        np.add.at(room.devices[name], rows, sign * lines[:, FIRST_DEVICE + k])
    changed = np.flatnonzero(np.bincount(rows))
    if len(changed) <= FEW_ROWS:
        for row in changed.tolist():
            room.set_places(row, int(room.places[row]))
            if is_on_gpus:
                room.count_whole(row)
            else:
                room.weigh(row)
    else:
        room.count_all()


def _shift_few(room: Room, lines: list[list[int]], sign: int) -> None:
    for row, column, milli, gpu_memory, slots, cpu, memory, places, *devices in lines:
        room.cpu[row] += sign * cpu
        room.memory[row] += sign * memory
        room.set_places(row, int(room.places[row]) + sign * places)
        for name, amount in zip(room.layout.device_names, devices, strict=True):
            room.devices[name][row] += sign * amount
        if not (milli or gpu_memory or slots):
            room.weigh(row)
            continue
        room.milli[row, column] += sign * milli
        room.gpu_memory[row, column] += sign * gpu_memory
        if room.slots is not None:
            room.slots[row, column] += sign * slots
        room.count_whole(row)


def are_free(room: Room, holdings: Sequence[Holding]) -> bool:
    """True when all of these are free together; of GPUs and devices that is not said."""
    if any(holding.gpus or holding.devices for holding in holdings):
        return False
    sums: dict[NodeId, tuple[int, int, int]] = {}
    for one in holdings:
        cpu, memory, places = sums.get(one.node, (0, 0, 0))
        sums[one.node] = cpu + one.cpu_milli, memory + one.memory_mib, places + places_of(one)
    row = room.layout.row
    return all(
        room.cpu.item(row[node]) >= cpu
        and room.memory.item(row[node]) >= memory
        and room.places.item(row[node]) >= places
        for node, (cpu, memory, places) in sums.items()
    )

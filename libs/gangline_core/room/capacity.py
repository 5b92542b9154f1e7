"""What is free on a pool's nodes, as arrays: one row per node in id order, one column per GPU index.

`Layout` is what stands still while a decision is made; `Room` is what is free. A what-if is a copy of the Room, or a
few `take`s undone by `give`s. Quantities are exact integers and may be negative where a node shrank below what runs on
it. A GPU counts as whole only when nothing at all is taken from it and it is not cut into slices.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np

from gangline_core.cluster import Node, NodeUse, tasks_most
from gangline_core.ids import NodeId
from gangline_core.job import GpuShare, Task
from gangline_core.room.layout import NO_KIND, Flags, Ints, Kind, Layout, Parts, matches, tolerates
from gangline_core.room.looks import STEPS_MAX, Look
from gangline_core.room.mig import geometry
from gangline_core.spec import GPU_MILLI

__all__ = [
    "CORES_SHOWN",
    "NO_KIND",
    "Flags",
    "Holding",
    "Ints",
    "Kind",
    "Layout",
    "Room",
    "Rows",
    "matches",
    "tolerates",
]

Rows = dict[int, tuple[int, int, Ints, Ints, Ints | None, dict[str, int], int]]
"""Per row what is free: CPU, memory, thousandths and MiB per GPU, MIG slots, other devices, places for tasks."""
PLACES_MAX = 1 << 20
"""Places for tasks of a node where nobody bounds them."""
CROWDED_BELOW = 64
"""Nodes with fewer places left are looked at one by one; elsewhere GPUs and cores run out first."""
CORES_SHOWN = 1 << 12
"""More free cores than this on one node are not told apart."""
CHANGES_KEPT = 100_000
"""Changed rows that are remembered for shelves; with more, shelves are built anew."""


PART_RANK = -1
"""Rank of what stands for a part of a task (see `pausing`): it comes and goes without a place of its own."""
REST_RANK = -2
"""The same of what a task leaves beside what a claim takes of it (see `rests`)."""


class Holding(Protocol):
    """Room on one node that somebody takes or gives back: a task, or the place of one."""

    @property
    def node(self) -> NodeId:
        """Where."""

    @property
    def gpus(self) -> tuple[GpuShare, ...]:
        """Which parts of which GPUs."""

    @property
    def cpu_milli(self) -> int:
        """CPU thousandths."""

    @property
    def memory_mib(self) -> int:
        """MiB of the node's memory."""

    @property
    def devices(self) -> dict[str, int]:
        """Other devices by name."""


def places_of(holding: Holding) -> int:
    """How many places for tasks it takes."""
    return 0 if isinstance(holding, Task) and holding.rank < 0 else 1


class Room:
    """What is free on each node of a layout."""

    __slots__ = (
        "changes",
        "cpu",
        "crowded",
        "devices",
        "free",
        "fullness",
        "gpu_memory",
        "layout",
        "linked",
        "look",
        "memory",
        "milli",
        "origin",
        "places",
        "shelves",
        "slots",
        "socketed",
        "switched",
        "tasks_max",
        "total",
        "version",
        "whole",
    )

    def __init__(self, layout: Layout, tasks_max: int = PLACES_MAX) -> None:
        """A room in which nothing is free yet; no node takes more than `tasks_max` tasks."""
        rows = len(layout.nodes)
        self.layout = layout
        self.tasks_max = tasks_max
        self.places = np.zeros(rows, dtype=np.int64)
        """How many more tasks each node takes, whatever they ask for."""
        self.crowded: set[int] = set(range(rows))
        """Rows with fewer than CROWDED_BELOW places left."""
        self.cpu = np.zeros(rows, dtype=np.int64)
        self.memory = np.zeros(rows, dtype=np.int64)
        self.devices = {name: np.zeros(rows, dtype=np.int64) for name in layout.device_names}
        self.milli = np.zeros((rows, layout.width), dtype=np.int64, order="F")
        self.gpu_memory = np.zeros((rows, layout.width), dtype=np.int64, order="F")
        self.slots: Ints | None = np.zeros((rows, layout.width), dtype=np.int64, order="F") if layout.has_mig else None
        """Free MIG slots of each card that is cut, as a mask; None where no card is."""
        self.whole = np.zeros((max(1, len(layout.kinds)), rows), dtype=np.int64)
        """Whole free GPUs by kind and node."""
        self.total = [0] * len(self.whole)
        """Whole free GPUs by kind over all nodes."""
        self.free = np.zeros(rows, dtype=np.int64)
        """Whole free GPUs of all kinds by node."""
        self.fullness = np.zeros(rows, dtype=np.int64)
        """Sorts nodes by whole free GPUs, then by free cores, fewest first."""
        self.linked = np.zeros(rows, dtype=np.int64)
        """Most whole free GPUs inside one NVLink island, by node."""
        self.switched = np.zeros(rows, dtype=np.int64)
        """Most whole free GPUs below one PCIe switch, by node."""
        self.socketed = np.zeros(rows, dtype=np.int64)
        """Most whole free GPUs on one socket, by node."""
        self.look: list[Look | None] = [None] * rows
        """How each node looks; None where nobody has looked since many changed at once."""
        self.changes: list[int] = []
        """Rows that changed, oldest first, for those who keep an order of nodes (see `placement.shelf`)."""
        self.shelves: dict[object, object] = {}
        self.version = 0
        """Grows with every change."""
        self.origin: tuple[Room, int] | None = None
        """The room of which this is a copy and its version then, while all that changed since stands in `changes`."""

    @staticmethod
    def of(nodes: Iterable[Node], tasks_max: int = PLACES_MAX) -> "Room":
        """The room of these nodes; `refresh` each of them."""
        return Room(Layout(nodes), tasks_max)

    @property
    def nodes(self) -> list[Node]:
        """The nodes by row."""
        return self.layout.nodes

    def copy(self) -> "Room":
        """The same room, to be changed freely; the layout is shared."""
        twin = Room.__new__(Room)
        twin.layout, twin.tasks_max = self.layout, self.tasks_max
        twin.places, twin.crowded = self.places.copy(), set(self.crowded)
        twin.cpu, twin.memory = self.cpu.copy(), self.memory.copy()
        twin.devices = {name: free.copy() for name, free in self.devices.items()}
        twin.milli, twin.gpu_memory = self.milli.copy(order="K"), self.gpu_memory.copy(order="K")
        twin.slots = None if self.slots is None else self.slots.copy(order="K")
        twin.whole, twin.free, twin.total = self.whole.copy(), self.free.copy(), list(self.total)
        twin.fullness = self.fullness.copy()
        twin.linked, twin.switched, twin.socketed = self.linked.copy(), self.switched.copy(), self.socketed.copy()
        twin.look = self.look.copy()
        twin.changes, twin.shelves = [], {}
        twin.version, twin.origin = 0, (self, self.version)
        return twin

    def follows(self, node_id: NodeId, node: Node | None) -> bool:
        """True when this room can go on although the node changed to this (None: it is not in this pool)."""
        return node_id not in self.layout.row if node is None else self.layout.fits(node)

    def refresh(self, node: Node, use: NodeUse) -> None:
        """Set a node's row to the node as it now is less what is taken on it."""
        row = self.layout.put(node)
        self.cpu[row] = node.cpu_milli - use.cpu_milli
        self.memory[row] = node.memory_mib - use.memory_mib
        self.set_places(row, tasks_most(node, self.tasks_max) - len(use.tasks))
        for name, free in self.devices.items():
            free[row] = node.devices.get(name, 0) - use.devices.get(name, 0)
        self.milli[row] = 0
        self.gpu_memory[row] = 0
        if self.slots is not None:
            self.slots[row] = 0
        is_plain = self.slots is None and not any(use.gpu_slots)
        if is_plain and all(gpu.healthy and gpu.index == k for k, gpu in enumerate(node.gpus)):
            count = len(node.gpus)
            self.milli[row, :count] = [GPU_MILLI - taken for taken in use.gpu_milli[:count]]
            used = zip(node.gpus, use.gpu_memory_mib, strict=False)
            self.gpu_memory[row, :count] = [gpu.memory_mib - taken for gpu, taken in used]
            self.count_whole(row)
            return
        for gpu in node.gpus:
            if gpu.healthy and not use.is_otherwise_cut(gpu.index, mig=gpu.mig):
                if self.slots is not None and gpu.mig:
                    self.slots[row, gpu.index] = geometry(gpu.cut).all_free & ~use.gpu_slots[gpu.index]
                self.milli[row, gpu.index] = GPU_MILLI - use.gpu_milli[gpu.index]
                self.gpu_memory[row, gpu.index] = gpu.memory_mib - use.gpu_memory_mib[gpu.index]
        self.count_whole(row)

    def take(self, holding: Holding) -> None:
        """Somebody takes this room."""
        self._shift(holding, -1)

    def give(self, holding: Holding) -> None:
        """Somebody gives this room back."""
        self._shift(holding, 1)

    def _shift(self, holding: Holding, sign: int) -> None:
        row = self.layout.row.get(holding.node)
        if row is None:
            return
        self.cpu[row] = self.cpu.item(row) + sign * holding.cpu_milli
        self.memory[row] = self.memory.item(row) + sign * holding.memory_mib
        self.set_places(row, self.places.item(row) + sign * places_of(holding))
        if holding.devices:
            for name, amount in holding.devices.items():
                if name in self.devices:
                    self.devices[name][row] += sign * amount
        gpus = holding.gpus
        if not gpus:
            self.weigh(row)
            return
        before = self.look[row]
        after = None if before is None else before.after.get((sign, gpus))
        if after is None or self.slots is not None:
            self._shift_each(row, gpus, sign)
            after = self._look(row)
            if before is not None:
                if len(before.after) >= STEPS_MAX:
                    before.after.clear()
                before.after[sign, gpus] = after
        else:
            self.milli[row], self.gpu_memory[row] = after.milli, after.memory
        self._show(row, after)
        self.weigh(row)

    def _shift_each(self, row: int, gpus: tuple[GpuShare, ...], sign: int) -> None:
        milli, memory, width = self.milli, self.gpu_memory, self.layout.width
        for share in gpus:
            k = share.index
            if k < width:
                milli[row, k] = milli.item(row, k) + sign * share.milli
                memory[row, k] = memory.item(row, k) + sign * share.memory_mib
                if share.slots and self.slots is not None:
                    self.slots[row, k] += sign * share.slots

    def rows(self, rows: Iterable[int]) -> Rows:
        """What is free on these rows now, to compare with later."""
        return {
            row: (
                int(self.cpu[row]),
                int(self.memory[row]),
                self.milli[row].copy(),
                self.gpu_memory[row].copy(),
                None if self.slots is None else self.slots[row].copy(),
                {name: int(free[row]) for name, free in self.devices.items()},
                int(self.places[row]),
            )
            for row in rows
        }

    def lower_to(self, limits: Rows) -> None:
        """On these rows keep no more free than was free there then."""
        for row, (cpu, memory, milli, gpu_memory, slots, devices, places) in limits.items():
            self.set_places(row, min(int(self.places[row]), places))
            self.cpu[row] = min(int(self.cpu[row]), cpu)
            self.memory[row] = min(int(self.memory[row]), memory)
            self.milli[row] = np.minimum(self.milli[row], milli)
            self.gpu_memory[row] = np.minimum(self.gpu_memory[row], gpu_memory)
            if self.slots is not None and slots is not None:
                self.slots[row] &= slots
            for name, free in devices.items():
                self.devices[name][row] = min(int(self.devices[name][row]), free)
            self.count_whole(row)

    def keep_both(self, leaving: Sequence[Holding], coming: Sequence[Holding]) -> None:
        """Leave others no more than is free both now and when some have left and others come."""
        row = self.layout.row
        before = self.rows(sorted({row[holding.node] for holding in (*leaving, *coming) if holding.node in row}))
        for holding in leaving:
            self.give(holding)
        for holding in coming:
            self.take(holding)
        self.lower_to(before)

    def close(self, rows: Flags) -> None:
        """Leave nothing free on these rows."""
        for free in (self.cpu, self.memory, self.places, self.milli, self.gpu_memory, *self.devices.values()):
            # What is taken beyond what there is stays so: it is no room once somebody leaves.
            free[rows] = np.minimum(free[rows], 0)
        self.crowded.update(np.flatnonzero(rows).tolist())
        if self.slots is not None:
            self.slots[rows] = 0
        self.whole[:, rows] = 0
        self.free[rows] = self.linked[rows] = self.switched[rows] = self.socketed[rows] = self.fullness[rows] = 0
        self.look = [None] * len(self.look)
        self._forget_shelves()
        self.total = self.whole.sum(axis=1).tolist()

    def uncrowded(self) -> "Room":
        """The same room if nodes took any number of tasks."""
        twin = self.copy()
        twin.places[:] = PLACES_MAX
        twin.crowded = set()
        twin.origin = None
        return twin

    def set_places(self, row: int, places: int) -> None:
        """The node takes so many more tasks."""
        self.places[row] = places
        if places < CROWDED_BELOW:
            self.crowded.add(row)
        elif self.crowded:
            self.crowded.discard(row)

    def count_whole(self, row: int) -> None:
        """Count a node's whole free GPUs anew."""
        self._show(row, self._look(row))
        self.weigh(row)

    def look_at(self, row: int) -> Look:
        """How the node looks."""
        found = self.look[row]
        if found is None:
            found = self.look[row] = self._look(row)
        return found

    def _look(self, row: int) -> Look:
        looks, milli, memory = self.layout.looks, self.milli[row], self.gpu_memory[row]
        key = (self.layout.build(row), milli.tobytes(), memory.tobytes())
        found = looks.known.get(key)
        if found is None:
            counts = self.layout.counts(row, milli.tolist(), memory.tolist())
            found = looks.enter(key, counts, milli.copy(), memory.copy())
        return found

    def _show(self, row: int, look: Look) -> None:
        before = self.look[row]
        if before is look:
            return
        self.look[row] = look
        counts = look.counts
        if before is not None and before.counts == counts:
            return
        self.free[row], self.linked[row], self.switched[row], self.socketed[row], by_kind = counts
        for number, count in enumerate(by_kind):
            known = self.whole.item(number, row)
            if known != count:
                self.whole[number, row] = count
                self.total[number] += count - known

    def weigh(self, row: int) -> None:
        """Sort the node anew among the others, after what is free on it changed."""
        cores = min(max(self.cpu.item(row) // 1000, 0), CORES_SHOWN - 1)
        self.fullness[row] = self.free.item(row) * CORES_SHOWN + cores
        self.version += 1
        if self.shelves or self.origin is not None:
            self.changes.append(row)
            if len(self.changes) > CHANGES_KEPT:
                self._forget_shelves()

    def _forget_shelves(self) -> None:
        """Whoever kept an order of nodes begins anew."""
        self.shelves.clear()
        self.changes.clear()
        self.version += 1
        self.origin = None

    def count_all(self) -> None:
        """Count every node's whole free GPUs anew, after many changes at once."""
        layout = self.layout
        empty = (self.milli == GPU_MILLI) & (self.gpu_memory == layout.uncut)
        self.look = [None] * len(self.look)
        self._forget_shelves()
        self.crowded = set(np.flatnonzero(self.places < CROWDED_BELOW).tolist())
        for kind in range(len(layout.kinds)):
            self.whole[kind] = (empty & (layout.kind == kind)).sum(axis=1)
        self.free = empty.sum(axis=1)
        self.total = self.whole.sum(axis=1).tolist()
        self.fullness = self.free * CORES_SHOWN + np.clip(self.cpu // 1000, 0, CORES_SHOWN - 1)
        self.linked = _most_in_one(empty, layout.island)
        self.switched = _most_in_one(empty, layout.switch)
        self.socketed = _most_in_one(empty, layout.socket)


def _most_in_one(empty: Flags, part: Parts) -> Ints:
    """Per row the largest number of set flags that share a part."""
    most = np.zeros(len(empty), dtype=np.int64)
    for number in range(int(part.max(initial=-1)) + 1):
        np.maximum(most, (empty & (part == number)).sum(axis=1), out=most)
    return most

"""What is free on a pool's nodes, as arrays: one row per node in id order, one column per GPU index.

Matrices lie in memory column by column, because nearly all work on them is over all nodes at once.

`Layout` is what stands still while a decision is made (who the nodes are, which GPUs they have); `Room` is what is
free. A what-if is a copy of the Room, or a few `take`s undone by `give`s. Quantities are exact integers and may be
negative where a node shrank below what runs on it. A GPU counts as whole only when nothing at all is taken from it.
"""

from collections.abc import Callable, Hashable, Iterable
from typing import Any, Protocol, TypeVar

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from gangline_core.cluster import Node, NodeUse, gpu_span
from gangline_core.ids import NodeId
from gangline_core.job import GpuShare
from gangline_core.spec import GPU_MILLI, Toleration

Answer = TypeVar("Answer")
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
Rows = dict[int, tuple[int, int, Ints, Ints, dict[str, int]]]
"""Per row what is free: CPU, memory, thousandths and MiB per GPU, other devices."""
CORES_SHOWN = 1 << 12
"""More free cores than this on one node are not told apart."""
REMEMBERED_MAX = 2_048
NO_KIND = -1
"""Where there is no usable GPU."""


class Kind(Struct, frozen=True, order=True):
    """GPUs that no request can tell apart."""

    model: str
    """In lower case: models are compared without regard to case."""
    memory_mib: int


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


class Layout:
    """The nodes of a pool and their GPUs."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        """The layout of these nodes, in id order."""
        self.nodes = sorted(nodes, key=lambda node: node.id)
        self.row = {node.id: k for k, node in enumerate(self.nodes)}
        self.width = max((gpu_span(node) for node in self.nodes), default=0) or 1
        self.kinds = sorted({Kind(gpu.model.lower(), gpu.memory_mib) for node in self.nodes for gpu in node.gpus})
        self.kind_number = {kind: k for k, kind in enumerate(self.kinds)}
        self.device_names = sorted({name for node in self.nodes for name in node.devices})
        rows = len(self.nodes)
        self.kind = np.full((rows, self.width), NO_KIND, dtype=np.int16, order="F")
        """Kind of each usable GPU."""
        self.memory = np.zeros((rows, self.width), dtype=np.int64, order="F")
        """MiB of each usable GPU."""
        self.island = np.full((rows, self.width), -1, dtype=np.int16, order="F")
        self.socket = np.full((rows, self.width), -1, dtype=np.int16, order="F")
        self.island_size = np.zeros(rows, dtype=np.int64)
        """Usable GPUs of the node's largest NVLink island."""
        self.works = np.zeros(rows, dtype=np.bool_)
        self.has_gpus = np.zeros(rows, dtype=np.bool_)
        self.by_number: dict[str, int] = {}
        """How many GPUs of each model the nodes have, most first."""
        self.stale = set(range(rows))
        """Rows whose tenants changed since they were last read."""
        self.tenants: dict[int, tuple[Ints, Ints]] = {}
        """Per row the expected ends of what is on it and its lines (see `releases`); read when first needed."""
        self._masks: dict[tuple[tuple[tuple[str, str], ...], tuple[Toleration, ...]], Flags] = {}
        self._eligible: dict[tuple[tuple[tuple[str, str], ...], tuple[Toleration, ...]], Flags] = {}
        self._domains: dict[str, tuple[Ints, list[str]]] = {}
        self.remembered: dict[object, Any] = {}
        """What placement worked out about these nodes, by what it was asked; forgotten when a node changes."""
        self._count_models()

    def _count_models(self) -> None:
        count: dict[str, int] = {}
        for node in self.nodes:
            for gpu in node.gpus:
                count[gpu.model.lower()] = count.get(gpu.model.lower(), 0) + 1
        self.by_number = dict(sorted(count.items(), key=lambda item: (-item[1], item[0])))

    def put(self, node: Node) -> int:
        """Enter a node as it now is; its row."""
        row = self.row[node.id]
        self.stale.add(row)
        before = self.nodes[row]
        self.nodes[row] = node
        self.works[row] = node.takes_work
        if node is not before:
            self._eligible.clear()
            self.remembered.clear()
        self.kind[row] = NO_KIND
        self.memory[row] = 0
        self.island[row] = self.socket[row] = -1
        islands: dict[int, int] = {}
        sockets: dict[int, int] = {}
        sizes: dict[int, int] = {}
        for gpu in node.gpus:
            self.island[row, gpu.index] = islands.setdefault(gpu.island, len(islands))
            self.socket[row, gpu.index] = sockets.setdefault(gpu.socket, len(sockets))
            if gpu.healthy:
                self.kind[row, gpu.index] = self.kind_number[Kind(gpu.model.lower(), gpu.memory_mib)]
                self.memory[row, gpu.index] = gpu.memory_mib
                sizes[gpu.island] = sizes.get(gpu.island, 0) + 1
        self.island_size[row] = max(sizes.values(), default=0)
        self.has_gpus[row] = bool(node.gpus)
        if (node.labels, node.taints) != (before.labels, before.taints):
            self._masks.clear()
            self._domains.clear()
        return row

    def fits(self, node: Node) -> bool:
        """True when the node can be entered as it now is without a new layout."""
        return (
            node.id in self.row
            and gpu_span(node) <= self.width
            and all(Kind(gpu.model.lower(), gpu.memory_mib) in self.kind_number for gpu in node.gpus)
            and all(name in self.device_names for name in node.devices)
        )

    def suits(self, selector: dict[str, str], tolerations: tuple[Toleration, ...]) -> Flags:
        """Which nodes these labels and taints allow, whether they take work now or not."""
        key = (tuple(sorted(selector.items())), tolerations)
        mask = self._masks.get(key)
        if mask is None:
            _forget_some(self._masks)
            allowed = (matches(node, selector) and tolerates(node, tolerations) for node in self.nodes)
            mask = self._masks[key] = np.fromiter(allowed, dtype=np.bool_, count=len(self.nodes))
        return mask

    def eligible(self, selector: dict[str, str], tolerations: tuple[Toleration, ...]) -> Flags:
        """Which nodes may take such a task now."""
        key = (tuple(sorted(selector.items())), tolerations)
        mask = self._eligible.get(key)
        if mask is None:
            _forget_some(self._eligible)
            mask = self._eligible[key] = self.suits(selector, tolerations) & self.works
        return mask

    def remember(self, asked: Hashable, work_out: Callable[[], Answer]) -> Answer:
        """The answer to a question about these nodes, worked out once."""
        found: Answer | None = self.remembered.get(asked)
        if found is None:
            _forget_some(self.remembered)
            found = self.remembered[asked] = work_out()
        return found

    def has_kind(self, kinds: tuple[int, ...]) -> Flags:
        """Which nodes have a usable GPU of one of these kinds."""
        return np.asarray(np.isin(self.kind, kinds).any(axis=1))

    def domains(self, label: str) -> tuple[Ints, list[str]]:
        """Per row the number of its topology domain, -1 without the label; and the domains' names by number."""
        known = self._domains.get(label)
        if known is None:
            names = sorted({node.labels[label] for node in self.nodes if label in node.labels})
            number = {name: k for k, name in enumerate(names)}
            codes = (number.get(node.labels.get(label, ""), -1) for node in self.nodes)
            known = (np.fromiter(codes, dtype=np.int64, count=len(self.nodes)), names)
            self._domains[label] = known
        return known


class Room:
    """What is free on each node of a layout."""

    __slots__ = (
        "cpu",
        "devices",
        "free",
        "fullness",
        "gpu_memory",
        "layout",
        "linked",
        "memory",
        "milli",
        "socketed",
        "total",
        "whole",
    )

    def __init__(self, layout: Layout) -> None:
        """A room in which nothing is free yet."""
        rows = len(layout.nodes)
        self.layout = layout
        self.cpu = np.zeros(rows, dtype=np.int64)
        self.memory = np.zeros(rows, dtype=np.int64)
        self.devices = {name: np.zeros(rows, dtype=np.int64) for name in layout.device_names}
        self.milli = np.zeros((rows, layout.width), dtype=np.int64, order="F")
        self.gpu_memory = np.zeros((rows, layout.width), dtype=np.int64, order="F")
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
        self.socketed = np.zeros(rows, dtype=np.int64)
        """Most whole free GPUs on one socket, by node."""

    @staticmethod
    def of(nodes: Iterable[Node]) -> "Room":
        """The room of these nodes; `refresh` each of them."""
        return Room(Layout(nodes))

    @property
    def nodes(self) -> list[Node]:
        """The nodes by row."""
        return self.layout.nodes

    def copy(self) -> "Room":
        """The same room, to be changed freely; the layout is shared."""
        twin = Room.__new__(Room)
        twin.layout = self.layout
        twin.cpu, twin.memory = self.cpu.copy(), self.memory.copy()
        twin.devices = {name: free.copy() for name, free in self.devices.items()}
        twin.milli, twin.gpu_memory = self.milli.copy(order="K"), self.gpu_memory.copy(order="K")
        twin.whole, twin.free, twin.total = self.whole.copy(), self.free.copy(), list(self.total)
        twin.fullness = self.fullness.copy()
        twin.linked, twin.socketed = self.linked.copy(), self.socketed.copy()
        return twin

    def follows(self, node_id: NodeId, node: Node | None) -> bool:
        """True when this room can go on although the node changed to this (None: it is not in this pool)."""
        return node_id not in self.layout.row if node is None else self.layout.fits(node)

    def refresh(self, node: Node, use: NodeUse) -> None:
        """Set a node's row to the node as it now is less what is taken on it."""
        row = self.layout.put(node)
        self.cpu[row] = node.cpu_milli - use.cpu_milli
        self.memory[row] = node.memory_mib - use.memory_mib
        for name, free in self.devices.items():
            free[row] = node.devices.get(name, 0) - use.devices.get(name, 0)
        self.milli[row] = 0
        self.gpu_memory[row] = 0
        for gpu in node.gpus:
            if gpu.healthy:
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
        self.cpu[row] += sign * holding.cpu_milli
        self.memory[row] += sign * holding.memory_mib
        for name, amount in holding.devices.items():
            if name in self.devices:
                self.devices[name][row] += sign * amount
        if not holding.gpus:
            self._weigh(row)
            return
        for share in holding.gpus:
            if share.index < self.layout.width:
                self.milli[row, share.index] += sign * share.milli
                self.gpu_memory[row, share.index] += sign * share.memory_mib
        self.count_whole(row)

    def rows(self, rows: Iterable[int]) -> Rows:
        """What is free on these rows now, to compare with later."""
        return {
            row: (
                int(self.cpu[row]),
                int(self.memory[row]),
                self.milli[row].copy(),
                self.gpu_memory[row].copy(),
                {name: int(free[row]) for name, free in self.devices.items()},
            )
            for row in rows
        }

    def lower_to(self, limits: Rows) -> None:
        """On these rows keep no more free than was free there then."""
        for row, (cpu, memory, milli, gpu_memory, devices) in limits.items():
            self.cpu[row] = min(int(self.cpu[row]), cpu)
            self.memory[row] = min(int(self.memory[row]), memory)
            self.milli[row] = np.minimum(self.milli[row], milli)
            self.gpu_memory[row] = np.minimum(self.gpu_memory[row], gpu_memory)
            for name, free in devices.items():
                self.devices[name][row] = min(int(self.devices[name][row]), free)
            self.count_whole(row)

    def close(self, rows: Flags) -> None:
        """Leave nothing free on these rows."""
        self.cpu[rows] = self.memory[rows] = 0
        self.milli[rows] = self.gpu_memory[rows] = 0
        for free in self.devices.values():
            free[rows] = 0
        self.whole[:, rows] = 0
        self.free[rows] = self.linked[rows] = self.socketed[rows] = self.fullness[rows] = 0
        self.total = self.whole.sum(axis=1).tolist()

    def count_whole(self, row: int) -> None:
        """Count a node's whole free GPUs anew."""
        layout = self.layout
        by_kind = [0] * len(self.whole)
        islands: dict[int, int] = {}
        sockets: dict[int, int] = {}
        for kind, milli, memory, total, island, socket in zip(
            layout.kind[row].tolist(),
            self.milli[row].tolist(),
            self.gpu_memory[row].tolist(),
            layout.memory[row].tolist(),
            layout.island[row].tolist(),
            layout.socket[row].tolist(),
            strict=True,
        ):
            if kind != NO_KIND and milli == GPU_MILLI and memory == total:
                by_kind[kind] += 1
                islands[island] = islands.get(island, 0) + 1
                sockets[socket] = sockets.get(socket, 0) + 1
        for number, (before, after) in enumerate(zip(self.whole[:, row].tolist(), by_kind, strict=True)):
            if before != after:
                self.whole[number, row] = after
                self.total[number] += after - before
        self.free[row] = sum(by_kind)
        self._weigh(row)
        self.linked[row] = max(islands.values(), default=0)
        self.socketed[row] = max(sockets.values(), default=0)

    def _weigh(self, row: int) -> None:
        self.fullness[row] = self.free[row] * CORES_SHOWN + min(max(int(self.cpu[row]) // 1000, 0), CORES_SHOWN - 1)

    def count_all(self) -> None:
        """Count every node's whole free GPUs anew, after many changes at once."""
        layout = self.layout
        empty = (layout.kind != NO_KIND) & (self.milli == GPU_MILLI) & (self.gpu_memory == layout.memory)
        for kind in range(len(layout.kinds)):
            self.whole[kind] = (empty & (layout.kind == kind)).sum(axis=1)
        self.free = empty.sum(axis=1)
        self.total = self.whole.sum(axis=1).tolist()
        self.fullness = self.free * CORES_SHOWN + np.clip(self.cpu // 1000, 0, CORES_SHOWN - 1)
        self.linked = _most_in_one(empty, layout.island)
        self.socketed = _most_in_one(empty, layout.socket)


def matches(node: Node, selector: dict[str, str]) -> bool:
    """True when the node has every label asked for."""
    return all(node.labels.get(key) == value for key, value in selector.items())


def tolerates(node: Node, tolerations: tuple[Toleration, ...]) -> bool:
    """True when every taint of the node is accepted."""
    return all(
        any(known.key == taint.key and known.value in ("", taint.value) for known in tolerations)
        for taint in node.taints
    )


def _forget_some(known: dict[Any, Any]) -> None:
    """Bound what users can make us remember by asking for ever new things."""
    if len(known) >= REMEMBERED_MAX:
        known.clear()


def _most_in_one(empty: Flags, part: NDArray[np.int16]) -> Ints:
    """Per row the largest number of set flags that share a part."""
    most = np.zeros(len(empty), dtype=np.int64)
    for number in np.unique(part[empty]).tolist():
        np.maximum(most, (empty & (part == number)).sum(axis=1), out=most)
    return most

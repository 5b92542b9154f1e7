"""What stands still while a decision is made: the nodes of a pool, which GPUs they have, how those hang together.

One row per node in id order, one column per GPU index. Matrices lie in memory column by column, because nearly all work
on them is over all nodes at once.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from gangline_core.cluster import LEVELS_INSIDE_NODE, Gpu, Node, Taint, gpu_span
from gangline_core.ids import NodeId
from gangline_core.limits.amounts import count
from gangline_core.room.looks import Counts, Looks
from gangline_core.spec import GPU_MILLI, Toleration

Answer = TypeVar("Answer")
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
Parts = NDArray[np.int16]
Cards = tuple[list[int], list[int], list[int]]
REMEMBERED_MAX = 2_048
NEVER_MIB = 1 << 60
NO_KIND = -1
"""Where there is no usable GPU."""
_MATRICES = {"kind": NO_KIND, "memory": 0, "uncut": NEVER_MIB, "island": -1, "switch": -1, "socket": -1}
"""What stands in them where there is nothing."""


class Kind(Struct, frozen=True, order=True):
    """GPUs that no request can tell apart."""

    model: str
    """In lower case: models are compared without regard to case."""
    memory_mib: int
    mig: str = ""
    """How the card is cut (see gangline_core.room.mig); empty for a card that is not."""
    near_nic: bool = False
    """Shares a PCIe switch with a network card."""


class Layout:
    """The nodes of a pool and their GPUs."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        """The layout of these nodes, in id order."""
        self.nodes = sorted(nodes, key=lambda node: node.id)
        self.row = {node.id: k for k, node in enumerate(self.nodes)}
        self.width = max((gpu_span(node) for node in self.nodes), default=0) or 1
        self.kinds = sorted({kind_of(node, gpu) for node in self.nodes for gpu in node.gpus})
        self.kind_number = {kind: k for k, kind in enumerate(self.kinds)}
        self.device_names = sorted({name for node in self.nodes for name in node.devices})
        rows = len(self.nodes)
        self.kind = np.full((rows, self.width), NO_KIND, dtype=np.int16, order="F")
        """Kind of each usable GPU."""
        self.memory = np.zeros((rows, self.width), dtype=np.int64, order="F")
        """MiB of each usable GPU."""
        self.uncut = np.full((rows, self.width), NEVER_MIB, dtype=np.int64, order="F")
        """MiB of each usable GPU that may be taken as a whole, else a number that is never free."""
        self.island: Parts = np.full((rows, self.width), -1, dtype=np.int16, order="F")
        self.switch: Parts = np.full((rows, self.width), -1, dtype=np.int16, order="F")
        self.socket: Parts = np.full((rows, self.width), -1, dtype=np.int16, order="F")
        self.has_switches = any(gpu.switch >= 0 for node in self.nodes for gpu in node.gpus)
        self.has_mig = any(kind.mig for kind in self.kinds)
        self.island_size = np.zeros(rows, dtype=np.int64)
        """Usable GPUs of the node's largest NVLink island."""
        self.works = np.zeros(rows, dtype=np.bool_)
        self.has_gpus = np.zeros(rows, dtype=np.bool_)
        self.by_number: dict[str, int] = {}
        """How many GPUs of each model the nodes have, most first."""
        self.stale = set(range(rows))
        """Rows whose tenants changed since they were last read."""
        self.tenants: tuple[Ints, Ints] | None = None
        """Expected ends of what is on all rows, soonest first, and its lines (see `releases`), when last read."""
        self._entered: set[int] = set()
        """Rows that stand in the matrices."""
        self._masks: dict[tuple[tuple[tuple[str, str], ...], tuple[Toleration, ...]], Flags] = {}
        self._eligible: dict[object, Flags] = {}
        self._domains: dict[str | tuple[str, str], tuple[Ints, list[str]]] = {}
        self.remembered: dict[object, Any] = {}
        """What placement worked out about these nodes, by what it was asked; forgotten when a node changes."""
        self.version = 0
        """Grows whenever that is forgotten."""
        self.looks = Looks()
        """How nodes look, and what follows from that (see `capacity.Room.count_whole`)."""
        self._builds: list[int] = [-1] * rows
        self._build_numbers: dict[bytes, int] = {}
        self._cards: list[Cards | None] = [None] * rows
        self._models: dict[str, int] = {}
        self._count_models(self.nodes)

    def _count_models(self, joined: Iterable[Node], left: Iterable[Node] = ()) -> None:
        """Count the GPUs of nodes that joined or left by model; without them the rest is as it was."""
        for nodes, sign in ((joined, 1), (left, -1)):
            for node in nodes:
                for gpu in node.gpus:
                    count(self._models, gpu.model.lower(), sign)
        self.by_number = dict(sorted(self._models.items(), key=lambda item: (-item[1], item[0])))

    def with_others(self, joined: Sequence[Node], left: frozenset[NodeId]) -> tuple["Layout", Ints]:
        """The layout when these nodes joined and left, and per row the one it had here (-1 for one that joined).

        Those that joined must fit (see `takes`), and what left must have left no kind behind (see `spares`). They are
        to be `put` yet.
        """
        twin = Layout.__new__(Layout)
        nodes = sorted([*(node for node in self.nodes if node.id not in left), *joined], key=lambda node: node.id)
        before = np.fromiter((self.row.get(node.id, -1) for node in nodes), dtype=np.int64, count=len(nodes))
        stays, rows = np.flatnonzero(before >= 0), len(nodes)
        come_from = before[stays]
        twin.nodes, twin.row, twin.width = nodes, {node.id: k for k, node in enumerate(nodes)}, self.width
        twin.kinds, twin.kind_number, twin.device_names = self.kinds, self.kind_number, self.device_names
        twin.has_switches, twin.has_mig = self.has_switches, self.has_mig
        for name, nothing in _MATRICES.items():
            own = getattr(self, name)
            matrix = np.full((rows, self.width), nothing, dtype=own.dtype, order="F")
            matrix[stays] = own[come_from]
            setattr(twin, name, matrix)
        for name in ("island_size", "works", "has_gpus"):
            own = getattr(self, name)
            column = np.zeros(rows, dtype=own.dtype)
            column[stays] = own[come_from]
            setattr(twin, name, column)
        after = dict(zip(come_from.tolist(), stays.tolist(), strict=True))
        twin.stale = {after[row] for row in self.stale if row in after} | set(np.flatnonzero(before < 0).tolist())
        twin.tenants = None if self.tenants is None else _moved(*self.tenants, after=after)
        twin._entered = {after[row] for row in self._entered if row in after}
        twin._masks, twin._eligible, twin._domains, twin.remembered, twin.version = {}, {}, {}, {}, 0
        twin.looks, twin._build_numbers = self.looks, self._build_numbers
        twin._builds = [self._builds[row] if row >= 0 else -1 for row in before.tolist()]
        twin._cards = [self._cards[row] if row >= 0 else None for row in before.tolist()]
        twin._models = dict(self._models)
        twin._count_models(joined, [self.nodes[self.row[name]] for name in left])
        return twin, before

    def takes(self, node: Node) -> bool:
        """True when a node that joins has nothing that no other node ever had."""
        return (
            gpu_span(node) <= self.width
            and (self.has_switches or all(gpu.switch < 0 for gpu in node.gpus))
            and all(kind_of(node, gpu) in self.kind_number for gpu in node.gpus)
            and all(name in self.device_names for name in node.devices)
        )

    def spares(self, left: frozenset[NodeId]) -> bool:
        """True when the other nodes still have everything that is told apart here."""
        others = [node for node in self.nodes if node.id not in left]
        kinds, names, span, has_switches = set(self.kinds), set(self.device_names), 0, not self.has_switches
        for node in others:
            for gpu in node.gpus:
                kinds.discard(kind_of(node, gpu))
                has_switches = has_switches or gpu.switch >= 0
            names.difference_update(node.devices)
            span = max(span, gpu_span(node))
            if not (kinds or names) and span == self.width and has_switches:
                return True
        return False

    def put(self, node: Node) -> int:
        """Enter a node as it now is; its row."""
        row = self.row[node.id]
        self.stale.add(row)
        before = self.nodes[row]
        if node is before and row in self._entered:
            return row
        self._entered.add(row)
        self.nodes[row] = node
        self.works[row] = node.takes_work
        if node is not before:
            self._eligible.clear()
            self.remembered.clear()
            self.version += 1
            if node.gpus is not before.gpus:
                self._count_models((node,), (before,))
        self._builds[row], self._cards[row] = -1, None
        self.kind[row] = NO_KIND
        self.memory[row] = 0
        self.uncut[row] = NEVER_MIB
        self.island[row] = self.switch[row] = self.socket[row] = -1
        islands: dict[int, int] = {}
        switches: dict[tuple[int, int], int] = {}
        sockets: dict[int, int] = {}
        sizes: dict[int, int] = {}
        for gpu in node.gpus:
            self.island[row, gpu.index] = islands.setdefault(gpu.island, len(islands))
            if gpu.switch >= 0:
                self.switch[row, gpu.index] = switches.setdefault((gpu.socket, gpu.switch), len(switches))
            self.socket[row, gpu.index] = sockets.setdefault(gpu.socket, len(sockets))
            if gpu.healthy:
                self.kind[row, gpu.index] = self.kind_number[kind_of(node, gpu)]
                self.memory[row, gpu.index] = gpu.memory_mib
                if not gpu.mig:
                    self.uncut[row, gpu.index] = gpu.memory_mib
                    sizes[gpu.island] = sizes.get(gpu.island, 0) + 1
        self.island_size[row] = max(sizes.values(), default=0)
        self.has_gpus[row] = bool(node.gpus)
        if (node.labels, node.taints) != (before.labels, before.taints):
            self._masks.clear()
            self._domains.clear()
        return row

    def fits(self, node: Node) -> bool:
        """True when the node can be entered as it now is without a new layout."""
        row = self.row.get(node.id)
        if row is not None and self.nodes[row] is node:
            return True
        return row is not None and self.takes(node)

    def suits(self, selector: dict[str, str], tolerations: tuple[Toleration, ...]) -> Flags:
        """Which nodes these labels and taints allow, whether they take work now or not."""
        key = (tuple(sorted(selector.items())), tolerations)
        mask = self._masks.get(key)
        if mask is None:
            _forget_some(self._masks)
            allowed = (
                (not selector or matches(node, selector)) and (not node.taints or tolerates(node, tolerations))
                for node in self.nodes
            )
            mask = self._masks[key] = np.fromiter(allowed, dtype=np.bool_, count=len(self.nodes))
        return mask

    def eligible(
        self, selector: dict[str, str], tolerations: tuple[Toleration, ...], excluded: tuple[str, ...] = ()
    ) -> Flags:
        """Which nodes may take such a task now; those excluded by name may not."""
        key = (tuple(sorted(selector.items())) if selector else (), tolerations, excluded)
        mask = self._eligible.get(key)
        if mask is None:
            _forget_some(self._eligible)
            mask = self.suits(selector, tolerations) & self.works
            mask[[self.row[NodeId(name)] for name in excluded if name in self.row]] = False
            self._eligible[key] = mask
        return mask

    def build(self, row: int) -> int:
        """A number that is equal for nodes whose GPUs are equal and hang together alike."""
        known = self._builds[row]
        if known < 0:
            parts = (self.kind, self.uncut, self.memory, self.island, self.switch, self.socket)
            key = b"".join(part[row].tobytes() for part in parts)
            known = self._builds[row] = self._build_numbers.setdefault(key, len(self._build_numbers))
        return known

    def cards(self, row: int) -> "Cards":
        """Per GPU of a node its kind, its MiB, and its MiB if it may be taken as a whole; only read them."""
        known = self._cards[row]
        if known is None:
            known = (self.kind[row].tolist(), self.memory[row].tolist(), self.uncut[row].tolist())
            self._cards[row] = known
        return known

    def counts(self, row: int, milli: list[int], memory: list[int]) -> Counts:
        """Whole free GPUs of a node with so much free on each: all, the most in each sort of part, and by kind."""
        kinds, _, uncut = self.cards(row)
        empty = zip(milli, memory, uncut, strict=True)
        columns = [k for k, (free, mib, total) in enumerate(empty) if free == GPU_MILLI and mib == total]
        parts = (self.island, self.switch, self.socket)
        linked, switched, socketed = (_most_alike(part[row].tolist(), columns) for part in parts)
        found = [kinds[k] for k in columns]
        return Counts(len(columns), linked, switched, socketed, tuple(map(found.count, range(len(self.kinds)))))

    def part(self, level: str) -> Parts:
        """Per GPU the number of its part of the node at a level inside nodes; -1 where there is no GPU."""
        match level:
            case "nvlink":
                return self.island
            case "switch":
                return self.switch
            case "socket":
                return self.socket
            case _:
                return self.whole_node

    def part_inside(self, level: str, required: str) -> Parts:
        """The same, where a part ends at the parts of a required level as well: one island may span sockets."""
        if required == level or required not in LEVELS_INSIDE_NODE[:-1] or level not in LEVELS_INSIDE_NODE[:-1]:
            return self.part(level)
        return self.remember(("inside", level, required), lambda: _crossed(self.part(level), self.part(required)))

    @property
    def whole_node(self) -> Parts:
        """Each node as one part."""
        return self.remember(("whole_node",), lambda: np.where(self.socket >= 0, 0, -1).astype(np.int16))

    @property
    def gpu_counts(self) -> Ints:
        """GPUs of each node."""
        return self.remember(("gpu_counts",), lambda: (self.kind != NO_KIND).sum(axis=1).astype(np.int64))

    def remember(self, asked: Hashable, work_out: Callable[[], Answer]) -> Answer:
        """The answer to a question about these nodes, worked out once."""
        found: Answer | None = self.remembered.get(asked)
        if found is None:
            _forget_some(self.remembered)
            found = self.remembered[asked] = work_out()
        return found

    def flags_of(self, nodes: Iterable[NodeId]) -> Flags:
        """These nodes, as far as they are here."""
        flags = np.zeros(len(self.nodes), dtype=np.bool_)
        flags[[self.row[node] for node in nodes if node in self.row]] = True
        return flags

    def has_kind(self, kinds: tuple[int, ...]) -> Flags:
        """Which nodes have a usable GPU of one of these kinds."""
        return np.asarray(np.isin(self.kind, kinds).any(axis=1))

    def domains(self, label: str) -> tuple[Ints, list[str]]:
        """Per row the number of its domain, -1 where the label is missing or empty; and the names by number."""
        known = self._domains.get(label)
        if known is None:
            names = sorted({node.labels.get(label, "") for node in self.nodes} - {""})
            number = {name: k for k, name in enumerate(names)}
            codes = (number.get(node.labels.get(label, ""), -1) for node in self.nodes)
            known = (np.fromiter(codes, dtype=np.int64, count=len(self.nodes)), names)
            self._domains[label] = known
        return known

    def domains_inside(self, label: str, outer: str) -> tuple[Ints, list[str]]:
        """The same of parts that domains of two labels have in common: one may lie across others."""
        if label == outer or not outer:
            return self.domains(label)
        known = self._domains.get((label, outer))
        if known is None:
            (codes, names), (around, outers) = self.domains(label), self.domains(outer)
            both = np.where((codes >= 0) & (around >= 0), codes * len(outers) + around, -1)
            pairs, numbers = np.unique(both, return_inverse=True)
            first = int(bool(len(pairs)) and int(pairs[0]) < 0)
            known = (
                (numbers - first).astype(np.int64),
                [names[pair // len(outers)] for pair in pairs[first:].tolist()],
            )
            self._domains[label, outer] = known
        return known


def _moved(ends: Ints, lines: Ints, *, after: dict[int, int]) -> tuple[Ints, Ints]:
    """The lines of rows that stay, under the numbers that these have then."""
    stays = np.array([row in after for row in lines[:, 0].tolist()], dtype=np.bool_)
    lines = lines[stays]
    lines[:, 0] = [after[row] for row in lines[:, 0].tolist()]
    return ends[stays], lines


def _most_alike(part: list[int], columns: list[int]) -> int:
    """The largest number of these columns that share a part."""
    found = [part[k] for k in columns if part[k] >= 0]
    if not found or found.count(found[0]) == len(found):
        return len(found)
    return max(map(found.count, set(found)))


def kind_of(node: Node, gpu: Gpu) -> Kind:
    """The kind of a node's GPU."""
    near_nic = gpu.switch >= 0 and any((nic.socket, nic.switch) == (gpu.socket, gpu.switch) for nic in node.nics)
    return Kind(gpu.model.lower(), gpu.memory_mib, gpu.cut, near_nic)


def matches(node: Node, selector: dict[str, str]) -> bool:
    """True when the node has every label asked for."""
    return all(node.labels.get(key) == value for key, value in selector.items())


def tolerates(node: Node, tolerations: tuple[Toleration, ...]) -> bool:
    """True when every taint of the node is accepted."""
    return all(any(_accepts(known, taint) for known in tolerations) for taint in node.taints)


def _accepts(known: Toleration, taint: Taint) -> bool:
    is_same = known.value == taint.value or (not known.value and not known.is_exact)
    return is_same and known.key in ("", taint.key) and (not known.effect or taint.effect in ("", known.effect))


def _forget_some(known: dict[Any, Any]) -> None:
    """Bound what users can make us remember by asking for ever new things."""
    if len(known) >= REMEMBERED_MAX:
        known.clear()


def _crossed(parts: Parts, others: Parts) -> Parts:
    """One number for each pair of numbers; -1 where either is."""
    both = parts.astype(np.int32) * (int(others.max(initial=0)) + 1) + others
    known = np.unique(both)
    return np.where((parts >= 0) & (others >= 0), np.searchsorted(known, both), -1).astype(np.int16)

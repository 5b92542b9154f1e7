"""What a pool's machines could hold if they were empty and well: equal machines are counted, not listed.

Drained, lost and sick machines are counted too: they may come back, and a job that fits only them is not impossible.
So does what others than Gangline have of a machine now.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter

from msgspec import Struct
from msgspec.structs import replace

from gangline_core.cluster import Node, tasks_most
from gangline_core.limits.amounts import add_all
from gangline_core.reasons import Reason
from gangline_core.room.capacity import PLACES_MAX, Room
from gangline_core.room.layout import kind_of
from gangline_core.room.mig import geometry, how_many
from gangline_core.spec import GPU_MILLI, Resources

VERDICTS_MAX = 20_000
"""Remembered answers to "can this ever fit?"; all are forgotten when there are more."""


class GpuKind(Struct, frozen=True):
    """One GPU of an empty machine, as far as a request can tell."""

    model: str
    """Lower case."""
    memory_mib: int
    socket: int
    island: int
    switch: int = -1
    mig: str = ""
    near_nic: bool = False


class MachineKind(Struct, frozen=True):
    """A machine as far as a request can tell, apart from its labels."""

    gpus: tuple[GpuKind, ...]
    cpu_milli: int
    memory_mib: int
    devices: tuple[tuple[str, int], ...]
    tasks: int = 10**9
    """Most tasks at once."""


class Stock(Struct, frozen=True):
    """So many equal machines with the same values of the labels asked about."""

    kind: MachineKind
    labels: tuple[str, ...]
    count: int


class Inventory:
    """One pool's machines; answers are remembered until a machine changes."""

    def __init__(self, nodes: Iterable[Node], tasks_max: int = PLACES_MAX) -> None:
        """The inventory of these nodes, none of which takes more than `tasks_max` tasks."""
        self.nodes = [undivided(node) for node in nodes]
        self.tasks_max = tasks_max
        self._kinds = [_kind(node, tasks_max) for node in self.nodes]
        self._stocks: dict[tuple[str, ...], list[Stock]] = {}
        self.verdicts: dict[bytes, tuple[Reason, str] | None] = {}
        """Answers by what was asked, kept by `gangline_core.door.never_fits`."""
        self.empty: Room | None = None
        """All machines, well and empty; made when a placer has to be asked."""

    def kinds(self) -> Iterator[tuple[Node, MachineKind]]:
        """Every machine with its kind."""
        return zip(self.nodes, self._kinds, strict=True)

    def stocks(self, labels: Sequence[str] = ()) -> list[Stock]:
        """Machines counted by kind and by their values of these labels (empty where a machine has none)."""
        key = tuple(labels)
        found = self._stocks.get(key)
        if found is None:
            counts: dict[tuple[MachineKind, tuple[str, ...]], int] = {}
            for node, kind in zip(self.nodes, self._kinds, strict=True):
                entry = (kind, tuple(node.labels.get(label, "") for label in key))
                counts[entry] = counts.get(entry, 0) + 1
            found = self._stocks[key] = [Stock(kind=k, labels=v, count=n) for (k, v), n in counts.items()]
        return found

    def matching(self, selector: Mapping[str, str], label: str = "") -> list[Stock]:
        """Machines with these labels; the value of `label` is the first of each stock's labels when it is asked for."""
        names = sorted(selector)
        wanted = tuple(selector[name] for name in names)
        asked = ([label] if label else []) + names
        return [stock for stock in self.stocks(asked) if stock.labels[len(asked) - len(names) :] == wanted]


def undivided(node: Node) -> Node:
    """The node with what others have of it."""
    others = node.elsewhere
    if others is None:
        return node
    devices = dict(node.devices)
    add_all(devices, others.devices.items())
    return replace(
        node,
        cpu_milli=node.cpu_milli + others.cpu_milli,
        memory_mib=node.memory_mib + others.memory_mib,
        devices=devices,
        gpus=tuple(sorted((*node.gpus, *others.gpus), key=attrgetter("index"))),
        tasks_max=None if node.tasks_max is None else node.tasks_max + others.tasks,
        elsewhere=None,
    )


def well(node: Node) -> Node:
    """The node as it would be if nothing were wrong with it and nobody kept work away."""
    gpus = tuple([replace(gpu, healthy=True, problem="", suspect="") for gpu in node.gpus])
    return replace(
        node,
        gpus=gpus,
        drained=False,
        drain_why="",
        lost=False,
        seen_ms=0,
        problem="",
        quarantine="",
        quarantined_ms=0,
        twin="",
    )


def suitable_gpus(kind: MachineKind, need: Resources) -> list[GpuKind]:
    """GPUs of an acceptable model with enough memory, or cards that are cut as the slice asks for."""
    models = {model.lower() for model in need.gpu_models}
    without = {model.lower() for model in need.exclude_models}
    return [
        gpu
        for gpu in kind.gpus
        if (not models or gpu.model in models)
        and gpu.model not in without
        and (gpu.near_nic or not need.near_nic)
        and gpu.memory_mib >= need.gpu_memory_mib
        and (need.mig in geometry(gpu.mig).profiles if gpu.mig else not need.mig)
    ]


def tasks_held(kind: MachineKind, need: Resources) -> int:
    """How many such tasks one empty machine of the kind can hold at most."""
    counts = [kind.tasks]
    if need.cpu_milli:
        counts.append(kind.cpu_milli // need.cpu_milli)
    if need.memory_mib:
        counts.append(kind.memory_mib // need.memory_mib)
    if need.wants_gpu:
        counts.append(_tasks_on_gpus(suitable_gpus(kind, need), need))
    if need.devices:
        devices = dict(kind.devices)
        counts.extend(devices.get(name, 0) // count for name, count in need.devices.items() if count)
    return min(counts)


def _tasks_on_gpus(gpus: Sequence[GpuKind], need: Resources) -> int:
    if need.whole_gpus:
        by_model: dict[str, int] = {}
        for gpu in gpus:
            by_model[gpu.model] = by_model.get(gpu.model, 0) + 1
        return sum(count // need.whole_gpus for count in by_model.values())
    if need.mig:
        return sum(how_many(gpu.mig, need.mig, geometry(gpu.mig).all_free) for gpu in gpus)
    by_milli = GPU_MILLI // need.gpu_milli if need.gpu_milli else 10**9
    return sum(min(by_milli, gpu.memory_mib // need.gpu_memory_mib if need.gpu_memory_mib else 10**9) for gpu in gpus)


def _kind(node: Node, tasks_max: int) -> MachineKind:
    is_near = [bool(node.nics) and kind_of(node, gpu).near_nic for gpu in node.gpus]
    return MachineKind(
        gpus=tuple(
            [
                _gpu_kind((gpu.model, gpu.memory_mib, gpu.socket, gpu.island, gpu.switch, gpu.cut, near))
                for gpu, near in zip(node.gpus, is_near, strict=True)
            ]
        ),
        cpu_milli=node.cpu_milli,
        memory_mib=node.memory_mib,
        devices=tuple(sorted(node.devices.items())),
        tasks=tasks_most(node, tasks_max),
    )


@lru_cache(maxsize=4_096)
def _gpu_kind(looks: tuple[str, int, int, int, int, str, bool]) -> GpuKind:
    """Equal GPUs of all machines are one value."""
    return GpuKind(looks[0].lower(), *looks[1:])

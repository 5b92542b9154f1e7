"""The machines of a simulation: from a short text, from a YAML description, or from the openb list.

Short form: `64x8xV100` is 64 nodes with 8 GPUs each; several kinds stand side by side: `2x8xV100,4x4xP100`.
"""

import re
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct, field

from gangline_core.cluster import Gpu, Node
from gangline_core.groups import Group
from gangline_core.ids import NodeId
from gangline_lab.openb import read_machines
from gangline_lab.outside import PageError, check_groups, read_page
from gangline_wire.nodefile import CPUS_PER_GPU, MEMORY_MIB_PER_GPU, NODES_MAX, SHORT, USUAL_MODEL, read_short

AGENT = "simulated"
"""The agent that carries every simulated node."""
GPU_MEMORY_MIB = 32_768
"""Memory of a GPU that nobody described."""
GPUS_PER_NODE_MAX = 256
ADDED = "added-"
"""How the names of further nodes begin."""
RACK_LABEL = "topology.gangline.dev/rack"


class FleetError(Exception):
    """A description of machines that makes no sense; the message says where."""


class NodeKind(Struct, frozen=True, forbid_unknown_fields=True):
    """Equal nodes, as the YAML file describes them."""

    count: int
    gpus: Annotated[int, Meta(ge=0, le=GPUS_PER_NODE_MAX)] = 0
    model: str = USUAL_MODEL
    gpu_memory_mib: Annotated[int, Meta(ge=1)] = GPU_MEMORY_MIB
    cpus: Annotated[int, Meta(ge=0)] = 0
    memory_mib: Annotated[int, Meta(ge=0)] = 0
    pool: str = "default"
    per_rack: Annotated[int, Meta(ge=0)] = 0
    """Nodes of one rack; 0 puts them in none."""
    labels: dict[str, str] = {}


class FleetFile(Struct, frozen=True, forbid_unknown_fields=True):
    """The YAML file: kinds of nodes, and groups with their quotas beside what the trace speaks of."""

    nodes: tuple[NodeKind, ...] = ()
    groups: tuple[Group, ...] = ()


class Fleet(Struct, frozen=True):
    """All machines, and the groups that a description gives quotas."""

    nodes: tuple[Node, ...]
    groups: tuple[Group, ...] = ()
    kinds: dict[str, int] = field(default_factory=dict)
    """GPUs by model."""

    @property
    def gpus(self) -> int:
        """All GPUs."""
        return sum(self.kinds.values())


def read_fleet(text: str) -> Fleet:
    """The machines that a short form, the word `openb`, or the path of a YAML file describes.

    Raises:
        FleetError: it is none of these, or the file is wrong; the message says where.
    """
    if text == "openb":
        return _openb()
    short = read_short(text)
    if short:
        return fleet_of(tuple(NodeKind(count=one.count, gpus=one.gpus, model=one.model) for one in short))
    path = Path(text)
    if not path.is_file():
        if "/" in text or path.suffix in (".yaml", ".yml", ".json"):
            raise FleetError(f"there is no file {text!r}")
        raise FleetError(f"{text!r} is neither machines such as 64x8xV100, nor openb, nor a YAML file")
    return _from_yaml(path)


def fleet_of(kinds: tuple[NodeKind, ...], groups: tuple[Group, ...] = (), *, first: int = 0) -> Fleet:
    """Nodes of these kinds, named in order; `first` is the number of the first one."""
    nodes: list[Node] = []
    for kind in kinds:
        if kind.count < 1 or kind.count + len(nodes) > NODES_MAX:
            raise FleetError(f"count {kind.count}: expected from 1 to {NODES_MAX} nodes in all")
        before = first + len(nodes)
        nodes += [_node(kind, before + own, own) for own in range(kind.count)]
    return _fleet(nodes, groups)


def added(fleet: Fleet, more: str) -> Fleet:
    """The fleet with further nodes, such as `+8xH100` (a node of eight) or `+4x8xH100` (four of them).

    Raises:
        FleetError: it says something else.
    """
    text = more.removeprefix("+")
    if re.fullmatch(r"\d+x[A-Za-z][A-Za-z0-9_.-]*", text):
        text = f"1x{text}"
    part = SHORT.fullmatch(text)
    if part is None:
        raise FleetError(f"{more!r}: expected +8xH100 (one node of eight) or +4x8xH100 (four such nodes)")
    kind = NodeKind(count=int(part[1]), gpus=int(part[2]), model=part[3] or USUAL_MODEL)
    extra = fleet_of((kind,), first=len(fleet.nodes)).nodes
    before = sum(node.id.startswith(ADDED) for node in fleet.nodes)
    renamed = tuple(
        msgspec.structs.replace(node, id=NodeId(f"{ADDED}{k:05d}")) for k, node in enumerate(extra, start=before)
    )
    return _fleet([*fleet.nodes, *renamed], fleet.groups)


def _fleet(nodes: list[Node], groups: tuple[Group, ...]) -> Fleet:
    kinds: dict[str, int] = {}
    for node in nodes:
        for gpu in node.gpus:
            kinds[gpu.model] = kinds.get(gpu.model, 0) + 1
    return Fleet(nodes=tuple(nodes), groups=groups, kinds=dict(sorted(kinds.items())))


def _node(kind: NodeKind, number: int, own: int) -> Node:
    labels = dict(kind.labels)
    if kind.per_rack:
        labels[RACK_LABEL] = f"rack-{kind.model}-{own // kind.per_rack:04d}"
    size = max(1, kind.gpus)
    gpus = tuple(
        Gpu(index=k, model=kind.model, memory_mib=kind.gpu_memory_mib, socket=2 * k // size) for k in range(kind.gpus)
    )
    return Node(
        id=NodeId(f"node-{number:05d}"),
        agent=AGENT,
        cpu_milli=1000 * (kind.cpus or CPUS_PER_GPU * size),
        memory_mib=kind.memory_mib or MEMORY_MIB_PER_GPU * size,
        gpus=gpus,
        pool=kind.pool,
        labels=labels,
    )


def _openb() -> Fleet:
    nodes = []
    for machine in read_machines():
        gpus = tuple(Gpu(index=k, model=machine.model, memory_mib=GPU_MEMORY_MIB) for k in range(machine.gpus))
        nodes.append(
            Node(
                id=NodeId(machine.name),
                agent=AGENT,
                cpu_milli=machine.cpu_milli,
                memory_mib=machine.memory_mib,
                gpus=gpus,
            )
        )
    return _fleet(nodes, ())


def _from_yaml(path: Path) -> Fleet:
    try:
        described = msgspec.convert(read_page(path), FleetFile)
        check_groups(path, described.groups)
    except PageError as error:
        raise FleetError(str(error)) from error
    except (ValueError, RecursionError) as error:
        raise FleetError(f"{path.name}: {error}") from error
    if not described.nodes:
        raise FleetError(f"{path.name}: describes no nodes")
    return fleet_of(described.nodes, described.groups)

"""Simulated nodes from a description: machines in short, or a file in YAML, JSON or CSV.

In short: `4x8xH100` is four nodes of eight H100. A file lists nodes, one by one or as kinds with a `count`: with
`name`, `gpus`, `model`, `cpus` and `memory`, or in the columns of the public openb node list (sn, cpu_milli,
memory_mib, gpu, model). In YAML and JSON a node may also say how its GPUs hang together: `gpus` is then a list of GPUs
in the words of `Gpu` (with switches, islands, sockets, cards that are cut by MIG), `nics` a list of network cards,
`labels` the node's labels, `devices` its other devices, such as remote_gpu and nic_mbps.
"""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
import yaml
from msgspec import Struct
from msgspec.structs import replace

from gangline_core.cluster import Gpu, Nic, Node
from gangline_core.ids import NodeId
from gangline_core.room.mig import GEOMETRIES
from gangline_wire.nodefile import CPUS_PER_GPU, MEMORY_MIB_PER_GPU, NODES_MAX, USUAL_MODEL, read_short
from gangline_wire.quantity import read_mebibytes, read_milli

RACK_LABEL = "topology.gangline.dev/rack"
BLOCK_LABEL = "topology.gangline.dev/block"

GPU_MEMORY_MIB = {
    "P4": 8_192,
    "P100": 16_384,
    "T4": 16_384,
    "V100": 16_384,
    "V100M16": 16_384,
    "V100M32": 32_768,
    "A10": 24_576,
    "A100": 81_920,
    "H100": 81_920,
    "H200": 144_384,
    "G1": 16_384,
    "G2": 24_576,
    "G3": 81_920,
}
"""Memory per GPU by model. G1 to G3 are names the publisher of the list made up for models it does not tell; they are
taken for cards like T4, A10 and A100, which fits the CPUs and memory beside them."""
GPU_MEMORY_MIB_UNKNOWN = 16_384

FORMS = "machines in short such as 4x8xH100, or a file (.yaml, .json, .csv) with nodes"


class FleetError(Exception):
    """The description cannot be read; the message says where."""


class Row(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One node, or `count` equal ones, as a description says it; the names after each other mean the same."""

    name: str = ""
    sn: str = ""
    count: int = 1
    gpus: int | tuple[Gpu, ...] = 0
    gpu: int = 0
    model: str = ""
    gpu_memory: str = ""
    gpu_memory_mib: int = 0
    cpus: float | str | None = None
    cpu_milli: int | None = None
    memory: str | None = None
    memory_mib: int | None = None
    labels: dict[str, str] = {}
    nics: tuple[Nic, ...] = ()
    devices: dict[str, int] = {}

    @property
    def gpu_count(self) -> int:
        """GPUs of each node."""
        return self.gpu or (self.gpus if isinstance(self.gpus, int) else len(self.gpus))


def read(
    text: str | Path, *, agent: str, pool: str, most: int = 0, rack_nodes: int = 16, block_racks: int = 8
) -> list[Node]:
    """The nodes described; with `most`, so many of them, spread evenly over the whole list so that the mix stays.

    Raises:
        FleetError: no such file, or it does not describe nodes.
    """
    rows = _checked(_rows(text), str(text))
    if most and most < len(rows):
        rows = [rows[k * len(rows) // most] for k in range(most)]
    nodes = []
    for number, (name, row) in enumerate(rows):
        rack = number // max(1, rack_nodes)
        place = {RACK_LABEL: f"rack-{rack + 1:03d}", BLOCK_LABEL: f"block-{rack // max(1, block_racks) + 1:02d}"}
        nodes.append(_node(row, name, agent=agent, pool=pool, place=place))
    return nodes


def _rows(text: str | Path) -> list[tuple[int, Row]]:
    """What is described, each with its place in the list, from 1."""
    short = read_short(str(text))
    if short:
        return [(k + 1, Row(count=one.count, gpus=one.gpus, model=one.model)) for k, one in enumerate(short)]
    path = Path(text)
    try:
        content = path.read_text(encoding="utf-8")
        raw = _table(content) if path.suffix.lower() == ".csv" else _list(yaml.safe_load(content))
    except OSError as error:
        raise FleetError(f"{path} cannot be read ({error.strerror}); expected {FORMS}") from error
    except (ValueError, RecursionError, yaml.YAMLError, csv.Error) as error:
        raise FleetError(f"{path}: {error}; expected {FORMS}") from error
    return [(k + 1, _row(row, path, k + 1, strict=path.suffix.lower() != ".csv")) for k, row in enumerate(raw)]


def _table(content: str) -> list[dict[str, str]]:
    """The rows of a CSV file without their empty cells; columns that say nothing of a node are passed over."""
    known = set(Row.__struct_fields__)
    rows = csv.DictReader(io.StringIO(content))
    return [{key: cell for key, cell in row.items() if key in known and cell} for row in rows]


def _list(raw: object) -> Sequence[object]:
    rows = raw.get("nodes") if isinstance(raw, Mapping) else raw
    if not isinstance(rows, list) or not rows:
        raise ValueError("a list of nodes was expected, at the top or under `nodes`")
    return rows


def _row(raw: object, path: Path, number: int, *, strict: bool) -> Row:
    try:
        row = msgspec.convert(raw, type=Row, strict=strict)
        _ = _cpu_milli(row), _memory_mib(row), _gpu_memory_mib(row)
    except (msgspec.ValidationError, ValueError) as error:
        raise FleetError(f"{path}: node {number}: {error}") from error
    if min(row.gpu_count, row.cpu_milli or 0, row.memory_mib or 0, row.gpu_memory_mib, row.count - 1) < 0:
        raise FleetError(f"{path}: node {number}: no amount may be below 0, and count not below 1")
    if not strict and not (row.name or row.sn):
        raise FleetError(f"{path}: node {number}: bad or missing name (column `name` or `sn`)")
    _check_gpus(row, path, number)
    return row


def _check_gpus(row: Row, path: Path, number: int) -> None:
    gpus = () if isinstance(row.gpus, int) else row.gpus
    unknown = next((gpu.mig for gpu in gpus if gpu.mig and gpu.mig not in GEOMETRIES), None)
    if unknown is not None:
        raise FleetError(f"{path}: node {number}: no card is cut like {unknown}; known are {', '.join(GEOMETRIES)}")
    if len({gpu.index for gpu in gpus}) < len(gpus):
        raise FleetError(f"{path}: node {number}: two GPUs have one index")


def _checked(rows: list[tuple[int, Row]], where: str) -> list[tuple[str, Row]]:
    """Every node by its name, kinds spread out; each name once."""
    if sum(row.count for _, row in rows) > NODES_MAX:
        raise FleetError(f"{where}: describes more than {NODES_MAX} nodes")
    named: dict[str, Row] = {}
    for number, row in rows:
        for name in _names(row, len(named)):
            if name in named:
                raise FleetError(f"{where}: node {number}: there is a node {name} already; names must differ")
            named[name] = row
    return list(named.items())


def _names(row: Row, first: int) -> Iterator[str]:
    given = row.name or row.sn
    for k in range(row.count):
        yield (f"{given}-{k:03d}" if row.count > 1 else given) if given else f"node-{first + k:05d}"


def _node(row: Row, name: str, *, agent: str, pool: str, place: dict[str, str]) -> Node:
    return Node(
        id=NodeId(name),
        agent=agent,
        cpu_milli=_cpu_milli(row),
        memory_mib=_memory_mib(row),
        gpus=_gpus(row, name),
        pool=pool,
        nics=row.nics,
        devices=row.devices,
        labels=row.labels or place,
    )


def _cpu_milli(row: Row) -> int:
    if row.cpu_milli is not None:
        return row.cpu_milli
    return 1000 * CPUS_PER_GPU * max(1, row.gpu_count) if row.cpus is None else read_milli(row.cpus)


def _memory_mib(row: Row) -> int:
    if row.memory_mib is not None:
        return row.memory_mib
    return MEMORY_MIB_PER_GPU * max(1, row.gpu_count) if row.memory is None else read_mebibytes(row.memory)


def _gpu_memory_mib(row: Row) -> int:
    given = row.gpu_memory_mib or (read_mebibytes(row.gpu_memory) if row.gpu_memory else 0)
    return given or GPU_MEMORY_MIB.get(row.model, GPU_MEMORY_MIB_UNKNOWN)


def _gpus(row: Row, node: str) -> tuple[Gpu, ...]:
    """The GPUs described, or equal ones, the first half on the first socket; each socket is one island."""
    if not isinstance(row.gpus, int) and row.gpus:
        return tuple(gpu if gpu.uuid else replace(gpu, uuid=f"GPU-{node}-{gpu.index}") for gpu in row.gpus)
    half = (row.gpu_count + 1) // 2
    return tuple(
        Gpu(
            index=k,
            model=row.model or USUAL_MODEL,
            memory_mib=_gpu_memory_mib(row),
            uuid=f"GPU-{node}-{k}",
            socket=k // half,
            island=k // half,
        )
        for k in range(row.gpu_count)
    )

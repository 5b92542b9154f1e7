"""Simulated nodes from a description: the public openb node list (CSV), or the same columns as JSON.

A JSON row may also say how its GPUs hang together: `gpus` is then a list of GPUs in the words of `Gpu` (with switches,
islands, sockets, cards that are cut by MIG), `nics` a list of network cards, `labels` the node's labels, `devices` its
other devices, such as remote_gpu and nic_mbps.
"""

import csv
import io
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from gangline_core.cluster import Gpu, Nic, Node
from gangline_core.ids import NodeId
from gangline_core.mig import GEOMETRIES

Described = TypeVar("Described")

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


class FleetError(Exception):
    """The description cannot be read; the message says where."""


def read(path: Path, *, agent: str, pool: str, most: int = 0, rack_nodes: int = 16, block_racks: int = 8) -> list[Node]:
    """The nodes of a file; with `most`, so many of them, spread evenly over the whole file so that the mix stays.

    Raises:
        FleetError: no such file, or it does not describe nodes.
    """
    try:
        text = path.read_text()
        rows = _json_rows(text) if path.suffix == ".json" else list(csv.DictReader(io.StringIO(text)))
    except (OSError, ValueError) as error:
        raise FleetError(f"{path}: {error}") from error
    if most and most < len(rows):
        rows = [rows[k * len(rows) // most] for k in range(most)]
    return list(_nodes(rows, path=path, agent=agent, pool=pool, rack_nodes=rack_nodes, block_racks=block_racks))


def _json_rows(text: str) -> list[Mapping[str, Any]]:
    rows = json.loads(text)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError("a list of objects was expected")
    return rows


def _nodes(
    rows: Iterable[Mapping[str, Any]], *, path: Path, agent: str, pool: str, rack_nodes: int, block_racks: int
) -> Iterable[Node]:
    for number, row in enumerate(rows):
        try:
            name, model = str(row["sn"]), str(row.get("model") or "").strip()
            count, cpu, memory = (int(row.get(key) or 0) for key in ("gpu", "cpu_milli", "memory_mib"))
        except (KeyError, TypeError, ValueError) as error:
            raise FleetError(f"{path}: node {number + 1}: bad or missing {error}") from error
        rack = number // max(1, rack_nodes)
        yield Node(
            id=NodeId(name),
            agent=agent,
            cpu_milli=cpu,
            memory_mib=memory,
            gpus=_described_gpus(row, name, path, number) or _gpus(name, model, count),
            pool=pool,
            nics=_convert(row, "nics", tuple[Nic, ...], path, number) or (),
            devices=_convert(row, "devices", dict[str, int], path, number) or {},
            labels=_convert(row, "labels", dict[str, str], path, number)
            or {RACK_LABEL: f"rack-{rack + 1:03d}", BLOCK_LABEL: f"block-{rack // max(1, block_racks) + 1:02d}"},
        )


def _described_gpus(row: Mapping[str, Any], node: str, path: Path, number: int) -> tuple[Gpu, ...]:
    """The GPUs of a row that describes each one, in the words of `Gpu`; empty when it does not."""
    gpus = _convert(row, "gpus", tuple[Gpu, ...], path, number) or ()
    unknown = next((gpu.mig for gpu in gpus if gpu.mig and gpu.mig not in GEOMETRIES), None)
    if unknown is not None:
        raise FleetError(f"{path}: node {number + 1}: no card is cut like {unknown}; known are {', '.join(GEOMETRIES)}")
    if len({gpu.index for gpu in gpus}) < len(gpus):
        raise FleetError(f"{path}: node {number + 1}: two GPUs have one index")
    return tuple(gpu if gpu.uuid else replace(gpu, uuid=f"GPU-{node}-{gpu.index}") for gpu in gpus)


def _convert(row: Mapping[str, Any], key: str, kind: type[Described], path: Path, number: int) -> Described | None:
    if not row.get(key):
        return None
    try:
        return msgspec.convert(row[key], type=kind)
    except msgspec.ValidationError as error:
        raise FleetError(f"{path}: node {number + 1}: {key}: {error}") from error


def _gpus(node: str, model: str, count: int) -> tuple[Gpu, ...]:
    """Equal GPUs, the first half on the first socket; each socket is one island."""
    half = (count + 1) // 2
    return tuple(
        Gpu(
            index=k,
            model=model,
            memory_mib=GPU_MEMORY_MIB.get(model, GPU_MEMORY_MIB_UNKNOWN),
            uuid=f"GPU-{node}-{k}",
            socket=k // half,
            island=k // half,
        )
        for k in range(count)
    )

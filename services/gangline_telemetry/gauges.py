"""The last samples as Prometheus text: GPUs under the names of NVIDIA's DCGM exporter with our labels, and machines.

Written as text here, since a client library spends most of a core on so many lines. GPUs and machines are bounded by
`metrics_gpus_max`, network cards and disks by the agents. An absent value has no line, rather than a zero; nor has a
card that was not heard of lately. The owner's labels are those of the task that held the card when it was sampled and
still does.
"""

from collections.abc import Callable, Iterable, Iterator

from gangline_core.ids import NodeId, TaskId
from gangline_core.job import Task
from gangline_core.state import State
from gangline_kit.metrics import METRICS
from gangline_telemetry.health import Card, Watch
from gangline_wire.samples import GpuSample, NodeSample, SliceSample

STALE_S = 30.0
"""A card that was not heard of for longer is not shown."""
OF_POD = ("namespace", "pod", "container")
KIB = 1 << 10
MIB = 1 << 20

GAUGES: dict[str, Callable[[GpuSample], float | None]] = {
    "DCGM_FI_DEV_SM_CLOCK": lambda gpu: gpu.clock_sm_mhz,
    "DCGM_FI_DEV_MEM_CLOCK": lambda gpu: gpu.clock_memory_mhz,
    "DCGM_FI_DEV_MEMORY_TEMP": lambda gpu: gpu.temperature_memory_celsius,
    "DCGM_FI_DEV_GPU_TEMP": lambda gpu: gpu.temperature_celsius,
    "DCGM_FI_DEV_POWER_USAGE": lambda gpu: _scaled(gpu.power_milliwatts, 1000),
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": lambda gpu: gpu.energy_millijoules,
    "DCGM_FI_DEV_PCIE_TX_THROUGHPUT": lambda gpu: gpu.pcie_tx_kib_s,
    "DCGM_FI_DEV_PCIE_RX_THROUGHPUT": lambda gpu: gpu.pcie_rx_kib_s,
    "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": lambda gpu: gpu.pcie_replays,
    "DCGM_FI_DEV_GPU_UTIL": lambda gpu: gpu.utilisation_percent,
    "DCGM_FI_DEV_MEM_COPY_UTIL": lambda gpu: gpu.memory_busy_percent,
    "DCGM_FI_DEV_ENC_UTIL": lambda gpu: gpu.encoder_percent,
    "DCGM_FI_DEV_DEC_UTIL": lambda gpu: gpu.decoder_percent,
    "DCGM_FI_DEV_FB_FREE": lambda gpu: _free(gpu),
    "DCGM_FI_DEV_FB_USED": lambda gpu: gpu.memory_used_mib,
    "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL": lambda gpu: gpu.ecc_corrected,
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": lambda gpu: gpu.ecc_uncorrected,
    "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL": lambda gpu: _sum(gpu.nvlink_rx_kib, gpu.nvlink_tx_kib),
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": lambda gpu: gpu.remapped_uncorrected,
    "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS": lambda gpu: gpu.remapped_corrected,
    "DCGM_FI_DEV_ROW_REMAP_FAILURE": lambda gpu: None if gpu.remap_failed is None else int(gpu.remap_failed),
    "DCGM_FI_DEV_VGPU_LICENSE_STATUS": lambda gpu: None if gpu.vgpu_licensed is None else int(gpu.vgpu_licensed),
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": lambda gpu: _scaled(gpu.engine_active_percent, 100),
    "DCGM_FI_PROF_SM_ACTIVE": lambda gpu: _scaled(gpu.sm_active_percent, 100),
    "DCGM_FI_PROF_SM_OCCUPANCY": lambda gpu: _scaled(gpu.sm_occupancy_percent, 100),
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": lambda gpu: _scaled(gpu.tensor_active_percent, 100),
    "DCGM_FI_PROF_DRAM_ACTIVE": lambda gpu: _scaled(gpu.dram_active_percent, 100),
}
"""Metric -> its value in a card's sample. Of a card that is cut, power and temperature stand here, once for all."""
LAST_XID = "DCGM_FI_DEV_XID_ERRORS"
SLICE_GAUGES: dict[str, Callable[[SliceSample], float | None]] = {
    "DCGM_FI_DEV_FB_FREE": lambda one: _free(one),
    "DCGM_FI_DEV_FB_USED": lambda one: one.memory_used_mib,
    "DCGM_FI_PROF_SM_ACTIVE": lambda one: _scaled(one.sm_active_percent, 100),
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": lambda one: _scaled(one.tensor_active_percent, 100),
}
HOST_GAUGES: dict[str, Callable[[NodeSample], float | None]] = {
    "gangline_node_cpu_ratio": lambda node: _scaled(node.cpu_percent, 100),
    "gangline_node_load_ratio": lambda node: _scaled(node.load_percent, 100),
    "gangline_node_memory_used_bytes": lambda node: _times(node.memory_used_mib, MIB),
    "gangline_node_swap_used_bytes": lambda node: _times(node.swap_used_mib, MIB),
    "gangline_node_disk_free_bytes": lambda node: _times(node.disk_free_mib, MIB),
}


def text(watch: Watch, state: State, now_s: float, *, most: int) -> bytes:
    """The lines of the first `most` GPUs and of the first `most` machines, by name."""
    fresh = [(key, card) for key, card in sorted(watch.cards.items()) if now_s - card.heard_s <= STALE_S][:most]
    cards = [(card, _of_card(state, *key, card)) for key, card in fresh]
    slices = [(one, _of_slice(state, *key, card, one)) for key, card in fresh for one in card.last.slices]
    lines: list[str] = []
    for name, value in GAUGES.items():
        lines += _head(name)
        lines += [f"{name}{labels} {shown}" for card, labels in cards if (shown := value(card.last)) is not None]
        if (of_slice := SLICE_GAUGES.get(name)) is not None:
            lines += [f"{name}{labels} {shown}" for one, labels in slices if (shown := of_slice(one)) is not None]
    lines += _head(LAST_XID)
    lines += [f"{LAST_XID}{labels} {card.xid}" for card, labels in cards if card.xid is not None]
    hosts = [(name, seen) for name, (seen, at_s) in sorted(watch.hosts.items()) if now_s - at_s <= STALE_S]
    lines += _machines(hosts[:most])
    return ("\n".join(lines) + "\n").encode()


def _machines(hosts: list[tuple[NodeId, NodeSample]]) -> Iterator[str]:
    for name, value in HOST_GAUGES.items():
        yield from _head(name)
        for node, seen in hosts:
            if (shown := value(seen)) is not None:
                yield f'{name}{{node="{_escaped(node)}"}} {shown}'
    for name, parts in DEVICE_GAUGES.items():
        yield from _head(name)
        for node, seen in hosts:
            for device, direction, kib_s in parts(seen):
                if kib_s is not None:
                    labels = f'node="{_escaped(node)}",device="{_escaped(device)}",direction="{direction}"'
                    yield f"{name}{{{labels}}} {kib_s * KIB}"


def _nics(seen: NodeSample) -> Iterable[tuple[str, str, int | None]]:
    for nic in seen.nics:
        yield nic.name, "receive", nic.rx_kib_s
        yield nic.name, "transmit", nic.tx_kib_s


def _disks(seen: NodeSample) -> Iterable[tuple[str, str, int | None]]:
    for disk in seen.disks:
        yield disk.name, "read", disk.read_kib_s
        yield disk.name, "write", disk.write_kib_s


DEVICE_GAUGES = {"gangline_node_network_bytes_per_second": _nics, "gangline_node_io_bytes_per_second": _disks}


def _head(name: str) -> tuple[str, str]:
    return f"# HELP {name} {METRICS[name].help}", f"# TYPE {name} {METRICS[name].kind}"


def _of_card(state: State, node: NodeId, index: int, card: Card) -> str:
    whole = card.owners if len(card.owners) == 1 and not card.last.slices else ()
    return _labels(state, node, index, card.last, owner=whole[0] if whole else TaskId(""))


def _of_slice(state: State, node: NodeId, index: int, card: Card, one: SliceSample) -> str:
    return _labels(state, node, index, card.last, owner=card.slice_owners.get(one.uuid, TaskId("")), of=one)


def _labels(
    state: State, node: NodeId, index: int, gpu: GpuSample, *, owner: TaskId, of: SliceSample | None = None
) -> str:
    """Labels of one card, or of the slice `of` it; those of the owner only while it still is."""
    task = state.kept.tasks.get(owner)
    job = None if task is None else state.kept.jobs.get(task.job)
    found = {
        "Hostname": node,
        "gpu": str(index),
        "UUID": gpu.uuid,
        "pci_bus_id": gpu.pci_bus_id or "",
        "device": "" if gpu.minor is None else f"nvidia{gpu.minor}",
        "modelName": gpu.product or gpu.model,
        "GPU_I_ID": "" if of is None or of.instance is None else str(of.instance),
        "GPU_I_PROFILE": "" if of is None else of.profile,
        **dict(zip(OF_POD, _of_pod(task), strict=True)),
        "job": "" if task is None else str(task.job),
        "group": "" if task is None else task.group,
        "user": "" if job is None else job.spec.user,
        "task": "" if task is None else task.id,
    }
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in found.items()) + "}"


def _of_pod(task: Task | None) -> tuple[str, ...]:
    """Namespace, name and container of the owner's pod; empty where it runs in none."""
    parts = ("" if task is None else task.pod).split("/")
    return tuple(parts) if len(parts) == len(OF_POD) else ("",) * len(OF_POD)


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _free(seen: GpuSample | SliceSample) -> float | None:
    if seen.memory_total_mib is None or seen.memory_used_mib is None:
        return None
    return seen.memory_total_mib - seen.memory_used_mib


def _scaled(value: int | None, by: int) -> float | None:
    return None if value is None else value / by


def _times(value: int | None, by: int) -> float | None:
    return None if value is None else value * by


def _sum(*values: int | None) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None

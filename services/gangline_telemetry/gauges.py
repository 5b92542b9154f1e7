"""The last samples as Prometheus gauges under the names of NVIDIA's DCGM exporter, with our job labels."""

from collections.abc import Callable

from gangline_core.ids import NodeId
from gangline_core.state import State
from gangline_kit.metrics import Metrics
from gangline_telemetry.health import Card
from gangline_wire.samples import GpuSample

Value = Callable[[GpuSample], float | None]

GAUGES: dict[str, Value] = {
    "DCGM_FI_DEV_GPU_UTIL": lambda gpu: gpu.utilisation_percent,
    "DCGM_FI_DEV_MEM_COPY_UTIL": lambda gpu: gpu.memory_busy_percent,
    "DCGM_FI_DEV_FB_USED": lambda gpu: gpu.memory_used_mib,
    "DCGM_FI_DEV_FB_FREE": lambda gpu: _free(gpu),
    "DCGM_FI_DEV_POWER_USAGE": lambda gpu: _scaled(gpu.power_milliwatts, 1000),
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": lambda gpu: gpu.energy_millijoules,
    "DCGM_FI_DEV_GPU_TEMP": lambda gpu: gpu.temperature_celsius,
    "DCGM_FI_DEV_SM_CLOCK": lambda gpu: gpu.clock_sm_mhz,
    "DCGM_FI_DEV_MEM_CLOCK": lambda gpu: gpu.clock_memory_mhz,
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": lambda gpu: gpu.ecc_uncorrected,
    "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL": lambda gpu: gpu.ecc_corrected,
    "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": lambda gpu: gpu.pcie_replays,
    "DCGM_FI_DEV_XID_ERRORS": lambda gpu: gpu.xids[-1] if gpu.xids else None,
}
"""Metric -> its value in a sample; an absent value has no line, rather than a zero."""


def show(metrics: Metrics, state: State, cards: dict[tuple[NodeId, int], Card], *, most: int) -> None:
    """Set all gauges anew; the first `most` GPUs by node and index."""
    for name in GAUGES:
        metrics.clear(name)
    owners = {
        (task.node, share.index): task for task in state.kept.tasks.values() for share in task.gpus if not task.stop
    }
    for node, index in sorted(cards)[:most]:
        gpu, task = cards[node, index].last, owners.get((node, index))
        labels = {
            "Hostname": node,
            "gpu": str(index),
            "UUID": gpu.uuid,
            "modelName": gpu.model,
            "job": "" if task is None else str(task.job),
            "group": "" if task is None else task.group,
        }
        for name, value in GAUGES.items():
            if (shown := value(gpu)) is not None:
                metrics.set(name, shown, **labels)


def _free(gpu: GpuSample) -> float | None:
    if gpu.memory_total_mib is None or gpu.memory_used_mib is None:
        return None
    return gpu.memory_total_mib - gpu.memory_used_mib


def _scaled(value: int | None, by: int) -> float | None:
    return None if value is None else value / by

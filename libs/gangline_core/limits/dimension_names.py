"""What a dimension is called where people read of it, and in which unit its amounts are told."""

from gangline_core.limits.budgets import BUDGET, GPU_HOUR
from gangline_core.limits.rungs import DEVICE_PREFIX, MODEL_PREFIX
from gangline_core.spec import GPU_MILLI

_LABELS = {
    "gpu_milli": ("GPUs", GPU_MILLI),
    "gpu_memory_mib": ("MiB of GPU memory", 1),
    "cpu_milli": ("CPUs", 1000),
    "memory_mib": ("MiB of memory", 1),
    BUDGET: ("GPU-hours of budget", GPU_HOUR),
}


def shown(dimension: str, amount: int) -> tuple[str, int | str]:
    """A dimension's name and an amount as a user would say them: ("gpu_milli:a100", 1500) -> ("A100 GPUs", "1.5")."""
    if dimension.startswith(MODEL_PREFIX):
        label, unit = f"{dimension.removeprefix(MODEL_PREFIX).upper()} GPUs", GPU_MILLI
    elif dimension.startswith(DEVICE_PREFIX):
        label, unit = dimension.removeprefix(DEVICE_PREFIX), 1
    elif dimension == "jobs":
        label, unit = "running jobs", 1
    else:
        label, unit = _LABELS.get(dimension, (dimension, 1))
    whole, rest = divmod(amount, unit)
    return label, whole if rest == 0 else f"{amount / unit:g}"

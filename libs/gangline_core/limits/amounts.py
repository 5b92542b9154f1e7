"""How amounts are counted: what a task holds and asks for by dimension, and counters that forget their zeros."""

from collections.abc import Hashable, Iterable, Mapping
from typing import TypeVar

from gangline_core.job import Task, TaskState
from gangline_core.spec import Resources

Key = TypeVar("Key", bound=Hashable)


def count(counts: dict[Key, int], key: Key, by: int) -> None:
    """Add to a counter and drop it at zero, so that equal counts are equal dictionaries."""
    value = counts.get(key, 0) + by
    if value:
        counts[key] = value
    else:
        counts.pop(key, None)


def add_all(counts: dict[Key, int], changes: Iterable[tuple[Key, int]]) -> None:
    """The same for several counters at once."""
    for key, by in changes:
        value = counts.get(key, 0) + by
        if value:
            counts[key] = value
        else:
            counts.pop(key, None)


def amount_of(usage: Mapping[str, int], dimension: str) -> int:
    """How much of a dimension these amounts are; models and devices are compared without regard to case."""
    if ":" in dimension:
        return sum(amount for name, amount in usage.items() if name.lower() == dimension)
    return usage.get(dimension, 0)


def task_amounts(task: Task) -> dict[str, int]:
    """What one live task counts against quotas, by dimension, zeros left out."""
    amounts: dict[str, int] = {}
    gpu_milli = task.gpu_milli if task.gpus else 0
    if gpu_milli:
        amounts["gpu_milli"] = gpu_milli
        if task.gpu_model:
            amounts[f"gpu_milli:{task.gpu_model}"] = gpu_milli
    if task.cpu_milli:
        amounts["cpu_milli"] = task.cpu_milli
    if task.memory_mib:
        amounts["memory_mib"] = task.memory_mib
    if task.gpus and (gpu_memory_mib := sum(share.memory_mib for share in task.gpus)):
        amounts["gpu_memory_mib"] = gpu_memory_mib
    for name, number in task.devices.items():
        if number:
            amounts[f"device:{name}"] = number
    return amounts


def request_amounts(resources: Resources) -> dict[str, int]:
    """What one task of these resources asks for, by dimension, as far as known before it is placed."""
    amounts = {
        "gpu_milli": resources.gpu_milli,
        "cpu_milli": resources.cpu_milli,
        "memory_mib": resources.memory_mib,
        "gpu_memory_mib": resources.gpu_memory_mib * max(1, resources.whole_gpus),
    }
    for name, number in resources.devices.items():
        amounts[f"device:{name.lower()}"] = number
    return {dimension: amount for dimension, amount in amounts.items() if amount}


def holds_the_same(known: Task, task: Task) -> bool:
    """Whether a changed task holds exactly what it held, in the same names; one that was told to stop still is."""
    return (
        known.gpus is task.gpus
        and known.devices is task.devices
        and known.node == task.node
        and known.cpu_milli == task.cpu_milli
        and known.memory_mib == task.memory_mib
        and known.endpoint == task.endpoint
        and known.working is task.working
        and (task.stop or not known.stop)
        and is_counted(known) == is_counted(task)
    )


def is_counted(task: Task) -> bool:
    """Whether a task counts for its group; those of a lost node do not."""
    return task.state != TaskState.LOST

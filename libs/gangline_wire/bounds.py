"""Specs within the limits, however they came about: what the job file's reader refuses, nobody else may ask for either.

A number beyond these cannot be counted with, and a fact that holds one would stop whoever folds it.
"""

from collections.abc import Callable, Mapping, Sized
from operator import attrgetter, le
from typing import Any

from msgspec import Struct

from gangline_core.spec import GPU_MILLI, MOMENT_MS_MAX, JobSpec, Role
from gangline_wire.limits import most

DURATIONS = ("estimate_s", "time_limit_s", "protected_s", "start_limit_s", "repair_s")
OF_ELASTIC = ("notice_s", "confirm_s", "start_s", "cooldown_s", "cost_s")


class Bounds(Struct, frozen=True):
    """What numbers of a value, and lengths of its lists, must be within: read and compared all at once."""

    fields: tuple[str, ...]
    """Numbers, then lists, as refusals name them."""
    least: tuple[int, ...]
    most: tuple[int, ...]
    numbers: Callable[[Any], tuple[int, ...]]
    lists: Callable[[Any], tuple[Sized, ...]]

    def fault(self, value: object) -> tuple[str, str] | None:
        """Field and message of the first one that is out of bounds."""
        found = (*self.numbers(value), *map(len, self.lists(value)))
        if all(map(le, self.least, found)) and all(map(le, found, self.most)):
            return None
        rows = zip(self.fields, found, self.least, self.most, strict=True)
        return next(_told(*row) for row in rows if not row[2] <= row[1] <= row[3])


Rows = Mapping[str, tuple[str, int, int]]
"""Field as refusals name it -> path of attributes, least, most."""


def _bounds(numbers: Rows, lists: Rows) -> Bounds:
    rows = {**numbers, **lists}
    return Bounds(
        tuple(rows),
        tuple(least for _, least, _ in rows.values()),
        tuple(limit for _, _, limit in rows.values()),
        attrgetter(*(path for path, _, _ in numbers.values())),
        attrgetter(*(path for path, _, _ in lists.values())),
    )


OF_JOB = _bounds(
    {
        **{name: (name, 0, most("duration_s")) for name in DURATIONS},
        **{f"elastic.{name}": (f"elastic.{name}", 0, most("duration_s")) for name in OF_ELASTIC},
        "priority": ("priority", -most("priority"), most("priority")),
        "grace": ("grace_s", 0, most("grace_s")),
        "retries": ("retries", 0, most("retries")),
        "begin": ("not_before_ms", 0, MOMENT_MS_MAX),
        "deadline": ("deadline_ms", 0, MOMENT_MS_MAX),
        "topology.slice_tasks": ("topology.slice_tasks", 0, most("tasks")),
        "topology.spread_most": ("topology.spread_most", 0, most("tasks")),
    },
    {
        "node_selector": ("node_selector", 0, most("labels")),
        "tolerations": ("tolerations", 0, most("tolerations")),
        "exclude_nodes": ("exclude_nodes", 0, most("exclude_nodes")),
        "after": ("after", 0, most("after")),
        "roles": ("roles", 1, most("roles")),
    },
)
OF_ROLE = _bounds(
    {
        "count": ("count", 0, most("tasks")),
        "min_count": ("min_count", 0, most("tasks")),
        "max_count": ("max_count", 0, most("tasks")),
        "gpus": ("resources.gpu_milli", 0, most("gpus") * GPU_MILLI),
        "gpu_memory": ("resources.gpu_memory_mib", 0, most("gpu_memory_mib")),
        "gpu_memory_most": ("resources.gpu_memory_most_mib", 0, most("gpu_memory_mib")),
        "cpus": ("resources.cpu_milli", 0, most("cpus") * 1000),
        "memory": ("resources.memory_mib", 0, most("memory_mib")),
    },
    {
        "sizes": ("sizes", 0, most("sizes")),
        "gpu_models": ("resources.gpu_models", 0, most("gpu_models")),
        "exclude_models": ("resources.exclude_models", 0, most("gpu_models")),
        "devices": ("resources.devices", 0, most("devices")),
        "command": ("command", 0, most("command_args")),
        "env": ("environment", 0, most("env_entries")),
    },
)
DURATION, TASKS, DEVICES, CARD = most("duration_s"), most("tasks"), most("device_count"), most("gpu_memory_mib")


def beyond(spec: JobSpec) -> tuple[str, str] | None:
    """Field and message of the first number or list that is out of bounds; None when all are within."""
    tasks = sum([max(role.count, role.max_count) for role in spec.roles])
    fault = OF_JOB.fault(spec) or _outside("tasks", tasks, 1, TASKS)
    if spec.pausing is not None:
        fault = fault or _outside("pausing.notice", spec.pausing.notice_s, 0, DURATION)
        fault = fault or _outside("pausing.gpu_memory", spec.pausing.gpu_memory_mib, 0, CARD)
    for role in spec.roles:
        if fault is None and (of_role := OF_ROLE.fault(role) or _devices(role) or _place(role)) is not None:
            fault = f"roles.{role.name}.{of_role[0]}", of_role[1]
    return fault


def _devices(role: Role) -> tuple[str, str] | None:
    faults = (_outside("devices", count, 0, DEVICES) for count in role.resources.devices.values())
    return next(filter(None, faults), None)


def _place(role: Role) -> tuple[str, str] | None:
    """Where it may be, which a role need not say."""
    if role.node_selector is None and role.tolerations is None:
        return None
    return _outside("node_selector", len(role.node_selector or ()), 0, most("labels")) or _outside(
        "tolerations", len(role.tolerations or ()), 0, most("tolerations")
    )


def _outside(field: str, value: int, least: int, limit: int) -> tuple[str, str] | None:
    return None if least <= value <= limit else _told(field, value, least, limit)


def _told(field: str, value: int, least: int, limit: int) -> tuple[str, str]:
    return field, f"is {value}; it must be from {least} to {limit}"

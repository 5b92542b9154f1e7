"""Specs within the limits, however they came about: what the job file's reader refuses, nobody else may ask for either.

A number beyond these cannot be counted with, and a fact that holds one would stop whoever folds it.
"""

from gangline_core.spec import GPU_MILLI, JobSpec, Role
from gangline_wire.limits import most

DURATIONS = ("estimate_s", "time_limit_s", "protected_s", "start_limit_s", "repair_s")
OF_ELASTIC = ("notice_s", "confirm_s", "start_s", "cooldown_s", "cost_s")
TIME_MS_MOST = 1 << 53
"""Moments later than this are none."""


def beyond(spec: JobSpec) -> tuple[str, str] | None:
    """Field and message of the first number or list that is out of bounds; None when all are within."""
    for field, value, least, limit in _numbers(spec):
        if not least <= value <= limit:
            return field, f"is {value}; it must be from {least} to {limit}"
    return None


def _numbers(spec: JobSpec) -> list[tuple[str, int, int, int]]:
    """Every number that a user has a say in, with its bounds; lists by their length."""
    duration, priority = most("duration_s"), most("priority")
    found = [(name, getattr(spec, name), 0, duration) for name in DURATIONS]
    found += [(f"elastic.{name}", getattr(spec.elastic, name), 0, duration) for name in OF_ELASTIC]
    found += [
        ("priority", spec.priority, -priority, priority),
        ("grace", spec.grace_s, 0, most("grace_s")),
        ("retries", spec.retries, 0, most("retries")),
        ("begin", spec.not_before_ms, 0, TIME_MS_MOST),
        ("deadline", spec.deadline_ms, 0, TIME_MS_MOST),
        ("node_selector", len(spec.node_selector), 0, most("labels")),
        ("tolerations", len(spec.tolerations), 0, most("tolerations")),
        ("exclude_nodes", len(spec.exclude_nodes), 0, most("exclude_nodes")),
        ("after", len(spec.after), 0, most("after")),
        ("roles", len(spec.roles), 1, most("roles")),
        ("tasks", sum(max(role.count, role.max_count) for role in spec.roles), 1, most("tasks")),
        ("topology.slice_tasks", spec.topology.slice_tasks, 0, most("tasks")),
        ("topology.spread_most", spec.topology.spread_most, 0, most("tasks")),
    ]
    if spec.pausing is not None:
        found += [
            ("pausing.notice", spec.pausing.notice_s, 0, duration),
            ("pausing.gpu_memory", spec.pausing.gpu_memory_mib, 0, most("gpu_memory_mib")),
        ]
    for role in spec.roles:
        found += _of_role(role)
    return found


def _of_role(role: Role) -> list[tuple[str, int, int, int]]:
    need, tasks, card = role.resources, most("tasks"), most("gpu_memory_mib")
    found = [
        ("count", role.count, 0, tasks),
        ("min_count", role.min_count, 0, tasks),
        ("max_count", role.max_count, 0, tasks),
        ("sizes", len(role.sizes), 0, most("sizes")),
        ("gpus", need.gpu_milli, 0, most("gpus") * GPU_MILLI),
        ("gpu_memory", need.gpu_memory_mib, 0, card),
        ("gpu_memory_most", need.gpu_memory_most_mib, 0, card),
        ("cpus", need.cpu_milli, 0, most("cpus") * 1000),
        ("memory", need.memory_mib, 0, most("memory_mib")),
        ("gpu_models", len(need.gpu_models), 0, most("gpu_models")),
        ("exclude_models", len(need.exclude_models), 0, most("gpu_models")),
        ("devices", len(need.devices), 0, most("devices")),
        ("command", len(role.command), 0, most("command_args")),
        ("env", len(role.environment), 0, most("env_entries")),
    ]
    found += [("devices", count, 0, most("device_count")) for count in need.devices.values()]
    return [(f"roles.{role.name}.{field}", value, least, limit) for field, value, least, limit in found]

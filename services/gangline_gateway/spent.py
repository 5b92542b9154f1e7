"""How much of the GPUs everybody has used until now: charged, ended but not yet charged, and still running. Pure."""

from gangline_core.groups import ancestors, user_key
from gangline_core.job import TaskState
from gangline_core.state import State

GPU_HOUR = 1000 * 3_600_000
"""GPU thousandths times milliseconds in one GPU-hour."""


def spent(state: State, now: int) -> dict[str, int]:
    """GPU thousandths times milliseconds by group path (everything below included) and user_key."""
    used = dict(state.kept.charged)
    for charge in state.kept.uncharged.values():
        _add(used, charge.group, user=charge.user, amount=charge.gpu_milli_ms)
    for task in state.kept.tasks.values():
        if task.gpus and task.state != TaskState.LOST:
            amount = task.gpu_milli * max(0, now - task.placed_ms)
            _add(used, task.group, user=task.user, amount=amount)
    return used


def gpu_hours(gpu_milli_ms: int) -> float:
    """As people read it, to the millionth."""
    return round(gpu_milli_ms / GPU_HOUR, 6)


def _add(used: dict[str, int], group: str, *, user: str, amount: int) -> None:
    if amount:
        for path in (*ancestors(group), user_key(group, user)):
            used[path] = used.get(path, 0) + amount

"""What live tasks use, counted from scratch: in all, and of the service classes that guarantees treat specially."""

from collections.abc import Iterator

from gangline_core.groups import holders
from gangline_core.job import Task, TaskState
from gangline_core.spec import ServiceClass
from gangline_core.state import State, count, task_amounts


def usage_by_class(state: State) -> dict[tuple[str, ServiceClass], dict[str, int]]:
    """Use by holder and service class, for the classes that guarantees treat specially."""
    usage: dict[tuple[str, ServiceClass], dict[str, int]] = {}
    if all(sort.service_class == ServiceClass.BURSTABLE for sorts in state.live_sorts.values() for sort in sorts):
        return usage
    for task in counted_tasks(state):
        service_class = state.kept.jobs[task.job].service_class
        if service_class == ServiceClass.BURSTABLE:
            continue
        for holder in holders(task.group, task.user):
            amounts = usage.setdefault((holder, service_class), {})
            for dimension, amount in task_amounts(task).items():
                count(amounts, dimension.lower(), amount)
    return usage


def counted_tasks(state: State) -> Iterator[Task]:
    """Live tasks that count: those of a lost node keep its room but not their group's."""
    return (task for task in state.kept.tasks.values() if task.state != TaskState.LOST)


def recompute(state: State) -> dict[str, dict[str, int]]:
    """Usage from scratch, from live tasks alone; always equal to `state.usage`, empty holders left out."""
    usage: dict[str, dict[str, int]] = {}
    for task in counted_tasks(state):
        for holder in holders(task.group, task.user):
            amounts = usage.setdefault(holder, {})
            for dimension, amount in task_amounts(task).items():
                count(amounts, dimension, amount)
    return {holder: amounts for holder, amounts in usage.items() if amounts}

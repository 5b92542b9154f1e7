"""What live tasks of the special service classes use, for guarantees that treat these classes unlike all others."""

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

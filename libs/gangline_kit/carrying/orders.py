"""From the fold to orders: a task with its job and its whole gang, as they stand."""

from collections.abc import Iterable

from gangline_core.cluster import Node
from gangline_core.ids import JobId, NodeId, TaskId
from gangline_core.job import Task, TaskState
from gangline_core.state import State
from gangline_kit.carrying.known import Order


def orders(state: State, tasks: Iterable[TaskId]) -> list[Order]:
    """Orders for these tasks, those left out that the log no longer has."""
    gangs: dict[JobId, tuple[Task, ...]] = {}
    addresses: dict[JobId, dict[NodeId, str]] = {}
    found: list[Order] = []
    for name in tasks:
        task = state.kept.tasks.get(name)
        job = state.kept.jobs.get(task.job) if task is not None else None
        if task is None or job is None or task.state == TaskState.LOST:
            continue
        if job.id not in gangs:
            gang = {member.id: member for member in (*state.tasks_of(job), task)}
            gangs[job.id] = tuple(sorted(gang.values(), key=lambda member: member.rank))
            addresses[job.id] = {member.node: _address(state.kept.nodes.get(member.node)) for member in gangs[job.id]}
        found.append(Order(task=task, job=job, gang=gangs[job.id], addresses=addresses[job.id]))
    return found


def _address(node: Node | None) -> str:
    return "" if node is None else node.address

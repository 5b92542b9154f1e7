"""What an agent adds to a job's trace: how long each task took to start, and how long it held its room."""

from collections.abc import Iterable

from gangline_core.facts import Fact, GpusEmpty, TaskStarted
from gangline_core.job import Task
from gangline_core.state import State
from gangline_kit.tracing import Tracing


def ending(state: State, facts: Iterable[Fact]) -> list[Task]:
    """Tasks that these facts will take out of the state."""
    names = [name for fact in facts if isinstance(fact, GpusEmpty) for name in fact.tasks]
    return [state.kept.tasks[name] for name in names if name in state.kept.tasks]


def tell(tracing: Tracing, state: State, facts: Iterable[Fact], ended: Iterable[Task], *, at: int) -> None:
    """One span per task that began or ended, in its job's trace; does nothing while nobody records."""
    if not tracing.is_on:
        return
    for fact in facts:
        task = state.kept.tasks.get(fact.task) if isinstance(fact, TaskStarted) else None
        if task is not None:
            _span(tracing, state, "start task", task, start_ms=task.placed_ms, end_ms=at)
    for task in ended:
        _span(tracing, state, "task", task, start_ms=task.placed_ms, end_ms=at)


def _span(tracing: Tracing, state: State, name: str, task: Task, *, start_ms: int, end_ms: int) -> None:
    job = state.job(task.job)
    if job is not None:
        tracing.phase(name, job.trace, start_ms=start_ms, end_ms=end_ms, task=task.id, node=task.node)

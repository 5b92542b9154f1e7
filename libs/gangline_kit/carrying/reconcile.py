"""What to start, stop and report, decided from what the log says and what the machine has: no memory, no I/O.

The decision looks at levels, not at events: whoever was asleep, restarted or cut off decides the same once it has
both pictures. Facts stay owed until the fold shows them, so a lost append is simply owed again.
"""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from gangline_core.facts import ExitCause, Fact, GpusEmpty, MemberSafe, TaskExited, TaskPaused, TaskStarted
from gangline_core.ids import TaskId
from gangline_core.job import Task, TaskState
from gangline_kit.carrying.known import Local, Phase


class Decision(Struct, frozen=True):
    """Orders for the runner and facts for the log, each in the order of the tasks that were looked at."""

    start: tuple[TaskId, ...] = ()
    stop: tuple[TaskId, ...] = ()
    """Tasks that the log wants stopped, or that it does not know."""
    forget: tuple[TaskId, ...] = ()
    leave: tuple[TaskId, ...] = ()
    """Tasks that leave a gang that goes on: they get their notice before they are stopped."""
    pause: tuple[TaskId, ...] = ()
    go_on: tuple[TaskId, ...] = ()
    facts: tuple[Fact, ...] = ()


def decide(tasks: Mapping[TaskId, Task], known: Mapping[TaskId, Local], look_at: Iterable[TaskId]) -> Decision:
    """What these tasks need; `tasks` holds the log's tasks (of this agent's nodes, at least), `known` the runner's."""
    start: list[TaskId] = []
    stop: list[TaskId] = []
    forget: list[TaskId] = []
    leave: list[TaskId] = []
    pause: list[TaskId] = []
    go_on: list[TaskId] = []
    facts: list[Fact] = []
    empty: list[TaskId] = []
    for name in look_at:
        task, local = tasks.get(name), known.get(name)
        if local is not None and (task is None or task.placed_ms != local.placed_ms):
            # The log forgot it, or speaks of another task of this name: end what is here before anything else.
            (forget if local.phase == Phase.EMPTY else stop).append(name)
        elif task is None:
            continue
        elif local is None:
            _unknown_here(task, start, facts, empty)
        else:
            if task.stop and local.phase in (Phase.STARTING, Phase.RUNNING):
                (leave if task.leaves else stop).append(name)
            elif task.pause != local.pausing and local.phase == Phase.RUNNING:
                (pause if task.pause else go_on).append(name)
            _owed(task, local, facts, empty)
    if empty:
        facts.append(GpusEmpty(tasks=tuple(empty)))
    return Decision(
        start=tuple(start),
        stop=tuple(stop),
        forget=tuple(forget),
        leave=tuple(leave),
        pause=tuple(pause),
        go_on=tuple(go_on),
        facts=tuple(facts),
    )


def _unknown_here(task: Task, start: list[TaskId], facts: list[Fact], empty: list[TaskId]) -> None:
    """The log has a task of which this machine has nothing."""
    if task.state == TaskState.PLACED and not task.stop:
        start.append(task.id)
        return
    if task.state == TaskState.PLACED:
        error = "stopped before it was started"
        facts.append(TaskExited(task=task.id, cause=ExitCause.STOPPED, error=error, silent=True))
    elif task.state == TaskState.STARTED:
        facts.append(TaskExited(task=task.id, cause=ExitCause.PROCESS_LOST, error="the agent did not find it again"))
    empty.append(task.id)


def _owed(task: Task, local: Local, facts: list[Fact], empty: list[TaskId]) -> None:
    """What the log does not know yet of a task that is here."""
    if task.state == TaskState.PLACED and local.started:
        facts.append(TaskStarted(task=task.id, pid=local.pid, pod=local.pod))
    if local.safe and task.leaves and not task.safe:
        facts.append(MemberSafe(task=task.id))
    if local.still and task.pause and task.working is None and not task.stop:
        facts.append(TaskPaused(task=task.id))
    if local.phase in (Phase.EXITED, Phase.EMPTY) and task.state in (TaskState.PLACED, TaskState.STARTED):
        cause = local.cause or ExitCause.PROCESS_LOST
        facts.append(
            TaskExited(
                task=task.id,
                cause=cause,
                exit_code=local.exit_code,
                error=local.error,
                silent=local.silent,
                ports=local.ports,
                witnessed=local.witnessed,
            )
        )
    if local.phase == Phase.EMPTY:
        empty.append(task.id)

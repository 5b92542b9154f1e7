"""What agents tell of their node and of the tasks on it."""

from enum import StrEnum

from gangline_core.cluster import Node
from gangline_core.facts.form import FactBase
from gangline_core.ids import TaskId


class ExitCause(StrEnum):
    """Why a task's process is no more."""

    EXITED = "exited"
    STOPPED = "stopped"
    """It was asked to stop and did."""
    TIME_LIMIT = "time_limit"
    START_FAILED = "start_failed"
    PROCESS_LOST = "process_lost"
    """The agent restarted and did not find it again."""
    BUS_LOST = "bus_lost"
    """The agent was cut off for longer than its lease and stopped it itself."""
    GPU_FAILED = "gpu_failed"
    PLACE_REFUSED = "place_refused"
    """The node or its cluster did not take it; nothing of it ever ran."""


class NodeSeen(FactBase, frozen=True, tag=True):
    """An agent describes its node: at its start, after a loss, and whenever the description changes."""

    node: Node
    alive: tuple[TaskId, ...] = ()
    """Tasks whose processes the agent has."""


class TaskStarted(FactBase, frozen=True, tag=True):
    """A task's process runs."""

    task: TaskId
    pid: int = 0
    pod: str = ""
    """Namespace, name and container of its pod, joined by slashes; empty where it runs in none."""


class TaskExited(FactBase, frozen=True, tag=True):
    """A task's process is no more; its room is free only after GpusEmpty."""

    task: TaskId
    cause: ExitCause
    exit_code: int | None = None
    """As a shell would say it: 128 + signal for signals; None when it never ran or is unknown."""
    error: str = ""
    silent: bool = False
    """True when it can have written nothing, so that nobody waits for the end of its output."""
    ports: tuple[int, ...] = ()
    """Where its gang meets something else listens: on these ports, of which the first was the gang's."""
    witnessed: bool = False
    """True of a lost process whose supervisor its agent saw go: the machine and the agent ran on."""


class GpusEmpty(FactBase, frozen=True, tag=True):
    """Nothing of these tasks is left on the node: their room is free."""

    tasks: tuple[TaskId, ...]

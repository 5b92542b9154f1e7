"""What the carrier of a node knows of a task there, and what it is told when it shall start one."""

from enum import StrEnum

from msgspec import Struct

from gangline_core.facts import ExitCause
from gangline_core.ids import NodeId, TaskId
from gangline_core.job import Job, Task


class Phase(StrEnum):
    """How far a task has come on this machine."""

    STARTING = "starting"
    """It will be started, or is being started; nobody else may start it."""
    RUNNING = "running"
    EXITED = "exited"
    """Its main process is no more; something else of it may be left."""
    EMPTY = "empty"
    """Nothing of it is left, and what it wrote has been told."""


class Local(Struct, frozen=True):
    """One task as its runner knows it."""

    task: TaskId
    placed_ms: int
    """When it was placed; tells it from a task of the same name in another life of the cluster."""
    phase: Phase
    pid: int = 0
    """0 when no process of it ever ran."""
    started: bool = False
    """True when its program ran, however shortly."""
    cause: ExitCause | None = None
    """Why it is no more; known from EXITED on."""
    exit_code: int | None = None
    error: str = ""
    ports: tuple[int, ...] = ()
    """Ports on which something else listens where its gang should meet: it was not started for that."""
    silent: bool = False
    """True when it writes nothing, ever."""
    safe: bool = False
    """True when it was told that it leaves and said that it has saved what it must."""
    pausing: bool = False
    """True when it was told to stand still and not yet to go on."""
    still: bool = False
    """True when its processes stand still."""
    witnessed: bool = False
    """True when its carrier saw its supervisor go, and was there all the time."""
    pod: str = ""
    """Namespace, name and container of its pod, joined by slashes; empty where it runs in none."""


class Order(Struct, frozen=True):
    """A task to start, with what the log says about it at the moment it was placed."""

    task: Task
    job: Job
    gang: tuple[Task, ...]
    """All members of the job in rank order."""
    addresses: dict[NodeId, str]
    """Where each node of the gang is reached."""

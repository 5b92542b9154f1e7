"""What the process runner remembers of each task, and what it needs from outside."""

from collections.abc import Awaitable, Callable, Mapping

from msgspec import Struct

from gangline_agent.journal import Folder, Intent, Life
from gangline_agent.runner import Local, Order
from gangline_agent.teller import Append, Telling
from gangline_core.ids import JobId, TaskId
from gangline_kit.clock import Clock
from gangline_wire.contract import Sizing

Secrets = Callable[[JobId], Awaitable[Mapping[str, str]]]


class Live(Struct):
    """One task's memory; everything that matters is on disk as well."""

    folder: Folder
    intent: Intent
    local: Local
    telling: Telling
    life: Life = Life()
    supervisor_lives: bool = False
    is_forgotten: bool = False
    sent_s: float = 0
    """When a supervisor was asked for."""
    over_s: float = 0
    """When it was first seen that nothing is left."""
    sizing: Sizing | None = None
    """What it was last told of its job's size."""


class Surroundings(Struct, frozen=True):
    """What the runner needs from outside."""

    clock: Clock
    append: Append
    secrets: Secrets
    changed: Callable[[TaskId], None]
    """Called whenever `known` shows something new about a task."""
    devices: Callable[[Order], tuple[str, ...]]
    """How the driver calls the task's GPUs."""
    desk: Callable[[TaskId], dict[str, str]] = lambda task: {}
    """Variables that tell a task where it may ask and report while it runs."""

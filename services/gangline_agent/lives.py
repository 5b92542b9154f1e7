"""What the process runner remembers of each task, and what it needs from outside."""

import contextlib
from collections.abc import Awaitable, Callable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from gangline_agent.journal import PID_MAX, Folder, Intent, Life
from gangline_agent.judge import Found
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
    owes_news: bool = False
    """It is to be told of that by a signal as soon as it listens."""
    blocking: dict[int, float] = {}
    """Since when processes were seen to block that signal."""
    killed: dict[int, int] = {}
    """Processes that were killed, by pid, and when they began."""

    def found(self, *, is_left: bool, is_late: bool) -> Found:
        """What is judged; whoever asked for its supervisor was there ever since."""
        return Found(
            supervisor_lives=self.supervisor_lives,
            something_is_left=is_left,
            is_told=self.telling.is_done or is_late,
            is_mine=self.sent_s > 0,
        )

    def story(self, boot: str) -> Life:
        """What is written of the task, or what could not be written.

        Whose supervisor was asked for is of this boot, whatever its program wrote: its marks tell what is left of it.
        """
        found = self.folder.life()
        if found.pid and found.boot != boot and self.sent_s:
            return replace(found, pid=PID_MAX, start_ticks=0, boot=boot)
        return self.life if found == Life() else found

    def write(self, intent: Intent) -> None:
        """Change the intent, on disk as well once the task's folder is there."""
        if intent == self.intent:
            return
        self.intent = intent
        if self.folder.path.exists():
            with contextlib.suppress(OSError):  # A full disk must not keep a task from being stopped.
                self.folder.write(intent)

    def work_on(self, now_s: float) -> None:
        """A task that stood still works again; how long it stood counts for nothing."""
        stood_s = now_s - self.intent.still_s if self.intent.still_s else 0.0
        paused_s = self.intent.paused_s + stood_s
        self.write(replace(self.intent, pause=False, pause_at_s=0, still_s=0, paused_s=paused_s))

    def be_safe(self, now_s: float) -> None:
        """A task that leaves or is paused has saved what it must."""
        is_leaving = self.intent.leave_at_s > 0
        safe = {"is_safe": True} if is_leaving else {"pause_at_s": now_s}
        self.write(replace(self.intent, **safe))


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
    taken: Callable[[int], tuple[int, ...]] = lambda port: ()
    """The port and those after it on which something listens; none when the port itself is free."""
    unable: Callable[[str], None] = lambda why: None
    """Hears why this machine could not start a task."""

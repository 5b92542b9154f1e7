"""What every kind of runner can do with a task on the agent's nodes."""

from collections.abc import Iterable, Mapping
from typing import Protocol

from gangline_core.facts import ExitCause
from gangline_core.ids import TaskId
from gangline_core.job import Job, Task
from gangline_kit.carrying.known import Local as Local
from gangline_kit.carrying.known import Order as Order
from gangline_kit.carrying.known import Phase as Phase
from gangline_wire.contract import Sizing


class Runner(Protocol):
    """Runs tasks in some way and tells the agent whenever something changed about one."""

    @property
    def known(self) -> Mapping[TaskId, Local]:
        """Every task the runner has and was not told to forget."""

    async def recover(self, orders: Iterable[Order]) -> None:
        """Find again what an earlier agent of this name left; `orders` are the tasks the log has on its nodes."""

    def start(self, order: Order) -> None:
        """Begin to start a task; must not be called for a known one."""

    def stop(self, task: TaskId, cause: ExitCause) -> None:
        """Ask a task to stop, in the end by force; a repeat changes nothing."""

    def leave(self, task: TaskId, notice_s: float) -> None:
        """Tell a task that it leaves, and stop it when it is safe or its time is over; a repeat changes nothing."""

    def pause(self, task: TaskId, notice_s: float) -> None:
        """Tell a task that it is paused, and have its processes stand still when it is ready or its notice is over."""

    def go_on(self, task: TaskId) -> None:
        """Have a paused task's processes work again; a repeat changes nothing."""

    def retime(self, task: Task, job: Job) -> None:
        """The job may run longer or shorter than the task was told; a repeat changes nothing."""

    def inform(self, sizing: Sizing) -> None:
        """Tell a task of its job's size; what it knows already is not told again."""

    def forget(self, task: TaskId) -> None:
        """The log knows the end of the task: keep no more of it than its output."""

    async def run(self) -> None:
        """Work until cancelled. Cancelling leaves the tasks as they are."""

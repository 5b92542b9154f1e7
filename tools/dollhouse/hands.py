"""One agent process's way to its machines: it starts and stops what runs there, and hears of it while it is awake."""

from collections.abc import Callable, Iterable, Mapping

from dollhouse.connection import Gate
from dollhouse.machines import Machines
from gangline_agent.runner import Local, Order
from gangline_core.facts import ExitCause
from gangline_core.ids import TaskId
from gangline_core.job import Job, Task
from gangline_wire.contract import Sizing


class Hands:
    """One agent process's way to its machines; see gangline_agent.runner.Runner."""

    def __init__(
        self, machines: Machines, gate: Gate, changed: Callable[[TaskId], None], met: Callable[[Sizing], None]
    ) -> None:
        """Hands of a process with this gate: a frozen one notices nothing."""
        self.machines = machines
        machines.agents += 1
        self.gate = gate
        self.changed = changed
        self.met = met

    @property
    def known(self) -> Mapping[TaskId, Local]:
        """See Runner."""
        return self.machines.known

    async def recover(self, orders: Iterable[Order]) -> None:
        """The machines know what they have; see Runner."""

    def start(self, order: Order) -> None:
        """See Runner."""
        self.machines.start(order)

    def stop(self, task: TaskId, cause: ExitCause) -> None:
        """See Runner."""
        self.machines.stop(task, cause)

    def leave(self, task: TaskId, notice_s: float) -> None:
        """See Runner."""
        self.machines.leave(task, notice_s)

    def pause(self, task: TaskId, notice_s: float) -> None:
        """See Runner."""
        self.machines.pause(task, notice_s)

    def go_on(self, task: TaskId) -> None:
        """See Runner."""
        self.machines.go_on(task)

    def retime(self, task: Task, job: Job) -> None:
        """See Runner."""
        self.machines.retime(task, job)

    def inform(self, sizing: Sizing) -> None:
        """See Runner."""
        self.machines.inform(sizing)

    def forget(self, task: TaskId) -> None:
        """See Runner."""
        self.machines.forget(task)

    def renew(self) -> None:
        """The agent has the bus."""
        if self.gate.is_open:
            self.machines.renew()

    async def run(self) -> None:
        """See Runner."""
        while True:
            await self.machines.told.wait()
            await self.gate.passed()
            self.machines.told.clear()
            news, self.machines.news = self.machines.news, {}
            for task in news:
                self.changed(task)
            meetings, self.machines.meetings = self.machines.meetings, []
            for sizing in meetings:
                self.met(sizing)

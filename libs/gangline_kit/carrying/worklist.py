"""Which tasks a carrier of nodes looks at next: those of which the log or the tasks themselves have news."""

import asyncio
from collections.abc import Callable, Collection, Iterable

from gangline_core.facts import Fact, TaskExited, TaskStarted
from gangline_core.ids import NodeId, TaskId
from gangline_core.job import TaskState
from gangline_core.step import Step
from gangline_kit.carrying.known import Order
from gangline_kit.carrying.orders import orders
from gangline_kit.service import Site

TASKS_MAX = 1_000
"""Tasks that are looked at together, and so reported in one message."""
BUSY_S = 0.02
"""Facts come fast when the last message is younger than this; then they are gathered."""


class Worklist:
    """Tasks to look at, each once, and the orders of those that were placed here."""

    def __init__(self, site: Site, *, is_mine: Callable[[NodeId], bool], gather_ms: int) -> None:
        """`is_mine` tells whether a node is carried here; facts that come fast gather for so long."""
        self._site = site
        self._is_mine = is_mine
        self._gather_s = gather_ms / 1000
        self._look_at: dict[TaskId, None] = {}
        self._placed: dict[TaskId, Order] = {}
        """Orders as they stood when they were placed, while the whole gang is there."""
        self._news = asyncio.Event()
        self._appended_s = 0.0

    def add(self, tasks: Iterable[TaskId]) -> None:
        """There is something new about these."""
        self._look_at |= dict.fromkeys(tasks)
        self.wake()

    def wake(self) -> None:
        """There is something to say, even if no task needs a look."""
        self._news.set()

    def hear(self, step: Step, known: Collection[TaskId]) -> None:
        """The log has news; `known` are the tasks that the carrier has."""
        kept = self._site.follower.state.kept
        placed: list[TaskId] = []
        for name in step.tasks:
            task = kept.tasks.get(name)
            if name in known or (task is not None and self._is_mine(task.node)):
                self._look_at[name] = None
                if task is not None and task.state == TaskState.PLACED and name not in known:
                    placed.append(name)
        for order in orders(self._site.follower.state, placed):
            self._placed.setdefault(order.task.id, order)
        for job in (kept.jobs[sized] for sized in step.sized if sized in kept.jobs):
            self._look_at |= dict.fromkeys(name for name in job.tasks if name in known)
        if self._look_at:
            self.wake()

    async def news(self) -> None:
        """Wait until there is some; when facts come fast, until more have gathered."""
        await self._news.wait()
        if self._site.clock.monotonic_s() - self._appended_s < BUSY_S:
            await self._site.clock.sleep(self._gather_s)
        self._news.clear()

    def next(self) -> list[TaskId]:
        """Take the next tasks to look at, at most so many; the others are news again."""
        names = list(self._look_at)[:TASKS_MAX]
        for name in names:
            del self._look_at[name]
        if self._look_at:
            self.wake()
        return names

    def orders(self, names: tuple[TaskId, ...]) -> list[Order]:
        """Orders to start these: as they stood when they were placed, or else as they stand now."""
        captured = [self._placed.pop(name) for name in names if name in self._placed]
        have = {order.task.id for order in captured}
        return [*captured, *orders(self._site.follower.state, [name for name in names if name not in have])]

    def looked_at(self, names: Iterable[TaskId]) -> None:
        """These were looked at: who was placed and did not start is not kept."""
        for name in names:
            self._placed.pop(name, None)

    def appended(self, facts: Iterable[Fact]) -> None:
        """The log has these facts now: the next ones may gather for a moment."""
        self._appended_s = self._site.clock.monotonic_s()
        metrics = self._site.metrics
        for fact in facts:
            if isinstance(fact, TaskStarted):
                metrics.count("gangline_tasks_started_total")
            elif isinstance(fact, TaskExited):
                metrics.count("gangline_tasks_ended_total", cause=fact.cause.value)

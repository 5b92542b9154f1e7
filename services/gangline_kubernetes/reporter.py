"""Acts for the cluster's tasks while it leads the lane: starts, stops, and tells the log what became of them."""

import asyncio
import logging
from collections.abc import Callable

from gangline_core.facts import ExitCause, Fact, TaskExited, TaskStarted
from gangline_core.fold import Message
from gangline_core.ids import NodeId, TaskId
from gangline_core.job import TaskState
from gangline_core.state import State
from gangline_core.step import Step
from gangline_kit.carrying.known import Order, Phase
from gangline_kit.carrying.orders import orders
from gangline_kit.carrying.reconcile import decide
from gangline_kit.lane import Lane
from gangline_kit.service import Site
from gangline_kubernetes.carrier import Carrier
from gangline_kubernetes.config import Config
from gangline_kubernetes.telling import Telling

log = logging.getLogger(__name__)

TASKS_MAX = 1_000
"""Tasks that are looked at together, and so reported in one message."""
BUSY_S = 0.02
"""Facts come fast when the last message is younger than this; then they are gathered."""
STUCK_S = 5.0


class Reporter:
    """What the log and the pods show decides what is done; the same decision as an agent's."""

    carrier: Carrier
    telling: Telling
    rests: Callable[[], tuple[Fact, ...]]
    """Facts about nodes that refused something just now."""

    def __init__(self, site: Site, config: Config, agent: str) -> None:
        """`carrier`, `telling` and `rests` must be set before `work`; the nodes of this cluster name `agent`."""
        self.site = site
        self.config = config
        self.agent = agent
        self.look_at: dict[TaskId, None] = {}
        self.placed: dict[TaskId, Order] = {}
        """Orders as they stood when they were placed, while the whole gang is there."""
        self.wake = asyncio.Event()
        self.appended_s = 0.0

    @property
    def state(self) -> State:
        """The fold."""
        return self.site.follower.state

    def is_mine(self, node: NodeId) -> bool:
        """True for nodes of this cluster."""
        known = self.state.kept.nodes.get(node)
        return known is not None and known.agent == self.agent

    def changed(self, task: TaskId) -> None:
        """Something is new about a task's pod."""
        self.look_at[task] = None
        self.wake.set()

    def note(self, message: Message, step: Step) -> None:
        """The log knows something new."""
        tasks, known = self.state.kept.tasks, self.carrier.known
        placed: list[TaskId] = []
        for name in step.tasks:
            task = tasks.get(name)
            if name in known or (task is not None and self.is_mine(task.node)):
                self.look_at[name] = None
                if task is not None and task.state == TaskState.PLACED and name not in known:
                    placed.append(name)
        for order in orders(self.state, placed):
            self.placed.setdefault(order.task.id, order)
        for job in (self.state.job(sized) for sized in step.sized):
            if job is not None:
                self.look_at |= dict.fromkeys(name for name in job.tasks if name in known)
        if self.look_at:
            self.wake.set()

    def take_over(self) -> None:
        """Look at everything once: what the log has on this cluster's nodes, and every pod that is marked as a task."""
        mine = [task.id for task in self.state.kept.tasks.values() if self.is_mine(task.node)]
        self.look_at |= dict.fromkeys((*sorted(mine), *self.carrier.known))
        self.wake.set()

    async def report_for_ever(self, lane: Lane) -> None:
        """Decide and append, as fast as there is something new."""
        while True:
            await self.wake.wait()
            if self.site.clock.monotonic_s() - self.appended_s < BUSY_S:
                await self.site.clock.sleep(self.config.gather_ms / 1000)
            self.wake.clear()
            facts = self._decide()
            if facts:
                # A node that refused a task must not be thought of in the very round that its refusal sets off.
                facts = (*self.rests(), *facts)
                await lane.append(facts)
                self.appended_s = self.site.clock.monotonic_s()
                self._count(facts)
            if self.look_at:
                self.wake.set()

    async def look_for_stuck_for_ever(self) -> None:
        """Now and then, look for pods that do not get to run."""
        while True:
            await self.site.clock.sleep(STUCK_S)
            self.carrier.look_for_stuck()

    def _decide(self) -> tuple[Fact, ...]:
        """Have done what is to be done, then say what the log does not know yet."""
        tasks, known = self.state.kept.tasks, self.carrier.known
        names = self._next()
        decision = decide(tasks, known, names)
        for name in decision.stop:
            if name not in tasks:
                log.warning("task %s is not in the log: its pod is deleted", name)
            self.carrier.stop(name, ExitCause.STOPPED)
        for name in decision.leave:
            self.telling.leave(tasks[name])
        for name in decision.forget:
            self.carrier.forget(name)
            self.telling.forget(name)
        for order in self._orders(decision.start):
            self.carrier.start(order)
        for name in names:
            self.placed.pop(name, None)
            if name in tasks and name in known and known[name].phase in (Phase.STARTING, Phase.RUNNING):
                self.telling.inform(tasks[name])
        return (*decide(tasks, known, names).facts, *self.telling.met(tasks, names))

    def _next(self) -> list[TaskId]:
        names = list(self.look_at)[:TASKS_MAX]
        for name in names:
            del self.look_at[name]
        return names

    def _orders(self, names: tuple[TaskId, ...]) -> list[Order]:
        captured = [self.placed.pop(name) for name in names if name in self.placed]
        have = {order.task.id for order in captured}
        return [*captured, *orders(self.state, [name for name in names if name not in have])]

    def _count(self, facts: tuple[Fact, ...]) -> None:
        metrics = self.site.metrics
        for fact in facts:
            if isinstance(fact, TaskStarted):
                metrics.count("gangline_tasks_started_total")
            elif isinstance(fact, TaskExited):
                metrics.count("gangline_tasks_ended_total", cause=fact.cause.value)

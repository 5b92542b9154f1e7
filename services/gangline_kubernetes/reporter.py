"""Acts for the cluster's tasks while it leads the lane: starts, stops, and tells the log what became of them."""

import logging
from collections.abc import Callable

from gangline_core.facts import ExitCause, Fact
from gangline_core.fold import Message
from gangline_core.ids import NodeId, TaskId
from gangline_core.state import State
from gangline_core.step import Step
from gangline_kit.carrying.known import Phase
from gangline_kit.carrying.reconcile import decide
from gangline_kit.carrying.worklist import Worklist
from gangline_kit.lane import Lane
from gangline_kit.service import Site
from gangline_kubernetes.carrier import Carrier
from gangline_kubernetes.config import Config
from gangline_kubernetes.telling import Telling

log = logging.getLogger(__name__)

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
        self.agent = agent
        self.worklist = Worklist(site, is_mine=self.is_mine, gather_ms=config.gather_ms)

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
        self.worklist.add((task,))

    def note(self, message: Message, step: Step) -> None:
        """The log knows something new."""
        self.worklist.hear(step, self.carrier.known)

    def take_over(self) -> None:
        """Look at everything once: what the log has on this cluster's nodes, and every pod that is marked as a task."""
        mine = [task.id for task in self.state.kept.tasks.values() if self.is_mine(task.node)]
        self.worklist.add((*sorted(mine), *self.carrier.known))

    async def report_for_ever(self, lane: Lane) -> None:
        """Decide and append, as fast as there is something new."""
        while True:
            await self.worklist.news()
            facts = self._decide()
            if facts:
                # A node that refused a task must not be thought of in the very round that its refusal sets off.
                facts = (*self.rests(), *facts)
                await lane.append(facts)
                self.worklist.appended(facts)

    async def look_for_stuck_for_ever(self) -> None:
        """Now and then, look for pods that do not get to run."""
        while True:
            await self.site.clock.sleep(STUCK_S)
            self.carrier.look_for_stuck()

    def _decide(self) -> tuple[Fact, ...]:
        """Have done what is to be done, then say what the log does not know yet."""
        tasks, known = self.state.kept.tasks, self.carrier.known
        names = self.worklist.next()
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
        for order in self.worklist.orders(decision.start):
            self.carrier.start(order)
        for name in names:
            if name in tasks and name in known and known[name].phase in (Phase.STARTING, Phase.RUNNING):
                self.telling.inform(tasks[name])
        self.worklist.looked_at(names)
        return (*decide(tasks, known, names).facts, *self.telling.met(tasks, names))

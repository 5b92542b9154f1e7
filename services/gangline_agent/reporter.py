"""Acts for the agent's nodes while it leads their lane: starts, stops, reports, describes, samples."""

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence

from msgspec.structs import replace

from gangline_agent import traces
from gangline_agent.config import Config
from gangline_agent.nodes import Nodes
from gangline_agent.runner import Phase, Runner
from gangline_agent.words import Words
from gangline_core.cluster import Node
from gangline_core.facts import ExitCause, Fact, GpusEmpty, NodeSeen, TaskExited, TaskStarted
from gangline_core.fold import Message
from gangline_core.ids import NodeId, TaskId
from gangline_core.job import Job, Task
from gangline_core.making_room.claims import is_overdue
from gangline_core.state import State
from gangline_core.step import Step
from gangline_kit.carrying.orders import orders
from gangline_kit.carrying.reconcile import decide
from gangline_kit.carrying.worklist import Worklist
from gangline_kit.lane import Lane
from gangline_kit.service import Site
from gangline_wire import subjects
from gangline_wire.codec import encode
from gangline_wire.contract import Confirmed, Report, Sizing, sizing
from gangline_wire.samples import Samples

log = logging.getLogger(__name__)

NODES_MAX = 250
"""Nodes described in one message."""
SAMPLE_S = 1.0
LOOK_S_MAX = 15.0
"""Devices that do not answer for longer take no work."""
SEEN_AGAIN_S = 5.0
"""A node declared lost though its agent is here is reported again at most this often."""


class Reporter:
    """What the log and the runner show decides what is done; see reconcile.py."""

    runner: Runner

    def __init__(self, site: Site, config: Config, nodes: Nodes) -> None:
        """`runner` must be set before `work`."""
        self.site = site
        self.config = config
        self.nodes = nodes
        self.worklist = Worklist(site, is_mine=self._is_mine, gather_ms=config.gather_ms)
        self.words = Words()
        self.says_safe: Callable[[TaskId], bool] = lambda task: False
        """Passes on that a member which leaves is safe; False when it was not told to leave."""
        self.beats: Callable[[], dict[str, int]] = dict
        """When each task last touched its heartbeat file, in ms; tasks that never did are left out."""
        self.stuck: Callable[[], tuple[str, ...]] = tuple
        """Tasks whose collective library gave an operation up."""
        self.resting: Callable[[], str] = str
        """Why the machine is given nothing for a while."""
        self.told_news: Callable[[], None] = lambda: None
        """Called when a job of the log has news of its size."""
        self.told: dict[NodeId, Node] = {}
        """Descriptions as the log last heard them from this process."""
        self.warned: set[NodeId] = set()
        """Nodes of which it was said that another agent carries them."""
        self.seen_s = 0.0
        self.is_writing = False
        self.wrote_s = site.clock.monotonic_s()
        """When this process last led its lane."""
        self.looked_s: float | None = None
        """When the nodes were last looked at; None before the first time."""

    @property
    def state(self) -> State:
        """The fold."""
        return self.site.follower.state

    def changed(self, task: TaskId) -> None:
        """The runner knows something new about a task."""
        self.worklist.add((task,))

    def note(self, message: Message, step: Step) -> None:
        """The log knows something new."""
        self.worklist.hear(step, self.runner.known)
        if step.sized:
            self.told_news()
        if self.words.waits and step.sized:
            self.worklist.wake()

    def _is_mine(self, name: NodeId) -> bool:
        return name in self.nodes.ids and self._carries(name)

    def _carries(self, name: NodeId) -> bool:
        """False for a node of another agent that names its machine alike: that one's tasks are not ours."""
        node = self.state.kept.nodes.get(name)
        return node is None or node.agent == self.config.name

    @property
    def is_mute(self) -> bool:
        """True when this process could not lead its lane for very long, and so has told nothing."""
        return not self.is_writing and self.site.clock.monotonic_s() - self.wrote_s > self.config.mute_s

    async def work(self, lane: Lane) -> None:
        """Act for as long as this process leads."""
        self.is_writing = True
        try:
            await self._work(lane)
        finally:
            self.is_writing, self.wrote_s = False, self.site.clock.monotonic_s()

    async def _work(self, lane: Lane) -> None:
        with self.site.follower.listening(self.note):
            async with asyncio.TaskGroup() as group:
                # First of all: finding devices may take long, and who says that it is here without a sign of life since
                # it was called lost is called lost again.
                await self._show_life()
                await self._take_over(lane)
                group.create_task(self._look_for_ever(), name="look")
                group.create_task(self._describe_for_ever(lane), name="describe")
                group.create_task(self._report_for_ever(lane), name="report")

    async def _take_over(self, lane: Lane) -> None:
        """Bring together what the log has on these nodes and what the runner finds; then say that they are here."""
        own = [node for node in self.nodes.ids if self._carries(node)]
        mine = sorted(name for node in own for name in self.state.node_tasks.get(node, ()))
        await self.runner.recover(orders(self.state, mine))
        self.worklist.add((*mine, *self.runner.known))
        await self._look()
        self.told.clear()
        await self._describe(lane, [node.id for node in self.nodes.described])

    # --- tasks --------------------------------------------------------------------------------------------

    async def _report_for_ever(self, lane: Lane) -> None:
        while True:
            await self.worklist.news()
            facts = self._decide()
            if facts:
                well = self._well_again(facts)
                facts = (*facts, *(NodeSeen(node=node, alive=self._alive(node.id)) for node in well))
                ended = traces.ending(self.state, facts) if self.site.tracing.is_on else []
                await lane.append(facts, trace=self._trace(facts))
                self.told |= {node.id: node for node in well}
                self.worklist.appended(facts)
                traces.tell(self.site.tracing, self.state, facts, ended, at=self.site.now_ms())

    def _decide(self) -> tuple[Fact, ...]:
        """Have done what is to be done, then say what the log does not know yet."""
        tasks, known = self.state.kept.tasks, self.runner.known
        names = self.worklist.next()
        decision = decide(tasks, known, names)
        for name in decision.stop:
            task, local = tasks.get(name), known[name]
            if task is None or task.placed_ms != local.placed_ms:
                log.warning("task %s is not in the log: it is stopped", name)
            self.runner.stop(name, ExitCause.STOPPED)
        for name in decision.leave:
            self.runner.inform(self._sizing(tasks[name]))
            self.runner.leave(name, self.state.kept.jobs[tasks[name].job].spec.elastic.notice_s)
        for name in decision.pause:
            self.runner.inform(self._sizing(tasks[name]))
            self.runner.pause(name, self._pause_notice_s(tasks[name]))
        for name in decision.go_on:
            self.runner.go_on(name)
        for name in decision.forget:
            self.runner.forget(name)
        for order in self.worklist.orders(decision.start):
            self.runner.start(order)
        for name in names:
            if name in known and name in tasks and known[name].phase in (Phase.STARTING, Phase.RUNNING):
                self.runner.inform(self._sizing(tasks[name]))
                job = self.state.kept.jobs[tasks[name].job]
                if job.retimed and tasks[name].placed_ms == known[name].placed_ms:
                    self.runner.retime(tasks[name], job)
        self.worklist.looked_at(names)
        # What just began, or ended at once, belongs into the same message.
        return (*decide(tasks, known, names).facts, *self.words.facts(self.state))

    def _pause_notice_s(self, task: Task) -> float:
        pausing = self.state.kept.jobs[task.job].spec.pausing
        return pausing.notice_s if pausing is not None else 0.0

    def _sizing(self, task: Task) -> Sizing:
        job = self.state.kept.jobs[task.job]
        return sizing(job, task, self.state.tasks_of(job))

    def sizing(self, name: TaskId) -> Sizing | None:
        """What a task of these nodes should know of its job's size now; None when it is not here."""
        task = self.state.kept.tasks.get(name)
        return None if task is None or task.node not in self.nodes.ids else self._sizing(task)

    def confirm(self, name: TaskId, word: Confirmed) -> str:
        """A member says that its gang met; why that cannot be, or an empty text."""
        fault = self.words.confirm(self.state, name, word, at=self.site.now_ms())
        self.worklist.wake()
        return fault

    def met(self, told: Sizing) -> None:
        """A simulated gang met at the size it was told of."""
        self.confirm(TaskId(told.task), Confirmed(resize=told.resize, size=told.size))

    def safe(self, name: TaskId) -> bool:
        """A member that leaves is safe."""
        return self.says_safe(name)

    def report(self, name: TaskId, said: Report) -> None:
        """A member says how far its job is; told with the next beat."""
        self.words.report(self.state, name, said)

    def _trace(self, facts: tuple[Fact, ...]) -> str | None:
        """The trace of the job the facts are about, when they are about one only."""
        names = {fact.task for fact in facts if isinstance(fact, TaskStarted | TaskExited)}
        traces = {job.trace for job in map(self._job, names) if job is not None}
        return traces.pop() or None if len(traces) == 1 else None

    def _job(self, name: TaskId) -> Job | None:
        task = self.state.kept.tasks.get(name)
        return None if task is None else self.state.job(task.job)

    # --- nodes --------------------------------------------------------------------------------------------

    async def _look_for_ever(self) -> None:
        """Look at the nodes every second; a driver may take its time, or never answer."""
        while True:
            await self.site.clock.sleep(SAMPLE_S)
            await self._look()

    async def _look(self) -> None:
        await self.nodes.refresh(self.state.kept.nodes)
        self.looked_s = self.site.clock.monotonic_s()

    async def _describe_for_ever(self, lane: Lane) -> None:
        """Every second: say what changed about the nodes."""
        while True:
            await self.site.clock.sleep(SAMPLE_S)
            await self._describe(lane, self._to_describe())

    async def beat(self) -> None:
        """Every second: show that the nodes live, whatever else takes long.

        Also while nobody can write, as on a full log: tasks run on then, and nodes that were called lost only because
        their agent could not lead would have them started a second time.
        """
        while True:
            if not self.is_mute:
                await self._show_life()
            await self.site.clock.sleep(SAMPLE_S)

    async def _show_life(self) -> None:
        nodes = self.nodes.samples(self.state, self.site.now_ms())
        samples = Samples(
            agent=self.config.name,
            nodes=nodes,
            reports=self.words.take_reports(),
            beats=self.beats(),
            stuck=self.stuck(),
        )
        await self.site.bus.publish(subjects.samples(self.config.name), encode(samples))
        running = sum(local.phase == Phase.RUNNING for local in self.runner.known.values())
        self.site.metrics.set("gangline_tasks_running", running)

    def _to_describe(self) -> list[NodeId]:
        """Nodes that are not as the log has them: changed, or lost or forgotten although this agent is here."""
        described, nodes = self._described(), self.state.kept.nodes
        changed = [node.id for node in described if self.told.get(node.id) != node]
        lost = [node.id for node in described if node.id not in nodes or nodes[node.id].lost]
        if others := [name for name in changed if not self._carries(name) and name not in lost]:
            self._warn_of(others)
            changed = [name for name in changed if name not in others]
        now_s = self.site.clock.monotonic_s()
        if lost and now_s - self.seen_s < SEEN_AGAIN_S:
            lost = []
        return list(dict.fromkeys((*changed, *lost)))

    def _warn_of(self, names: list[NodeId]) -> None:
        """Another agent is there for these nodes: until it is lost, they are none of ours."""
        if not self.warned.issuperset(names):
            first = names[0]
            agent = self.state.kept.nodes[first].agent
            log.error(
                "node %s is carried by agent %s: choose another name for this one, or stop that one", first, agent
            )
            self.warned |= set(names)

    def _well_again(self, facts: tuple[Fact, ...]) -> list[Node]:
        """Nodes that take work again with these facts, because what did not end there is gone.

        Said in the same message: else a round finds the room free and the node closed, and gives the room that was
        cleared for one job to another.
        """
        gone = {name for fact in facts if isinstance(fact, GpusEmpty) for name in fact.tasks}
        if not gone & self.state.stopping_tasks.keys():
            return []
        undead = self._undead()
        closed = undead.keys() - self._undead(without=gone).keys()
        described = self._described(without=gone) if closed else ()
        return [node for node in described if node.id in closed and self.told.get(node.id) not in (None, node)]

    def _described(self, without: Collection[TaskId] = ()) -> Sequence[Node]:
        """The nodes as they describe themselves, and what the agent has against giving them more work."""
        problems = self._undead(without)
        described = self.nodes.described
        if self.looked_s is not None and self.site.clock.monotonic_s() - self.looked_s > LOOK_S_MAX:
            problems |= dict.fromkeys(self.nodes.ids, "its devices do not answer")
        if why := self.resting():
            problems |= dict.fromkeys(self.nodes.ids, why)
        if not problems:
            return described
        return [replace(node, problem=node.problem or problems.get(node.id, "")) for node in described]

    def _undead(self, without: Collection[TaskId] = ()) -> dict[NodeId, str]:
        """Nodes with a task that should have been gone for long: something is wrong there."""
        now, tasks = self.site.now_ms(), self.state.kept.tasks
        names = (name for name in self.state.stopping_tasks if name not in without)
        late = (tasks[name] for name in names if is_overdue(self.state, tasks[name], now))
        return {task.node: f"task {task.id} does not end" for task in late if task.node in self.nodes.ids}

    async def _describe(self, lane: Lane, names: list[NodeId]) -> None:
        """Say how these nodes are and which tasks live on them."""
        nodes = {node.id: node for node in self._described()}
        for first in range(0, len(names), NODES_MAX):
            part = names[first : first + NODES_MAX]
            facts = tuple(NodeSeen(node=nodes[name], alive=self._alive(name)) for name in part)
            await lane.append(facts)
            self.told |= {name: nodes[name] for name in part}
            self.seen_s = self.site.clock.monotonic_s()

    def _alive(self, node: NodeId) -> tuple[TaskId, ...]:
        """The log's tasks of a node of which something is left here."""
        known = self.runner.known
        names = self.state.node_tasks.get(node, ())
        return tuple(name for name in names if name in known and known[name].phase != Phase.EMPTY)

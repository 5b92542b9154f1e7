"""Acts for the tasks of an agent while it leads their lane: starts, stops and reports them, and shows that it lives."""

import asyncio
import logging
from collections.abc import Callable

from gangline_agent import traces
from gangline_agent.config import Config
from gangline_agent.descriptions import Descriptions
from gangline_agent.nodes import Nodes
from gangline_agent.runner import Phase, Runner
from gangline_agent.words import Words
from gangline_core.facts import ExitCause, Fact, TaskExited, TaskStarted
from gangline_core.fold import Message
from gangline_core.ids import NodeId, TaskId
from gangline_core.job import Job, Task
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

SAMPLE_S = 1.0


class Reporter:
    """What the log and the runner show decides what is done; see reconcile.py."""

    runner: Runner

    def __init__(self, site: Site, config: Config, nodes: Nodes) -> None:
        """`runner` must be set before `work`."""
        self.site = site
        self.config = config
        self.nodes = nodes
        self.descriptions = Descriptions(site, nodes, agent=config.name, alive=self._alive)
        self.worklist = Worklist(site, is_mine=self._is_mine, gather_ms=config.gather_ms)
        self.words = Words()
        self.says_safe: Callable[[TaskId], bool] = lambda task: False
        """Passes on that a member which leaves is safe; False when it was not told to leave."""
        self.beats: Callable[[], dict[str, int]] = dict
        """When each task last touched its heartbeat file, in ms; tasks that never did are left out."""
        self.stuck: Callable[[], tuple[str, ...]] = tuple
        """Tasks whose collective library gave an operation up."""
        self.told_news: Callable[[], None] = lambda: None
        """Called when a job of the log has news of its size."""
        self.is_writing = False
        self.wrote_s = site.clock.monotonic_s()
        """When this process last led its lane."""

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
        return name in self.nodes.ids and self.descriptions.carries(name)

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
                group.create_task(self.descriptions.look_for_ever(), name="look")
                group.create_task(self.descriptions.tell_for_ever(lane), name="describe")
                group.create_task(self._report_for_ever(lane), name="report")

    async def _take_over(self, lane: Lane) -> None:
        """Bring together what the log has on these nodes and what the runner finds; then say that they are here."""
        own = [node for node in self.nodes.ids if self.descriptions.carries(node)]
        mine = sorted(name for node in own for name in self.state.node_tasks.get(node, ()))
        await self.runner.recover(orders(self.state, mine))
        self.worklist.add((*mine, *self.runner.known))
        await self.descriptions.look()
        await self.descriptions.tell_all(lane)

    # --- tasks --------------------------------------------------------------------------------------------

    async def _report_for_ever(self, lane: Lane) -> None:
        while True:
            await self.worklist.news()
            facts = self._decide()
            if facts:
                well = self.descriptions.well_again(facts)
                facts = (*facts, *well)
                ended = traces.ending(self.state, facts) if self.site.tracing.is_on else []
                await lane.append(facts, trace=self._trace(facts))
                self.descriptions.were_told(well)
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

    # --- signs of life --------------------------------------------------------------------------------------------

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

    def _alive(self, node: NodeId) -> tuple[TaskId, ...]:
        """The log's tasks of a node of which something is left here."""
        known = self.runner.known
        names = self.state.node_tasks.get(node, ())
        return tuple(name for name in names if name in known and known[name].phase != Phase.EMPTY)

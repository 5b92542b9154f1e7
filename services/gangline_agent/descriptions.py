"""What the log is told of the agent's nodes: how they are, and what the agent has against giving them more work."""

import logging
from collections.abc import Callable, Collection, Iterable, Sequence

from msgspec.structs import replace

from gangline_agent.nodes import Nodes
from gangline_core.cluster import Node
from gangline_core.facts import Fact, GpusEmpty, NodeSeen
from gangline_core.ids import NodeId, TaskId
from gangline_core.making_room.claims import is_overdue
from gangline_core.state import State
from gangline_kit.lane import Lane
from gangline_kit.service import Site

log = logging.getLogger(__name__)

NODES_MAX = 250
"""Nodes described in one message."""
LOOK_S = 1.0
LOOK_S_MAX = 15.0
"""Devices that do not answer for longer take no work."""
SEEN_AGAIN_S = 5.0
"""A node declared lost though its agent is here is reported again at most this often."""


class Descriptions:
    """The nodes as the log last heard of them from this process, and as they are."""

    def __init__(self, site: Site, nodes: Nodes, *, agent: str, alive: Callable[[NodeId], tuple[TaskId, ...]]) -> None:
        """`alive` gives the log's tasks of a node of which something is left here; nothing was told yet."""
        self._site, self._nodes, self._agent, self._alive = site, nodes, agent, alive
        self.resting: Callable[[], str] = str
        """Why the machine is given nothing for a while."""
        self._told: dict[NodeId, Node] = {}
        self._warned: set[NodeId] = set()
        """Nodes of which it was said that another agent carries them."""
        self._seen_s = 0.0
        self._looked_s: float | None = None
        """When the nodes were last looked at; None before the first time."""

    @property
    def _state(self) -> State:
        return self._site.follower.state

    def carries(self, name: NodeId) -> bool:
        """False for a node of another agent that names its machine alike: that one's tasks are not ours."""
        node = self._state.kept.nodes.get(name)
        return node is None or node.agent == self._agent

    async def look_for_ever(self) -> None:
        """Look at the nodes every second; a driver may take its time, or never answer."""
        while True:
            await self._site.clock.sleep(LOOK_S)
            await self.look()

    async def look(self) -> None:
        """Look at them once."""
        await self._nodes.refresh(self._state.kept.nodes)
        self._looked_s = self._site.clock.monotonic_s()

    async def tell_for_ever(self, lane: Lane) -> None:
        """Every second: say what changed about the nodes."""
        while True:
            await self._site.clock.sleep(LOOK_S)
            await self._tell(lane, self._to_tell())

    async def tell_all(self, lane: Lane) -> None:
        """Say how all of them are, whatever was told before."""
        self._told.clear()
        await self._tell(lane, [node.id for node in self._nodes.described])

    def well_again(self, facts: tuple[Fact, ...]) -> tuple[NodeSeen, ...]:
        """Nodes that take work again with these facts, because what did not end there is gone.

        Said in the same message: else a round finds the room free and the node closed, and gives the room that was
        cleared for one job to another.
        """
        gone = {name for fact in facts if isinstance(fact, GpusEmpty) for name in fact.tasks}
        if not gone & self._state.stopping_tasks.keys():
            return ()
        undead = self._undead()
        closed = undead.keys() - self._undead(without=gone).keys()
        described = self._described(without=gone) if closed else ()
        well = (node for node in described if node.id in closed and self._told.get(node.id) not in (None, node))
        return tuple(self._seen(node) for node in well)

    def were_told(self, seen: Iterable[NodeSeen]) -> None:
        """The log has these descriptions now."""
        self._told |= {one.node.id: one.node for one in seen}

    def _to_tell(self) -> list[NodeId]:
        """Nodes that are not as the log has them: changed, or lost or forgotten although this agent is here."""
        described, nodes = self._described(), self._state.kept.nodes
        changed = [node.id for node in described if self._told.get(node.id) != node]
        lost = [node.id for node in described if node.id not in nodes or nodes[node.id].lost]
        if others := [name for name in changed if not self.carries(name) and name not in lost]:
            self._warn_of(others)
            changed = [name for name in changed if name not in others]
        now_s = self._site.clock.monotonic_s()
        if lost and now_s - self._seen_s < SEEN_AGAIN_S:
            lost = []
        return list(dict.fromkeys((*changed, *lost)))

    def _warn_of(self, names: list[NodeId]) -> None:
        """Another agent is there for these nodes: until it is lost, they are none of ours."""
        if not self._warned.issuperset(names):
            first = names[0]
            agent = self._state.kept.nodes[first].agent
            log.error(
                "node %s is carried by agent %s: choose another name for this one, or stop that one", first, agent
            )
            self._warned |= set(names)

    def _described(self, without: Collection[TaskId] = ()) -> Sequence[Node]:
        """The nodes as they describe themselves, and what the agent has against giving them more work."""
        problems = self._undead(without)
        described = self._nodes.described
        if self._looked_s is not None and self._site.clock.monotonic_s() - self._looked_s > LOOK_S_MAX:
            problems |= dict.fromkeys(self._nodes.ids, "its devices do not answer")
        if why := self.resting():
            problems |= dict.fromkeys(self._nodes.ids, why)
        if not problems:
            return described
        return [replace(node, problem=node.problem or problems.get(node.id, "")) for node in described]

    def _undead(self, without: Collection[TaskId] = ()) -> dict[NodeId, str]:
        """Nodes with a task that should have been gone for long: something is wrong there."""
        now, tasks = self._site.now_ms(), self._state.kept.tasks
        names = (name for name in self._state.stopping_tasks if name not in without)
        late = (tasks[name] for name in names if is_overdue(self._state, tasks[name], now))
        return {task.node: f"task {task.id} does not end" for task in late if task.node in self._nodes.ids}

    async def _tell(self, lane: Lane, names: list[NodeId]) -> None:
        """Say how these nodes are and which tasks live on them."""
        nodes = {node.id: node for node in self._described()}
        for first in range(0, len(names), NODES_MAX):
            facts = tuple(self._seen(nodes[name]) for name in names[first : first + NODES_MAX])
            await lane.append(facts)
            self.were_told(facts)
            self._seen_s = self._site.clock.monotonic_s()

    def _seen(self, node: Node) -> NodeSeen:
        return NodeSeen(node=node, alive=self._alive(node.id))

"""The cluster's nodes for the log: described when they change, lost when they are gone or not Ready for too long."""

import logging
from collections.abc import Iterator

from msgspec.structs import replace

from gangline_core.cluster import Node
from gangline_core.facts import Fact, GpuFailed, GpuHealthy, NodeLost, NodeSeen
from gangline_core.fold import Message
from gangline_core.ids import NodeId, TaskId
from gangline_core.making_room.claims import is_overdue
from gangline_core.step import Step
from gangline_kit.carrying.known import Phase
from gangline_kit.lane import Lane
from gangline_kit.service import Site
from gangline_kubernetes.affinities import Affinities
from gangline_kubernetes.carrier import Carrier
from gangline_kubernetes.claims import Claims, Hold, Place
from gangline_kubernetes.config import Config, DeviceMode
from gangline_kubernetes.devices import ResourceSlice, TaintRule
from gangline_kubernetes.happenings import Happenings
from gangline_kubernetes.marks import Marks
from gangline_kubernetes.nodes import Taken, Terms, beyond, describe, is_of_another, is_same, taken_by
from gangline_kubernetes.objects import KubeNode, Meta, Pod
from gangline_kubernetes.offering import Offering
from gangline_kubernetes.reach import FOLLOWS_S, Reach
from gangline_kubernetes.sights import Sights
from gangline_kubernetes.watch import Watched

log = logging.getLogger(__name__)

NODES_MAX = 250
"""Nodes described in one message."""
LOOK_S = 0.5


class Inventory:
    """What is known of every node: its object, its slices, and the pods on it."""

    carrier: Carrier
    reach: Reach
    watched: Watched[KubeNode]

    def __init__(
        self, site: Site, config: Config, agent: str, *, marks: Marks, claims: Claims, affinities: Affinities
    ) -> None:
        """`carrier`, `reach` and `watched` must be set before `work`."""
        self.site = site
        self.config = config
        self.marks = marks
        self.affinities = affinities
        affinities.changed = lambda: self.dirty.update(dict.fromkeys(self.nodes))
        affinities.seen = self._labelled
        self.claims = claims
        self.terms = Terms(
            agent=agent,
            cluster=config.cluster,
            pool=config.pool,
            gpu_resource=config.gpu_resource,
            device_driver=config.device_class if config.mode is DeviceMode.DRA else "",
        )
        self.nodes: dict[NodeId, KubeNode] = {}
        self.offering = Offering(self.terms.device_driver)
        self.withheld: dict[NodeId, None] = {}
        """Nodes of which others hold devices."""
        self.contested: dict[NodeId, None] = {}
        """Nodes of which others hold a device that a task of ours has, too."""
        self.pods: dict[NodeId, dict[str, Pod]] = {}
        """Pods that are not over, by node and uid."""
        self.told: dict[NodeId, Node] = {}
        self.dirty: dict[NodeId, None] = {}
        self.unready_since: dict[NodeId, float] = {}
        """While nobody tells us of nodes this moves on with the time, as they may be Ready again."""
        self._looked_s = site.clock.monotonic_s()
        self.gone: dict[NodeId, None] = {}
        """Nodes whose object is no more, until the log knows."""
        self._undead: dict[NodeId, None] = {}
        """Nodes with a task that does not end."""
        self.strangers: dict[NodeId, None] = {}
        """Nodes whose name a node of another cluster has: they are not told of, as a name is one machine in the log."""
        self._told_of_reach = ""
        self.happenings: Happenings | None = None
        self.sights = Sights(site, self.hear_view)

    # --- what the watches tell ----------------------------------------------------------------------------

    def hear_node(self, before: KubeNode | None, after: KubeNode | None) -> None:
        """A node came, changed or went."""
        if after is None:
            assert before is not None
            name = NodeId(before.metadata.name)
            self.nodes.pop(name, None)
            self.unready_since.pop(name, None)
            self.gone[name] = None
            return
        name = NodeId(after.metadata.name)
        self.nodes[name] = after
        self.dirty[name] = None
        if after.is_ready:
            self.unready_since.pop(name, None)
        else:
            self.unready_since.setdefault(name, self.site.clock.monotonic_s())

    def hear_slice(self, before: ResourceSlice | None, after: ResourceSlice | None) -> None:
        """A slice of devices came, changed or went."""
        is_ours = after is not None and after.spec.driver == self.terms.device_driver
        for name in self.offering.hear(before, after if is_ours else None):
            self.dirty[name] = None

    def hear_rule(self, before: TaintRule | None, after: TaintRule | None) -> None:
        """A rule that taints devices came, changed or went."""
        self.dirty.update(dict.fromkeys(self.offering.hear_rule(before, after)))

    def hear_pod(self, before: Pod | None, after: Pod | None) -> None:
        """A pod came, changed or went: what it takes of its node matters when it is not ours."""
        for old in filter(None, (before,)):
            node = NodeId(old.spec.node_name)
            if self.pods.get(node, {}).pop(old.metadata.uid, None) is not None and self._takes(old):
                self.dirty[node] = None
        if after is not None and after.spec.node_name and not after.is_over:
            node = NodeId(after.spec.node_name)
            self.pods.setdefault(node, {})[after.metadata.uid] = after
            if self._takes(after):
                self.dirty[node] = None

    def hear_view(self, name: NodeId) -> None:
        """An agent on a node sees something else than before."""
        if name in self.nodes:
            self.dirty[name] = None

    def note(self, message: Message, step: Step) -> None:
        """A card failed or is well again: how many more the device plugin counts out is told anew."""
        for fact in message.facts:
            if isinstance(fact, GpuFailed | GpuHealthy) and fact.node in self.nodes:
                self.dirty[fact.node] = None

    # --- what the log is told -----------------------------------------------------------------------------

    async def report_for_ever(self, lane: Lane) -> None:
        """Tell the log what changed about the nodes."""
        while True:
            await self._tell(lane)
            await self.site.clock.sleep(LOOK_S)

    def take_over(self) -> None:
        """Describe every node that the log has otherwise, whoever told it so."""
        known = self.site.follower.state.kept.nodes
        self.told.clear()
        for name in self.nodes:
            found, node = known.get(name), self.describe(name)
            if found is not None and not found.lost and is_same(found, node):
                self.told[name] = node
            else:
                self.dirty[name] = None
        self.gone |= {n.id: None for n in known.values() if n.agent == self.terms.agent and n.id not in self.nodes}

    async def _tell(self, lane: Lane) -> None:
        now_s = self.site.clock.monotonic_s()
        for name, (until_s, _) in list(self.carrier.resting.items()):
            self.dirty[name] = None
            if now_s >= until_s:
                del self.carrier.resting[name]
        if self._told_of_reach != self.reach.problem:
            self._told_of_reach = self.reach.problem
            self.dirty.update(dict.fromkeys(self.nodes))
        await self._look_for_strangers()
        self._look_for_undead()
        self._look_for_claims()
        lost = self._lost(now_s)
        names = [name for name in self.dirty if name in self.nodes and name not in lost]
        self.dirty.clear()
        seen = [(node, alive) for name in names for node, alive in self._described(name)]
        facts: list[Fact] = [NodeSeen(node=node, alive=alive) for node, alive in seen]
        facts.extend(lost.values())
        for first in range(0, len(facts), NODES_MAX):
            await lane.append(tuple(facts[first : first + NODES_MAX]))
        self.told |= {node.id: node for node, _ in seen}
        for name in lost:
            self.told.pop(name, None)
            self.gone.pop(name, None)

    def rests(self) -> tuple[Fact, ...]:
        """Word of nodes that refused a pod, as soon as they did."""
        fresh = [name for name in self.carrier.resting if name in self.nodes and not self._is_told(name)]
        seen = [one for name in fresh for one in self._described(name)]
        self.told |= {node.id: node for node, _ in seen}
        return tuple(NodeSeen(node=node, alive=alive) for node, alive in seen)

    def _is_told(self, name: NodeId) -> bool:
        return name in self.told and bool(self.told[name].problem)

    async def _look_for_strangers(self) -> None:
        """Tell of nodes that cannot be used, as another cluster has one of that name; when that goes, they can."""
        fresh = [name for name in self.nodes if name not in self.strangers and self._is_strange(name)]
        over = [name for name in self.strangers if name not in self.nodes or not self._is_strange(name)]
        for name in over:
            del self.strangers[name]
            self.dirty[name] = None
        for name in fresh:
            self.strangers[name] = None
            self.told.pop(name, None)
            other = self.site.follower.state.kept.nodes[name].agent
            why = f"{other} has a node of this name: names of nodes must differ among the clusters of one platform"
            log.error("node %s takes no work: %s", name, why)
            if self.happenings is not None:
                meta = self.nodes[name].metadata
                await self.happenings.tell(meta, "NameTaken", why, is_warning=True, kind=("v1", "Node"))

    def _is_strange(self, name: NodeId) -> bool:
        known = self.site.follower.state.kept.nodes.get(name)
        return is_of_another(known, self.nodes[name], self.terms.agent)

    def _look_for_undead(self) -> None:
        """Nodes with a task that should have been gone for long take no more; when it is gone, they do again."""
        self.dirty |= self._undead
        tasks = self.site.follower.state.kept.tasks
        late = (tasks[name].node for name in self.site.follower.state.stopping_tasks if self._is_undead(name))
        self._undead = dict.fromkeys(node for node in late if node in self.nodes)
        self.dirty |= self._undead

    def _is_undead(self, name: TaskId) -> bool:
        """True for a task that had its time to end; while a budget keeps it, that has not begun."""
        state, carrier = self.site.follower.state, self.carrier
        task = state.kept.tasks[name]
        kept_ms = max(0, carrier.kept_ms.get(name, 0) - task.stop_ms)
        return name not in carrier.kept and is_overdue(state, task, self.site.now_ms() - kept_ms)

    def _look_for_claims(self) -> None:
        """Devices that others were given, or gave back, and those that are given twice."""
        places, self.claims.news = self.claims.news, {}
        fresh = {
            name: None
            for place in places
            if (name := self.offering.node_of.get(place[0])) in self.nodes
            and (name in self.withheld or self.claims.hold(place) is Hold.OTHERS)
        }
        state = self.site.follower.state
        for name in dict.fromkeys((*fresh, *self.contested)):
            self.dirty[name] = None
            self.contested.pop(name, None)
            held = self.held_by_others(name)
            self.withheld.pop(name, None)
            if held:
                self.withheld[name] = None
            for task in state.node_tasks.get(name, ()):
                both = [share.index for share in state.kept.tasks[task].gpus if share.index in held]
                if both:
                    self.contested[name] = None
                    why = f"GPU {both[0]} is allocated to claim {self.claims.who(held[both[0]])}"
                    self.carrier.contest(task, why)

    def _lost(self, now_s: float) -> dict[NodeId, Fact]:
        known = self.site.follower.state.kept.nodes
        lost: dict[NodeId, Fact] = {}
        passed_s, self._looked_s = now_s - self._looked_s, now_s
        if not (self.reach.answers and self.watched.follows(FOLLOWS_S)):
            self.unready_since = {name: since_s + passed_s for name, since_s in self.unready_since.items()}
        for name in self.gone:
            if name in known and not known[name].lost and name not in self.nodes and self._is_ours(known[name]):
                lost[name] = NodeLost(node=name, silent_ms=0)
        for name, since_s in self.unready_since.items():
            silent_s = now_s - since_s
            if silent_s >= self.config.loss_s and name in known and not known[name].lost and self._is_ours(known[name]):
                lost[name] = NodeLost(node=name, silent_ms=int(silent_s * 1000))
        self.gone = {name: None for name in self.gone if name in lost}
        return lost

    def _is_ours(self, known: Node) -> bool:
        return known.agent == self.terms.agent

    def _described(self, name: NodeId) -> list[tuple[Node, tuple[TaskId, ...]]]:
        """The node and its living tasks, when the log should hear of it."""
        state = self.site.follower.state
        known = state.kept.nodes.get(name)
        if is_of_another(known, self.nodes[name], self.terms.agent):
            return []
        node = self.describe(name)
        comes_back = known is not None and known.lost and self.nodes[name].is_ready
        if (known is not None and known.lost and not comes_back) or (self.told.get(name) == node and not comes_back):
            return []
        here = self.carrier.known
        alive = tuple(
            task for task in state.node_tasks.get(name, ()) if task in here and here[task].phase != Phase.EMPTY
        )
        return [(node, alive)]

    def describe(self, name: NodeId) -> Node:
        """The node as it is now."""
        state = self.site.follower.state
        tasks, known = state.kept.tasks, state.kept.nodes.get(name)
        busy = frozenset(share.index for task in state.node_tasks.get(name, ()) for share in tasks[task].gpus)
        found = describe(
            self.nodes[name],
            self.terms,
            published=self.offering.gpus(name, known, self.nodes[name].metadata.labels),
            taken=self._taken(name),
            busy=busy,
            held=frozenset(self.held_by_others(name)),
            failed=frozenset(gpu.index for gpu in known.gpus if not gpu.healthy) if known is not None else frozenset(),
            view=self.sights.of(name) or self.sights.remembered(known),
            problem=self._problem(name),
            ports=self.affinities.ports(),
        )
        return replace(found, labels={**found.labels, **self.affinities.labels(self.nodes[name].metadata)})

    def _labelled(self) -> Iterator[tuple[Meta, dict[str, str]]]:
        """Lost nodes are described when they come back."""
        known = self.site.follower.state.kept.nodes
        here = ((node.metadata, known[name]) for name, node in self.nodes.items() if name in known)
        return ((meta, node.labels) for meta, node in here if not node.lost)

    def devices_of(self, name: NodeId) -> dict[int, Place]:
        """Pool and device behind each GPU index."""
        return self.offering.places(name, self.site.follower.state.kept.nodes.get(name))

    def held_by_others(self, name: NodeId) -> dict[int, Place]:
        """GPU indexes, and devices, that claims of others hold."""
        if not self.claims.found:
            return {}
        return {k: place for k, place in self.devices_of(name).items() if self.claims.hold(place) is Hold.OTHERS}

    def uuids_of(self, name: NodeId, indexes: tuple[int, ...]) -> tuple[str, ...]:
        """How the driver calls these GPUs: by uuid where it is known, by number where it is not."""
        uuids = {gpu.index: gpu.uuid for gpu in self.describe(name).gpus} if name in self.nodes else {}
        return tuple(uuids.get(index) or str(index) for index in indexes)

    def _taken(self, name: NodeId) -> Taken:
        """What pods take that are no task of the log, and what those of tasks take beyond their booking."""
        pods = self.pods.get(name, {}).values()
        taken = taken_by(pod for pod in pods if self._is_foreign(pod))
        for cpu_milli, memory_mib in map(self._beyond, pods):
            taken.cpu_milli += cpu_milli
            taken.memory_mib += memory_mib
        return taken

    def _takes(self, pod: Pod) -> bool:
        """True for a pod that takes something of its node that the log does not know."""
        return self._is_foreign(pod) or any(self._beyond(pod))

    def _beyond(self, pod: Pod) -> tuple[int, int]:
        mark = self.marks.of(pod)
        task = self.site.follower.state.kept.tasks.get(mark.task) if mark is not None else None
        return beyond(pod, task) if task is not None else (0, 0)

    def _is_foreign(self, pod: Pod) -> bool:
        mark = self.marks.of(pod)
        return mark is None or mark.task not in self.site.follower.state.kept.tasks

    def _problem(self, name: NodeId) -> str:
        if self.reach.problem:
            return self.reach.problem
        if name in self.carrier.resting:
            return self.carrier.resting[name][1]
        state = self.site.follower.state
        late = (task for task in state.node_tasks.get(name, ()) if task in state.stopping_tasks)
        undead = next((task for task in late if self._is_undead(task)), None)
        return f"task {undead} does not end" if undead is not None else ""

"""From samples to facts: which nodes are lost, which GPUs failed, are suspect or recovered, how busy all were. Pure."""

from msgspec import Struct

from gangline_core.facts import Fact, GpuFailed, GpuHealthy, GpuSuspected, NodeLost, NodeQuarantined
from gangline_core.ids import NodeId, TaskId
from gangline_core.room.away import is_unspoken_for, nobody_speaks
from gangline_core.room.troubles import BY_EVENT, NO_CARD, NONE
from gangline_core.state import State
from gangline_telemetry.busy import Busy
from gangline_telemetry.config import Config
from gangline_telemetry.rules import Verdict, by_flags, by_xids
from gangline_wire.samples import CardEvent, GpuSample, NodeSample

Key = tuple[NodeId, int]
DOUBLINGS_MAX = 6
APART_S = 2.0
"""An agent hears from the bus for so long after its last sample was heard: the two go once a second each."""


class Card(Struct):
    """What was heard of one GPU."""

    last: GpuSample
    good: int = 0
    """Samples in a row without a problem."""
    bad: str = ""
    broke: str = ""
    """What an event said that takes it out, until the log knows that it is out."""
    event: int = 0
    """Number of the last event that was heard; those up to it are told again, and are not new."""
    event_s: float | None = None
    """When the last event came that takes it out."""
    events: int = 0
    """How often events took it out."""
    sign: str = ""
    sign_s: float = 0.0
    heard_s: float = 0.0
    xid: int | None = None
    """The last Xid that was ever heard of it."""
    owners: tuple[TaskId, ...] = ()
    """Tasks that held it when it was last sampled."""
    slice_owners: dict[str, TaskId] = {}
    """The same by slice, where it is cut."""


class Watch:
    """What was heard of every node; silence is measured on the monotonic clock."""

    def __init__(self, config: Config, now_s: float) -> None:
        """A watch that begins at `now_s`: nothing counts as silent before."""
        self.config = config
        self.began_s = now_s
        self.heard_s: dict[NodeId, float] = {}
        self.known_s: dict[NodeId, float] | None = None
        """Since when each node is known here; None before anybody looked, as all that were there then always were."""
        self.cards: dict[Key, Card] = {}
        self.hosts: dict[NodeId, tuple[NodeSample, float]] = {}
        """The last sample of each machine that says something of itself, and when it was heard."""
        self.busy = Busy(config, now_s)

    def forgive(self, now_s: float) -> None:
        """We were frozen ourselves: let every node speak again before judging its silence."""
        self.began_s = now_s
        self.heard_s.clear()

    def hear(self, sample: NodeSample, now_s: float, state: State | None = None) -> None:
        """Take in one sample; with the state, remember who held the cards when it was taken."""
        node = NodeId(sample.node)
        self.heard_s[node] = now_s
        self.busy.hear(sample)
        if sample.memory_used_mib is not None or sample.cpu_percent is not None:
            self.hosts[node] = (sample, now_s)
        for gpu in sample.gpus:
            self._hear_gpu((node, gpu.index), gpu, now_s, at=sample.at, state=state)
        if state is not None and sample.gpus:
            self._note_owners(state, node, sample)

    def _note_owners(self, state: State, node: NodeId, sample: NodeSample) -> None:
        """Who holds what, at the time of the sample: a task placed later than that had no part in it."""
        known = state.kept.nodes.get(node)
        uuids = {(gpu.index, one.mask): one.uuid for gpu in known.gpus for one in gpu.slices} if known else {}
        owners: dict[int, list[TaskId]] = {}
        slices: dict[int, dict[str, TaskId]] = {}
        for name in state.node_tasks.get(node, ()):
            task = state.kept.tasks[name]
            # Whoever stands still only has something in the card's memory: what it does is another's.
            is_there = max(task.placed_ms, task.span_ms) <= sample.at and task.working is None
            for share in task.gpus if is_there else ():
                if share.slots:
                    slices.setdefault(share.index, {})[uuids.get((share.index, share.slots), "")] = name
                else:
                    owners.setdefault(share.index, []).append(name)
        for gpu in sample.gpus:
            card = self.cards[node, gpu.index]
            card.owners, card.slice_owners = tuple(owners.get(gpu.index, ())), slices.get(gpu.index, {})

    def _hear_gpu(self, key: Key, gpu: GpuSample, now_s: float, *, at: int, state: State | None) -> None:
        card = self.cards.get(key)
        if card is None:
            card = self.cards[key] = _known(state, key, gpu, now_s, at)
        card.heard_s = now_s
        new = tuple(event for event in gpu.events if event.number > card.event)
        if gpu.xids or gpu.events:
            card.xid = gpu.xids[-1] if gpu.xids else gpu.events[-1].xid
        event, flag = by_xids((*gpu.xids, *(event.xid for event in new))), by_flags(gpu, card.last)
        event_s = _came_s(new[-1], now_s, at) if new else now_s
        card.last, card.event = gpu, new[-1].number if new else card.event
        problem = gpu.problem or next((s.meaning for s in (flag,) if s and s.verdict == Verdict.FAILED), "")
        if event is not None and event.verdict == Verdict.FAILED:
            problem = card.broke = event.meaning
            card.event_s = event_s
        card.bad, card.good = problem, 0 if problem else card.good + 1
        for sign, sign_s in ((event, event_s), (flag, now_s)):
            if sign is not None and sign.verdict == Verdict.SUSPECT:
                card.sign, card.sign_s = sign.meaning, sign_s

    def judge(self, state: State, now_s: float) -> tuple[Fact, ...]:
        """Facts that follow from what was (not) heard and that the log does not know yet."""
        forgotten = [key for key in self.cards if key[0] not in state.kept.nodes]
        for key in forgotten:
            del self.cards[key]
        for host in [host for host in self.hosts if host not in state.kept.nodes]:
            del self.hosts[host]
        for node in [node for node in self.heard_s if node not in state.kept.nodes]:
            del self.heard_s[node]
        return (*self._losses(state, now_s), *self._gpu_changes(state, now_s), *self.busy.summaries(state, now_s))

    def _losses(self, state: State, now_s: float) -> list[Fact]:
        told: list[Fact] = []
        before, fresh_s = (self.known_s or {}), self.began_s if self.known_s is None else now_s
        self.known_s = {node_id: before.get(node_id, fresh_s) for node_id in state.kept.nodes}
        for node_id, node in sorted(state.kept.nodes.items()):
            if node.is_watched:
                continue
            heard_s = self.heard_s.get(node_id)
            silent_s = now_s - max(self.known_s[node_id] if heard_s is None else heard_s, self.began_s)
            if silent_s <= self.config.loss_s:
                if is_unspoken_for(node) and heard_s is not None:
                    told.append(NodeQuarantined(node=node_id, problem=""))
            elif node.lost:
                continue
            elif silent_s > node.ends_alone_ms / 1000 + APART_S:
                told.append(NodeLost(node=node_id, silent_ms=int(silent_s * 1000)))
            elif not node.quarantine:
                # What runs there may not have ended yet by itself, and would run twice if it began elsewhere now.
                told.append(NodeQuarantined(node=node_id, problem=nobody_speaks(node.agent)))
        return told

    def _gpu_changes(self, state: State, now_s: float) -> list[Fact]:
        changes: list[Fact] = []
        for (node_id, index), card in sorted(self.cards.items()):
            node = state.kept.nodes[node_id]
            gpu = next((gpu for gpu in node.gpus if gpu.index == index), None)
            if gpu is None:
                continue
            sign = card.sign if card.sign and now_s - card.sign_s < self.config.suspect_s else ""
            if not gpu.is_failed and (card.broke or card.bad):
                card.events += bool(card.broke)
                problem = card.broke or card.bad
                changes.append(GpuFailed(node=node_id, gpu=index, problem=problem, event=card.event))
            elif gpu.is_failed and not card.bad and self._is_well(card, gpu.problem, now_s):
                changes.append(GpuHealthy(node=node_id, gpu=index, event=card.event))
            elif not gpu.is_failed and gpu.suspect != sign:
                changes.append(GpuSuspected(node=node_id, gpu=index, problem=sign, event=card.event))
            # What comes while it is out makes it wait anew, and is no further failure.
            card.broke = ""
        return changes

    def _is_well(self, card: Card, problem: str, now_s: float) -> bool:
        """True when a failed card may be tried again: a while of good samples, a long one after an event."""
        if card.event_s is None and not problem.startswith(BY_EVENT):
            return card.good >= self.config.healthy_samples
        # Of events without numbers a new watcher does not know when they were: it waits from its own beginning.
        since_s = self.began_s if card.event_s is None else card.event_s
        wait_s = self.config.retest_s * (1 << min(max(card.events - 1, 0), DOUBLINGS_MAX))
        return now_s - since_s >= wait_s and card.good >= self.config.healthy_samples


def _known(state: State | None, key: Key, gpu: GpuSample, now_s: float, at: int) -> Card:
    """A card as the log knows it, when it is first heard of: what was judged before us is not judged again."""
    trouble = NO_CARD if state is None else state.kept.troubles.get(key[0], NONE).cards.get(key[1], NO_CARD)
    card = Card(last=gpu, event=trouble.event, events=trouble.failures)
    if trouble.failures:
        card.event_s = _came_s(CardEvent(number=trouble.event, xid=0), now_s, at)
    return card


def _came_s(event: CardEvent, now_s: float, at: int) -> float:
    """When an event came on our clock: it is as much older than its sample as its agent's clock says."""
    return now_s - max(0, at - event.number) / 1000

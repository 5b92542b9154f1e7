"""Nodes that are lost again and again, while others are there: what they draw begins anew each time. Pure.

A node that was taken away was not lost. Losses of several nodes within a minute are the network's. Nodes that one job
lost in turn may have been ended by that job, which would close one after the other; and where nothing else takes work,
a closed node helps nobody.
"""

from collections import defaultdict, deque
from itertools import pairwise

from msgspec import Struct

from gangline_core.facts import DrainSet, Fact, NodeLost, NodeQuarantined
from gangline_core.ids import JobId, NodeId
from gangline_core.state import State
from gangline_telemetry.config import Config

TOGETHER_MS = 60_000
"""Nodes lost within so long of each other were not lost for themselves."""
NODES_OF_A_JOB = 3
"""A job that lost so many different nodes may have ended them itself."""
LOSSES_KEPT = 4096
"""Losses looked back at, of all nodes together."""


class Loss(Struct, frozen=True):
    """A node was lost while jobs were on it."""

    node: NodeId
    at: int
    """In ms of the log."""
    jobs: frozenset[JobId]


class Relapses:
    """The losses of the last hour, as the log tells them."""

    def __init__(self, config: Config) -> None:
        """Nothing seen yet."""
        self.config = config
        self.losses: deque[Loss] = deque(maxlen=LOSSES_KEPT)
        self.forgiven_ms: dict[NodeId, int] = {}
        """Until when losses count against a node no more, since it was closed for them or somebody opened it."""

    def note(self, state: State, facts: tuple[Fact, ...], at: int) -> None:
        """Take in who was lost; before or after it is folded makes no difference."""
        for fact in facts:
            if isinstance(fact, NodeLost) and fact.silent_ms:
                tasks = (state.kept.tasks[task] for task in state.node_tasks.get(fact.node, ()))
                self.losses.append(Loss(fact.node, at, frozenset(task.job for task in tasks)))
            elif isinstance(fact, DrainSet) and not fact.drained:
                self.forgiven_ms[fact.node] = at

    def judge(self, state: State, now_ms: int) -> tuple[Fact, ...]:
        """Close nodes that were lost too often of late; they are tried again as those are that fail everything."""
        while self.losses and now_ms - self.losses[0].at > self.config.relapse_s * 1000:
            self.losses.popleft()
        oldest_ms = self.losses[0].at if self.losses else now_ms
        self.forgiven_ms = {node: at for node, at in self.forgiven_ms.items() if at >= oldest_ms}
        of_node = defaultdict[NodeId, list[Loss]](list)
        for loss in self._own_fault():
            of_node[loss.node].append(loss)
        facts: list[Fact] = []
        for name, losses in sorted(of_node.items()):
            node = state.kept.nodes.get(name)
            losses = [loss for loss in losses if loss.at > self.forgiven_ms.get(name, -1)]
            if node is None or node.quarantine or len(losses) < self.config.relapses or not _has_other(state, name):
                continue
            minutes = max(1, round((losses[-1].at - losses[0].at) / 60_000))
            problem = f"it was lost {len(losses)} times within {minutes} minutes"
            facts.append(NodeQuarantined(node=name, problem=problem))
            self.forgiven_ms[name] = now_ms
        return tuple(facts)

    def _own_fault(self) -> list[Loss]:
        """Losses that neither the network nor a job explains."""
        nodes_of = defaultdict[JobId, set[NodeId]](set)
        for loss in self.losses:
            for job in loss.jobs:
                nodes_of[job].add(loss.node)
        together = {loss for pair in pairwise(self.losses) if _are_together(*pair) for loss in pair}
        return [
            loss
            for loss in self.losses
            if loss not in together and all(len(nodes_of[job]) < NODES_OF_A_JOB for job in loss.jobs)
        ]


def _are_together(one: Loss, other: Loss) -> bool:
    return one.node != other.node and abs(one.at - other.at) < TOGETHER_MS


def _has_other(state: State, name: NodeId) -> bool:
    """True when another node of its pool takes work, so that somebody is better off there."""
    pool = state.kept.nodes[name].pool
    return any(node.pool == pool and node.takes_work for other, node in state.kept.nodes.items() if other != name)

"""Kubernetes clusters for which nobody speaks any more: their machines take no new work until somebody does. Pure.

What runs there is left alone: pods go on without the service, and nobody could tell that they ended, so a job that
began again elsewhere would run twice. That a cluster is gone for good is the word of an administrator.
"""

from gangline_core.facts import Fact, NodeQuarantined
from gangline_core.room.away import is_unspoken_for, nobody_speaks
from gangline_core.state import State
from gangline_telemetry.config import Config

EVERY_S = 5.0
"""Time between questions for each cluster."""


class Clusters:
    """When somebody was last known to lead the lane of each cluster."""

    def __init__(self, config: Config) -> None:
        """Nobody was asked about yet, so silence counts from the first question on."""
        self.config = config
        self.asked_s: dict[str, float] = {}
        self.silent_since_s: dict[str, float] = {}
        """Of those that were found without a leader: since when."""
        self.led: set[str] = set()
        """Those that had a leader when we last asked."""

    def due(self, state: State, now_s: float) -> list[str]:
        """The clusters to ask about now."""
        agents = sorted({node.agent for node in state.kept.nodes.values() if node.is_watched})
        for gone in self.asked_s.keys() - set(agents):
            del self.asked_s[gone]
            self.silent_since_s.pop(gone, None)
            self.led.discard(gone)
        return [agent for agent in agents if now_s >= self.asked_s.get(agent, now_s - EVERY_S) + EVERY_S]

    def hear(self, agent: str, now_s: float, *, leads: bool) -> None:
        """Somebody leads the cluster's lane now, or nobody does."""
        self.asked_s[agent] = now_s
        if leads:
            self.forgive(agent)
            self.led.add(agent)
        else:
            self.led.discard(agent)
            self.silent_since_s.setdefault(agent, now_s)

    def forgive(self, agent: str) -> None:
        """What was not heard proves nothing."""
        self.silent_since_s.pop(agent, None)

    def judge(self, state: State, now_s: float) -> tuple[Fact, ...]:
        """Close the machines of clusters that were silent for too long, and open them when somebody is back."""
        away_s = self.config.cluster_away_s
        silent = {agent for agent, since_s in self.silent_since_s.items() if now_s - since_s > away_s}
        facts: list[Fact] = []
        for name, node in sorted(state.kept.nodes.items()):
            if is_unspoken_for(node) and node.agent in self.led:
                facts.append(NodeQuarantined(node=name, problem=""))
            elif node.agent in silent and node.is_watched and not node.lost and not node.quarantine:
                facts.append(NodeQuarantined(node=name, problem=nobody_speaks(node.agent)))
        return tuple(facts)

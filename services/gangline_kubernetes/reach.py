"""Whether the cluster's API server answers us: while it does not, nothing new is placed on the cluster's nodes."""

import asyncio
import logging

from gangline_core.facts import Fact, NodeSeen
from gangline_core.state import State
from gangline_kit.clock import Clock
from gangline_kit.errors import TemporaryError
from gangline_kubernetes.api import Api, RefusedError, path_of
from gangline_kubernetes.config import Config
from gangline_kubernetes.nodes import bare

log = logging.getLogger(__name__)

ASK_S = 5.0
"""Time between questions: of the shortest list that there is, so that the store behind the server answers as well."""
FIRST_S = 10.0
"""One that has not answered since we lead counts as away after this: nobody knows how long it has been silent."""
STEADY_S = 15.0
"""So long it answers before it counts as back: by then every watch has been taken up again."""
FOLLOWS_S = 6.0
"""A watch that was asked for so long ago, and not refused, tells what happens; connecting takes less."""


class Reach:
    """What the API server last said to the simplest of questions, and since when it says nothing better."""

    def __init__(self, config: Config, api: Api, clock: Clock) -> None:
        """It is taken to answer until it is found not to for `api_away_s`, or from the beginning on."""
        self._config = config
        self._api = api
        self._clock = clock
        self.problem = ""
        """Why nothing new may be placed on the cluster's nodes; empty while it may."""
        self.became_away = asyncio.Event()
        self._silent_since_s: float | None = None
        self._answers_since_s: float | None = None
        self._has_answered = False

    @property
    def answers(self) -> bool:
        """True when it answered the last question."""
        return self._answers_since_s is not None

    async def look_for_ever(self) -> None:
        """Ask again and again, until cancelled."""
        while True:
            asked_s = self._clock.monotonic_s()
            word = await self._ask()
            if word:
                self._answers_since_s = None
                self._silent_since_s = asked_s if self._silent_since_s is None else self._silent_since_s
                self._judge_silence(word)
            else:
                self._silent_since_s, self._has_answered = None, True
                self._answers_since_s = asked_s if self._answers_since_s is None else self._answers_since_s
                if self.problem and asked_s - self._answers_since_s >= STEADY_S:
                    self._say("")
            await self._clock.sleep(ASK_S)

    async def _ask(self) -> str:
        """What keeps the server from answering; empty when it did."""
        name = f"the API server of {self._config.cluster}, its Kubernetes cluster,"
        try:
            await self._api.call("GET", path_of("v1", "namespaces"), query={"limit": "1"}, tries=1)
        except RefusedError as error:
            return f"{name} refuses what Gangline asks it: {error.code} {error.reason}".rstrip()
        except TemporaryError as error:
            log.info("the API server does not answer: %s", error)
            return f"{name} does not answer"
        return ""

    def _judge_silence(self, word: str) -> None:
        assert self._silent_since_s is not None
        patience_s = self._config.api_away_s if self._has_answered else min(FIRST_S, self._config.api_away_s)
        if self.problem or self._clock.monotonic_s() - self._silent_since_s >= patience_s:
            self._say(word)

    def _say(self, word: str) -> None:
        if word == self.problem:
            return
        log.warning("nodes take %s new work: %s", "no" if word else "", word or "the API server answers again")
        self.problem = word
        if word:
            self.became_away.set()


def closed(state: State, agent: str, problem: str) -> list[Fact]:
    """The nodes of a cluster as the log knows them, closed: for one that was not listed yet since we lead.

    Nothing that may run there is said to be gone.
    """
    return [
        NodeSeen(node=bare(node, problem=problem), alive=tuple(sorted(state.node_tasks.get(name, ()))))
        for name, node in sorted(state.kept.nodes.items())
        if node.agent == agent and not node.lost and node.problem != problem
    ]

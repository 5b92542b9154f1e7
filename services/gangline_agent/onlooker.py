"""An agent that only looks: on a cluster's node it says how the cards are, and leaves the rest to the cluster."""

from gangline_agent.nodes import Nodes
from gangline_kit.service import Site
from gangline_wire import subjects
from gangline_wire.codec import encode
from gangline_wire.samples import NodeView, Samples

SAMPLE_S = 1.0
VIEW_EVERY = 15
"""The machine itself is told of in every so many-th sample, and whenever it changed."""


class Onlooker:
    """Samples and views of one machine, for telemetry and for the cluster's service; it owns no lane and no task."""

    def __init__(self, site: Site, nodes: Nodes, *, name: str) -> None:
        """Nothing is looked at before `look_for_ever`; `name` is the agent's."""
        self._site = site
        self._name = name
        self._nodes = nodes
        self._told: tuple[NodeView, ...] = ()
        self._looks = 0

    async def look_for_ever(self) -> None:
        """Look and tell each second."""
        while True:
            await self._nodes.refresh({})
            await self._site.bus.publish(subjects.samples(self._name), encode(self._samples()))
            await self._site.clock.sleep(SAMPLE_S)

    def _samples(self) -> Samples:
        views = tuple(
            NodeView(node=node.id, gpus=node.gpus, nics=node.nics, labels=node.labels, problem=node.problem)
            for node in self._nodes.described
        )
        is_due = views != self._told or self._looks % VIEW_EVERY == 0
        self._told, self._looks = views, self._looks + 1
        samples = self._nodes.samples(self._site.follower.state, self._site.now_ms())
        return Samples(agent=self._name, nodes=samples, views=views if is_due else ())

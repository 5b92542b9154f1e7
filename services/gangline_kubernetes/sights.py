"""What agents on the cluster's nodes see of their cards: heard on the bus, for the node objects; no node of its own."""

import logging
from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from gangline_core.cluster import Node
from gangline_core.ids import NodeId
from gangline_kit.service import Site
from gangline_wire import subjects
from gangline_wire.codec import CodecError, decode
from gangline_wire.samples import NodeView

log = logging.getLogger(__name__)

STALE_S = 60.0
"""A problem that an agent named and did not repeat for so long no longer holds: the agent may be gone itself."""
OURS = "gangline.dev/"
NODES_MAX = 20_000
"""Machines of which is remembered what was seen."""


class Seen(Struct, frozen=True):
    """The part of an agent's samples that is for us."""

    views: tuple[NodeView, ...] = ()


class Sights:
    """The last view of every machine that an agent only looks at."""

    def __init__(self, site: Site, changed: Callable[[NodeId], None]) -> None:
        """`changed` hears of machines that look different now."""
        self._site = site
        self._changed = changed
        self._views: dict[NodeId, tuple[NodeView, float]] = {}
        self._stale: dict[NodeId, None] = {}
        self._began_s = site.clock.monotonic_s()

    async def listen_for_ever(self) -> None:
        """Hear all agents; those that carry their machines themselves say nothing to us."""
        subscription = await self._site.bus.subscribe(f"{subjects.SAMPLES}.>", self.hear)
        try:
            while True:
                await self._site.clock.sleep(STALE_S / 4)
                self._forget_problems()
        finally:
            await self._site.bus.unsubscribe(subscription)

    async def hear(self, subject: str, data: bytes, headers: dict[str, str]) -> None:
        """Take in what an agent sees; what cannot be read is for telemetry to count."""
        try:
            seen = decode(data, Seen)
        except CodecError as error:
            log.info("unreadable samples: %s", error)
            return
        for view in seen.views:
            name = NodeId(view.node)
            if subject != subjects.samples(view.node):
                # A machine is looked at by the agent of its name, and by nobody else.
                continue
            before, _ = self._views.get(name, (None, 0.0))
            self._views[name] = (view, self._site.clock.monotonic_s())
            if view != before or name in self._stale:
                self._stale.pop(name, None)
                self._changed(name)
        while len(self._views) > NODES_MAX:
            del self._views[next(iter(self._views))]

    def of(self, name: NodeId) -> NodeView | None:
        """What was last seen of a machine; None when no agent looks at it."""
        view, heard_s = self._views.get(name, (None, 0.0))
        if view is not None and view.problem and self._site.clock.monotonic_s() - heard_s > STALE_S:
            return NodeView(node=view.node, gpus=view.gpus, nics=view.nics, labels=view.labels)
        return view

    def remembered(self, known: Node | None) -> NodeView | None:
        """What a leader before us saw of a node: it holds until agents had time to say it again."""
        if known is None or self._site.clock.monotonic_s() - self._began_s > STALE_S:
            return None
        if not any(gpu.uuid for gpu in known.gpus):
            return None
        gpus = tuple(replace(gpu, healthy=True, problem="", suspect="") for gpu in known.gpus)
        labels = {key: value for key, value in known.labels.items() if key.startswith(OURS)}
        return NodeView(node=known.id, gpus=gpus, nics=known.nics, labels=labels)

    def _forget_problems(self) -> None:
        now_s = self._site.clock.monotonic_s()
        for name, (view, heard_s) in self._views.items():
            if view.problem and now_s - heard_s > STALE_S and name not in self._stale:
                self._stale[name] = None
                self._changed(name)

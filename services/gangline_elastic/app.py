"""The shell around how-big: when a pool has come to rest, it proposes sizes for running elastic jobs."""

import asyncio
from contextlib import suppress

from gangline_core import elasticity
from gangline_core.facts import LimitSet, NodesWanted, ResizeFailed
from gangline_core.fold import Message
from gangline_core.step import Step
from gangline_elastic.config import Config
from gangline_kit.lane import Lane
from gangline_kit.pools import lead_pools
from gangline_kit.service import Site


async def run(site: Site, config: Config) -> None:
    """Lead (or stand by for) the sizes of every pool until cancelled."""

    async def work(lane: Lane, pool: str) -> None:
        await Sizer(site, config, pool).work(lane)

    await lead_pools(site, "elastic", work)


class Sizer:
    """Proposes sizes in one pool."""

    def __init__(self, site: Site, config: Config, pool: str) -> None:
        """A sizer for the pool; it writes only inside `work`."""
        self.site = site
        self.config = config
        self.pool = pool
        self.wake = asyncio.Event()
        for name in ("gangline_resizes_total", "gangline_resizes_failed_total"):
            site.metrics.stand(name, pool=pool)

    async def work(self, lane: Lane) -> None:
        """Propose for as long as this process leads."""
        self.wake.set()
        with self.site.follower.listening(self.note):
            while True:
                # Time alone brings something, too: changes that take too long, jobs whose rest is over, a new weighing.
                with suppress(TimeoutError):
                    async with asyncio.timeout(self.config.idle_check_s):
                        await self.wake.wait()
                self.wake.clear()
                await self.site.clock.sleep(self.config.settle_ms / 1000)
                if not self.wake.is_set():
                    await self._propose(lane)

    def note(self, message: Message, step: Step) -> None:
        """Wake up when jobs, room or settings changed, and when a round has said what waiting jobs could use."""
        if (
            step.moves
            or step.sized
            or step.touched
            or step.freed
            or step.nodes
            or step.settings
            or self.pool in step.decided
        ):
            self.wake.set()

    async def _propose(self, lane: Lane) -> None:
        state = self.site.follower.state
        if state.kept.pools[self.pool].open_round is not None:
            self.wake.set()
            return
        now = self.site.moment()
        proposals = elasticity.propose(state, self.pool, now.at)
        if proposals:
            await lane.append(proposals, now)
            for fact in proposals:
                if isinstance(fact, LimitSet):
                    self.site.metrics.count("gangline_limits_set_total", pool=self.pool)
                    continue
                if isinstance(fact, NodesWanted):
                    self.site.metrics.set("gangline_nodes_wanted", fact.nodes, pool=self.pool)
                    continue
                name = "gangline_resizes_failed_total" if isinstance(fact, ResizeFailed) else "gangline_resizes_total"
                self.site.metrics.count(name, pool=self.pool)

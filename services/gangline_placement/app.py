"""The shell around where-it-goes: an opened round wakes it, it decides the round, and appends the decision."""

import asyncio
import contextlib

from gangline_core import cycle
from gangline_core.fold import Message
from gangline_core.step import Step
from gangline_kit.lane import Lane
from gangline_kit.pools import lead_pools
from gangline_kit.service import Site
from gangline_placement.config import Config


async def run(site: Site, config: Config) -> None:
    """Lead (or stand by for) the placement of every pool until cancelled."""

    async def work(lane: Lane, pool: str) -> None:
        await Decider(site, config, pool).work(lane)

    await lead_pools(site, "placement", work)


class Decider:
    """Decides the rounds of one pool."""

    def __init__(self, site: Site, config: Config, pool: str) -> None:
        """A decider for the pool; it writes only inside `work`."""
        self.site = site
        self.config = config
        self.pool = pool
        self.wake = asyncio.Event()

    async def work(self, lane: Lane) -> None:
        """Decide rounds for as long as this process leads; one left open by an earlier leader comes first."""
        with self.site.follower.listening(self.note):
            while True:
                if self.site.follower.state.kept.pools[self.pool].open_round is not None:
                    await self._decide(lane)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self.config.idle_check_s):
                        await self.wake.wait()
                self.wake.clear()

    def note(self, message: Message, step: Step) -> None:
        """Wake up for a round of this pool."""
        if self.pool in step.rounds:
            self.wake.set()

    async def _decide(self, lane: Lane) -> None:
        state = self.site.follower.state
        opened = state.kept.pools[self.pool].open_round
        if opened is None:
            return
        began_s = self.site.clock.monotonic_s()
        # The round's own time is its "now": whoever decides it, and whenever, decides the same.
        decided = cycle.decide_round(state, self.pool, opened.at)
        took_s = self.site.clock.monotonic_s() - began_s
        await lane.append((decided,), at=opened.at)
        for placement in decided.placements:
            job = state.job(placement.job)
            trace = job.trace if job is not None else ""
            self.site.tracing.phase(
                "place", trace, start_ms=opened.at, end_ms=self.site.now_ms(), job=placement.job, level=placement.level
            )
        metrics = self.site.metrics
        metrics.count("gangline_rounds_total", pool=self.pool)
        metrics.observe("gangline_decision_duration_seconds", took_s, pool=self.pool, step="place")
        metrics.observe("gangline_round_duration_seconds", (self.site.now_ms() - opened.at) / 1000, pool=self.pool)
        metrics.count("gangline_placements_total", len(decided.placements), pool=self.pool)
        metrics.count("gangline_preemptions_total", len(decided.evictions), pool=self.pool)

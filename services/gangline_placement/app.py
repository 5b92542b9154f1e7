"""The shell around where-it-goes: an opened round wakes it, it decides the round, and appends the decision.

Where a pool has several schedulers, each decides its share of the round first, on a lane of its own.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from gangline_core import cycle, parsync
from gangline_core.fold import Message
from gangline_core.step import Step
from gangline_kit.errors import TemporaryError
from gangline_kit.lane import Lane
from gangline_kit.moment import Moment
from gangline_kit.pools import lead_pools, lead_some
from gangline_kit.service import Site
from gangline_placement.config import Config


async def run(site: Site, config: Config) -> None:
    """Lead (or stand by for) the placement of every pool until cancelled."""

    async def work(lane: Lane, pool: str) -> None:
        await Decider(site, config, pool).work(lane)

    async def share(lane: Lane, name: str) -> None:
        pool, _, number = name.partition(".")[2].rpartition(".")
        await Scheduler(site, config, pool, int(number)).work(lane)

    async with asyncio.TaskGroup() as group:
        group.create_task(lead_pools(site, "placement", work), name="placement")
        group.create_task(
            lead_some(site, lambda: scheduler_lanes(site), config.schedulers_led, share), name="schedulers"
        )


def scheduler_lanes(site: Site) -> dict[str, list[str]]:
    """The lanes of schedulers that pools want beside their leaders."""
    return {
        name: [f"scheduler.{name}.{number}" for number in range(parsync.schedulers_of(pool.policy))]
        for name, pool in site.follower.state.kept.pools.items()
    }


async def at_each_round(site: Site, pool: str, idle_s: float, act: Callable[[], Awaitable[None]]) -> None:
    """Act now, and again whenever a round of the pool was opened or nothing was heard for a while; never returns."""
    opened = asyncio.Event()

    def note(message: Message, step: Step) -> None:
        if pool in step.rounds:
            opened.set()

    with site.follower.listening(note):
        while True:
            await act()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(idle_s):
                    await opened.wait()
            opened.clear()


class Decider:
    """Decides the rounds of one pool."""

    def __init__(self, site: Site, config: Config, pool: str) -> None:
        """A decider for the pool; it writes only inside `work`."""
        self.site = site
        self.config = config
        self.pool = pool

    async def work(self, lane: Lane) -> None:
        """Decide rounds for as long as this process leads; one left open by an earlier leader comes first."""
        await at_each_round(self.site, self.pool, self.config.idle_check_s, lambda: self._decide(lane))

    async def _decide(self, lane: Lane) -> None:
        state = self.site.follower.state
        if state.kept.pools[self.pool].open_round is None:
            return
        with contextlib.suppress(TemporaryError):
            await self.site.follower.wait_change(
                lambda: not parsync.awaited(state, self.pool), self.config.share_wait_s
            )
        opened = state.kept.pools[self.pool].open_round
        if opened is None:
            return
        began_s = self.site.clock.monotonic_s()
        # The round's own time is its "now": whoever decides it, and whenever, decides the same.
        when = Moment(at=opened.at, seq=state.kept.seq)
        decided = cycle.decide_round(state, self.pool, when.at)
        took_s = self.site.clock.monotonic_s() - began_s
        await lane.append((decided,), when)
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


class Scheduler:
    """One of several schedulers of a pool."""

    def __init__(self, site: Site, config: Config, pool: str, number: int) -> None:
        """The scheduler of this number; it writes only inside `work`."""
        self.site = site
        self.config = config
        self.pool = pool
        self.number = number

    async def work(self, lane: Lane) -> None:
        """Decide this scheduler's share of every round for as long as this process leads its lane."""
        await at_each_round(self.site, self.pool, self.config.idle_check_s, lambda: self._decide(lane))

    async def _decide(self, lane: Lane) -> None:
        known = self.site.follower.state.kept.pools[self.pool]
        own = known.schedulers.get(self.number)
        if own is None or known.open_round is None or own.answered >= known.rounds:
            return
        began_s = self.site.clock.monotonic_s()
        when = Moment(at=known.open_round.at, seq=self.site.follower.state.kept.seq)
        share = parsync.decide_share(self.site.follower.state, self.pool, self.number)
        if share is None:
            return
        took_s = self.site.clock.monotonic_s() - began_s
        commits, conflicts = own.commits, own.conflicts
        await lane.append((share,), when)
        metrics = self.site.metrics
        metrics.observe("gangline_decision_duration_seconds", took_s, pool=self.pool, step="share")
        labels = {"pool": self.pool, "scheduler": str(self.number)}
        metrics.count("gangline_share_commits_total", own.commits - commits, **labels)
        metrics.count("gangline_share_conflicts_total", own.conflicts - conflicts, **labels)
        metrics.count("gangline_placements_total", own.commits - commits, pool=self.pool)

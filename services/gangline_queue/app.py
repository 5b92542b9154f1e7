"""The shell around who-goes-next: events wake it, it opens a round, and waits until that round is decided."""

import asyncio
import contextlib

from gangline_core import cycle
from gangline_core.fold import Message
from gangline_core.job import JobState
from gangline_core.step import Step
from gangline_core.wake import next_wake_ms
from gangline_kit.lane import Lane
from gangline_kit.pools import lead_pools
from gangline_kit.service import Site
from gangline_queue import gauges
from gangline_queue.config import Config


async def run(site: Site, config: Config) -> None:
    """Lead (or stand by for) the queue of every pool until cancelled."""

    async def work(lane: Lane, pool: str) -> None:
        await Opener(site, config, pool).work(lane)

    gauges.watch(site)
    await lead_pools(site, "queue", work)


WORKS = frozenset({JobState.STARTING, JobState.PAUSED, JobState.RUNNING})
"""Jobs that a round brings here start, make room for one that does, or go on."""


class Opener:
    """Opens the rounds of one pool, one at a time."""

    def __init__(self, site: Site, config: Config, pool: str) -> None:
        """An opener for the pool; it writes only inside `work`."""
        self.site = site
        self.config = config
        self.pool = pool
        self.wake = asyncio.Event()
        self.opened_s = self.decided_s = 0.0
        self.round_took_s = 0.0
        self.has_started = True
        """Whether the last round started anything, or made room for it by a pause."""

    async def work(self, lane: Lane) -> None:
        """Open rounds for as long as this process leads."""
        with self.site.follower.listening(self.note):
            while True:
                await self._sleep()
                if self.site.follower.state.kept.pools[self.pool].open_round is not None or not self._is_due():
                    continue
                await self._gather()
                await self._open(lane)

    def note(self, message: Message, step: Step) -> None:
        """Wake up for what a round could come out differently by."""
        for moved in step.moves:
            job = self.site.follower.state.job(moved.job)
            if moved.after == JobState.STARTING and job is not None and job.spec.pool == self.pool:
                self.site.tracing.phase("wait", job.trace, start_ms=job.queued_ms, end_ms=step.at, job=job.id)
        if self.pool in step.decided:
            self.decided_s = self.site.clock.monotonic_s()
            self.round_took_s = self.decided_s - self.opened_s
            self.has_started = any(moved.after in WORKS for moved in step.moves)
        if cycle.round_due(self.site.follower.state, self.pool):
            self.wake.set()

    async def _sleep(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.config.idle_check_s):
                await self.wake.wait()
        self.wake.clear()

    def _is_due(self) -> bool:
        state = self.site.follower.state
        if cycle.round_due(state, self.pool):
            return True
        due = next_wake_ms(state, self.pool, state.kept.pools[self.pool].decided_at)
        return due is not None and due <= self.site.now_ms()

    async def _gather(self) -> None:
        """Let a burst come together: longer when rounds take longer, so that rounds never fill the loop.

        The wait counts from the last round's end, so a job that comes into a quiet pool meets none. While rounds start
        nothing, the cluster is full and looking again soon helps nobody, so most of the time goes to those who submit
        and ask.
        """
        part = 0.5 if self.has_started else 4.0
        wait_s = max(self.config.gather_ms / 1000, min(self.round_took_s * part, self.config.gather_ms_max / 1000))
        left_s = self.decided_s + wait_s - self.site.clock.monotonic_s()
        if left_s > 0:
            await self.site.clock.sleep(left_s)

    async def _open(self, lane: Lane) -> None:
        now = self.site.moment()
        self.opened_s = self.site.clock.monotonic_s()
        opened = cycle.open_round(self.site.follower.state, self.pool, now.at)
        if opened is not None:
            took_s = self.site.clock.monotonic_s() - self.opened_s
            self.site.metrics.observe("gangline_decision_duration_seconds", took_s, pool=self.pool, step="order")
            await lane.append((opened,), now)

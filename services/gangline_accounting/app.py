"""The shell around what-it-cost: ended allocations wake it; budgets are looked at regularly."""

import asyncio
import contextlib

from gangline_accounting.config import Config
from gangline_core.facts import UsageCharged
from gangline_core.fold import Message
from gangline_core.limits import accounting
from gangline_core.step import Step
from gangline_kit.lane import Lane
from gangline_kit.leader import lead
from gangline_kit.service import Site

CHARGES_MAX = 5_000
"""Most facts in one append."""


async def run(site: Site, config: Config) -> None:
    """Lead (or stand by for) the accounting lane until cancelled."""
    await lead(site, "accounting", Accountant(site, config).work)


class Accountant:
    """Charges ended allocations, each once, by its task id."""

    def __init__(self, site: Site, config: Config) -> None:
        """An accountant; it writes only inside `work`."""
        self.site = site
        self.config = config
        self.wake = asyncio.Event()

    async def work(self, lane: Lane) -> None:
        """Charge for as long as this process leads; what an earlier leader left comes first."""
        with self.site.follower.listening(self.note):
            while True:
                await self._charge(lane)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self.config.budget_check_s):
                        await self.wake.wait()
                await self.site.clock.sleep(self.config.gather_ms / 1000)
                self.wake.clear()

    def note(self, message: Message, step: Step) -> None:
        """Wake up when room came back or a budget was edited."""
        if step.freed or step.settings:
            self.wake.set()

    async def _charge(self, lane: Lane) -> None:
        # Decided anew each time: while one part was written, the log may have gone on.
        while facts := accounting.charge(self.site.follower.state, (now := self.site.moment()).at):
            await lane.append(facts[:CHARGES_MAX], now)
            for fact in facts[:CHARGES_MAX]:
                if isinstance(fact, UsageCharged):
                    seconds = fact.gpu_milli_ms / 1_000_000
                    self.site.metrics.count("gangline_gpu_usage_seconds_total", seconds, group=fact.group)

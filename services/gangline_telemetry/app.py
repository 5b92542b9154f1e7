"""The shell around what-the-GPUs-say: listens to samples, judges them every second, appends what is new."""

import asyncio
import logging

from gangline_core.facts import Fact, GangHung, GpuFailed, GpuTrespassed, JobReclaimed, NodeLost, StragglersSeen
from gangline_core.fold import Message
from gangline_core.reason_words import SIGNS
from gangline_core.step import Step
from gangline_kit.errors import TemporaryError
from gangline_kit.lane import Lane
from gangline_kit.leader import lead
from gangline_kit.service import Site
from gangline_telemetry.believed import believed
from gangline_telemetry.clusters import Clusters
from gangline_telemetry.config import Config
from gangline_telemetry.gauges import text
from gangline_telemetry.health import Watch
from gangline_telemetry.progress import Stories
from gangline_telemetry.relapses import Relapses
from gangline_telemetry.starts import Starts
from gangline_telemetry.stragglers import Stragglers
from gangline_telemetry.trespass import Trespass
from gangline_wire import subjects
from gangline_wire.codec import CodecError, decode
from gangline_wire.samples import Samples
from gangline_wire.streams import LEASES, LOG

log = logging.getLogger(__name__)

REPORTS = "progress"
"""As what a hang is counted that only reports and heartbeats showed, which stopped."""
ANSWER_S_MAX = 2.0
"""Before a node is called lost the bus must answer within this time."""


async def run(site: Site, config: Config) -> None:
    """Lead (or stand by for) the telemetry lane until cancelled."""
    await lead(site, "telemetry", Listener(site, config).work)


class Listener:
    """Hears all samples while it leads."""

    def __init__(self, site: Site, config: Config) -> None:
        """A listener; it writes only inside `work`."""
        self.site = site
        self.config = config
        self.watch = Watch(config, site.clock.monotonic_s())
        self.starts, self.relapses, self.clusters = Starts(config), Relapses(config), Clusters(config)
        self.stories = Stories()
        self.stragglers = Stragglers(config)
        self.trespass = Trespass()
        site.metrics.also_render(self.text)
        for sign in (REPORTS, *SIGNS):
            site.metrics.stand("gangline_hangs_total", sign=sign)

    async def work(self, lane: Lane) -> None:
        """Judge samples for as long as this process leads; silence counts from now on, not from before."""
        clock = self.site.clock
        self.watch = Watch(self.config, clock.monotonic_s())
        self.stories = Stories(self.site.follower.state, clock.monotonic_s())
        self.starts, self.stragglers = Starts(self.config), Stragglers(self.config)
        self.relapses, self.clusters = Relapses(self.config), Clusters(self.config)
        self.trespass = Trespass()
        with self.site.follower.listening(self.note):
            await self._listen(lane)

    def note(self, message: Message, step: Step) -> None:
        """What agents wrote of starts and ends tells which nodes fail everything."""
        state = self.site.follower.state
        self.starts.note(state, message.facts, message.at)
        self.relapses.note(state, message.facts, message.at)
        self.watch.busy.note(state, message.facts, self.site.clock.monotonic_s())

    def text(self) -> bytes:
        """The last samples, for whoever reads /metrics."""
        now_s = self.site.clock.monotonic_s()
        return text(self.watch, self.site.follower.state, now_s, most=self.config.metrics_gpus_max)

    def _count(self, facts: tuple[Fact, ...]) -> None:
        metrics = self.site.metrics
        for fact in facts:
            match fact:
                case GpuFailed():
                    metrics.count("gangline_gpu_failures_total")
                case NodeLost():
                    metrics.count("gangline_node_losses_total")
                case GangHung():
                    metrics.count("gangline_hangs_total", sign=fact.sign or REPORTS)
                case JobReclaimed():
                    metrics.count("gangline_reclaims_total")
                case GpuTrespassed():
                    metrics.count("gangline_trespasses_total")
                case StragglersSeen() if fact.slow:
                    metrics.count("gangline_stragglers_total", len(fact.slow))

    async def _listen(self, lane: Lane) -> None:
        clock = self.site.clock
        subscription = await self.site.bus.subscribe(f"{subjects.SAMPLES}.>", self.hear)
        try:
            last_s = clock.monotonic_s()
            while True:
                await clock.sleep(self.config.check_s)
                now_s = clock.monotonic_s()
                if now_s - last_s > self.config.check_s + self.config.stall_s:
                    self.watch.forgive(now_s)
                last_s = now_s
                state = self.site.follower.state
                await self._look_for_clusters(now_s)
                if self.watch.busy.is_due(now_s):
                    self.stories.compare(state, self.watch.busy, now_s)
                facts = (
                    *self.watch.judge(state, now_s),
                    *self.clusters.judge(state, now_s),
                    *self.starts.judge(state, self.site.now_ms()),
                    *self.relapses.judge(state, self.site.now_ms()),
                    *self.stories.judge(state, now_s),
                    *self.stragglers.judge(state, now_s),
                    *self.trespass.judge(state),
                )
                if any(isinstance(fact, NodeLost) for fact in facts) and not await self._is_heard():
                    self.watch.forgive(clock.monotonic_s())
                    facts = tuple(fact for fact in facts if not isinstance(fact, NodeLost))
                if facts:
                    await lane.append(facts)
                    self._count(facts)
        finally:
            await self.site.bus.unsubscribe(subscription)

    async def _is_heard(self) -> bool:
        """Whether the bus answers us now: whoever it does not reach hears nobody, and not for want of agents."""
        try:
            async with asyncio.timeout(ANSWER_S_MAX):
                await self.site.bus.last_seq(LOG.name)
        except (TemporaryError, TimeoutError):
            log.warning("nodes were silent, but the bus does not answer either")
            return False
        return True

    async def _look_for_clusters(self, now_s: float) -> None:
        """Ask, now and then, whether somebody leads the lane of each cluster; without an answer nobody was silent."""
        leases = self.site.bus.kv(LEASES.name)
        for agent in self.clusters.due(self.site.follower.state, now_s):
            try:
                self.clusters.hear(agent, now_s, leads=await leases.get(agent) is not None)
            except TemporaryError as error:
                log.info("whether somebody speaks for %s is not known: %s", agent, error)
                self.clusters.forgive(agent)

    async def hear(self, subject: str, data: bytes, headers: dict[str, str]) -> None:
        """Take in one agent's samples; what cannot be read is counted and dropped."""
        try:
            samples = believed(decode(data, Samples), subject, self.site.follower.state)
        except CodecError as error:
            log.warning("unreadable samples", extra={"error": str(error)})
            return
        if samples is None:
            log.warning("samples of another agent than their subject says are set aside: %s", subject)
            return
        now_s = self.site.clock.monotonic_s()
        for sample in samples.nodes:
            self.watch.hear(sample, now_s, self.site.follower.state)
            self.trespass.hear(self.site.follower.state, sample)
        self.stories.hear(samples, self.site.follower.state, now_s)
        self.stragglers.hear(samples, self.site.follower.state, now_s)
        self.site.metrics.count("gangline_samples_total", len(samples.nodes))

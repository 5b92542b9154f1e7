"""A service's life: connect, catch up, run, say how it is, and end cleanly within ten seconds."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TypeVar

from gangline_kit import loop
from gangline_kit.bus import Bus, BusConfig
from gangline_kit.clock import STEP_S_MAX, Clock, SystemClock
from gangline_kit.config import ConfigError, KitConfig, load_kit
from gangline_kit.errors import PermanentError, TemporaryError, flat
from gangline_kit.follower import Follower
from gangline_kit.ids import Ids, SystemIds
from gangline_kit.metrics import Metrics
from gangline_kit.moment import Moment, present
from gangline_kit.tasks import Tasks
from gangline_kit.tracing import Tracing
from gangline_kit.web import HealthServer
from gangline_wire.streams import BUCKETS, LOG, SNAPSHOTS, STREAMS

log = logging.getLogger(__name__)

CONNECT_S_MAX = 60.0
"""A service waits this long for the bus at its start."""
CONNECT_RETRY_S = 0.5
EXIT_S_MAX = 9.5
"""After a signal the process ends within this time, whatever hangs."""
WATCH_S = 0.5
FILL_LOOK_S = 10.0
"""How often the log is asked how full it is."""
FILL_ALARM = 0.8
"""From this share of its limit on the log is nearly full and says so."""

T = TypeVar("T")


@dataclass(frozen=True)
class Site:
    """What a service finds around it; services of one process share all but the name."""

    name: str
    """Short name of the service, such as "queue"."""
    instance: str
    """Name of this process among its like, unique."""
    bus: Bus
    follower: Follower
    clock: Clock
    ids: Ids
    metrics: Metrics
    tracing: Tracing
    config: KitConfig
    tasks: Tasks
    not_ready: dict[str, str] = field(default_factory=dict)
    """Why parts of the service are not ready, by part; empty when all are."""

    def named(self, name: str) -> "Site":
        """The same place under another service's name, for services that share a process and its fold."""
        return replace(self, name=name, instance=f"{name}-{self.instance.partition('-')[2]}")

    def now_ms(self) -> int:
        """Time of a decision made now: the wall clock, but never before what the log has already seen."""
        return self.moment().at

    def moment(self) -> Moment:
        """The moment of a decision made now, on what the fold holds."""
        return present(self.follower.state, self.clock)

    def why_not_ready(self) -> str:
        """Why the service cannot do its work now; "" when it can."""
        if self.bus.failure:
            return self.bus.failure
        if self.follower.failure is not None:
            return f"the log cannot be followed: {self.follower.failure}"
        if not self.bus.is_connected:
            return "the message bus is away"
        if not self.follower.caught_up:
            return "folding the log"
        return "; ".join(f"{part}: {why}" for part, why in sorted(self.not_ready.items()))


Run = Callable[[Site], Awaitable[None]]
Before = Callable[[Bus], Awaitable[None]]
"""What a service does on the bus before it folds the log; TemporaryError says that it should be tried again."""


def run_service(name: str, run: Run, config: KitConfig | None = None, *, before: Before | None = None) -> None:
    """The whole life of a service process; returns after a clean end, exits non-zero otherwise."""
    try:
        settings = config if config is not None else load_kit()
    except ConfigError as error:
        sys.exit(f"gangline-{name}: {error}")
    setup_logging(settings.log_level)
    code = 0
    try:
        loop.run(serve(name, run, settings, before=before))
    except (PermanentError, TemporaryError) as error:
        log.critical("gangline-%s ends: %s", name, error)
        code = 1
    except BaseExceptionGroup as errors:
        causes = list(flat(errors))
        if all(isinstance(cause, PermanentError | TemporaryError) for cause in causes):
            # What the outside world refuses is told in words; where in the code is of interest for defects only.
            log.critical("gangline-%s ends: %s", name, "; ".join(map(str, causes)))
        else:
            log.critical("gangline-%s ends", name, exc_info=errors)
        code = 1
    if code:
        # Threads of exporters and resolvers must not hold a failed process up.
        logging.shutdown()
        os._exit(code)


async def serve(name: str, run: Run, config: KitConfig, *, before: Before | None = None) -> None:
    """Open a site, run the service in it until a signal comes, and drain.

    Raises:
        TemporaryError: the bus never came up.
        PermanentError: the bus or the log cannot be used any more (perhaps in a group).
    """
    stopping = asyncio.Event()
    running = asyncio.get_running_loop()
    opening = asyncio.timeout(None)
    is_open = False

    def stop() -> None:
        if not stopping.is_set():
            running.call_later(EXIT_S_MAX, _give_up, name)
            if not is_open:
                opening.reschedule(running.time())
        stopping.set()

    async with AsyncExitStack() as stack:
        for number in (signal.SIGTERM, signal.SIGINT):
            running.add_signal_handler(number, stop)
            stack.callback(running.remove_signal_handler, number)
        try:
            async with opening:
                site = await stack.enter_async_context(open_site(name, config, before=before))
                is_open = True
        except TimeoutError:
            if not stopping.is_set():
                raise
            return
        await run_until(site, run, stopping)


def _give_up(name: str) -> None:
    log.critical("gangline-%s did not end within %g s of the signal", name, EXIT_S_MAX)
    logging.shutdown()
    os._exit(1)


async def run_until(site: Site, run: Run, stopping: asyncio.Event) -> None:
    """Run the service until `stopping` is set or it returns; what goes wrong, here or around it, comes in a group."""
    async with asyncio.TaskGroup() as group:
        watching = group.create_task(watch(site), name="watch")
        working = group.create_task(_run(site, run), name=site.name)
        waiting = group.create_task(_wait(stopping), name="stop")
        await asyncio.wait((working, waiting), return_when=asyncio.FIRST_COMPLETED)
        for task in (working, waiting, watching):
            task.cancel()


async def _run(site: Site, run: Run) -> None:
    await run(site)


async def _wait(event: asyncio.Event) -> None:
    await event.wait()


async def watch(site: Site) -> None:
    """Notice what the service cannot go on without, how late the loop runs, and how full the log is; for ever.

    Raises:
        PermanentError: bus or fold are beyond repair, a background task failed, or the parent process is gone.
    """
    looked_s = -FILL_LOOK_S
    while True:
        before_s = site.clock.monotonic_s()
        await site.clock.sleep(WATCH_S)
        now_s = site.clock.monotonic_s()
        site.metrics.set("gangline_loop_lag_seconds", max(0.0, now_s - before_s - WATCH_S))
        if site.config.parent_pid and os.getppid() != site.config.parent_pid:
            raise PermanentError("the platform that started this service is gone")
        site.bus.connection.check()
        site.follower.check()
        site.tasks.check()
        if now_s - looked_s >= FILL_LOOK_S and site.bus.is_connected:
            looked_s = now_s
            with suppress(TemporaryError):
                await _look_at_log(site)


async def _look_at_log(site: Site) -> None:
    """A full log stops every decision, so it is announced before."""
    info = await site.bus.stream_info(LOG.name)
    bytes_max = int(info.config.get("max_bytes", -1))
    share = info.state.bytes / bytes_max if bytes_max > 0 else 0.0
    site.metrics.set("gangline_log_fill_ratio", share)
    if share >= FILL_ALARM:
        text = "the log is %d%% full: is the recorder ready, which drops its beginning? Else raise max_bytes of %s"
        log.warning(text, int(share * 100), LOG.name)


@asynccontextmanager
async def open_site(
    name: str,
    config: KitConfig,
    *,
    clock: Clock | None = None,
    before: Before | None = None,
) -> AsyncIterator[Site]:
    """A connected site whose fold has caught up; closed at the end.

    Raises:
        TemporaryError: the bus never came up.
        PermanentError: it refuses us, or the log cannot be read.
    """
    loop.calm_collector()
    clock, ids = clock or SystemClock(), SystemIds()
    instance = config.instance or f"{name}-{ids.token(4)}"
    metrics = Metrics()
    tracing = Tracing(name, config.otlp_endpoint, instance)
    bus = await connect(config, clock, name=instance)
    follower, tasks = Follower(bus, clock), Tasks()
    site = Site(name, instance, bus, follower, clock, ids, metrics, tracing, config, tasks)
    health = HealthServer(metrics, site.why_not_ready)
    metrics.before_render(lambda: _refresh(site))
    try:
        if config.http_port >= 0:
            await health.start(config.http_host, config.http_port)
            log.info("gangline-%s: health and metrics on http://%s:%d", name, config.http_host, health.port)
        await patiently(lambda: _prepare(site, before), clock)
        log.info("gangline-%s is at log sequence %d", name, follower.state.kept.seq)
        yield site
    finally:
        await tasks.close()
        await follower.stop()
        await bus.close()
        await health.stop()
        await asyncio.to_thread(tracing.close)


async def connect(config: KitConfig, clock: Clock, *, name: str) -> Bus:
    """The bus, waited for; errors as `open_site`."""
    bus_config = BusConfig(
        url=config.nats_url,
        user=config.nats_user,
        password=config.nats_password or _read_secret(config.nats_password_file),
        ca_file=config.nats_ca_file,
        name=name,
    )
    return await patiently(lambda: Bus.connect(bus_config, clock), clock)


async def _prepare(site: Site, before: Before | None) -> None:
    """Streams as they should be, and the fold at the log's end."""
    if site.config.ensure:
        await site.bus.ensure(STREAMS, BUCKETS, (SNAPSHOTS,), replicas=site.config.replicas)
    await agree_on_time(site)
    if before is not None:
        await before(site.bus)
    await site.follower.start()


async def agree_on_time(site: Site) -> None:
    """Facts are dated by one clock, the bus's: whoever begins with another one takes that over.

    Raises:
        TemporaryError: the bus is away.
    """
    server_ms = (await site.bus.stream_info(LOG.name)).at_ms
    wrong_s = site.clock.agree(server_ms) if server_ms else 0.0
    if abs(wrong_s) > STEP_S_MAX:
        log.warning("this machine's clock is wrong by %.0f s; the time of the bus is used instead", wrong_s)


async def patiently(attempt: Callable[[], Awaitable[T]], clock: Clock) -> T:
    """Try until it works; what others still have to bring up is waited for, but not for ever.

    Raises:
        TemporaryError: it did not work within CONNECT_S_MAX.
    """
    deadline_s = clock.monotonic_s() + CONNECT_S_MAX
    while True:
        try:
            return await attempt()
        except TemporaryError as error:
            if clock.monotonic_s() > deadline_s:
                raise
            log.warning("%s", error)
            await clock.sleep(CONNECT_RETRY_S)


def _read_secret(path: str) -> str:
    """The first line of a file; "" without a path."""
    if not path:
        return ""
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise PermanentError(f"the password file cannot be read: {error}") from error


def _refresh(site: Site) -> None:
    """Gauges that are read at each scrape."""
    metrics = site.metrics
    metrics.set("gangline_build_info", 1, version=build_version())
    metrics.set("gangline_bus_connected", 1 if site.bus.is_connected else 0)
    metrics.set("gangline_service_ready", 0 if site.why_not_ready() else 1, service=site.name)
    metrics.set("gangline_log_sequence", site.follower.state.kept.seq)
    metrics.raise_to("gangline_log_alarms_total", site.follower.alarms)
    metrics.raise_to("gangline_log_resubscriptions_total", site.follower.resubscriptions)
    metrics.raise_to("gangline_bus_dropped_messages_total", site.bus.dropped)
    metrics.raise_to("gangline_spans_dropped_total", site.tracing.dropped)


def build_version() -> str:
    """Version of the installed distribution."""
    with suppress(PackageNotFoundError):
        return version("gangline")
    return "unknown"


def setup_logging(level: str) -> None:
    """One line per event on standard error."""
    logging.basicConfig(
        level=level.upper(), stream=sys.stderr, format="%(asctime)s %(levelname)-7s %(name)s: %(message)s"
    )

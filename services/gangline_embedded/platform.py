"""The embedded platform as an object: `async with Platform(config) as platform:` and everything runs."""

import asyncio
import dataclasses
import fcntl
import logging
import os
import socket
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import aiohttp
import msgspec
from msgspec import Struct

from gangline_embedded.children import Child
from gangline_embedded.config import PlatformConfig
from gangline_embedded.nats_users import AGENT_USER, PLATFORM_USER, agent_user, one_agent_user, service_user
from gangline_embedded.own_name import under_the_name_of_its_tasks
from gangline_embedded.rooms import Room, archive_of, rooms
from gangline_kit.bus import Bus
from gangline_kit.clock import Clock, SystemClock
from gangline_kit.config import KitConfig
from gangline_kit.errors import PermanentError
from gangline_kit.ids import SystemIds
from gangline_kit.nats_server import NatsServer, NatsUser
from gangline_kit.secret_file import kept_secret
from gangline_kit.service import Site, connect, open_site, patiently, watch
from gangline_kit.tasks import Tasks
from gangline_recorder.cutting import rescue
from gangline_wire.connection import make_private_folder
from gangline_wire.rights import OWN, agent_user_name
from gangline_wire.streams import BUCKETS, SNAPSHOTS, STREAMS
from gangline_wire.views import ClusterView

SECRET_BYTES = 24
READY_S_MAX = 120.0
POLL_S = 0.05
NATS_RESTART_S = 0.5
"""Pause before a private server that died is started again."""
LOCK = "lock"
"""File in the data folder that a running platform holds."""

log = logging.getLogger(__name__)


class Platform:
    """One running platform. Leaving the block stops it cleanly; local jobs' processes go on running."""

    def __init__(self, config: PlatformConfig) -> None:
        """Nothing runs before the block is entered."""
        self.config = config
        self.data_dir = config.data_dir
        self.archive_dir = config.data_dir / "archive"
        self.url = ""
        self.nats: NatsServer | None = None
        self.failure: BaseException | None = None
        """Why a service in this process ended; the platform is of no use any more."""
        self.failed = asyncio.Event()
        self.sites: list[Site] = []
        self._clock: Clock = SystemClock()
        self._stack = AsyncExitStack()
        self._children: dict[str, Child] = {}
        self._tasks = Tasks(self._on_failure)
        self._keeping = Tasks(self._on_failure)
        self._nats_is_wanted = True

    async def __aenter__(self) -> "Platform":
        """Start everything and wait until the API is ready.

        Raises:
            PermanentError: it cannot run; the message says what to do.
        """
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop everything, the server last."""
        await self._stack.aclose()

    @property
    def token(self) -> str:
        """The administrator's token."""
        return (self.data_dir / "admin.token").read_text().strip()

    @property
    def nats_url(self) -> str:
        """Where agents of other machines connect."""
        return self.nats.url if self.nats is not None else self.config.nats_url

    @property
    def agent_token(self) -> str:
        """Password of the NATS user that agents of other machines use."""
        return self._password(AGENT_USER)

    def service_names(self) -> list[str]:
        """Names of the service processes, with `processes`."""
        return sorted(self._children)

    def service_pid(self, name: str) -> int:
        """Process id of a service, with `processes`."""
        return self._children[name].pid

    def service_starts(self, name: str) -> int:
        """How often a service process was started."""
        return self._children[name].starts

    def kill_service(self, name: str) -> int:
        """kill -9 one service process; it is started again. Gives the id that died."""
        return self._children[name].kill()

    async def kill_nats(self) -> None:
        """kill -9 the private server."""
        assert self.nats is not None, "only a private server may be killed"
        self._nats_is_wanted = False
        await self.nats.kill()

    async def restart_nats(self) -> None:
        """Start the private server again on the same files and port."""
        assert self.nats is not None, "only a private server can be restarted"
        await self.nats.start()
        self._nats_is_wanted = True
        self._keeping.spawn(self._keep_nats(self.nats), name="keep nats-server")

    def failed_error(self) -> PermanentError:
        """What ended the service that failed, in its own words where those are for people."""
        failure = self.failure
        while isinstance(failure, BaseExceptionGroup):
            failure = failure.exceptions[0]
        if isinstance(failure, PermanentError | OSError):
            return PermanentError(str(failure))
        return PermanentError(f"a service failed: {failure!r}")

    async def wait_ready(self) -> None:
        """Wait until the API answers and says it is ready.

        Raises:
            PermanentError: not in time, or a service failed.
        """
        deadline_s = self._clock.monotonic_s() + READY_S_MAX
        why = "no answer"
        async with aiohttp.ClientSession() as session:
            while self._clock.monotonic_s() < deadline_s:
                if self.failure is not None:
                    raise self.failed_error()
                with suppress(aiohttp.ClientError, TimeoutError):
                    why = await self._why_not_ready(session)
                    if not why:
                        return
                await self._clock.sleep(POLL_S)
        raise PermanentError(f"the platform did not get ready: {why.strip()}; see the logs in {self.data_dir / 'logs'}")

    async def _why_not_ready(self, session: aiohttp.ClientSession) -> str:
        """Why nobody can work with the API yet; "" when the owner can."""
        async with session.get(f"{self.url}/readyz") as answer:
            if answer.status != 200:
                return await answer.text()
        if not (self.data_dir / "admin.token").exists():
            return "nobody has made the administrator's token yet"
        # The first leader of admission writes the token's file just before the fact.
        async with session.get(f"{self.url}/v1/cluster", headers={"Authorization": f"Bearer {self.token}"}) as answer:
            if answer.status != 200:
                return await answer.text()
            known = msgspec.json.decode(await answer.read(), type=ClusterView)
        # Who submits at once must not hear that there is no pool, or no machine that is large enough.
        config = self.config
        agents = {"this machine": config.local_pool} if config.local_node else {}
        agents |= {"the simulated machines": config.simulate_pool} if config.simulate else {}
        there = {pool.name for pool in known.pools}
        late = [who for who, pool in agents.items() if pool not in there]
        if not late and known.nodes < len(agents):
            late = list(agents)
        return f"{' and '.join(late)} did not join yet" if late else ""

    # --- starting -----------------------------------------------------------------------------------------

    async def _start(self) -> None:
        make_private_folder(self.data_dir)
        make_private_folder(self.data_dir / "logs")
        self._stack.enter_context(_Lock(self.data_dir / LOCK))
        self.config = under_the_name_of_its_tasks(self.config)
        port = usable_port(self.config.http_host, self.config.http_port)
        if not self.config.nats_url:
            await self._start_nats()
        self.url = f"http://{self.config.http_host}:{port}"
        found = rooms(self.config, data_dir=self.data_dir, http_port=port)
        if self.config.processes:
            await self._prepare_bus()
            await self._start_children(found)
        else:
            await self._start_here(found)
        await self.wait_ready()

    async def _start_nats(self) -> None:
        config = self.config
        # One process is one user; processes of their own have the rights of their service and no others.
        services = [service for service in OWN if service != AGENT_USER] if config.processes else []
        users = (
            NatsUser(name=PLATFORM_USER, password=self._password(PLATFORM_USER)),
            agent_user(self._password(AGENT_USER)),
            *(one_agent_user(name, password=self._password(agent_user_name(name))) for name in config.agents),
            *(service_user(service, password=self._password(service)) for service in services),
        )
        self.nats = NatsServer(
            self.data_dir / "nats",
            binary=Path(config.nats_binary) if config.nats_binary else None,
            port=config.nats_port,
            host=config.nats_host,
            sync_always=config.sync_always,
            users=users,
        )
        self._stack.push_async_callback(self.nats.stop)
        self._stack.push_async_callback(self._keeping.close)
        await self.restart_nats()

    async def _keep_nats(self, server: NatsServer) -> None:
        """Start the private server again when it dies by itself: all that was answered is on its disk."""
        while True:
            code = await server.wait()
            if not self._nats_is_wanted:
                return
            log.warning("nats-server ended with code %d; it is started again on the same files", code)
            await self._clock.sleep(NATS_RESTART_S)
            await server.start()

    def _password(self, user: str) -> str:
        """A secret of this data folder, made at its first use."""
        return kept_secret(self.data_dir / f"nats-{user}.secret", SystemIds(), size_bytes=SECRET_BYTES)

    def _kit(self, instance: str, user: str = PLATFORM_USER) -> KitConfig:
        private = self.nats is not None
        return KitConfig(
            nats_url=self.nats_url,
            nats_user=user if private else self.config.nats_user,
            nats_password=self._password(user) if private else self.config.nats_password,
            replicas=self.config.nats_replicas,
            instance=instance,
            parent_pid=os.getpid() if self.config.processes else 0,
            otlp_endpoint=self.config.otlp_endpoint,
            log_level=self.config.log_level,
        )

    async def _start_here(self, found: list[Room]) -> None:
        """All rooms in this process, around one fold."""
        instance = f"embedded-{SystemIds().token(4)}"
        kit = self._kit(instance)
        opening = open_site("embedded", kit, clock=self._clock, before=self._look_after_snapshots)
        site = await self._stack.enter_async_context(opening)
        self._stack.push_async_callback(self._tasks.close)
        for room in found:
            place = site.named(room.name)
            if room.own_bus:
                bus = await connect(kit, self._clock, name=f"{instance}-{room.name}")
                self._stack.push_async_callback(bus.close)
                place = dataclasses.replace(place, bus=bus)
            self.sites.append(place)
            self._tasks.spawn(_run(room, place), name=room.name)
        self._tasks.spawn(watch(site), name="watch")
        # Rooms end before their connections do.
        self._stack.push_async_callback(self._tasks.close)

    async def _look_after_snapshots(self, bus: Bus) -> None:
        await rescue(bus, archive_of(self.data_dir))

    async def _prepare_bus(self) -> None:
        """Make the streams once, so that many processes do not race to."""
        bus = await connect(self._kit("prepare"), self._clock, name="prepare")
        try:
            await patiently(
                lambda: bus.ensure(STREAMS, BUCKETS, (SNAPSHOTS,), replicas=self.config.nats_replicas), self._clock
            )
        finally:
            await bus.close()

    async def _start_children(self, found: list[Room]) -> None:
        for room in found:
            copies = self.config.replicas if room.kind not in ("agent", "gateway", "recorder") else 1
            for copy in range(copies):
                name = room.name if copy == 0 else f"{room.name}-{copy + 1}"
                child = Child(
                    name,
                    module=f"gangline_{room.kind}.main",
                    environ=environment(room, self._kit("", room.kind)),
                    log_file=self.data_dir / "logs" / f"{name}.log",
                    clock=self._clock,
                )
                await child.start()
                self._children[name] = child
                self._stack.push_async_callback(child.stop)

    def _on_failure(self, error: BaseException) -> None:
        self.failure = error
        self.failed.set()


async def _run(room: Room, site: Site) -> None:
    await room.run(site, room.config)
    raise PermanentError(f"service {room.name} ended by itself")


def environment(room: Room, kit: KitConfig) -> dict[str, str]:
    """The room's settings as a service process reads them."""
    found = _variables("GANGLINE_", kit)
    return {**found, **_variables(f"GANGLINE_{room.kind.upper()}_", room.config)}


def _variables(prefix: str, config: Struct) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in msgspec.structs.asdict(config).items():
        if value not in ("", None):
            found[prefix + name.upper()] = _text(value)
    return found


def _text(value: Any) -> str:  # settings are of any plain type
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    return msgspec.json.encode(value).decode()


def usable_port(host: str, wanted: int) -> int:
    """The wanted port, or a free one for 0.

    Raises:
        PermanentError: somebody else listens there.
    """
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, wanted))
        except OSError as error:
            raise PermanentError(
                f"{host} port {wanted} cannot be used ({error.strerror}); choose another with --port, or --port 0"
            ) from error
        port: int = probe.getsockname()[1]
        return port


def is_in_use(folder: Path) -> bool:
    """True while a platform runs on this data folder."""
    path = folder / LOCK
    if not path.exists():
        return False
    try:
        with _Lock(path):
            return False
    except PermanentError:
        return True


class _Lock:
    """The data folder belongs to one platform at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.descriptor = -1

    def __enter__(self) -> "_Lock":
        self.descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self.descriptor)
            raise PermanentError(
                f"a platform already runs on {self.path.parent}; stop it, or choose another folder with --data"
            ) from error
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.descriptor)

"""Buses that must behave alike: the dollhouse's as one server and as three, and real ones of each kind."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest
import pytest_asyncio
from tests.patience import free_ports

from dollhouse.bus import MemoryBus
from dollhouse.server import MemoryServer
from gangline_kit.bus import Bus, BusConfig
from gangline_kit.clock import SystemClock
from gangline_kit.nats_cluster import NatsCluster
from gangline_kit.nats_server import NatsServer
from gangline_kit.service import patiently
from gangline_wire.streams import BUCKETS, LOG, SNAPSHOTS, Bucket, Stream

KINDS = ("memory", "memory of three", "one server", "three servers")
SMALL = Stream(name="SMALL", subjects=("small.>",), bytes_max=4_000)
RING = Stream(name="RING", subjects=("ring.>",), bytes_max=4_000, discard_old=True)
LAST = Stream(name="LAST", subjects=("last.>",), bytes_max=1 << 20, messages_per_subject_max=2)
BRIEF = Stream(name="BRIEF", subjects=("brief.>",), bytes_max=1 << 20, duplicate_window_s=1)
CUT = Stream(name="CUT", subjects=("cut.>",), bytes_max=1 << 20)
AGED = Stream(name="AGED", subjects=("aged.>",), bytes_max=1 << 20, age_s_max=1, duplicate_window_s=1)
STREAMS = (LOG, SMALL, RING, LAST, BRIEF, CUT, AGED)
SOON = Bucket(name="SOON", ttl_s=1.0)
TIGHT = Bucket(name="TIGHT", bytes_max=4_000)


Connect = Callable[[], Awaitable[Bus]]
Two = tuple[Bus, Bus]


def is_of_three(kind: str) -> bool:
    """True where several servers must agree."""
    return kind.endswith(("three", "three servers"))


@asynccontextmanager
async def connecting(kind: str, folder: Path) -> AsyncIterator[Connect]:
    """Makes connections to a server, or three, of this kind that have the streams."""
    server: NatsServer | NatsCluster | None = None
    if kind == "one server":
        server = NatsServer(folder, sync_always=False)
    elif kind == "three servers":
        server = NatsCluster(folder, ports=free_ports(6), sync_always=False)
    if server is not None:
        await server.start()
    connect = _memory() if server is None else _real(server.url)
    first = await connect()
    replicas = 3 if is_of_three(kind) else 1
    await patiently(
        lambda: first.ensure(STREAMS, (*BUCKETS, SOON, TIGHT), (SNAPSHOTS,), replicas=replicas), SystemClock()
    )
    await first.close()
    yield connect
    if server is not None:
        await server.stop()


def _memory() -> Connect:
    clock = SystemClock()
    server = MemoryServer((), (), clock.monotonic_s)

    async def connect() -> Bus:
        # The memory bus has the words of the real one, which is a class and not a protocol.
        return cast("Bus", MemoryBus(server, clock))

    return connect


def _real(url: str) -> Connect:
    async def connect() -> Bus:
        return await Bus.connect(BusConfig(url=url), SystemClock())

    return connect


@pytest.fixture(name="kind", params=KINDS, scope="module")
def kind_fixture(request: pytest.FixtureRequest) -> str:
    """Which bus all promises of a module are asked of."""
    return str(request.param)


@pytest_asyncio.fixture(name="connect", scope="module", loop_scope="module")
async def connect_fixture(kind: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Connect]:
    """Makes connections to a server that has the streams."""
    async with connecting(kind, tmp_path_factory.mktemp("nats")) as connect:
        yield connect


@pytest_asyncio.fixture(name="buses", loop_scope="module")
async def buses_fixture(connect: Connect) -> AsyncIterator[Two]:
    """Two processes' connections."""
    one, other = await connect(), await connect()
    yield one, other
    await one.close()
    await other.close()

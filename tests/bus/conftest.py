"""A real nats-server per test, on a port of its own, with its own files."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from tests.patience import free_port

from gangline_kit.bus import Bus, BusConfig
from gangline_kit.clock import SystemClock
from gangline_kit.nats_server import NatsServer
from gangline_wire.streams import BUCKETS, SNAPSHOTS, STREAMS

Connect = Callable[[], Awaitable[Bus]]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.bus)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[NatsServer]:
    """A running server with our settings."""
    server = NatsServer(tmp_path / "nats", port=free_port())
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def connect(server: NatsServer) -> AsyncIterator[Connect]:
    """Makes connections that are closed at the test's end."""
    made: list[Bus] = []

    async def connect() -> Bus:
        bus = await Bus.connect(BusConfig(url=server.url), SystemClock())
        made.append(bus)
        return bus

    yield connect
    for bus in made:
        await bus.close()


@pytest.fixture
def cut(server: NatsServer) -> Callable[[Bus], Awaitable[None]]:
    """Kills the server and waits until a connection has noticed."""

    async def cut(bus: Bus) -> None:
        noticed = asyncio.Event()
        bus.connection.listen(noticed.set)
        await server.kill()
        await noticed.wait()
        assert not bus.is_connected

    return cut


@pytest.fixture
async def bus(connect: Connect) -> Bus:
    """A connection, with all streams, buckets and stores in place."""
    bus = await connect()
    await bus.ensure(STREAMS, BUCKETS, (SNAPSHOTS,))
    return bus

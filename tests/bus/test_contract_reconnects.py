"""What services rely on when a connection breaks and comes back, promised alike by the dollhouse's bus and real ones.

Real servers are killed, all of them, and started again on the same files; the dollhouse's connections are cut.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TypeVar, cast

import pytest
import pytest_asyncio
from msgspec import Struct
from tests.bus.alike import KINDS, is_of_three
from tests.patience import LONG_S, free_ports, until

from dollhouse.bus import MemoryBus
from dollhouse.connection import MemoryConnection
from dollhouse.server import MemoryServer
from gangline_kit.bus import Bus, BusConfig
from gangline_kit.clock import SystemClock
from gangline_kit.errors import StaleRevisionError, TemporaryError
from gangline_kit.nats_cluster import NatsCluster
from gangline_kit.nats_server import NatsServer
from gangline_kit.service import patiently
from gangline_wire.streams import BUCKETS, LOG, SECRETS, SNAPSHOTS, STREAMS

T = TypeVar("T")
pytestmark = pytest.mark.asyncio(loop_scope="module")


class House(Struct):
    """Two processes' connections, and servers that go away and come back."""

    bus: Bus
    other: Bus
    servers: tuple[NatsServer, ...] = ()
    """None where all is in memory."""

    async def break_off(self) -> None:
        """Nobody has a connection any more, and both know it."""
        for server in self.servers:
            await server.kill()
        for bus in () if self.servers else (self.bus, self.other):
            cast("MemoryConnection", bus.connection).cut()
        for bus in (self.bus, self.other):
            await until(lambda bus=bus: _holds(not bus.is_connected))  # type: ignore[misc]  # the default is the loop's own

    async def mend(self) -> None:
        """All is there again, as it was."""
        async with asyncio.TaskGroup() as group:
            for server in self.servers:
                group.create_task(server.start())
        for bus in () if self.servers else (self.bus, self.other):
            cast("MemoryConnection", bus.connection).heal()
        async with asyncio.timeout(LONG_S):
            await self.bus.connection.wait_connected()
            await self.other.connection.wait_connected()

    async def write(self, subject: str, first: int, count: int) -> None:
        """Messages that are stored once however often they are sent, until they are."""
        for number in range(first, first + count):
            await _insist(
                lambda number=number: self.other.append(subject, b"%d" % number, msg_id=f"{subject} {number}")
            )  # type: ignore[misc]  # as above


async def _holds(claim: bool) -> bool:
    return claim


async def _insist(attempt: Callable[[], Awaitable[T]]) -> T:
    """What comes of it at last: servers that have just come back must first agree on who leads what."""
    found: list[T] = []

    async def once() -> bool:
        try:
            found.append(await attempt())
        except TemporaryError:
            return False
        return True

    await until(once)
    return found[-1]


@pytest_asyncio.fixture(name="house", params=KINDS, scope="module", loop_scope="module")
async def house_fixture(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[House]:
    """One of each kind, with our streams, buckets and stores."""
    kind, folder, clock = str(request.param), tmp_path_factory.mktemp("nats"), SystemClock()
    if kind.startswith("memory"):
        server = MemoryServer((), (), clock.monotonic_s)
        both = [cast("Bus", MemoryBus(server, clock)) for _ in range(2)]
        house = House(*both)
    else:
        house = await _real(kind, folder)
    replicas = 3 if is_of_three(kind) else 1
    await patiently(lambda: house.bus.ensure(STREAMS, BUCKETS, (SNAPSHOTS,), replicas=replicas), clock)
    yield house
    await house.bus.close()
    await house.other.close()
    for one in house.servers:
        await one.stop()


async def _real(kind: str, folder: Path) -> House:
    ports = free_ports(6)
    if kind == "three servers":
        cluster = NatsCluster(folder, ports=ports, sync_always=False)
        await cluster.start()
        servers, url = tuple(cluster.servers), cluster.url
    else:
        server = NatsServer(folder, port=ports[0], sync_always=False)
        await server.start()
        servers, url = (server,), server.url
    bus, other = [await Bus.connect(BusConfig(url=url), SystemClock()) for _ in range(2)]
    return House(bus, other, servers)


async def _read(bus: Bus, start_seq: int, count: int) -> list[int]:
    """Numbers of so many messages from this sequence on."""
    found: list[int] = []
    async for message in bus.read(LOG.name, start_seq):
        found.append(int(message.data))
        if len(found) == count:
            return found
    raise AssertionError("a reader of a log never ends")


async def _last(house: House) -> int:
    return await _insist(lambda: house.other.last_seq(LOG.name))


async def test_readers_go_on_over_a_broken_connection_without_loss_or_duplicate(house: House) -> None:
    start = await _last(house) + 1
    async with asyncio.TaskGroup() as group:
        reading = group.create_task(_read(house.bus, start, 30))
        await house.write("gangline.log.read", 1, 10)
        await house.break_off()
        await house.mend()
        await house.write("gangline.log.read", 11, 20)
    assert reading.result() == list(range(1, 31))


async def test_whoever_reads_again_from_where_it_was_gets_the_same_again_and_no_more(house: House) -> None:
    start = await _last(house) + 1
    await house.write("gangline.log.again", 1, 8)
    assert await _read(house.bus, start, 5) == [1, 2, 3, 4, 5], "nothing was acknowledged to anybody"
    assert await _read(house.bus, start + 3, 5) == [4, 5, 6, 7, 8]
    assert await _read(house.other, start, 8) == list(range(1, 9)), "what one has read is there for all others"


async def test_without_a_connection_nothing_is_stored_and_the_writer_is_told_that_it_may_try_again(
    house: House,
) -> None:
    await house.write("gangline.log.write", 1, 1)
    last = await _last(house)
    await house.break_off()
    with pytest.raises(TemporaryError):
        await house.bus.append("gangline.log.write", b"2", expected_seq=last, timeout_s=1)
    with pytest.raises(TemporaryError):
        await house.bus.request("gangline.nobody", b"", timeout_s=1)
    await house.mend()
    assert await _last(house) == last
    # Equal bytes where the same was expected are stored once, so it may be asked again.
    assert await _insist(lambda: house.bus.append("gangline.log.write", b"2", expected_seq=last)) == last + 1
    assert await _last(house) == last + 1


async def test_keys_objects_and_listeners_are_there_again_after_a_broken_connection(house: House) -> None:
    kv, objects, heard = house.bus.kv(SECRETS.name), house.other.objects(SNAPSHOTS), asyncio.Event()

    async def hear(subject: str, data: bytes, headers: dict[str, str]) -> None:
        heard.set()

    await house.bus.subscribe("gangline.plain.reconnect", hear)
    await _insist(lambda: kv.put("kept", b"1"))
    kept = await _insist(lambda: kv.get("kept"))
    await _insist(lambda: objects.put("7", b"whole"))
    await house.break_off()
    with pytest.raises(TemporaryError):
        await kv.get("kept")
    await house.mend()
    assert kept is not None
    assert await _insist(lambda: kv.get("kept")) == kept
    assert await _insist(lambda: objects.get("7")) == b"whole"
    with pytest.raises(StaleRevisionError):
        await _insist(lambda: kv.update("kept", b"2", kept[1] - 1))

    async def is_heard() -> bool:
        await house.other.publish("gangline.plain.reconnect", b"")
        return heard.is_set()

    await until(is_heard)

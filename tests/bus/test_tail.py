"""Reading a stream: in order, without gap or duplicate, whatever happens to server, consumer or stream."""

import asyncio
import time
from contextlib import aclosing

import pytest
from tests.patience import LONG_S, quick, until

from gangline_kit.bus import Bus, Tail, jetstream, setup, tail
from gangline_kit.errors import PermanentError
from gangline_kit.nats_server import NatsServer
from gangline_wire.streams import LOG

LANE = "gangline.log.admission"


async def write(bus: Bus, *, first: int, count: int) -> None:
    for n in range(first, first + count):
        await bus.append(LANE, b"%d" % n)


async def read(bus: Bus, count: int, start_seq: int = 1) -> list[int]:
    seen: list[int] = []
    async with aclosing(bus.read(LOG.name, start_seq)) as messages:
        async for message in messages:
            assert message.data == b"%d" % message.seq
            seen.append(message.seq)
            if len(seen) == count:
                break
    return seen


async def test_a_reader_gets_what_is_there_and_then_what_comes(bus: Bus) -> None:
    await write(bus, first=1, count=50)
    async with asyncio.TaskGroup() as group:
        reading = group.create_task(read(bus, 80))
        group.create_task(write(bus, first=51, count=30))
    assert reading.result() == list(range(1, 81))


async def test_a_reader_may_begin_in_the_middle(bus: Bus) -> None:
    await write(bus, first=1, count=20)
    assert await read(bus, 5, start_seq=16) == [16, 17, 18, 19, 20]


async def test_a_reader_that_does_not_follow_ends_at_the_present_end(bus: Bus) -> None:
    await bus.append("gangline.output.7.a", b"one")
    await bus.append("gangline.output.8.a", b"foreign")
    await bus.append("gangline.output.7.a", b"two")
    messages = bus.read_subject("GANGLINE_OUTPUT", "gangline.output.7.>", 1, follow=False)
    assert [(m.seq, m.data) async for m in messages] == [(1, b"one"), (3, b"two")]
    nothing = bus.read_subject("GANGLINE_OUTPUT", "gangline.output.9.>", 1, follow=False)
    assert [m async for m in nothing] == []


async def test_large_amounts_arrive_whole_and_in_order(bus: Bus) -> None:
    data = b"x" * 20_000
    await asyncio.gather(*(bus.append("gangline.output.1.big", data) for _ in range(3000)))
    seen = [m.seq async for m in bus.read_subject("GANGLINE_OUTPUT", "gangline.output.1.big", 1, follow=False)]
    assert seen == list(range(1, 3001))


async def test_a_reader_goes_on_over_kill_9_of_the_server_without_loss_or_duplicate(
    bus: Bus, server: NatsServer
) -> None:
    async with asyncio.TaskGroup() as group:
        reading = group.create_task(read(bus, 60))
        await write(bus, first=1, count=20)
        await server.kill()
        await server.start()
        await bus.connection.wait_connected()
        await write(bus, first=21, count=40)
    assert reading.result() == list(range(1, 61))


async def test_what_is_written_while_a_reader_is_cut_off_reaches_it_later(
    bus: Bus, connect, server: NatsServer
) -> None:
    other = await connect()
    async with asyncio.TaskGroup() as group:
        reading = group.create_task(read(bus, 30))
        await write(other, first=1, count=10)
        await server.kill()
        await server.start()
        await other.connection.wait_connected()
        await write(other, first=11, count=20)
    assert reading.result() == list(range(1, 31))


async def test_a_reader_whose_consumer_vanished_notices_and_reads_on(bus: Bus) -> None:
    """Field case O01: no error is reported for a deleted consumer; only its silence tells."""

    async def took_s(number: int) -> float:
        first = 15 * number + 1
        async with asyncio.TaskGroup() as group:
            reading = group.create_task(read(bus, 15, first))
            await write(bus, first=first, count=5)
            await _delete_consumers(bus)
            began = time.perf_counter()
            await write(bus, first=first + 5, count=10)
        assert reading.result() == list(range(first, first + 15))
        return time.perf_counter() - began

    await quick(8, took_s)


async def _delete_consumers(bus: Bus) -> None:
    """As soon as the reader has one."""

    async def there() -> list[str]:
        return await jetstream.consumers(bus.connection, LOG.name)

    await until(there)
    for name in await there():
        await jetstream.call(bus.connection, f"CONSUMER.DELETE.{LOG.name}.{name}")


@pytest.mark.parametrize("subject", ["", LANE, "gangline.log.*"])
async def test_a_reader_whose_consumer_beats_and_delivers_nothing_notices_and_reads_on(
    bus: Bus, subject: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """O01: beats alone are no proof, also where only a part of the stream is read; as when somebody paused it."""
    monkeypatch.setattr(tail, "COMPARE_S", 1.0)
    seen: list[int] = []

    async def follow() -> None:
        async with aclosing(bus.read_subject(LOG.name, subject, 1, follow=True)) as messages:
            async for message in messages:
                seen.append(message.seq)
                if len(seen) == 15:
                    return

    async with asyncio.TaskGroup() as group:
        reading = group.create_task(follow())
        await write(bus, first=1, count=5)
        await until(lambda: as_coroutine(len(seen) == 5))
        for name in await jetstream.consumers(bus.connection, LOG.name):
            pause = {"pause_until": "2999-01-01T00:00:00Z"}
            await jetstream.call(bus.connection, f"CONSUMER.PAUSE.{LOG.name}.{name}", pause)
        await write(bus, first=6, count=10)
        async with asyncio.timeout(LONG_S):
            await reading
    assert seen == list(range(1, 16))


async def as_coroutine(value: bool) -> bool:
    """A claim as `until` asks for it."""
    return value


async def test_a_slow_reader_is_not_overrun(bus: Bus) -> None:
    await write(bus, first=1, count=100)
    tail = Tail(bus.connection, LOG.name, 1)
    seen: list[int] = []
    async with aclosing(tail.batches()) as batches:
        async for batch in batches:
            seen.extend(message.seq for message in batch)
            await asyncio.sleep(0.01)
            if len(seen) == 100:
                break
    assert seen == list(range(1, 101))
    assert tail.resubscribed == 0


async def test_a_stream_that_was_made_anew_is_refused(bus: Bus) -> None:
    await write(bus, first=1, count=5)
    with pytest.raises(PermanentError, match="made anew"):
        await _read_over(bus, recreated_messages=50)


async def test_a_stream_that_lost_its_end_is_refused(bus: Bus) -> None:
    await write(bus, first=1, count=5)
    tail = Tail(bus.connection, LOG.name, 9)
    with pytest.raises(PermanentError, match="it lost data"):
        await anext(tail.batches())


async def _read_over(bus: Bus, *, recreated_messages: int) -> None:
    async with aclosing(bus.tail(LOG.name, 1).batches()) as batches:
        async for batch in batches:
            if batch[-1].seq == 5:
                await jetstream.call(bus.connection, f"STREAM.DELETE.{LOG.name}")
                await setup.ensure(bus.connection, setup.stream_settings(LOG, replicas=1))
                await write(bus, first=1, count=recreated_messages)

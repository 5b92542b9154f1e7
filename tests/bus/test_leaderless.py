"""Servers of a cluster that look for a leader answer nobody and keep no question: who asks again loses little time."""

import asyncio
import base64
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec import json
from nats.aio.msg import Msg
from tests.patience import LONG_S, free_port, quick

from gangline_kit.bus import Bus, BusConfig, jetstream
from gangline_kit.bus.tail import CREATE_S, RETRY_S, LogMessage
from gangline_kit.clock import SystemClock
from gangline_kit.errors import OutcomeUnknownError, TemporaryError
from gangline_kit.nats_server import find_binary
from gangline_wire.streams import LOG

Answer = Callable[[Msg], Awaitable[None]]
INFO = {"created": "2026-01-01T00:00:00Z", "state": {"last_seq": 7}, "config": {}}
ASKED = "$JS.API.STREAM.INFO.LOG"


@asynccontextmanager
async def running(*arguments: str, port: int) -> AsyncIterator[tuple[Bus, Bus]]:
    """A server, who asks it, and who answers in its stead."""
    quiet = asyncio.subprocess.DEVNULL
    program = await asyncio.create_subprocess_exec(str(find_binary()), *arguments, stdout=quiet, stderr=quiet)
    try:
        asking, answering = await connected(port), await connected(port)
        try:
            yield asking, answering
        finally:
            await asking.close()
            await answering.close()
    finally:
        program.kill()
        await program.wait()


async def connected(port: int) -> Bus:
    """A bus, as soon as the server is there."""
    async with asyncio.timeout(LONG_S):
        while True:
            try:
                return await Bus.connect(BusConfig(url=f"nats://127.0.0.1:{port}"), SystemClock())
            except TemporaryError:
                await asyncio.sleep(0.05)


@pytest.fixture
async def buses() -> AsyncIterator[tuple[Bus, Bus]]:
    """Who asks, and who answers; the server stores nothing, so that a test may answer for one that does."""
    port = free_port()
    async with running("-a", "127.0.0.1", "-p", str(port), port=port) as both:
        yield both


async def answer(bus: Bus, subject: str, answered: Answer) -> None:
    await bus.connection.subscribe(subject, answered)
    await bus.connection.flush()


async def test_what_only_reads_is_asked_again_until_somebody_answers(buses: tuple[Bus, Bus]) -> None:
    asking, answering = buses
    heard: list[str] = []

    async def third(message: Msg) -> None:
        heard.append(message.reply)
        if len(heard) == 3:
            await answering.connection.publish(message.reply, json.encode(INFO))

    await answer(answering, ASKED, third)
    assert (await jetstream.stream_info(asking.connection, "LOG")).state.last_seq == 7
    assert len(heard) == 3
    assert len(set(heard)) == 1, "a late answer to the first of them counts as well"


async def test_a_question_that_nobody_answers_ends_in_time_and_one_that_changes_something_is_asked_once(
    buses: tuple[Bus, Bus],
) -> None:
    asking, answering = buses
    heard: list[str] = []

    async def silent(message: Msg) -> None:
        heard.append(message.subject)

    async def times(subject: str, least: int) -> int:
        """How often it was heard, once all that was said has come."""
        async with asyncio.timeout(LONG_S):
            while heard.count(subject) < least:
                await asking.connection.flush()
                await answering.connection.flush()
        return heard.count(subject)

    await answer(answering, "$JS.API.>", silent)
    with pytest.raises(OutcomeUnknownError):
        await asking.connection.request(ASKED, b"", timeout_s=1.5, again_s=0.1)
    assert await times(ASKED, 2) >= 2
    with pytest.raises(OutcomeUnknownError):
        await jetstream.call(asking.connection, "STREAM.PURGE.LOG", {}, timeout_s=0.3)
    assert await times("$JS.API.STREAM.PURGE.LOG", 1) == 1


async def test_a_reader_whose_consumer_nobody_makes_asks_for_another_one_soon(buses: tuple[Bus, Bus]) -> None:
    asking, answering = buses
    places: list[str] = []
    twice = asyncio.Event()

    async def info(message: Msg) -> None:
        await answering.connection.publish(message.reply, json.encode(INFO))

    async def silent(message: Msg) -> None:
        places.append(json.decode(message.data)["config"]["deliver_subject"])
        if len(places) == 2:
            twice.set()

    async def read() -> None:
        async for _ in asking.tail("LOG", 1).batches():
            pass

    async def took_s(number: int) -> float:
        places.clear()
        twice.clear()
        began_s = time.monotonic()
        reading = asyncio.ensure_future(read())
        await twice.wait()
        took = time.monotonic() - began_s
        reading.cancel()
        await asyncio.wait([reading])
        assert len(set(places)) == 2, "what the first one may still deliver would be mixed with the second one's"
        return took

    await answer(answering, ASKED, info)
    await answer(answering, "$JS.API.CONSUMER.CREATE.LOG", silent)
    await quick(CREATE_S + RETRY_S + 2, took_s)


async def test_a_reader_whose_consumer_nobody_makes_hears_what_the_streams_own_leader_gives(
    buses: tuple[Bus, Bus],
) -> None:
    asking, answering = buses
    stored = {3: "gangline.log.a", 5: "gangline.log.b"}
    seen: list[LogMessage] = []
    both = asyncio.Event()

    async def info(message: Msg) -> None:
        await answering.connection.publish(message.reply, json.encode(INFO))

    async def silent(message: Msg) -> None:
        """The leader of all servers has died."""

    async def get(message: Msg) -> None:
        wanted = json.decode(message.data)["seq"]
        seq = next((seq for seq in stored if seq >= wanted), 0)
        found = {"subject": stored.get(seq), "seq": seq, "data": _packed(f"{seq}"), "time": "2026-01-01T00:00:00.5Z"}
        if seq == 3:
            found["hdrs"] = _packed("NATS/1.0\r\ntraceparent: 00-1\r\n\r\n")
        none = {"error": {"code": 404, "err_code": 10037, "description": "no message found"}}
        await answering.connection.publish(message.reply, json.encode({"message": found} if seq else none))

    async def read() -> None:
        async for batch in asking.tail("LOG", 1).batches():
            seen.extend(batch)
            if len(seen) >= 2:
                both.set()

    await answer(answering, ASKED, info)
    await answer(answering, "$JS.API.CONSUMER.CREATE.LOG", silent)
    await answer(answering, "$JS.API.STREAM.MSG.GET.LOG", get)
    reading = asyncio.ensure_future(read())
    async with asyncio.timeout(LONG_S):
        await both.wait()
    assert [(one.seq, one.subject, one.data) for one in seen] == [(3, stored[3], b"3"), (5, stored[5], b"5")]
    assert (seen[0].headers, seen[0].stored_ms) == ({"traceparent": "00-1"}, 1_767_225_600_500)
    assert seen[1].headers is None
    reading.cancel()


def _packed(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


PARKED = f"$JS.API.CONSUMER.CREATE.{LOG.name}"


async def test_what_was_heard_before_the_consumer_was_made_does_not_come_twice(
    tmp_path: Path,
) -> None:
    """A server that has its consumers made by us, and we take our time."""
    port = free_port()
    settings = tmp_path / "nats.conf"
    settings.write_text(
        f'host: "127.0.0.1"\nport: {port}\njetstream {{ store_dir: "{tmp_path}" }}\n'
        f'mappings: {{ "{PARKED}": "parked" }}\n'
    )
    async with running("-c", str(settings), port=port) as (asking, answering):
        seen: list[int] = []
        asked: list[Msg] = []

        async def park(message: Msg) -> None:
            asked.append(message)

        async def read() -> None:
            async for batch in asking.tail(LOG.name, 1).batches():
                seen.extend(one.seq for one in batch)

        async def until(count: int) -> None:
            async with asyncio.timeout(LONG_S):
                while len(seen) < count:
                    await SystemClock().sleep(0.01)

        await asking.ensure((LOG,))
        await answer(answering, "parked", park)
        for _ in range(3):
            await asking.append("gangline.log.a", b"")
        reading = asyncio.ensure_future(read())
        await until(3)
        request = json.decode(asked[-1].data)
        request["config"]["name"] = "late"
        await answering.connection.publish(f"{PARKED}.late", json.encode(request), reply=asked[-1].reply)
        while not await jetstream.consumers(answering.connection, LOG.name):
            await SystemClock().sleep(0.01)
        await asking.append("gangline.log.a", b"")
        await until(4)
        await asking.append("gangline.log.a", b"")
        await until(5)
        assert seen == [1, 2, 3, 4, 5]
        reading.cancel()


async def test_whoever_repeats_an_append_whose_answer_was_lost_needs_only_the_leader_of_the_stream(
    buses: tuple[Bus, Bus],
) -> None:
    asking, answering = buses
    moved = {"error": {"code": 400, "err_code": 10071, "description": "wrong last sequence: 8"}}
    answers = [{"stream": "LOG", "seq": 7}, moved]

    async def ack(message: Msg) -> None:
        await answering.connection.publish(message.reply, json.encode(answers.pop(0)))

    async def get(message: Msg) -> None:
        found = {"message": {"subject": "gangline.log.a", "seq": 8, "data": _packed("two")}}
        await answering.connection.publish(message.reply, json.encode(found))

    await answer(answering, "gangline.log.a", ack)
    await answer(answering, "$JS.API.STREAM.MSG.GET.LOG", get)
    assert await asking.append("gangline.log.a", b"one", 0) == 7
    async with asyncio.timeout(LONG_S):
        assert await asking.append("gangline.log.a", b"two", 7) == 8, "nobody was there who knows all streams' names"

"""Servers of a cluster that look for a leader answer nobody and keep no question: who asks again loses little time."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from msgspec import json
from nats.aio.msg import Msg

from gangline_kit.bus import Bus, BusConfig, jetstream
from gangline_kit.bus.tail import CREATE_S, RETRY_S
from gangline_kit.clock import SystemClock
from gangline_kit.errors import OutcomeUnknownError
from gangline_kit.nats_cluster import free_ports
from gangline_kit.nats_server import find_binary

Answer = Callable[[Msg], Awaitable[None]]
INFO = {"created": "2026-01-01T00:00:00Z", "state": {"last_seq": 7}, "config": {}}
ASKED = "$JS.API.STREAM.INFO.LOG"


@pytest.fixture
async def url() -> AsyncIterator[str]:
    """A server that stores nothing, so that a test may answer for one that does."""
    (port,) = free_ports(1)
    program = await asyncio.create_subprocess_exec(
        str(find_binary()), "-a", "127.0.0.1", "-p", str(port), stderr=asyncio.subprocess.DEVNULL
    )
    yield f"nats://127.0.0.1:{port}"
    program.kill()
    await program.wait()


@pytest.fixture
async def buses(url: str) -> AsyncIterator[tuple[Bus, Bus]]:
    """Who asks, and who answers."""
    async with asyncio.timeout(10):
        while True:
            try:
                asking = await Bus.connect(BusConfig(url=url), SystemClock())
                break
            except Exception:  # noqa: BLE001 - it is not there yet
                await asyncio.sleep(0.05)
    answering = await Bus.connect(BusConfig(url=url), SystemClock())
    yield asking, answering
    await asking.close()
    await answering.close()


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
    heard: list[bytes] = []

    async def silent(message: Msg) -> None:
        heard.append(message.data)

    await answer(answering, "$JS.API.>", silent)
    with pytest.raises(OutcomeUnknownError):
        await asking.connection.request(ASKED, b"", timeout_s=0.3, again_s=0.1)
    assert len(heard) >= 2
    heard.clear()
    with pytest.raises(OutcomeUnknownError):
        await jetstream.call(asking.connection, "STREAM.PURGE.LOG", {}, timeout_s=0.3)
    assert len(heard) == 1


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

    await answer(answering, ASKED, info)
    await answer(answering, "$JS.API.CONSUMER.CREATE.LOG", silent)
    reading = asyncio.ensure_future(read())
    async with asyncio.timeout(CREATE_S + RETRY_S + 2):
        await twice.wait()
    reading.cancel()
    assert len(set(places)) == 2, "what the first one may still deliver would be mixed with the second one's"

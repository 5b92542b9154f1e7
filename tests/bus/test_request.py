"""Asking and answering over a real server."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.patience import quick

from gangline_kit.bus import Bus, BusConfig
from gangline_kit.clock import SystemClock
from gangline_kit.errors import OutcomeUnknownError, PermanentError, TemporaryError
from gangline_kit.nats_server import NatsServer, NatsUser


async def echo(data: bytes, headers: dict[str, str]) -> bytes:
    return data + headers.get("traceparent", "").encode()


Connect = Callable[[], Awaitable[Bus]]


@pytest.fixture(params=["the same bus", "another bus"])
async def asker(request: pytest.FixtureRequest, bus: Bus, connect: Connect) -> Bus:
    """Who asks what `bus` serves: a bus that serves the subject itself must not behave differently."""
    return bus if request.param == "the same bus" else await connect()


async def test_an_answer_carries_data_and_the_request_carries_headers(bus: Bus, asker: Bus) -> None:
    await bus.serve("gangline.api.echo", echo)
    assert await asker.request("gangline.api.echo", b"hello ", headers={"traceparent": "00-1"}) == b"hello 00-1"


async def test_hundreds_of_requests_are_in_flight_at_once_and_each_gets_its_own_answer(bus: Bus, asker: Bus) -> None:
    everybody_is_here = asyncio.Event()
    present = 0

    async def together(data: bytes, headers: dict[str, str]) -> bytes:
        nonlocal present
        present += 1
        if present == 300:
            everybody_is_here.set()
        await everybody_is_here.wait()
        return data

    await bus.serve("gangline.api.together", together)
    answers = await asyncio.gather(*(asker.request("gangline.api.together", b"%d" % n) for n in range(300)))
    assert answers == [b"%d" % n for n in range(300)]


async def test_a_request_nobody_answers_fails_at_once_as_temporary(bus: Bus, asker: Bus) -> None:
    async def took_s(number: int) -> float:
        began = time.perf_counter()
        with pytest.raises(TemporaryError, match="nobody answers") as caught:
            await asker.request("gangline.api.nobody", b"", timeout_s=10)
        took = time.perf_counter() - began
        assert not isinstance(caught.value, OutcomeUnknownError)
        assert caught.value.retry_after_s > 0
        return took

    await quick(1, took_s)


async def test_a_request_without_answer_in_time_says_that_the_outcome_is_unknown(bus: Bus, asker: Bus) -> None:
    async def asleep(data: bytes, headers: dict[str, str]) -> bytes:
        await asyncio.Event().wait()
        return b""

    await bus.serve("gangline.api.asleep", asleep)
    with pytest.raises(OutcomeUnknownError):
        await asker.request("gangline.api.asleep", b"", timeout_s=0.05)


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (TemporaryError("later", retry_after_s=7), TemporaryError),
        (PermanentError("never"), PermanentError),
        (ZeroDivisionError("a defect"), PermanentError),
    ],
)
async def test_what_a_handler_raises_reaches_the_asker_in_our_words(
    bus: Bus, asker: Bus, raised: Exception, expected: type[Exception]
) -> None:
    async def failing(data: bytes, headers: dict[str, str]) -> bytes:
        raise raised

    await bus.serve("gangline.api.failing", failing)
    with pytest.raises(expected) as caught:
        await asker.request("gangline.api.failing", b"")
    if isinstance(caught.value, TemporaryError):
        assert caught.value.retry_after_s == 7
    assert "defect" not in str(caught.value), "inner details of a defect are for the log only"


async def test_a_poisonous_request_does_not_stop_the_server(bus: Bus, asker: Bus) -> None:
    async def picky(data: bytes, headers: dict[str, str]) -> bytes:
        return b"%d" % (1 // len(data))

    await bus.serve("gangline.api.picky", picky)
    with pytest.raises(PermanentError):
        await asker.request("gangline.api.picky", b"")
    assert await asker.request("gangline.api.picky", b"x") == b"1"


async def test_a_stopped_server_answers_what_it_took_and_nothing_else(bus: Bus, asker: Bus) -> None:
    may_answer = asyncio.Event()
    taken = asyncio.Event()

    async def slow(data: bytes, headers: dict[str, str]) -> bytes:
        taken.set()
        await may_answer.wait()
        return b"done"

    serving = await bus.serve("gangline.api.slow", slow)
    async with asyncio.TaskGroup() as group:
        asked = group.create_task(asker.request("gangline.api.slow", b""))
        await taken.wait()
        await serving.stop()
        await bus.connection.flush()
        with pytest.raises(TemporaryError, match="nobody answers"):
            await asker.request("gangline.api.slow", b"")
        may_answer.set()
    assert asked.result() == b"done"


async def test_whoever_learns_that_the_answerer_is_gone_waits_no_longer_and_may_ask_again(
    bus: Bus, connect: Connect
) -> None:
    asker = await connect()
    taken: asyncio.Queue[bytes] = asyncio.Queue()
    may_answer = asyncio.Event()

    async def slow(data: bytes, headers: dict[str, str]) -> bytes:
        taken.put_nowait(data)
        await may_answer.wait()
        return data

    await bus.serve("gangline.api.slow", slow)
    await bus.serve("gangline.api.other", slow)
    async with asyncio.TaskGroup() as group:
        asked = group.create_task(_problem(asker.request("gangline.api.slow", b"first", timeout_s=60)))
        other = group.create_task(asker.request("gangline.api.other", b"other", timeout_s=60))
        assert {await taken.get(), await taken.get()} == {b"first", b"other"}
        asker.abandon("gangline.api.slow", "the leader changed")
        problem = await asked
        may_answer.set()
    assert isinstance(problem, OutcomeUnknownError)
    assert "the leader changed" in str(problem)
    assert other.result() == b"other", "requests to others go on"
    assert await asker.request("gangline.api.slow", b"second") == b"second"


async def test_requests_in_flight_fail_at_once_when_the_server_dies_and_work_again_when_it_is_back(
    bus: Bus, connect: Connect, server: NatsServer
) -> None:
    taken = asyncio.Event()

    async def slow(data: bytes, headers: dict[str, str]) -> bytes:
        taken.set()
        if data == b"wait":
            await asyncio.Event().wait()
        return data

    asker = await connect()
    await bus.serve("gangline.api.slow", slow)
    async with asyncio.TaskGroup() as group:
        asked = group.create_task(_problem(asker.request("gangline.api.slow", b"wait", timeout_s=60)))
        await taken.wait()
        await server.kill()
    assert isinstance(asked.result(), OutcomeUnknownError)
    with pytest.raises(TemporaryError, match="away"):
        await asker.request("gangline.api.slow", b"now")
    await server.start()
    await bus.connection.wait_connected()
    await asker.connection.wait_connected()
    assert await asker.request("gangline.api.slow", b"now") == b"now"


async def _problem(asking: Awaitable[bytes]) -> Exception | None:
    try:
        await asking
    except TemporaryError as error:
        return error
    return None


async def test_fire_and_forget_is_dropped_and_counted_while_the_bus_is_away(
    bus: Bus, server: NatsServer, cut: Callable[[Bus], Awaitable[None]]
) -> None:
    heard: asyncio.Queue[bytes] = asyncio.Queue()

    async def listen(subject: str, data: bytes, headers: dict[str, str]) -> None:
        heard.put_nowait(data)

    await bus.subscribe("gangline.samples.>", listen)
    await bus.publish("gangline.samples.n1", b"before")
    assert await heard.get() == b"before"
    await cut(bus)
    await bus.publish("gangline.samples.n1", b"lost")
    assert bus.dropped == 1
    await server.start()
    await bus.connection.wait_connected()
    await bus.publish("gangline.samples.n1", b"after")
    assert await heard.get() == b"after"


async def test_a_missing_server_is_a_temporary_problem_that_names_its_address() -> None:
    with pytest.raises(TemporaryError, match=r"no NATS server answers at nats://127.0.0.1:1"):
        await Bus.connect(BusConfig(url="nats://127.0.0.1:1"), SystemClock(), timeout_s=0.3)


async def test_a_bus_that_was_never_reached_is_not_told_as_lost_and_the_cause_is_in_words(
    caplog: pytest.LogCaptureFixture,
) -> None:
    for url, cause in (
        ("nats://127.0.0.1:1", "Connect call failed"),
        ("nats://no.such.host.invalid:4222", "known|resol"),
    ):
        told = ""
        for wait_s in (0.5, 5.0, 30.0):  # enough to be refused, on a machine however busy
            if not re.search(cause, told):
                with pytest.raises(TemporaryError) as caught:
                    await Bus.connect(BusConfig(url=url), SystemClock(), timeout_s=wait_s)
                told = str(caught.value)
        assert re.search(rf"{url} in [0-9.]+ s \(.*({cause})", told), told
    assert not [line for line in caplog.messages if "connection lost" in line]


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:8080", "nats://a:4222,https://b", "nats://a:port", "nats://:4222", ""]
)
async def test_an_address_that_can_be_none_of_a_bus_is_refused_at_once(url: str) -> None:
    with pytest.raises(PermanentError, match="is no address of a NATS server, such as nats://HOST:4222"):
        await Bus.connect(BusConfig(url=url), SystemClock(), timeout_s=0.5)


async def test_a_wrong_password_is_a_permanent_problem(tmp_path: Path) -> None:
    server = NatsServer(tmp_path / "nats", users=(NatsUser(name="queue", password="right"),))
    await server.start()
    try:
        with pytest.raises(PermanentError, match="refused user 'queue'"):
            await Bus.connect(BusConfig(url=server.url, user="queue", password="wrong"), SystemClock())
        bus = await Bus.connect(BusConfig(url=server.url, user="queue", password="right"), SystemClock())
        await bus.close()
    finally:
        await server.stop()

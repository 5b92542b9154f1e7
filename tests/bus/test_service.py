"""A service process: it says how it is, ends quickly when asked, and ends loudly when it cannot go on."""

import asyncio
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import aiohttp
import pytest
from tests.patience import LONG_S, free_port, quick

from gangline_kit.bus import Bus, jetstream
from gangline_kit.nats_server import NatsServer
from gangline_wire.streams import LOG

PROGRAM = """
import asyncio
import gangline_kit.service as service

async def calm(site):
    await asyncio.Event().wait()

async def failing(site):
    raise ZeroDivisionError("a defect")

async def stubborn(site):
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            pass

async def background(site):
    async def fail():
        raise ZeroDivisionError("behind the back")
    site.tasks.spawn(fail(), name="fail")
    await asyncio.Event().wait()

async def refused(site):
    raise service.PermanentError("another agent uses this folder")

async def traced(site):
    while True:
        for _ in range(100):
            with site.tracing.span("busy"):
                pass
        site.metrics.set("gangline_tasks_running", site.tracing.dropped)
        await asyncio.sleep(0.001)

service.EXIT_S_MAX = {exit_s_max}
service.run_service("test", {run})
"""


class Process:
    """One service process and the lines it wrote."""

    def __init__(self, process: asyncio.subprocess.Process, port: int) -> None:
        self.process = process
        self.url = f"http://127.0.0.1:{port}"

    async def get(self, path: str) -> tuple[int, str]:
        async with aiohttp.ClientSession() as session, session.get(self.url + path) as answer:
            return answer.status, await answer.text()

    async def until(self, path: str, status: int) -> str:
        """Ask until it answers with this status."""
        async with asyncio.timeout(LONG_S):
            while True:
                try:
                    found, text = await self.get(path)
                except aiohttp.ClientError:
                    found, text = 0, ""
                if found == status:
                    return text
                await asyncio.sleep(0.02)

    async def until_read(self, seq: int) -> None:
        """Ask until it has read the log up to there."""
        async with asyncio.timeout(LONG_S):
            while True:
                if f"\ngangline_log_sequence {seq}.0" in (await self.get("/metrics"))[1]:
                    return
                await asyncio.sleep(0.02)

    async def end(self, how: signal.Signals | None = None) -> tuple[int, str, float]:
        """Wait for the end; gives exit code, log, and how long it took."""
        began = time.perf_counter()
        if how is not None:
            self.process.send_signal(how)
        _, log = await asyncio.wait_for(self.process.communicate(), LONG_S)
        assert self.process.returncode is not None
        return self.process.returncode, log.decode(), time.perf_counter() - began


Start = Callable[..., Awaitable[Process]]


@pytest.fixture
async def start(server: NatsServer) -> AsyncIterator[Start]:
    started: list[Process] = []

    async def start(run: str, *, exit_s_max: float = 9.5, **settings: str) -> Process:
        port = free_port()
        environ = {key: value for key, value in os.environ.items() if not key.startswith("GANGLINE_")}
        own = {"nats_url": server.url, "http_port": str(port), **settings}
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            PROGRAM.format(run=run, exit_s_max=exit_s_max),
            env=environ | {f"GANGLINE_{key.upper()}": value for key, value in own.items()},
            stderr=asyncio.subprocess.PIPE,
        )
        started.append(Process(process, port))
        return started[-1]

    yield start
    for one in started:
        if one.process.returncode is None:
            one.process.kill()
            await one.process.communicate()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
async def test_a_service_tells_that_it_is_ready_and_ends_cleanly_when_asked(start: Start, how: signal.Signals) -> None:
    async def ended_s(number: int) -> float:
        service = await start("calm")
        assert await service.until("/readyz", 200) == "ok\n"
        assert (await service.get("/livez"))[0] == 200
        metrics = (await service.get("/metrics"))[1]
        assert 'gangline_service_ready{service="test"} 1.0' in metrics
        assert "gangline_bus_connected 1.0" in metrics
        code, log, took_s = await service.end(how)
        assert (code, "Traceback" in log) == (0, False), log
        return took_s

    await quick(3, ended_s)


async def test_a_service_is_alive_but_not_ready_while_the_bus_is_away(start: Start, server: NatsServer) -> None:
    service = await start("calm")
    await service.until("/readyz", 200)
    await server.kill()
    assert await service.until("/readyz", 503) == "the message bus is away\n"
    assert (await service.get("/livez"))[0] == 200
    await server.start()
    await service.until("/readyz", 200)


async def test_a_service_waits_for_a_bus_that_comes_later(start: Start, server: NatsServer) -> None:
    await server.kill()
    service = await start("calm")
    await asyncio.sleep(0.5)
    await server.start()
    await service.until("/readyz", 200)


async def test_a_service_that_is_asked_to_end_while_the_bus_is_away_ends_quickly(
    start: Start, server: NatsServer
) -> None:
    async def ended_s(number: int) -> float:
        if not server.is_running:
            await server.start()
        service = await start("calm")
        await service.until("/readyz", 200)
        await server.kill()
        await service.until("/readyz", 503)
        code, _, took_s = await service.end(signal.SIGTERM)
        assert code == 0
        return took_s

    await quick(5, ended_s)


async def test_a_service_that_is_asked_to_end_before_it_found_the_bus_ends_quickly(start: Start) -> None:
    async def ended_s(number: int) -> float:
        service = await start("calm", nats_url=f"nats://127.0.0.1:{free_port()}", log_level="debug")
        assert service.process.stderr is not None
        async with asyncio.timeout(LONG_S):
            while b"bus:" not in await service.process.stderr.readline():
                pass
        code, log, took_s = await service.end(signal.SIGTERM)
        assert (code, "Traceback" in log, "did not end" in log) == (0, False, False), log
        return took_s

    await quick(5, ended_s)


@pytest.mark.parametrize(("run", "said"), [("failing", "a defect"), ("background", "behind the back")])
async def test_a_service_with_a_defect_ends_loudly(start: Start, run: str, said: str) -> None:
    code, log, _ = await (await start(run)).end()
    assert code == 1
    assert said in log


async def test_a_service_that_the_outside_world_refuses_says_so_in_one_line(start: Start) -> None:
    code, log, _ = await (await start("refused")).end()
    assert code == 1
    assert "gangline-test ends: another agent uses this folder" in log
    assert "Traceback" not in log


async def test_a_service_that_will_not_end_is_ended(start: Start) -> None:
    async def ended_s(number: int) -> float:
        service = await start("stubborn", exit_s_max=1)
        await service.until("/readyz", 200)
        code, log, took_s = await service.end(signal.SIGTERM)
        assert code == 1
        assert "did not end within 1 s" in log
        return took_s

    await quick(3, ended_s)


async def test_a_service_refuses_to_go_on_with_a_log_that_was_made_anew(start: Start, bus: Bus) -> None:
    service = await start("calm")
    await service.until("/readyz", 200)
    await bus.append("gangline.log.admission", b'{"lane":"admission","epoch":1,"seq_seen":0,"at":1,"facts":[]}')
    await service.until_read(1)  # who has read nothing yet may begin with any log
    await jetstream.call(bus.connection, f"STREAM.DELETE.{LOG.name}")
    await bus.ensure((LOG,))
    code, log, _ = await service.end()
    assert code == 1
    assert "cannot be followed any more" in log


async def test_a_service_ends_when_the_platform_that_started_it_is_gone(start: Start) -> None:
    code, log, _ = await (await start("calm", parent_pid="1")).end()
    assert code == 1
    assert "the platform that started this service is gone" in log


async def test_an_unknown_setting_ends_the_start_and_names_the_nearest_known_one(start: Start) -> None:
    code, log, _ = await (await start("calm", nats_ulr="x")).end()
    assert code == 1
    assert "unknown setting GANGLINE_NATS_ULR; did you mean GANGLINE_NATS_URL?" in log


async def test_a_trace_collector_that_never_answers_neither_slows_the_service_nor_its_end(start: Start) -> None:
    """Field case O10."""
    with socket.socket() as hole:
        hole.bind(("127.0.0.1", 0))
        hole.listen(1)

        async def slowest_s(number: int) -> float:
            """Of the answers while spans are dropped, and of the end, which may take eight times as long."""
            service = await start("traced", otlp_endpoint=f"http://127.0.0.1:{hole.getsockname()[1]}")
            await service.until("/readyz", 200)
            answers_s = [0.0]
            async with asyncio.timeout(LONG_S):
                while "gangline_spans_dropped_total 0.0" in (text := (await service.get("/metrics"))[1]) or (
                    "gangline_spans_dropped_total" not in text
                ):
                    began = time.perf_counter()
                    await service.get("/livez")
                    answers_s.append(time.perf_counter() - began)
                    await asyncio.sleep(0.05)
            code, _, took_s = await service.end(signal.SIGTERM)
            assert code == 0
            return max(*answers_s, took_s / 8)

        await quick(0.5, slowest_s)

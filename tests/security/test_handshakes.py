"""Connections to a gateway with a certificate that never end their handshake: they count, and they do not last."""

import asyncio
import os
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import uvloop
from aiohttp import web
from tests.patience import timely
from tests.security.serving import served
from tests.security.test_crowd import ASK, Line, ask
from tests.security.test_http import certificate

from gangline_gateway import handshakes
from gangline_gateway.config import Config
from gangline_gateway.unreadable import connections_most
from gangline_wire.limits import LIMITS, Limit

MOST = 20
SHAKING = MOST // handshakes.SHARE
HANDSHAKE_S_MAX = handshakes.HANDSHAKE_S_MAX
HOME, AWAY = "127.0.0.1", "127.0.0.2"
Address = tuple[str, int, ssl.SSLContext]
Body = Callable[[Address], Awaitable[None]]
Play = Callable[[Body], None]


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def play(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Play]:
    """Plays something with a gateway, on each of the loops on which it runs."""
    monkeypatch.setitem(LIMITS, "connections", Limit(MOST, "connections"))
    monkeypatch.setattr(handshakes, "HANDSHAKE_S_MAX", 1000.0)
    connections_most.cache_clear()

    async def whole(body: Body) -> None:
        async with gateway(tmp_path) as address:
            await body(address)

    def played(body: Body) -> None:
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(whole(body))

    yield played
    connections_most.cache_clear()


@asynccontextmanager
async def gateway(folder: Path) -> AsyncIterator[Address]:
    cert, key = await asyncio.to_thread(certificate, folder)
    async with served(Config(port=0, cert_file=cert, key_file=key)) as (host, port):
        yield host, port, ssl.create_default_context(cafile=cert)


async def hung_up(line: Line, within_s: float = 60.0) -> bool:
    """Whether the other side ends this connection."""
    try:
        async with asyncio.timeout(within_s):
            return await line[0].read(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


def files_open() -> int:
    """How many files and connections this process has open."""
    return len(os.listdir("/proc/self/fd"))


async def close(*lines: Line) -> None:
    for _, writer in lines:
        writer.close()
    await asyncio.gather(*(writer.wait_closed() for _, writer in lines), return_exceptions=True)


def test_who_does_not_end_its_handshake_in_time_is_hung_up_on(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    assert HANDSHAKE_S_MAX == 10.0
    monkeypatch.setattr(handshakes, "HANDSHAKE_S_MAX", 0.3)

    async def body(address: Address) -> None:
        host, port, tls = address
        silent, begun = [await asyncio.open_connection(host, port) for _ in range(2)]
        begun[1].write(b"\x16\x03\x01\x02\x00\x01")  # the head of a first message, and nothing after it

        async def shake(number: int) -> Line:
            return await asyncio.open_connection(host, port, ssl=tls)

        whole = await timely(0.3, shake)
        async with asyncio.timeout(120):
            assert [await hung_up(line) for line in (silent, begun)] == [True, True]
        assert b"200" in await ask(whole), "who is known stays"
        await close(silent, begun, whole)

    play(body)


def test_handshakes_have_a_share_of_the_connections_and_the_oldest_of_them_go(play: Play) -> None:
    async def body(address: Address) -> None:
        host, port, tls = address
        files = files_open()
        known = await asyncio.open_connection(host, port, ssl=tls)
        crowd = [await asyncio.open_connection(host, port) for _ in range(3 * MOST)]
        assert all([await hung_up(line) for line in crowd[:-SHAKING]])
        ours = 1 + len(crowd)
        async with asyncio.timeout(60):
            # Theirs are who shakes hands, and who is known.
            while files_open() - files > ours + SHAKING + 1:  # noqa: ASYNC110  # nobody tells when one is closed
                await asyncio.sleep(0)
        assert not any(line[0].at_eof() for line in crowd[-SHAKING:])
        another = await asyncio.open_connection(host, port, ssl=tls)
        assert [b"200" in await ask(line) for line in (known, another)] == [True, True]
        await close(known, another, *crowd)

    play(body)


def test_a_crowd_from_one_address_hangs_up_on_itself(play: Play) -> None:
    async def body(address: Address) -> None:
        host, port, tls = address
        slow = await asyncio.open_connection(host, port, local_addr=(AWAY, 0))  # has not said anything yet
        crowd = [await asyncio.open_connection(host, port, local_addr=(HOME, 0)) for _ in range(3 * MOST)]
        assert all([await hung_up(line) for line in crowd[: -SHAKING + 1]])
        writer = slow[1]
        await writer.start_tls(tls, server_hostname=host)
        assert b"200" in await ask(slow)
        await close(slow, *crowd)

    play(body)


def test_handshakes_count_among_the_connections(play: Play) -> None:
    async def body(address: Address) -> None:
        host, port, tls = address
        shaking = [await asyncio.open_connection(host, port) for _ in range(SHAKING - 1)]
        known = [await asyncio.open_connection(host, port, ssl=tls) for _ in range(MOST)]
        asked = [await ask(line) for line in known]
        assert asked.count(b"") >= SHAKING - 1, "they leave less room for others"
        assert b"200" in asked[-1]
        await close(*shaking, *known)

    play(body)


def test_who_comes_while_the_gateway_is_busy_is_answered(play: Play) -> None:
    async def body(address: Address) -> None:
        host, port, tls = address

        async def come() -> bytes:
            line = await asyncio.open_connection(host, port, ssl=tls)
            answer = await ask(line)
            await close(line)
            return answer

        for _ in range(20):
            assert all(b"200" in answer for answer in await asyncio.gather(*(come() for _ in range(SHAKING - 2))))

    play(body)


def test_who_said_all_at_once_before_it_was_looked_at_is_answered(play: Play) -> None:
    async def body(address: Address) -> None:
        host, port, tls = address

        def shake() -> bytes:
            with (
                socket.create_connection((host, port), timeout=10) as plain,
                tls.wrap_socket(plain, server_hostname=host) as line,
            ):
                line.sendall(ASK)
                return line.recv(1000)

        for _ in range(5):
            coming = [asyncio.get_running_loop().run_in_executor(None, shake) for _ in range(SHAKING - 1)]
            threading.Event().wait(0.05)  # the loop stands still: what they say first lies there already
            assert all(b"200" in answer for answer in await asyncio.gather(*coming))

    play(body)


def test_a_machine_without_room_for_one_more_lets_people_in_again_later(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handshakes, "OUT_OF_FILES_S", 0.1)
    refused = iter([True, True])

    class Full(socket.socket):
        def accept(self) -> tuple[socket.socket, tuple[str, int]]:
            if next(refused, False):
                raise OSError(24, "Too many open files")
            return super().accept()

    monkeypatch.setattr(socket, "socket", Full)

    async def body(address: Address) -> None:
        host, port, tls = address
        line = await asyncio.open_connection(host, port, ssl=tls)
        assert next(refused, None) is None
        assert b"200" in await ask(line)
        await close(line)

    play(body)


def test_a_gateway_ends_although_somebody_shakes_hands(play: Play, tmp_path: Path) -> None:
    async def body(_: Address) -> None:
        async with gateway(tmp_path) as (host, port, tls):
            line = await asyncio.open_connection(host, port)
            later = await asyncio.open_connection(host, port, ssl=tls)  # so the first one was let in
            assert b"200" in await ask(later)
            assert not line[0].at_eof()
        assert await hung_up(line)
        await close(line, later)

    play(body)


async def test_a_handshake_that_ends_in_an_unforeseen_way_counts_no_more(tmp_path: Path) -> None:
    def broken() -> asyncio.Protocol:
        raise RuntimeError("nobody takes this connection")

    cert, key = await asyncio.to_thread(certificate, tmp_path)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(cert, key)
    runner = web.AppRunner(web.Application())
    await runner.setup()
    site = handshakes.EncryptedSite(runner, HOME, 0, ssl_context=tls)
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    site._shaking = {ours: HOME}
    known, runner._server = runner._server, broken  # type: ignore[assignment]  # it makes protocols, and this one cannot
    with pytest.raises(RuntimeError), theirs, ours:
        await site._shake(ours)
    assert not site._shaking
    runner._server = known
    await runner.cleanup()

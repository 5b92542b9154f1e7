"""Connections to a gateway with a certificate that never end their handshake: they do not last."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import uvloop
from tests.security.serving import served
from tests.security.test_crowd import Line, ask
from tests.security.test_http import certificate

from gangline_gateway import handshakes
from gangline_gateway.config import Config

Address = tuple[str, int, ssl.SSLContext]
Body = Callable[[Address], Awaitable[None]]
Play = Callable[[Body], None]


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def play(request: pytest.FixtureRequest, tmp_path: Path) -> Play:
    """Plays something with a gateway, on each of the loops on which it runs."""

    async def whole(body: Body) -> None:
        async with gateway(tmp_path) as address:
            await body(address)

    def played(body: Body) -> None:
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(whole(body))

    return played


@asynccontextmanager
async def gateway(folder: Path) -> AsyncIterator[Address]:
    cert, key = await asyncio.to_thread(certificate, folder)
    async with served(Config(port=0, cert_file=cert, key_file=key)) as (host, port):
        yield host, port, ssl.create_default_context(cafile=cert)


async def hung_up(line: Line, within_s: float = 10.0) -> bool:
    """Whether the other side ends this connection."""
    try:
        async with asyncio.timeout(within_s):
            return await line[0].read(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


async def close(*lines: Line) -> None:
    for _, writer in lines:
        writer.close()
    await asyncio.gather(*(writer.wait_closed() for _, writer in lines), return_exceptions=True)


def test_who_does_not_end_its_handshake_in_time_is_hung_up_on(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    assert handshakes.HANDSHAKE_S_MAX == 10.0
    monkeypatch.setattr(handshakes, "HANDSHAKE_S_MAX", 0.3)

    async def body(address: Address) -> None:
        host, port, tls = address
        silent, begun = [await asyncio.open_connection(host, port) for _ in range(2)]
        begun[1].write(b"\x16\x03\x01\x02\x00\x01")  # the head of a first message, and nothing after it
        whole = await asyncio.open_connection(host, port, ssl=tls)
        async with asyncio.timeout(20):
            assert [await hung_up(line) for line in (silent, begun)] == [True, True]
        assert b"200" in await ask(whole), "who is known stays"
        await close(silent, begun, whole)

    play(body)

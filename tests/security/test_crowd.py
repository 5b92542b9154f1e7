"""More connections than a gateway keeps: those go that say nothing, and whoever asks is answered."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.patience import LONG_S
from tests.security.serving import served

from gangline_gateway.unreadable import connections_most
from gangline_wire.limits import LIMITS, Limit

MOST = 20
ASK = b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
Line = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture
async def address(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[str, int]]:
    monkeypatch.setitem(LIMITS, "connections", Limit(MOST, "connections"))
    connections_most.cache_clear()
    async with served() as address:
        yield address
    connections_most.cache_clear()


async def ask(line: Line) -> bytes:
    """What is answered on this line; nothing when it was hung up."""
    reader, writer = line
    try:
        writer.write(ASK)
        async with asyncio.timeout(LONG_S):
            return await reader.readuntil(b"ok\n")
    except (OSError, asyncio.IncompleteReadError):
        return b""


async def test_who_asks_is_answered_although_many_more_lines_are_open_than_are_kept(address: tuple[str, int]) -> None:
    opened: list[Line] = []

    async def another() -> Line:
        opened.append(await asyncio.open_connection(*address))
        return opened[-1]

    first = await another()
    assert b"200" in await ask(first)
    crowd: list[Line] = []
    for number in range(3 * MOST):
        crowd.append(await another())
        crowd[-1][1].write(ASK[: number % len(ASK)])  # some have begun to say something
        if number % 10 == 0:
            assert b"200" in await ask(await another())
    assert [await ask(line) for line in (first, crowd[0])] == [b"", b""], "they were silent for longest"
    assert sum(not reader.at_eof() for reader, _ in opened) <= MOST + 1
    assert b"200" in await ask(await another())
    for _, writer in opened:
        writer.close()
    await asyncio.gather(*(writer.wait_closed() for _, writer in opened), return_exceptions=True)

"""A lean closed-loop HTTP/1.1 client, so that the machine's two cores measure the server and not the client."""

import asyncio
import re
import time
from collections.abc import Callable
from typing import cast
from urllib.parse import urlsplit

from msgspec import Struct


class Answer(Struct, frozen=True):
    """One response."""

    status: int
    body: bytes


class Load(Struct, frozen=True):
    """What one run of load came to."""

    count: int
    seconds: float
    latencies_s: list[float]
    failed: int
    """Answers that were not 2xx."""

    @property
    def per_second(self) -> float:
        """Good answers per second."""
        return (self.count - self.failed) / self.seconds


class Connection(asyncio.Protocol):
    """One keep-alive connection that sends one request at a time.

    It reads off the socket's callbacks what it needs, a status and a length, as load generators in C do: whatever
    more it did would be taken from the server, which shares the machine.
    """

    def __init__(self) -> None:
        """Use `open`."""
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._buffer = b""
        self._answer: asyncio.Future[Answer] | None = None

    @classmethod
    async def open(cls, url: str) -> "Connection":
        """Connect to the host and port of the URL."""
        parts = urlsplit(url)
        _, protocol = await asyncio.get_running_loop().create_connection(cls, parts.hostname or "", parts.port or 80)
        return protocol

    async def send(self, request: bytes) -> Answer:
        """Send prepared bytes and read the whole response."""
        assert self._transport is not None
        self._answer = self._loop.create_future()
        self._transport.write(request)
        return await self._answer

    def close(self) -> None:
        """Hang up."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Connected."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """A piece of the response; whoever sent is woken when it is whole."""
        self._buffer = buffer = self._buffer + data if self._buffer else data
        end = buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        length = _LENGTH.search(buffer, 0, end + 2)
        begin = end + 4
        if len(buffer) < begin + (until := int(length[1]) if length else 0):
            return
        self._buffer = b""
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(Answer(status=int(buffer[9:12]), body=buffer[begin : begin + until]))

    def connection_lost(self, exc: Exception | None) -> None:
        """The server hung up."""
        self._transport = None
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(exc or ConnectionResetError("the server hung up"))


_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)


def post(url: str, path: str, *, body: bytes, token: str = "") -> bytes:
    """A POST request as bytes, ready to be sent over and over."""
    lines = [
        f"POST {path} HTTP/1.1",
        f"Host: {urlsplit(url).netloc}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
    ]
    if token:
        lines.append(f"Authorization: Bearer {token}")
    return "\r\n".join((*lines, "", "")).encode() + body


async def drive(url: str, make: Callable[[int], bytes], *, connections: int, seconds: float, count_max: int) -> Load:
    """Keep `connections` requests in flight for the time or the count, whichever ends first; `make` gets a number."""
    lines = [await Connection.open(url) for _ in range(connections)]
    latencies: list[float] = []
    sent = failed = 0
    begun = time.perf_counter()

    async def one_after_another(line: Connection) -> None:
        nonlocal sent, failed
        while sent < count_max and time.perf_counter() - begun < seconds:
            sent += 1
            request = make(sent)
            start = time.perf_counter()
            answer = await line.send(request)
            latencies.append(time.perf_counter() - start)
            failed += not 200 <= answer.status < 300

    async with asyncio.TaskGroup() as group:
        for line in lines:
            group.create_task(one_after_another(line))
    spent = time.perf_counter() - begun
    for line in lines:
        line.close()
    return Load(count=len(latencies), seconds=spent, latencies_s=latencies, failed=failed)


def percentile(values: list[float], percent: float) -> float:
    """The nearest-rank percentile."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]

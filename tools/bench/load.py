"""A lean closed-loop HTTP/1.1 client, so that the machine's two cores measure the server and not the client."""

import asyncio
import time
from collections.abc import Callable
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


class Connection:
    """One keep-alive connection that sends one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Wrap an open stream."""
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, url: str) -> "Connection":
        """Connect to the host and port of the URL."""
        parts = urlsplit(url)
        return cls(*await asyncio.open_connection(parts.hostname, parts.port))

    async def send(self, request: bytes) -> Answer:
        """Send prepared bytes and read the whole response."""
        self._writer.write(request)
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = 0
        for line in head.split(b"\r\n"):
            if line[:15].lower() == b"content-length:":
                length = int(line[15:])
        body = await self._reader.readexactly(length) if length else b""
        return Answer(status=int(head[9:12]), body=body)

    def close(self) -> None:
        """Hang up."""
        self._writer.close()


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

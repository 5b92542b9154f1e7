"""What a switch from training to inference takes on this machine: from the request to the standby's next line of work.

Two real jobs that each want all CPUs: one trains, one stands by with its state in memory. An urgent resume goes over
HTTP, the log with sync, a round, SIGSTOP to the one and SIGCONT to the other.
"""

import asyncio
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from gangline_client.client import Client
from gangline_client.paths import JobQuery
from gangline_embedded.config import PlatformConfig
from gangline_embedded.platform import Platform

SWITCHES = 15
PATIENCE_S = 30.0
POLL_S = 0.002
OVERLAP_S = 0.02
WORKS = """
import sys, time
with open(sys.argv[1], "a", buffering=1) as lines:
    while True:
        lines.write(f"{time.monotonic()}\\n")
        time.sleep(0.001)
"""
"""Work that can be seen: a line with the time each millisecond."""


async def switch_ms() -> list[float]:
    """Ms of each switch, in order of size."""
    with tempfile.TemporaryDirectory(prefix="gangline-bench-") as name:
        folder = Path(name)
        config = PlatformConfig(data_dir=folder / "data", user="bench")
        async with Platform(config) as platform, Client(platform.url, platform.token) as client:
            try:
                return sorted(await _switches(client, folder))
            finally:
                await _end(client)


async def _switches(client: Client, folder: Path) -> list[float]:
    [node] = await client.nodes()
    cpus = node.cpu_milli // 1000
    lines = {name: folder / name for name in ("training", "standby")}
    training = await _start(client, "training", lines["training"], cpus=cpus, priority=0)
    await client.suspend(training)
    standby = await _start(client, "standby", lines["standby"], cpus=cpus, priority=10)
    await client.suspend(standby)
    await client.resume_job(training)
    await _until(lambda: _last(lines["training"]) > time.monotonic() - 0.05)
    taken = []
    for _ in range(SWITCHES):
        asked_s = time.monotonic()
        await client.resume_job(standby, urgent=True)
        await _until(partial(_worked_after, lines["standby"], asked_s))
        taken.append(1000 * (_first_after(lines["standby"], asked_s) - asked_s))
        await client.suspend(standby)
        rests_s = time.monotonic()
        await _until(partial(_worked_after, lines["training"], rests_s + OVERLAP_S))
    return taken


async def _start(client: Client, name: str, lines: Path, *, cpus: int, priority: int) -> int:
    command = ["python3", "-c", WORKS, str(lines)]
    job = await client.submit({"name": name, "cpus": cpus, "priority": priority, "command": command})
    await _until(lambda: lines.exists() and _last(lines) > 0)
    return job.id


async def _end(client: Client) -> None:
    """A platform leaves running jobs alone when it stops, and these would write lines for ever."""
    async with asyncio.timeout(PATIENCE_S):
        jobs = [view.id async for view in client.jobs(JobQuery(states=("unfinished",)))]
        for job in jobs:
            await client.cancel(job)
        for job in jobs:
            await client.wait(job)


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not holds():  # noqa: ASYNC110  # files of other processes wake nobody
            await asyncio.sleep(POLL_S)


def _worked_after(lines: Path, moment_s: float) -> bool:
    return _last(lines) > moment_s


def _tail(lines: Path, size: int) -> list[float]:
    with lines.open("rb") as file:
        begin = max(0, lines.stat().st_size - size)
        file.seek(begin)
        # The first line may be cut off where the reading began, the last one is not written yet.
        return [float(line) for line in file.read().split(b"\n")[1 if begin else 0 : -1] if line]


def _last(lines: Path) -> float:
    """Asked at every poll, in the process that is measured: a few bytes are enough."""
    found = _tail(lines, 64)
    return found[-1] if found else 0.0


def _first_after(lines: Path, moment_s: float) -> float:
    return min(at for at in _tail(lines, 65_536) if at > moment_s)

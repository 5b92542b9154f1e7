"""One training on this machine that grows and shrinks while other jobs take CPUs and give them back."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from gangline_agent.machine import cpu_milli
from gangline_client.client import Client
from gangline_embedded.config import PlatformConfig
from gangline_embedded.platform import Platform
from gangline_kit.clock import SystemClock
from gangline_wire.views import JobView

STEPS = 40
AT_SIZES = ("10:2", "20:4", "30:2")
"""What the programs are told: at which step they wait for which size."""
QUARTER = f"{cpu_milli() // 4}m"
HALF = f"{cpu_milli() // 4 * 2}m"


async def grown(
    tmp_path: Path, command: Sequence[str], *, notice: str, confirm: str, limit_s: float
) -> tuple[JobView, str]:
    """The training as it ended, and what it said: one quarter of the CPUs, then half, then all, then half again."""
    folder, first, second, third = (tmp_path / name for name in ("run", "first", "second", "third"))
    training = {
        "name": "training",
        "cpus": QUARTER,
        "memory": "32Mi",
        "tasks": 1,
        "min": 1,
        "max": 4,
        "sizes": "powers_of_two",
        "elastic": {"kind": "torchrun", "notice": notice, "confirm": confirm, "start": "60s"},
        "command": [*command, str(folder), str(STEPS), *AT_SIZES],
    }
    config = PlatformConfig(data_dir=tmp_path / "data", local_name="here")
    async with Platform(config) as platform, Client(platform.url, platform.token) as client, asyncio.timeout(limit_s):
        one = await client.submit(load("quarter", QUARTER, first))
        two = await client.submit(load("half", HALF, second))
        for other in (one, two):
            await client.wait(other.id, states=frozenset({"running"}))
        job = await client.submit(training)
        await _reached(folder, 10)
        first.touch()
        await _reached(folder, 20)
        second.touch()
        await _reached(folder, 30)
        guest = await client.submit(load("guest", HALF, third))
        ended = await client.wait(job.id)
        said = b"".join([piece async for piece in client.logs(job.id)]).decode()
        third.touch()
        await client.wait(guest.id)
    return ended, said


def sizes(tmp_path: Path) -> list[int]:
    """The size at every step that was checkpointed."""
    lines = [line.split() for line in (tmp_path / "run" / "steps").read_text().splitlines()]
    assert [int(step) for step, _ in lines] == list(range(1, STEPS + 1)), "a step is missing or was made twice"
    return [int(size) for _, size in lines]


def load(name: str, cpus: str, until: Path) -> dict[str, object]:
    """A job that holds CPUs until a file appears."""
    command = ["/bin/sh", "-c", f"while [ ! -e {until} ]; do sleep 0.05; done"]
    return {"name": name, "cpus": cpus, "memory": "16Mi", "command": command}


async def _reached(folder: Path, step: int) -> None:
    """Wait until the training has made this step."""
    while not (folder / "steps").exists() or len((folder / "steps").read_text().splitlines()) < step:
        await SystemClock().sleep(0.05)

"""A real training on this machine grows and shrinks under load from other jobs, and ends as if nothing had happened."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from gangline_agent.machine import cpu_milli
from gangline_client.client import Client
from gangline_embedded.config import PlatformConfig
from gangline_embedded.platform import Platform
from gangline_kit.clock import SystemClock

pytestmark = [pytest.mark.end_to_end, pytest.mark.timeout(240)]

PROGRAM = Path(__file__).parents[2] / "examples" / "elastic_training.py"
STEPS = 40
QUARTER = f"{cpu_milli() // 4}m"
HALF = f"{cpu_milli() // 4 * 2}m"


def undisturbed(folder: Path) -> str:
    """What the program says when it runs alone, without any platform."""
    return subprocess.run(
        [sys.executable, str(PROGRAM), str(folder), str(STEPS)], check=True, capture_output=True, text=True
    ).stdout


def load(name: str, cpus: str, until: Path) -> dict[str, object]:
    """A job that holds CPUs until a file appears."""
    command = ["/bin/sh", "-c", f"while [ ! -e {until} ]; do sleep 0.05; done"]
    return {"name": name, "cpus": cpus, "memory": "16Mi", "command": command}


def sizes(folder: Path) -> list[int]:
    """The size at every step that was checkpointed."""
    lines = [line.split() for line in (folder / "steps").read_text().splitlines()]
    assert [int(step) for step, _ in lines] == list(range(1, STEPS + 1)), "a step is missing or was made twice"
    return [int(size) for _, size in lines]


async def reached(folder: Path, step: int) -> None:
    """Wait until the training has made this step."""
    while not (folder / "steps").exists() or len((folder / "steps").read_text().splitlines()) < step:
        await SystemClock().sleep(0.05)


async def test_a_training_grows_and_shrinks_under_load_and_loses_no_step(tmp_path: Path) -> None:
    folder, first, second = tmp_path / "run", tmp_path / "first", tmp_path / "second"
    training = {
        "name": "training",
        "cpus": QUARTER,
        "memory": "32Mi",
        "tasks": 1,
        "min": 1,
        "max": 4,
        "sizes": "powers_of_two",
        "elastic": {"kind": "torchrun", "notice": "30s", "confirm": "60s", "start": "60s"},
        "command": [sys.executable, str(PROGRAM), str(folder), str(STEPS), "10:2", "20:4", "30:2"],
    }
    config = PlatformConfig(data_dir=tmp_path / "data", local_name="here")
    async with Platform(config) as platform, Client(platform.url, platform.token) as client, asyncio.timeout(200):
        one = await client.submit(load("quarter", QUARTER, first))
        two = await client.submit(load("half", HALF, second))
        for job in (one, two):
            await client.wait(job.id, states=frozenset({"running"}))
        job = await client.submit(training)
        await reached(folder, 10)
        first.touch()
        await reached(folder, 20)
        second.touch()
        await reached(folder, 30)
        guest = await client.submit(load("guest", HALF, tmp_path / "third"))
        ended = await client.wait(job.id)
        said = b"".join([piece async for piece in client.logs(job.id)]).decode()
        (tmp_path / "third").touch()
        await client.wait(guest.id)
    assert (ended.state, ended.exit_code) == ("succeeded", 0), said
    seen = sizes(folder)
    assert (seen[9], seen[10], seen[20], seen[30]) == (1, 2, 4, 2)
    assert undisturbed(tmp_path / "alone") in said

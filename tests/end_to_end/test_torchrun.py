"""The real torchrun grows and shrinks under the platform; skipped where no Python of this machine has torch."""

import asyncio
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from tests.end_to_end.test_elastic_training import HALF, QUARTER, load

from gangline_client.client import Client
from gangline_embedded.config import PlatformConfig
from gangline_embedded.platform import Platform
from gangline_kit.clock import SystemClock

pytestmark = [pytest.mark.end_to_end, pytest.mark.timeout(600)]

PROGRAM = Path(__file__).parents[2] / "examples" / "torch_training.py"
PYTHONS = (sys.executable, "/usr/bin/python3")
"""Interpreters that may have torch: this one, or the system's, as Debian's python3-torch has it."""
STEPS = 40
TOLERANCE = 1e-9


@cache
def with_torch() -> str | None:
    """The first Python that has torch; None when none has."""
    for python in PYTHONS:
        tried = subprocess.run([python, "-c", "import torch.distributed.run"], capture_output=True, check=False)
        if not tried.returncode:
            return python
    return None


def torchrun(python: str) -> list[str]:
    """torchrun of this Python; its output is shown as it comes, which old versions do not do under new Pythons."""
    return [python, "-m", "torch.distributed.run", "--redirects", "1", "--tee", "1"]


def final_loss(said: str) -> float:
    return float(next(line for line in said.splitlines() if "final loss" in line).split()[-1])


def undisturbed(python: str, folder: Path) -> float:
    command = [*torchrun(python), "--standalone", "--nnodes", "1", str(PROGRAM), str(folder), str(STEPS)]
    return final_loss(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


async def reached(folder: Path, step: int) -> None:
    """Wait until the training has made this step."""
    while not (folder / "steps").exists() or len((folder / "steps").read_text().splitlines()) < step:
        await SystemClock().sleep(0.1)


async def test_a_training_under_torchrun_grows_and_shrinks_and_loses_no_step(tmp_path: Path) -> None:
    python = with_torch()
    if python is None:
        pytest.skip("no Python here has torch (Debian: apt-get install python3-torch)")
    folder, first, second = tmp_path / "run", tmp_path / "first", tmp_path / "second"
    training = {
        "name": "training",
        "cpus": QUARTER,
        "memory": "32Mi",
        "tasks": 1,
        "min": 1,
        "max": 4,
        "sizes": "powers_of_two",
        "elastic": {"kind": "torchrun", "notice": "60s", "confirm": "240s", "start": "60s"},
        "command": [*torchrun(python), str(PROGRAM), str(folder), str(STEPS), "10:2", "20:4", "30:2"],
    }
    config = PlatformConfig(data_dir=tmp_path / "data", local_name="here")
    async with Platform(config) as platform, Client(platform.url, platform.token) as client, asyncio.timeout(540):
        for name, cpus, until in (("quarter", QUARTER, first), ("half", HALF, second)):
            other = await client.submit(load(name, cpus, until))
            await client.wait(other.id, states=frozenset({"running"}))
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
    assert (ended.state, ended.exit_code, ended.attempt) == ("succeeded", 0, 1), said
    lines = [line.split() for line in (folder / "steps").read_text().splitlines()]
    assert [int(step) for step, _ in lines] == list(range(1, STEPS + 1)), "a step is missing or was made twice"
    assert [int(size) for _, size in lines[9::10]] == [1, 2, 4, 2]
    assert abs(final_loss(said) - undisturbed(python, tmp_path / "alone")) < TOLERANCE

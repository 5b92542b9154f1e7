"""Workers that share shards through the local agent: they become more and fewer, and every shard is done once."""

import asyncio
import sys
from pathlib import Path

import pytest
from tests.end_to_end.growing import HALF, QUARTER, load

from gangline_client.client import Client
from gangline_embedded.config import PlatformConfig
from gangline_embedded.platform import Platform
from gangline_kit.clock import SystemClock

pytestmark = [pytest.mark.end_to_end, pytest.mark.timeout(400)]

WORKERS = Path(__file__).parents[2] / "examples" / "shard_workers.py"
SHARDS = 90
PACED = """
import runpy, sys, time
from pathlib import Path
example, journal, gates = sys.argv.pop(1), Path(sys.argv[1]), [(20, Path(sys.argv[3])), (50, Path(sys.argv[4]))]
nap = time.sleep

def sleep(seconds):
    nap(seconds)
    while len(journal.read_text().splitlines()) > min([at for at, gate in gates if not gate.exists()], default=9e9):
        nap(0.02)

time.sleep = sleep
runpy.run_path(example, run_name="__main__")
"""
"""The example, which comes no further than the test: to a shard only when what is to be seen before it was seen."""


def done(journal: Path) -> list[int]:
    return [int(line) for line in journal.read_text().splitlines()[1:]] if journal.exists() else []


async def until(journal: Path, count: int) -> None:
    while len(done(journal)) < count:
        await SystemClock().sleep(0.05)


async def test_workers_come_and_go_and_every_shard_is_done_once(tmp_path: Path) -> None:
    journal, both_seen, guest_over = tmp_path / "shards", tmp_path / "seen", tmp_path / "over"
    work = {
        "name": "shards",
        "cpus": QUARTER,
        "memory": "32Mi",
        "tasks": 1,
        "min": 1,
        "max": 4,
        "elastic": {"kind": "tasks"},
        "grace": "1s",
        "command": [
            *(sys.executable, "-c", PACED, str(WORKERS), str(journal), str(SHARDS * 10)),
            *(str(both_seen), str(guest_over)),
        ],
    }
    config = PlatformConfig(data_dir=tmp_path / "data", local_name="here")
    async with Platform(config) as platform, Client(platform.url, platform.token) as client, asyncio.timeout(300):
        job = await client.submit(work)
        await until(journal, 20)
        while sum((await client.job(job.id)).sizes.values()) < 4:
            await SystemClock().sleep(0.05)  # it grows into what is idle
        guest = await client.submit(load("guest", HALF, guest_over))
        await client.wait(guest.id, states=frozenset({"running"}))
        assert sum((await client.job(job.id)).sizes.values()) == 2
        both_seen.touch()
        await until(journal, 50)
        guest_over.touch()
        ended = await client.wait(job.id)
        said = b"".join([piece async for piece in client.logs(job.id)]).decode()
    assert (ended.state, ended.exit_code) == ("succeeded", 0), said
    assert sorted(done(journal)) == list(range(SHARDS))

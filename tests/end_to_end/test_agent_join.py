"""A second agent joins a running platform by its command, and a gang runs across both."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.patience import LONG_S

from gangline_agent.machine import cpu_milli
from gangline_client.client import Client
from gangline_embedded.config import PlatformConfig
from gangline_embedded.platform import Platform
from gangline_kit.clock import SystemClock

pytestmark = [pytest.mark.end_to_end, pytest.mark.timeout(400)]

MEETING = """
import os, socket, sys, time
address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
rank, size, here = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), os.environ["GANGLINE_NODE"]
if rank == 0:
    server = socket.create_server(address)
    guests = [server.accept()[0] for _ in range(size - 1)]
    print(here, "met", *sorted(guest.recv(100).decode() for guest in guests))
else:
    for attempt in range(2000):
        try:
            socket.create_connection(address).sendall(here.encode())
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
"""


@asynccontextmanager
async def joined(platform: Platform, folder: Path, name: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """`gangline agent --server ... --token ...` in a process of its own."""
    token = folder / "token"
    await asyncio.to_thread(token.write_text, platform.agent_token)
    log = await asyncio.to_thread(open, folder / f"{name}.log", "ab")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gangline_agent", "--server", platform.nats_url, "--token", f"@{token}"),
        *("--name", name, "--data", str(folder / name)),
        env={key: value for key, value in os.environ.items() if not key.startswith("GANGLINE_")},
        stdout=log,
        stderr=log,
    )
    try:
        yield process
    finally:
        log.close()
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def until_ready(client: Client, count: int) -> None:
    """Wait for so many nodes."""
    while len([node for node in await client.nodes() if node.state == "ready"]) < count:
        await SystemClock().sleep(0.1)


async def test_a_gang_runs_across_this_machine_and_one_that_joined(tmp_path: Path) -> None:
    config = PlatformConfig(data_dir=tmp_path / "data", local_name="here")
    async with (
        Platform(config) as platform,
        joined(platform, tmp_path, "there"),
        Client(platform.url, platform.token) as client,
    ):
        await until_ready(client, 2)
        job = await client.submit(
            {
                "name": "meeting",
                "tasks": 2,
                # More than half of the machine each, so that no node has room for both.
                "cpus": f"{cpu_milli() * 3 // 4}m",
                "memory": "16Mi",
                "command": ["/usr/bin/env", "python3", "-c", MEETING],
            }
        )
        async with asyncio.timeout(LONG_S):
            ended = await client.wait(job.id)
        said = b"".join([piece async for piece in client.logs(job.id)]).decode()
        assert (ended.state, ended.exit_code) == ("succeeded", 0), said
        assert said.split() in (["here", "met", "there"], ["there", "met", "here"])


async def test_a_joined_agent_that_was_killed_finds_its_process_again(tmp_path: Path) -> None:
    config = PlatformConfig(data_dir=tmp_path / "data", local_node=False)
    go, starts = tmp_path / "go", tmp_path / "starts"
    program = f"echo started >> {starts}; while [ ! -e {go} ]; do sleep 0.05; done; echo through; exit 6"
    async with Platform(config) as platform, Client(platform.url, platform.token) as client:
        async with joined(platform, tmp_path, "there") as agent:
            await until_ready(client, 1)
            asked = {"name": "long", "cpus": "100m", "memory": "16Mi", "command": ["/bin/sh", "-c", program]}
            job = await client.submit(asked)
            async with asyncio.timeout(LONG_S):
                await client.wait(job.id, states=frozenset({"running"}))
            agent.kill()
        await asyncio.to_thread(go.touch)
        async with joined(platform, tmp_path, "there"), asyncio.timeout(LONG_S):
            ended = await client.wait(job.id)
            said = b"".join([piece async for piece in client.logs(job.id)]).decode()
    assert (ended.state, ended.exit_code, said) == ("failed", 6, "through\n")
    assert starts.read_text() == "started\n"

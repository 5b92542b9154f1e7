"""GPUs over the network through real agents: a program without a GPU works on one that another machine serves.

What stands for rCUDA is a server that any of it could be: it listens where it is told, on the card that it was given.
"""

import asyncio
import json
import os
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.end_to_end.test_agent_join import until_ready
from tests.patience import LONG_S
from tests.services.agent.tapes import STUB, h100s

from gangline_agent.machine import cpu_milli
from gangline_client.client import Client
from gangline_embedded.config import PlatformConfig
from gangline_embedded.platform import Platform

pytestmark = [
    pytest.mark.end_to_end,
    pytest.mark.timeout(400),
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on this machine"),
]

SERVER = """
import os, socket, sys
server = socket.create_server(("", int(sys.argv[1])))
while True:
    guest = server.accept()[0]
    numbers = guest.recv(1000).decode().split()
    card = os.environ["CUDA_VISIBLE_DEVICES"]
    guest.sendall(f"{sum(map(int, numbers))} on {os.environ['GANGLINE_NODE']} card {card}".encode())
    guest.close()
"""
CLIENT = """
import json, os, socket, time
told = {name: value for name, value in os.environ.items() if name.startswith(("RCUDA_", "GANGLINE_REMOTE"))}
answers = []
for number in range(int(told["RCUDA_DEVICE_COUNT"])):
    where, _, _ = told[f"RCUDA_DEVICE_{number}"].rpartition(":")
    host, port = where.split("@")
    for attempt in range(2000):
        try:
            server = socket.create_connection((host, int(port)), timeout=30)
            break
        except OSError:
            time.sleep(0.05)
    server.sendall(b"1 2 3")
    answers.append(server.recv(1000).decode())
own = {name: os.environ[name] for name in ("GANGLINE_NODE", "WORLD_SIZE", "CUDA_VISIBLE_DEVICES")}
print(json.dumps({"answers": answers, "told": told, **own}))
"""


async def a_driver(folder: Path) -> dict[str, str]:
    """What has programs find a driver, a stub, that shows two cards."""
    library = str(folder / "libnvidia-ml.so.1")
    compiler = await asyncio.create_subprocess_exec("cc", "-shared", "-fPIC", "-w", "-o", library, str(STUB))
    assert await compiler.wait() == 0
    (folder / "tape").write_text("".join(f"{line}\n" for line in h100s(2)))
    return {"LD_LIBRARY_PATH": str(folder), "NVML_TAPE": str(folder / "tape")}


@asynccontextmanager
async def joined(platform: Platform, folder: Path, name: str, **environment: str) -> AsyncIterator[None]:
    """An agent in a process of its own, that says of its network what these variables say."""
    (folder / "token").write_text(platform.agent_token)
    clean = {key: value for key, value in os.environ.items() if not key.startswith("GANGLINE_")}
    agent = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gangline_agent", "--server", platform.nats_url, "--token", f"@{folder / 'token'}"),
        *("--name", name, "--data", str(folder / name)),
        env={**clean, "GANGLINE_AGENT_ADDRESS": "127.0.0.1", **environment},
    )
    try:
        yield
    finally:
        agent.terminate()
        await agent.wait()


async def test_a_program_without_a_gpu_works_on_those_of_another_machine_and_its_servers_end_with_it(
    tmp_path: Path,
) -> None:
    config = PlatformConfig(data_dir=tmp_path / "data", local_node=False)
    offers = {"GANGLINE_AGENT_REMOTE_GPUS": "true", "GANGLINE_AGENT_NIC_MBPS": "25000"}
    async with (
        Platform(config) as platform,
        joined(platform, tmp_path, "host", GANGLINE_AGENT_LABELS="serves=yes", **offers, **await a_driver(tmp_path)),
        joined(platform, tmp_path, "far", GANGLINE_AGENT_NIC_MBPS="10000"),
        Client(platform.url, platform.token) as client,
    ):
        await until_ready(client, 2)
        program = {"memory": "16Mi", "command": ["sleep", "100"]}
        await client.submit(
            {"name": "full", "cpus": f"{cpu_milli() - 400}m", "node_selector": {"serves": "yes"}, **program}
        )
        job = await client.submit(
            {
                **program,
                "name": "away",
                "cpus": "500m",
                "remote": {"gpus": 2, "bandwidth": "4Gbps", "server": [sys.executable, "-c", SERVER, "{port}"]},
                "command": [sys.executable, "-c", CLIENT],
            }
        )
        async with asyncio.timeout(LONG_S):
            ended = await client.wait(job.id)
        said = b"".join([piece async for piece in client.logs(job.id)]).decode()
        assert (ended.state, ended.exit_code) == ("succeeded", 0), said
        found = json.loads(said.splitlines()[-1])
        assert sorted(found["answers"]) == ["6 on host card 0", "6 on host card 1"]
        assert (found["GANGLINE_NODE"], found["WORLD_SIZE"], found["CUDA_VISIBLE_DEVICES"]) == ("far", "1", "")
        assert found["told"]["RCUDA_DEVICE_COUNT"] == "2"
        assert len(found["told"]["GANGLINE_REMOTE_GPUS"].split(",")) == 2

"""What an earlier start simulated is out of the way of real work, and back when it is simulated again."""

from pathlib import Path

import pytest

from gangline_client.client import Client
from gangline_embedded.aside import WHY, set_aside
from gangline_embedded.config import PlatformConfig
from gangline_embedded.platform import Platform

JOB = {"name": "hello", "group": "default", "command": ["true"], "cpus": 1, "user": "ann"}


@pytest.mark.timeout(300)
async def test_a_plain_start_after_a_simulation_runs_its_first_job_on_this_machine(tmp_path: Path) -> None:
    """Its first job was placed on a simulated node, lost after half a minute, and run again."""
    plain = PlatformConfig(data_dir=tmp_path / "data", user="ann", local_name="here")
    pretending = PlatformConfig(data_dir=tmp_path / "data", user="ann", local_node=False, simulate="3x8xH100")
    async with Platform(pretending) as platform, Client(platform.url, token=platform.token) as client:
        assert await set_aside(client, simulates=True) == 0
        names = sorted(node.id for node in await client.nodes())
        await client.drain(names[0], why="its fan is broken")
    async with Platform(plain) as platform, Client(platform.url, token=platform.token) as client:
        assert await set_aside(client, simulates=False) == 2
        assert await set_aside(client, simulates=False) == 2, "those that are aside already are told, too"
        job = await client.submit(JOB)
        ended = await client.wait(job.id)
        assert (ended.state, ended.attempt) == ("succeeded", 1)
        placed = [one for one in (await client.history(job.id)).events if one.event == "Placed"]
        assert [one.message for one in placed] == ["Placed on here (attempt 1)."]
        told = {node.id: node.why for node in await client.nodes() if node.agent == "simulated"}
        assert told == {names[0]: "its fan is broken", names[1]: WHY, names[2]: WHY}
    async with Platform(pretending) as platform, Client(platform.url, token=platform.token) as client:
        assert await set_aside(client, simulates=True) == 2
        told = {node.id: node.why for node in await client.nodes() if node.agent == "simulated"}
        assert told == {names[0]: "its fan is broken", names[1]: "", names[2]: ""}

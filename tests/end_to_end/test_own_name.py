"""A machine whose name changes while the platform rests finds its tasks again, and none runs beside itself."""

from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.patience import until

from gangline_client.client import Client
from gangline_embedded.config import PlatformConfig
from gangline_embedded.platform import Platform
from gangline_kit.errors import PermanentError

pytestmark = [pytest.mark.end_to_end, pytest.mark.timeout(600)]


async def test_tasks_that_run_on_are_found_again_under_whatever_name_the_machine_has_by_then(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    command = ["sh", "-c", f"echo once >> {starts}; exec sleep 600"]
    before = PlatformConfig(data_dir=tmp_path / "data", local_name="before", sync_always=False)
    async with Platform(before) as platform, Client(platform.url, platform.token) as client:
        job = await client.submit({"command": command, "cpus": "100m"})
        await client.wait(job.id, states=frozenset({"running"}))
    after = replace(before, local_name="after")
    for unseen in (replace(after, local_name_is_chosen=True), replace(after, local_node=False, simulate="1x1xH100")):
        with pytest.raises(PermanentError, match=f"1 task of node before would go on unseen .* {job.id}-1-worker-0; "):
            async with Platform(unseen):
                pass
    async with Platform(after) as platform, Client(platform.url, platform.token) as client:
        found = await client.job(job.id)
        assert (found.state, found.attempt) == ("running", 1)
        assert [(node.id, node.state) for node in await client.nodes()] == [("before", "ready")]
        await client.cancel(job.id)
        assert (await client.wait(job.id)).state == "cancelled"
    async with Platform(after) as platform, Client(platform.url, platform.token) as client:
        # Nothing runs any more that would be lost sight of.
        await until(lambda: is_there(client, "after"))
    assert starts.read_text() == "once\n"


async def is_there(client: Client, name: str) -> bool:
    """True once the node joined."""
    return name in [node.id for node in await client.nodes()]

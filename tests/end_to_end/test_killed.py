"""A real program that kills the process beside it is tried again, then held, and harms nobody else."""

import asyncio
from pathlib import Path

import pytest
from tests.patience import LONG_S

from gangline_client.client import Client
from gangline_core.killed import KILLED_MAX
from gangline_embedded.config import PlatformConfig
from gangline_embedded.platform import Platform

pytestmark = [pytest.mark.end_to_end, pytest.mark.timeout(400)]


def asked(name: str, program: str) -> dict[str, object]:
    return {"name": name, "cpus": "100m", "memory": "16Mi", "command": ["/bin/sh", "-c", program]}


async def test_a_program_that_kills_its_supervisor_is_held_in_the_end_and_tried_anew_when_it_is_released(
    tmp_path: Path,
) -> None:
    """It was started for ever, twenty-seven times in two minutes, at no cost of a retry."""
    starts = tmp_path / "starts"
    async with (
        Platform(PlatformConfig(data_dir=tmp_path / "data")) as platform,
        Client(platform.url, platform.token) as client,
        asyncio.timeout(LONG_S),
    ):
        beside = await client.submit(asked("beside", "sleep 1000"))
        bad = await client.submit(asked("bad", f"echo started >> {starts}; kill -9 $PPID; sleep 1000"))
        held = await client.wait(bad.id, states=frozenset({"suspended", "failed", "succeeded"}))
        assert (held.state, held.losses, held.retries_used) == ("suspended", KILLED_MAX, 0)
        assert starts.read_text() == "started\n" * KILLED_MAX
        assert held.reason is not None
        assert held.reason.sentence.endswith(", 5 of 5 times in a row; then it is held.")
        assert held.reason.hint.endswith(f"`gangline release {bad.id}` tries anew.")
        await client.release(bad.id)
        await client.wait(bad.id, states=frozenset({"waiting", "starting", "running"}))
        await client.wait(bad.id, states=frozenset({"suspended"}))
        assert starts.read_text() == "started\n" * (2 * KILLED_MAX)
        await client.cancel(bad.id)
        assert (await client.wait(bad.id)).state == "cancelled"
        assert (await client.job(beside.id)).state == "running"
        assert [node.state for node in await client.nodes()] == ["ready"]
        await client.cancel(beside.id)
        assert (await client.wait(beside.id)).state == "cancelled", "nothing of the test runs on"

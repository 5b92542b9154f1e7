"""The private nats-server of `gangline up` dies by itself: it comes back, and nothing that was answered is lost."""

import asyncio
import os
import signal
from pathlib import Path

import pytest
from tests.patience import LONG_S

from gangline_client.client import Client
from gangline_embedded.config import PlatformConfig
from gangline_embedded.platform import Platform

pytestmark = [pytest.mark.end_to_end, pytest.mark.timeout(300)]


async def test_a_killed_nats_server_is_started_again_on_the_same_port_and_files(tmp_path: Path) -> None:
    async with (
        Platform(PlatformConfig(data_dir=tmp_path / "data")) as platform,
        Client(platform.url, platform.token) as client,
    ):
        assert platform.nats is not None
        url, before = platform.nats_url, await client.submit({"command": ["true"], "hold": True})
        os.kill(platform.nats.pid, signal.SIGKILL)
        async with asyncio.timeout(LONG_S):
            after = await client.submit({"command": ["true"], "cpus": "100m"})
            ended = await client.wait(after.id)
        assert (await client.job(before.id)).state == "held"
        assert (ended.state, platform.nats_url) == ("succeeded", url)

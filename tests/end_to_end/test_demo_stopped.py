"""A demo that is stopped half way takes all with it that it started, and keeps its folder to itself while it runs."""

import asyncio
import signal
import sys
from pathlib import Path

import pytest
from tests.end_to_end.test_bench_switch import commands_that_name
from tests.patience import LONG_S

from gangline_embedded import demo

pytestmark = [pytest.mark.end_to_end, pytest.mark.timeout(600)]


async def begun(out: Path) -> asyncio.subprocess.Process:
    """A small demo in a process of its own."""
    words = ["-m", "gangline_embedded", "demo", "--jobs", "40", "--nodes", "60", "--out", str(out)]
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(sys.executable, *words, stdout=pipe, stderr=pipe)


async def test_a_demo_that_is_stopped_leaves_no_server_behind(tmp_path: Path) -> None:
    out = tmp_path / "out"
    running = await begun(out)
    assert running.stdout is not None
    async with asyncio.timeout(3 * LONG_S):
        while b"The platform is up" not in await running.stdout.readline():
            pass
        second = await begun(out)
        _, refused = await second.communicate()
        assert (second.returncode, f"a demo runs in {out}".encode() in refused) == (1, True)
        assert any("nats-server" in command for command in commands_that_name(tmp_path))
        running.send_signal(signal.SIGTERM)
        _, said = await running.communicate()
    assert running.returncode == 128 + signal.SIGTERM
    assert b"gangline demo: stopped" in said
    assert b"Traceback" not in said
    assert [command for command in commands_that_name(tmp_path) if "nats-server" in command] == []


def test_a_folder_that_cannot_be_made_is_told_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert demo.main(["--out", "/proc/nowhere"]) == 1
    assert "/proc/nowhere" in capsys.readouterr().err

"""A demo that is stopped half way takes all with it that it started, and keeps its folder to itself while it runs."""

import asyncio
import contextlib
import signal
import sys
from pathlib import Path

import pytest
from tests.end_to_end.test_bench_switch import commands_that_name
from tests.patience import LONG_S, until

from gangline_embedded import demo

pytestmark = [pytest.mark.end_to_end, pytest.mark.timeout(600)]


async def begun(out: Path) -> asyncio.subprocess.Process:
    """A small demo in a process of its own."""
    words = ["-m", "gangline_embedded", "demo", "--jobs", "40", "--nodes", "60", "--out", str(out)]
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(sys.executable, *words, stdout=pipe, stderr=pipe)


def work_in(folder: Path) -> list[int]:
    """Processes whose working folder is in there: what runs, and its supervisors."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended meanwhile, or is another user's
            if (path / "cwd").readlink().is_relative_to(folder):
                found.append(int(path.name))
    return found


async def with_work(running: asyncio.subprocess.Process, out: Path) -> None:
    """Wait until the demo is up and a command of it runs."""
    assert running.stdout is not None
    while b"The platform is up" not in await running.stdout.readline():
        pass
    await until(lambda: at_work(out, least=2))


async def at_work(out: Path, *, least: int) -> bool:
    """True when so much works in there."""
    return len(work_in(out)) >= least


async def is_at_rest(out: Path) -> bool:
    """True when nothing works in there."""
    return not work_in(out)


async def test_a_demo_that_is_stopped_or_killed_leaves_none_of_its_commands_running(tmp_path: Path) -> None:
    out = tmp_path / "out"
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
        running = await begun(out)
        async with asyncio.timeout(3 * LONG_S):
            await with_work(running, out)
            running.send_signal(number)
            await running.communicate()
            if number == signal.SIGKILL:
                # Nobody was asked: they end when nobody has looked after them for a while.
                await until(lambda: is_at_rest(out))
        assert work_in(out) == [], number
    assert commands_that_name(tmp_path) == [], "the next one found the server that the killed one left"


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

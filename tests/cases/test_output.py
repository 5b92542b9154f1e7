"""What a job wrote, to its last byte, and readers that need not wait for what never comes; after public reports."""

import asyncio
import sys
from pathlib import Path

import pytest
from tests.make import node, spec
from tests.patience import LONG_S
from tests.services.agent.rig import an_order, rig
from tests.services.gateway.conftest import Visitor, visitor

from gangline_agent.runner import Phase
from gangline_core import facts as f
from gangline_core.ids import JobId
from gangline_gateway import output as gateway_output
from gangline_wire import output, subjects

__all__ = ["visitor"]  # a fixture of the gateway's tests


@pytest.fixture(autouse=True)
def what_is_late_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever reads at once did not wait for what never comes."""
    monkeypatch.setattr(gateway_output, "LATE_S_MAX", 10 * LONG_S)


PROGRAMS = {
    "lines and at once the end": ("for k in range(1, 1001): print(k)", "".join(f"{k}\n" for k in range(1, 1001))),
    "no newline at the end": ("import sys; sys.stdout.write('last words')", "last words"),
    "a life of no length": ("print('here')", "here\n"),
    "one line of a megabyte": ("print('x' * 1_000_000)", "x" * 1_000_000 + "\n"),
    "both streams": ("import sys; sys.stderr.write('oh\\n'); sys.stderr.flush(); print('well')", "oh\nwell\n"),
    "an error last": ("raise SystemExit('the error')", "the error\n"),
}


# --- to the last byte (ray-project/ray#46413) ----------------------------------------------------------------------


@pytest.mark.parametrize("name", PROGRAMS)
async def test_every_byte_up_to_the_exit_is_told(tmp_path: Path, name: str) -> None:
    program, wanted = PROGRAMS[name]
    async with rig(tmp_path) as made:
        order = an_order(sys.executable, "-c", program)
        await made.finish(order)
        assert made.output(order) == wanted
        assert order.task.id in made.ended


async def test_bytes_that_are_no_text_come_as_they_are(tmp_path: Path) -> None:
    async with rig(tmp_path) as made:
        order = an_order(sys.executable, "-c", "import sys; sys.stdout.buffer.write(bytes(range(256)) * 5)")
        await made.finish(order)
        assert made.told[order.task.id] == bytes(range(256)) * 5


async def test_what_was_written_before_a_kill_is_told(tmp_path: Path) -> None:
    async with rig(tmp_path) as made:
        program = "import os\nfor k in range(500): print(k, flush=True)\nos.kill(os.getpid(), 9)"
        order = an_order(sys.executable, "-c", program)
        local = await made.finish(order)
        assert (local.phase, local.exit_code) == (Phase.EMPTY, 137)
        assert made.output(order).split() == [str(k) for k in range(500)]


# --- readers -------------------------------------------------------------------------------------------------------


async def read(visitor: Visitor, path: str) -> str:
    async with asyncio.timeout(LONG_S):
        return await (await visitor.call("admin", "GET", path)).text()


def ended(visitor: Visitor, *, tasks: int = 2, silent: bool = True, code: int = 0) -> JobId:
    """A job that has run and ended."""
    world = visitor.setting.world
    job = world.submit_running(spec(gpus=1, tasks=tasks), "n1")
    names = [task.id for task in world.tasks(job)]
    for name in names:
        exited = f.TaskExited(task=name, cause=f.ExitCause.EXITED, exit_code=code, silent=silent)
        world.tell("agent.sim", exited, f.GpusEmpty(tasks=(name,)))
    return job


@pytest.mark.parametrize("query", ["", "?follow=true", "?tail=5", "?task=worker-0", "?follow=true&task=worker-1"])
async def test_nobody_waits_for_output_of_tasks_that_write_nothing(visitor: Visitor, query: str) -> None:
    job = ended(visitor)
    assert await read(visitor, f"/v1/jobs/{job}/logs{query}") == ""


async def test_the_output_of_an_earlier_attempt_is_read_before_a_silent_last_one(visitor: Visitor) -> None:
    world = visitor.setting.world
    world.see(node("n1"))
    job = world.submit_running(spec(gpus=1, retries=1), "n1")
    first = world.tasks(job)[0].id
    headers = output.headers(0, end="1")
    visitor.setting.bus.put("GANGLINE_OUTPUT", subjects.output(job, first), b"first try\n", headers)
    world.finish(job, code=1)
    world.run(job, "n1")
    (second,) = [task.id for task in world.tasks(job)]
    exited = f.TaskExited(task=second, cause=f.ExitCause.EXITED, exit_code=0, silent=True)
    world.tell("agent.sim", exited, f.GpusEmpty(tasks=(second,)))
    assert await read(visitor, f"/v1/jobs/{job}/logs") == "first try\n"


# --- cut at the right end (kubeflow/mcp-server#219) ----------------------------------------------------------------


@pytest.mark.parametrize("tail", [1, 10, 1000])
async def test_a_limited_view_ends_with_the_last_line(visitor: Visitor, tail: int) -> None:
    job = ended(visitor, tasks=1, silent=False, code=1)
    lines = b"".join(b"%d %s\n" % (k, b"z" * 2000) for k in range(900)) + b"RuntimeError: the reason\n"
    subject = subjects.output(job, f"{job}-1-worker-0")
    for first in range(0, len(lines), 100_000):
        piece = lines[first : first + 100_000]
        last = first + 100_000 >= len(lines)
        visitor.setting.bus.put("GANGLINE_OUTPUT", subject, piece, output.headers(first, end="1" if last else ""))
    text = await read(visitor, f"/v1/jobs/{job}/logs?tail={tail}")
    assert text.endswith("RuntimeError: the reason\n")
    assert text.count("\n") == min(tail, 901)

"""Real commands on this machine: what is run, what must come of it, and whether it did."""

import asyncio
import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from gangline_client.client import Client
from gangline_client.errors import ClientError
from gangline_client.paths import JobQuery
from gangline_core.job import ENDS, JobState
from gangline_embedded import demo_gang, demo_steady
from gangline_embedded.demo_submit import Answers, submit_one
from gangline_wire.views import JobView

POOL = "local"
GROUP = "local"
USER = "you"
GANG_SIZE = 4
FAILING_CODE = 7
STEADY_S = 6.0
STEADY_CHAOS_S = 25.0
STEADY_JOBS = 3
OUTPUT_BYTES_MAX = 4096
LATE_S = 0.5
END_S_MAX = 10.0
"""A demo that is stopped waits no longer for its commands; what still runs then ends by its lease."""


class RealCommand(Struct, frozen=True):
    """One command and what must come of it."""

    name: str
    document: dict[str, object]
    state: JobState
    exit_code: int | None
    """None when any will do."""
    output: str = ""
    """Text that must be part of what it writes."""
    lines: int = 0
    """Lines it must write with that text; 0 does not count them."""


class RealResult(Struct, frozen=True):
    """What became of one command."""

    name: str
    job: int
    state: str
    exit_code: int | None
    as_expected: bool
    output: str
    """The last line it wrote."""


def commands(starts_file: Path, *, chaos: bool) -> tuple[RealCommand, ...]:
    """The commands, in the order they are submitted; steady ones note each of their starts in the file."""
    python = sys.executable
    gang = [python, str(Path(demo_gang.__file__).resolve())]
    steady = [python, str(Path(demo_steady.__file__).resolve()), str(starts_file.resolve())]
    seconds = STEADY_CHAOS_S if chaos else STEADY_S
    adding = (
        "import os; print('sum of squares', sum(k * k for k in range(300_000)), 'in', os.environ['GANGLINE_JOB_ID'])"
    )
    return (
        _command("hello", ["echo", "hello from", "$HOME; no shell reads this"], output="$HOME; no shell reads this"),
        _command("gang-of-four", gang, tasks=GANG_SIZE, output=f"of {GANG_SIZE} met at", lines=GANG_SIZE),
        _command("sum", [python, "-c", adding], output="sum of squares"),
        _command("failing", [python, "-c", f"import sys; sys.exit({FAILING_CODE})"], JobState.FAILED, FAILING_CODE),
        _command("too-long", ["sleep", "600"], JobState.TIMED_OUT, None, time_limit="3s", grace="1s"),
        *(
            _command(f"steady-{k}", [*steady, f"{seconds:g}"], output=f"worked for {seconds:g} s")
            for k in range(1, STEADY_JOBS + 1)
        ),
    )


def _command(
    name: str,
    argv: Sequence[str],
    state: JobState = JobState.SUCCEEDED,
    exit_code: int | None = 0,
    *,
    output: str = "",
    lines: int = 0,
    **fields: object,
) -> RealCommand:
    document: dict[str, object] = {
        "name": name,
        "group": GROUP,
        "pool": POOL,
        "cpus": "100m",
        "memory": "64Mi",
        "time_limit": "3m",
        "command": list(argv),
        **fields,
    }
    return RealCommand(name=name, document=document, state=state, exit_code=exit_code, output=output, lines=lines)


async def submit_commands(
    client: Client, wanted: Sequence[RealCommand], answers: Answers, *, run: str
) -> dict[int, RealCommand]:
    """Submit them; each accepted one by its job id."""
    jobs = {}
    for command in wanted:
        job = await submit_one(client, command.document, answers, key=f"{run}-{command.name}")
        if job:
            jobs[job] = command
    return jobs


async def end_all(client: Client) -> None:
    """End what still waits or runs of the commands: nobody looks for it once the demo is over."""
    with contextlib.suppress(ClientError, TimeoutError):
        async with asyncio.timeout(END_S_MAX):
            are_there = True
            while are_there:
                # One whose submission was cut off half way may come in yet.
                await client.transport.sleep(LATE_S)
                are_there = await _end_those_there(client)


async def _end_those_there(client: Client) -> bool:
    """End all that have not ended; false where there are none."""
    live = tuple(state.value for state in JobState if state not in ENDS)
    left = [job.id async for job in client.jobs(JobQuery(states=live, group=GROUP))]
    for job in left:
        with contextlib.suppress(ClientError):  # it ended meanwhile
            await client.cancel(job, why="the demo is over")
    for job in left:
        await client.wait(job)
    return bool(left)


async def results(client: Client, jobs: dict[int, RealCommand]) -> list[RealResult]:
    """What became of the commands, asked through the API after all have ended."""
    return [_judge(command, await client.job(job), await _output(client, job)) for job, command in jobs.items()]


async def _output(client: Client, job: int) -> str:
    text = b""
    async for chunk in client.logs(job):
        text += chunk
        if len(text) > OUTPUT_BYTES_MAX:
            break
    return text[:OUTPUT_BYTES_MAX].decode(errors="replace")


def _judge(command: RealCommand, job: JobView, output: str) -> RealResult:
    found = sum(command.output in line for line in output.splitlines()) if command.output else 0
    wrote = not command.output or (found == command.lines if command.lines else found > 0)
    code_fits = command.exit_code is None or job.exit_code == command.exit_code
    written = output.strip().splitlines()
    return RealResult(
        name=command.name,
        job=job.id,
        state=job.state,
        exit_code=job.exit_code,
        as_expected=job.state == command.state and code_fits and wrote,
        output=written[-1] if written else "",
    )

"""`gangline run`: says why it waits, prints what the job writes, ends as the job ended."""

import asyncio

import msgspec
import pytest
from tests.client import samples as s
from tests.client.command_line import DOORS, NOW_MS, gangline, no_wait
from tests.client.fake_platform import TOKEN, FakePlatform, Reply, problem

from gangline_client import Client
from gangline_client.commands import run as run_command
from gangline_client.console import Console, Format
from gangline_client.parser import parse
from gangline_client.session import Interrupts, Session
from gangline_client.settings import Settings
from gangline_wire import views as v
from gangline_wire.jobfile import parse_job

RUNNING = v.JobView(
    id=41,
    name="job-41",
    state="running",
    slurm="R",
    group="g",
    user="ada",
    pool="default",
    started_ms=NOW_MS,
    first_started_ms=NOW_MS,
    attempt=1,
    tasks=(v.TaskView(id="41-1-worker-0", role="worker", index=0, rank=0, node="n1", state="started"),),
)
WAITING = msgspec.structs.replace(RUNNING, state="waiting", started_ms=0, first_started_ms=0, attempt=0, tasks=())
OUTPUT = (b"hello\n", b"\xffbytes\n")


def ended(state: str, code: int | None) -> v.JobView:
    reason = v.ReasonView(code="Some", sentence="A reason.")
    return msgspec.structs.replace(RUNNING, state=state, exit_code=code, tasks=(), ended_ms=NOW_MS, reason=reason)


def lay_out(platform: FakePlatform, *states: v.JobView) -> None:
    platform.answer("POST", "/v1/jobs", Reply(view=states[0], status=202))
    platform.answer("GET", "/v1/jobs/41", *states)
    platform.answer("GET", "/v1/jobs/41/explain", s.EXPLANATION)
    platform.answer("GET", "/v1/jobs/41/logs", Reply(chunks=OUTPUT))


async def test_a_good_job_shows_reason_place_and_output_and_ends_with_0(platform: FakePlatform) -> None:
    lay_out(platform, *[WAITING] * 3, RUNNING, ended("succeeded", 0))
    result = await gangline(platform.url, "run", "--gpus", "1", "--", "python", "train.py")
    assert result.code == 0
    assert result.out == "hello\n\\xffbytes\n"
    assert "Job 41 (job-41) is submitted to pool default." in result.err
    assert "waiting, 2 of 5 in the queue: Needs 8 GPUs; at its turn 3 of 24 suitable ones were free." in result.err
    assert "Job 41 runs on n1." in result.err


@pytest.mark.parametrize(
    ("state", "code", "shown"),
    [("failed", 3, 3), ("failed", None, 1), ("timed_out", 143, 124), ("cancelled", 143, 130), ("lost", None, 1)],
)
async def test_the_exit_code_tells_how_the_job_ended(
    platform: FakePlatform, state: str, code: int | None, shown: int
) -> None:
    lay_out(platform, RUNNING, ended(state, code))
    result = await gangline(platform.url, "run", "true")
    assert result.code == shown
    assert "A reason." in result.err


async def test_the_output_of_a_job_that_is_over_at_once_is_shown_too(platform: FakePlatform) -> None:
    lay_out(platform, ended("succeeded", 0))
    assert (await gangline(platform.url, "run", "true")).out.startswith("hello\n")


async def test_a_command_that_is_not_found_ends_as_in_a_shell_and_shows_what_was_said(platform: FakePlatform) -> None:
    reason = v.ReasonView(code="StartFailed", sentence="Task 41-1-worker-0 could not be started: x was not found.")
    failed = msgspec.structs.replace(ended("failed", -1), first_started_ms=0, started_ms=0, reason=reason)
    lay_out(platform, failed)
    result = await gangline(platform.url, "run", "x")
    assert result.code == 127
    assert result.out.startswith("hello\n")
    assert "Job 41 (job-41) failed: Task 41-1-worker-0 could not be started: x was not found." in result.err


async def test_a_restart_of_the_platform_is_sat_out_and_told(platform: FakePlatform) -> None:
    lay_out(platform, RUNNING)
    platform.answer("GET", "/v1/jobs/41/logs", problem(403, "forbidden", "The token does not allow this"))
    platform.answer("GET", "/v1/jobs/41", RUNNING, *[Reply(breaks=True)] * 40, ended("succeeded", 0))
    result = await gangline(platform.url, "run", "true")
    assert result.code == 0
    assert "trying again, the job is not affected" in result.err


async def test_quiet_prints_nothing_but_the_output(platform: FakePlatform) -> None:
    lay_out(platform, WAITING, RUNNING, ended("succeeded", 0))
    assert (await gangline(platform.url, "run", "-q", "--", "true")).err == ""


async def test_a_job_whose_output_is_not_to_be_had_still_ends_as_it_ended(platform: FakePlatform) -> None:
    lay_out(platform, RUNNING, RUNNING, ended("failed", 9))
    platform.answer("GET", "/v1/jobs/41/logs", problem(403, "forbidden", "The token does not allow this"))
    result = await gangline(platform.url, "run", "true")
    assert result.code == 9
    assert "the output is not to be had: The token does not allow this" in result.err


FLAGS = """--gpus 2 --gpu-memory 16Gi --gpu-model V100,A100 --gpu-model T4 --cpus 4 --memory 8Gi --tasks 2
--max-tasks 4 --name n --group research/vision --pool p --level high --priority 0 --retries 0
--service-class guaranteed --time-limit 1h30m --estimate 1h --grace 10 --after 3 --hold --label a=b=c
--attribute lr=0.5 --attribute kind=training --topology rack --topology-preferred node
--node-selector zone=z --env A=1 --env HOME --secret WANDB --workdir /w"""


async def test_the_flags_become_a_job_file_that_the_platform_reads(platform: FakePlatform) -> None:
    lay_out(platform, ended("succeeded", 0))
    environ = {"HOME": "/h", "PATH": "/bin", "WANDB": "hush", "OTHER": "x"}
    await gangline(platform.url, "run", *FLAGS.split(), "--", "python", "-c", "--gpus", environ=environ)
    (asked,) = platform.requests("POST", "/v1/jobs")
    spec = parse_job(asked.body)
    (role,) = spec.roles
    assert role.command == ("python", "-c", "--gpus")
    assert role.resources.gpu_models == ("V100", "A100", "T4")
    assert role.environment == {"A": "1", "HOME": "/h", "PATH": "/bin", "WANDB": "hush"}
    assert (role.count, role.max_count, role.resources.gpu_milli, role.resources.memory_mib) == (2, 4, 2000, 8192)
    assert spec.secrets == ("WANDB",)
    assert spec.attributes == {"workdir": "/w", "lr": 0.5, "kind": "training"}
    assert spec.labels == {"a": "b=c"}
    assert (spec.priority, spec.retries, spec.hold, spec.time_limit_s) == (0, 0, True, 5400)
    assert asked.headers["Idempotency-Key"] == "key-1"


async def test_the_callers_folder_and_group_go_along_unless_named(platform: FakePlatform) -> None:
    import os

    lay_out(platform, ended("succeeded", 0))
    await gangline(platform.url, "run", "--clean-env", "true", environ={"GANGLINE_GROUP": "nlp", "PATH": "/bin"})
    (asked,) = platform.requests("POST", "/v1/jobs")
    assert asked.body == {"command": ["true"], "attributes": {"workdir": os.getcwd()}, "group": "nlp"}


async def test_detached_prints_the_number_and_returns(platform: FakePlatform) -> None:
    lay_out(platform, WAITING)
    assert (await gangline(platform.url, "run", "-d", "-o", "name", "true")).out == "41\n"
    assert platform.requests("GET", "/v1/jobs/41") == []


async def test_a_dry_run_submits_nothing(platform: FakePlatform) -> None:
    lay_out(platform, WAITING)
    assert (await gangline(platform.url, "run", "--dry-run", "true")).out == "The job would be admitted.\n"
    assert platform.requests("POST", "/v1/jobs")[0].query == {"dry_run": "true"}


@pytest.mark.parametrize(
    "words",
    [["--gpus", "1"], ["--label", "x", "true"], ["--env", "NOT_THERE", "true"], ["--secret", "NOT_THERE", "true"]],
)
async def test_wrong_usage_is_2_and_asks_nothing(platform: FakePlatform, words: list[str]) -> None:
    result = await gangline(platform.url, "run", *words)
    assert result.code == 2
    assert result.err.startswith("gangline: ")
    assert platform.asked == []


def session_of(platform: FakePlatform, client: Client, console: Console) -> Session:
    return Session(
        client=client,
        console=console,
        settings=Settings(url=platform.url, token=TOKEN),
        environ={},
        now_ms=DOORS.now_ms,
        sleep=no_wait,
        folder="/",
        interrupts=Interrupts(),
    )


async def run_and_interrupt(platform: FakePlatform, *words: str, times: int) -> tuple[int, str]:
    """The exit code and remarks of a run whose user presses Ctrl-C as soon as the job was looked at."""
    import io

    console = Console(out=io.StringIO(), err=io.StringIO(), format=Format.TABLE)
    async with Client(platform.url, TOKEN, sleep=no_wait) as client, asyncio.TaskGroup() as group:
        session = session_of(platform, client, console)
        running = group.create_task(run_command.run(session, parse(["run", *words, "true"])))
        for pressed in range(times):
            await platform.arrived("GET", "/v1/jobs/41", times=1 + 3 * pressed)
            session.interrupts.press()
        code = await running
    return code, console.err.getvalue()  # type: ignore[attr-defined]  # a StringIO


async def test_ctrl_c_leaves_the_job_alone_and_says_how_to_go_on(platform: FakePlatform) -> None:
    lay_out(platform, WAITING)
    code, told = await run_and_interrupt(platform, times=1)
    assert code == 130
    assert "Detached; job 41 goes on." in told
    assert "gangline logs -f 41" in told
    assert "gangline cancel 41" in told
    assert platform.requests("POST", "/v1/jobs/41/cancel") == []


async def test_ctrl_c_cancels_when_that_was_asked_for(platform: FakePlatform) -> None:
    lay_out(platform, *[RUNNING] * 8, ended("cancelled", 143))
    platform.answer("POST", "/v1/jobs/41/cancel", v.DoneView())
    code, told = await run_and_interrupt(platform, "--cancel-on-interrupt", times=1)
    assert code == 130
    assert "Cancelling job 41" in told
    assert platform.requests("POST", "/v1/jobs/41/cancel")[0].body == {"why": "interrupted at the terminal"}


async def test_a_second_ctrl_c_leaves_the_cancelled_job_to_itself(platform: FakePlatform) -> None:
    lay_out(platform, WAITING)
    platform.answer("POST", "/v1/jobs/41/cancel", v.DoneView())
    code, told = await run_and_interrupt(platform, "--cancel-on-interrupt", times=2)
    assert code == 130
    assert "Detached; job 41 goes on." in told

"""Real processes through a change of size: told by file, signal and desk, stopped as soon as they are safe or late."""

import asyncio
import os
import sys
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace
from tests.patience import LONG_S
from tests.services.agent.cluster import Cluster, asks, cluster

from gangline_core import facts as f
from gangline_core.ids import JobId
from gangline_core.job import JobState
from gangline_core.spec import Elastic, JobSpec, ResizeKind
from gangline_wire.contract import Sizing

pytestmark = pytest.mark.bus

ADAPTS = """
import json, os, signal, sys, time
from gangline_client.elastic import Contract
job, told, out = Contract(), [], open(sys.argv[1] + "/" + os.environ["RANK"], "a", buffering=1)
signal.signal(signal.SIGUSR1, lambda *_: told.append(json.load(open(os.environ["GANGLINE_TASK_SIZE_FILE"]))))
print("ready", file=out)
while True:
    time.sleep(0.02)
    while told:
        news = told.pop(0)
        print("told", news["size"], news.get("stage"), bool(news.get("leaves")), file=out)
        if news.get("leaves"):
            job.safe()
"""
QUIET = """
import os, sys, time
from gangline_client.elastic import Contract
job, out = Contract(), open(sys.argv[1] + "/" + os.environ["RANK"], "a", buffering=1)
print("ready", os.environ["GANGLINE_TASK_SIZE_FILE"], file=out)
while True:
    if job.changed():
        size = job.size()
        print("told", size.size, size.stage, size.leaves, file=out)
    time.sleep(0.02)
"""


def elastic(code: str, kind: ResizeKind, folder: Path, *, notice_s: int) -> JobSpec:
    asked = asks(sys.executable, "-c", code, str(folder), tasks=2)
    [role] = asked.roles
    return replace(
        asked,
        roles=(replace(role, min_count=1),),
        grace_s=1,
        elastic=Elastic(kind=kind, notice_s=notice_s),
    )


async def begun(made: Cluster, folder: Path, asked: JobSpec) -> JobId:
    """The job runs, and its members are ready."""
    job = await made.start(asked, "one")
    for rank in range(2):
        await said(made, folder, rank, "ready")
    await made.until(lambda: made.job(job).state == JobState.RUNNING)
    return job


async def shrink(made: Cluster, job: JobId) -> None:
    """The second member is told to leave."""
    less = f.Shrink(job=job, tasks=(made.job(job).tasks[1],), beneficiary=JobId(0))
    number = made.state.kept.pools["default"].rounds
    await made.tell("placement.default", f.RoundDecided(pool="default", round=number, shrinks=(less,)))


async def said(made: Cluster, folder: Path, rank: int, word: str) -> list[str]:
    """What a member has written once it has said this."""
    lines: list[str] = []

    def has_said() -> bool:
        file = folder / str(rank)
        lines[:] = file.read_text().splitlines() if file.exists() else []
        return any(line.startswith(word) for line in lines)

    async with asyncio.timeout(LONG_S):
        while not has_said():
            await made.site.clock.sleep(0.05)
    return lines


async def test_a_job_that_adapts_by_itself_is_signalled_and_leaves_as_soon_as_it_is_safe(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made, made.agent("one", tmp_path):
        job = await begun(made, tmp_path, elastic(ADAPTS, ResizeKind.SIGNAL, tmp_path, notice_s=600))
        await shrink(made, job)
        await made.until(lambda: made.job(job).state == JobState.RUNNING and len(made.job(job).tasks) == 1)
        assert made.count(f.MemberSafe) == 1
        assert "told 1 noticed True" in await said(made, tmp_path, 1, "told")
        assert "told 1 noticed False" in await said(made, tmp_path, 0, "told")
        assert made.job(job).sizes == {"worker": 1}


@pytest.mark.parametrize("kind", [ResizeKind.TORCHRUN, ResizeKind.TASKS])
async def test_a_member_that_never_says_safe_is_stopped_when_its_notice_and_grace_are_over(
    tmp_path: Path, kind: ResizeKind
) -> None:
    async with cluster(tmp_path) as made, made.agent("one", tmp_path):
        job = await begun(made, tmp_path, elastic(QUIET, kind, tmp_path, notice_s=1))
        await shrink(made, job)
        await made.until(lambda: made.job(job).state == JobState.RUNNING and len(made.job(job).tasks) == 1)
        assert made.count(f.MemberSafe) == 0
        assert "told 1 noticed True" in await said(made, tmp_path, 1, "told")


async def test_the_size_file_says_who_is_there_and_only_the_task_s_user_reads_it(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made, made.agent("one", tmp_path):
        job = await begun(made, tmp_path, elastic(QUIET, ResizeKind.TORCHRUN, tmp_path, notice_s=600))
        file = Path((await said(made, tmp_path, 0, "ready"))[0].split()[1])
        told = msgspec.json.decode(file.read_bytes(), type=Sizing)  # noqa: ASYNC240 - a small local file
        endpoint = made.state.tasks_of(made.job(job))[0].endpoint
        assert (told.size, told.sizes, told.gathered, told.endpoint) == (2, {"worker": 2}, (0, 1), endpoint)
        assert os.stat(file).st_mode & 0o077 == 0


LATE = "import sys, time\ntime.sleep(1.5)\nexec(sys.argv[2])"
"""A program that loads for a while before it has a handler."""


@pytest.mark.parametrize("how", ["loads for a while", "stands behind a shell"])
async def test_a_program_that_does_not_listen_yet_outlives_the_signal_and_is_told_once_it_does(
    tmp_path: Path, how: str
) -> None:
    asked = elastic(ADAPTS, ResizeKind.SIGNAL, tmp_path, notice_s=600)
    [role] = asked.roles
    if how == "loads for a while":
        command = (sys.executable, "-c", LATE, str(tmp_path), ADAPTS)
    else:
        code = tmp_path / "adapts.py"
        code.write_text(ADAPTS)
        command = ("/bin/sh", "-c", f"{sys.executable} {code} {tmp_path}; exit 7")
    async with cluster(tmp_path) as made, made.agent("one", tmp_path):
        job = await made.start(replace(asked, roles=(replace(role, command=command),)), "one")
        await made.until(lambda: made.job(job).state == JobState.RUNNING)
        await shrink(made, job)
        await made.until(lambda: made.job(job).state == JobState.RUNNING and len(made.job(job).tasks) == 1)
        assert made.job(job).sizes == {"worker": 1}
        assert made.count(f.MemberSafe) == 1, "whoever leaves heard of it in time to save"
        lines = await said(made, tmp_path, 0, "told")
        assert any(line.endswith("False") for line in lines), "and so did the one that stays"
        assert not any(fact.cause == f.ExitCause.EXITED for fact in made.facts if isinstance(fact, f.TaskExited))

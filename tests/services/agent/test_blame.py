"""A task that the machine keeps from starting fails no job: its place is refused, and the machine rests."""

import errno
import os
import signal
from pathlib import Path

import pytest
from tests.services.agent.cluster import asks, cluster
from tests.services.agent.rig import an_order, rig

from gangline_agent import blame, machine, processes
from gangline_core.facts import ExitCause
from gangline_core.ids import NodeId
from gangline_core.job import JobState

GONE_WRONG = [errno.ENOSPC, errno.EROFS, errno.EMFILE, errno.EIO]


def failing_mkdir(monkeypatch: pytest.MonkeyPatch, root: Path, number: int) -> None:
    """No folder can be made below this one any more."""
    mkdir = os.mkdir

    def fail(path: str | os.PathLike[str], mode: int = 0o777, **more: int) -> None:
        if root in Path(path).parents:
            raise OSError(number, os.strerror(number), str(path))
        mkdir(path, mode, **more)

    monkeypatch.setattr(os, "mkdir", fail)


@pytest.mark.parametrize("number", GONE_WRONG, ids=[errno.errorcode[number] for number in GONE_WRONG])
async def test_what_is_wrong_with_the_disk_refuses_the_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    order = an_order("/bin/true")
    async with rig(tmp_path) as made:
        failing_mkdir(monkeypatch, tmp_path / "tasks", number)
        local = await made.finish(order)
        assert (local.cause, local.started) == (ExitCause.PLACE_REFUSED, False)
        assert os.strerror(number) in local.error
        assert len(made.unable) == 1


async def test_a_job_whose_own_it_is_fails_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order = an_order("/bin/true")
    async with rig(tmp_path) as made:
        failing_mkdir(monkeypatch, tmp_path / "tasks", errno.ENAMETOOLONG)
        assert (await made.finish(order)).cause == ExitCause.START_FAILED
        assert made.unable == []


async def test_secrets_that_cannot_be_had_now_refuse_the_place(tmp_path: Path) -> None:
    order = an_order("/bin/true", secrets=("API_TOKEN",))
    async with rig(tmp_path) as made:
        made.bus_is_away = True
        assert (await made.finish(order)).cause == ExitCause.PLACE_REFUSED


async def test_a_supervisor_that_is_not_there_in_time_refuses_the_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "CLAIM_S_MAX", 0.2)
    async with rig(tmp_path) as made:
        made.runner.nursery.warm()
        helper = made.runner.nursery.pid
        os.kill(helper, signal.SIGSTOP)
        try:
            local = await made.finish(an_order("/bin/true"))
            assert (local.cause, local.error) == (ExitCause.PLACE_REFUSED, "its supervisor did not start")
            assert made.unable == [local.error]
        finally:
            os.kill(helper, signal.SIGCONT)


async def test_a_machine_that_can_start_nothing_says_so_and_the_job_waits_for_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cluster(tmp_path) as made, made.agent("one", tmp_path):
        failing_mkdir(monkeypatch, tmp_path / "one" / "tasks", errno.ENOSPC)
        job = await made.start(asks("/bin/true"), "one")
        await made.until(lambda: made.job(job).state == JobState.WAITING and made.job(job).attempt == 1)
        node = made.state.kept.nodes[NodeId("one")]
        assert not node.takes_work, "which the log knows before it knows of the task"
        assert "No space left on device" in node.problem
        assert made.job(job).retries_used == 0


def test_a_machine_rests_for_a_while_only() -> None:
    now_s = 100.0
    rest = blame.Rest(lambda: now_s)
    assert rest.problem == ""
    rest.note("No space left on device")
    assert rest.problem == "a task could not be started: No space left on device"
    now_s += blame.REST_S
    assert rest.problem == ""


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({}, ""),
        ({"f_flag": os.ST_RDONLY}, "is read-only"),
        ({"f_favail": 0}, "takes no more files"),
        ({"f_favail": 0, "f_files": 0}, ""),
        ({"f_bavail": 1}, "only 0 MiB are free"),
    ],
)
def test_a_disk_that_takes_nothing_more_keeps_tasks_away(
    monkeypatch: pytest.MonkeyPatch, changed: dict[str, int], told: str
) -> None:
    """Also one that has room and no more inodes (btrfs counts none), or that was remounted after an error."""
    usual = {"f_bsize": 4096, "f_frsize": 4096, "f_blocks": 1 << 20, "f_bfree": 1 << 19, "f_bavail": 1 << 19}
    files = {"f_files": 1000, "f_ffree": 500, "f_favail": 500, "f_flag": 0, "f_namemax": 255}
    found = usual | files | changed
    monkeypatch.setattr(os, "statvfs", lambda path: os.statvfs_result([found[name] for name in FIELDS]))
    assert told in machine.disk_problem("/somewhere")
    assert bool(machine.disk_problem("/somewhere")) == bool(told)


FIELDS = [
    "f_bsize",
    "f_frsize",
    "f_blocks",
    "f_bfree",
    "f_bavail",
    "f_files",
    "f_ffree",
    "f_favail",
    "f_flag",
    "f_namemax",
]

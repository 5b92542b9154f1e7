"""A container that a task had a daemon start stops, pauses and counts with it where it has the task's mark."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.services.agent.rig import Rig, an_order, rig

from gangline_agent import cgroups, proc
from gangline_agent.group import Group
from gangline_agent.processes import ProcessRunner
from gangline_agent.runner import Phase
from gangline_core.facts import ExitCause
from gangline_core.ids import TaskId

SLEEPS = ("/bin/sh", "-c", "echo ready; sleep 1000")


class Daemon:
    """What stands for a container runtime: it starts programs below a shim, in an environment of their own."""

    def __init__(self, folder: Path) -> None:
        self.shim = folder / "containerd-shim-runc-v2"
        self.shim.write_text('#!/bin/sh\n"$@" &\nwait\n')
        self.shim.chmod(0o755)
        self.shims: list[subprocess.Popen[bytes]] = []

    def run(self, *command: str, env: dict[str, str]) -> int:
        """The shim of a container with this program."""
        self.shims.append(subprocess.Popen([self.shim, *command], env=env, start_new_session=True))
        return self.shims[-1].pid

    def inside(self, shim: int) -> list[int]:
        """Processes of its container."""
        below = proc.members(proc.everything(), shim)
        return [pid for pid in below if pid != shim]


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    made = Daemon(tmp_path)
    yield made
    for shim in made.shims:
        for pid in (*made.inside(shim.pid), shim.pid):
            proc.signal(pid, signal.SIGKILL)
        shim.wait()


def mark(runner: ProcessRunner, task: TaskId) -> dict[str, str]:
    """What `docker run -e` hands on."""
    notice = str(runner.lives[task].folder.notice)
    return {"PATH": os.environ["PATH"], "GANGLINE_TASK_ID": task, "GANGLINE_TASK_NOTICE_FILE": notice}


async def a_container(made: Rig, daemon: Daemon, task: TaskId, *command: str) -> int:
    """The shim of one that runs, with the mark of the task."""
    shim = daemon.run(*command, env=mark(made.runner, task))
    await made.until_true(lambda: len(daemon.inside(shim)) >= 1)
    return shim


async def test_it_is_killed_with_its_task_which_keeps_its_room_until_then(tmp_path: Path, daemon: Daemon) -> None:
    order = an_order(*SLEEPS, grace_s=1)
    async with rig(tmp_path / "agent") as made:
        made.runner.start(order)
        await made.heard(order, "ready")
        deaf = tmp_path / "deaf"
        script = f"trap '' TERM; : > {deaf}; while :; do sleep 1; done"
        shim = await a_container(made, daemon, order.task.id, "/bin/sh", "-c", script)
        await made.until_true(deaf.exists)
        made.runner.stop(order.task.id, ExitCause.STOPPED)
        await made.phase(order, Phase.EXITED)
        assert daemon.inside(shim), "it has its grace, too"
        local = await made.phase(order, Phase.EMPTY)
        assert (local.cause, daemon.inside(shim)) == (ExitCause.STOPPED, [])


async def test_one_that_is_left_over_when_the_program_ends_is_stopped(tmp_path: Path, daemon: Daemon) -> None:
    order = an_order("/bin/sh", "-c", "echo ready; read -r word < go; exit 0", attributes={"workdir": str(tmp_path)})
    os.mkfifo(tmp_path / "go")
    async with rig(tmp_path / "agent") as made:
        made.runner.start(order)
        await made.heard(order, "ready")
        shim = await a_container(made, daemon, order.task.id, "sleep", "1000")
        made.runner.group.by_task(made.runner.lives.values())
        (tmp_path / "go").write_text("go\n")
        local = await made.phase(order, Phase.EMPTY)
        assert (local.exit_code, daemon.inside(shim)) == (0, [])


async def test_it_stands_still_with_its_task_and_goes_on_with_it(tmp_path: Path, daemon: Daemon) -> None:
    order = an_order(*SLEEPS)
    async with rig(tmp_path / "agent") as made:
        made.runner.start(order)
        await made.heard(order, "ready")
        shim = await a_container(made, daemon, order.task.id, "sleep", "1000")
        made.runner.pause(order.task.id, 0)
        await made.until(lambda: made.runner.known[order.task.id].still)
        assert {found.state for pid in daemon.inside(shim) if (found := proc.read(pid)) is not None} == {"T"}
        made.runner.go_on(order.task.id)
        assert "T" not in [found.state for pid in daemon.inside(shim) if (found := proc.read(pid)) is not None]
        made.runner.stop(order.task.id, ExitCause.STOPPED)
        await made.phase(order, Phase.EMPTY)


async def test_all_of_it_counts_as_the_task_s_and_another_container_as_nobody_s(tmp_path: Path, daemon: Daemon) -> None:
    order = an_order(*SLEEPS)
    async with rig(tmp_path / "agent") as made:
        made.runner.start(order)
        await made.heard(order, "ready")
        task = order.task.id
        shim = await a_container(made, daemon, task, "/bin/sh", "-c", "env -i sleep 1000; true")
        await made.until_true(lambda: len(daemon.inside(shim)) >= 2)
        other = daemon.run("sleep", "1000", env={"PATH": os.environ["PATH"]})
        await made.until_true(lambda: len(daemon.inside(other)) >= 1)
        found = made.runner.group.by_task(made.runner.lives.values())[task]
        assert set(daemon.inside(shim)) <= set(found)
        assert not {shim, other, *daemon.inside(other)} & set(found)
        made.runner.stop(task, ExitCause.STOPPED)
        await made.phase(order, Phase.EMPTY)
        assert daemon.inside(other)


async def test_the_next_agent_looks_for_containers_of_a_task_that_ended_without_it(
    tmp_path: Path, daemon: Daemon
) -> None:
    order = an_order("/bin/sh", "-c", "echo ready; read -r word < go; exit 0", attributes={"workdir": str(tmp_path)})
    os.mkfifo(tmp_path / "go")
    async with rig(tmp_path / "agent") as first:
        first.runner.start(order)
        await first.heard(order, "ready")
        shim = await a_container(first, daemon, order.task.id, "sleep", "1000")
    (tmp_path / "go").write_text("go\n")
    async with rig(tmp_path / "agent") as second:
        await second.phase(order, Phase.EMPTY)
        assert daemon.inside(shim) == []


def test_a_cgroup_that_a_container_runtime_made_below_the_task_s_is_the_task_s(tmp_path: Path) -> None:
    task = TaskId("7-worker-0-1")
    made = cgroups.Cgroups("rig", home=tmp_path, state=tmp_path / "state")
    path = made.make(task)
    assert path is not None
    for folder, pids in ((path, "11\n"), (path / "docker-1", "12\n13\n")):
        folder.mkdir(exist_ok=True)
        (folder / "cgroup.procs").write_text(pids)
    assert sorted(made.pids(task)) == [11, 12, 13]
    (path / "cgroup.procs").unlink()
    (path / "docker-1" / "cgroup.procs").unlink()
    made.remove(task)
    assert not path.exists()
    assert Group(made, "boot").by_task([]) == {}

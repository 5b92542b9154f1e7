"""Real processes: started once, stopped wholly, found again, heard to the last byte."""

import asyncio
import json
import os
import select
import signal
from pathlib import Path

import pytest
from tests.patience import LONG_S
from tests.services.agent.rig import SMALL, an_order, rig

from gangline_agent import cgroups, launch, proc
from gangline_agent.containers import MARK
from gangline_agent.journal import Life
from gangline_agent.runner import Phase
from gangline_core.facts import ExitCause
from gangline_core.ids import TaskId
from gangline_kit.clock import SystemClock


def sh(script: str) -> tuple[str, ...]:
    return ("/bin/sh", "-c", script)


async def test_a_command_runs_and_its_exit_code_and_output_are_kept(tmp_path: Path) -> None:
    order = an_order(*sh("echo out; echo err >&2; exit 3"))
    async with rig(tmp_path) as made:
        local = await made.finish(order)
        assert (local.cause, local.exit_code, local.started) == (ExitCause.EXITED, 3, True)
        assert made.output(order) == "out\nerr\n"
        assert made.ended == {order.task.id: "3"}


async def test_a_folder_that_is_told_from_here_means_the_same_to_supervisors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`gangline agent --data here`: tasks ran and were taken for lost, again and again."""
    monkeypatch.chdir(tmp_path)
    order = an_order(*sh("sleep 0.3; pwd; exit 3"))
    async with rig(Path("agent")) as made:
        local = await made.finish(order)
        assert (local.cause, local.exit_code) == (ExitCause.EXITED, 3)
        assert made.output(order).startswith("/")


async def test_a_signal_that_kills_a_task_shows_as_128_more(tmp_path: Path) -> None:
    order = an_order(*sh("kill -9 $$"))
    async with rig(tmp_path) as made:
        assert (await made.finish(order)).exit_code == 137


@pytest.mark.parametrize(
    ("command", "word"),
    [
        (("no-such-program-here",), "was not found in PATH; name its whole path, or give PATH in env"),
        (("./train.sh",), "was not found in the folder that the job starts in (workdir)"),
        (("/etc/passwd",), "is not executable"),
        (("/etc",), "is a folder"),
        ((), "no command"),
        (("/bin/echo", "a\0b"), "NUL"),
    ],
)
async def test_what_cannot_be_started_says_why(tmp_path: Path, command: tuple[str, ...], word: str) -> None:
    order = an_order(*command)
    async with rig(tmp_path) as made:
        local = await made.finish(order)
        assert (local.cause, local.started) == (ExitCause.START_FAILED, False)
        assert word in local.error
        assert word in made.output(order)


async def test_a_file_that_is_no_program_says_why(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_text("no shebang here")
    broken.chmod(0o755)
    order = an_order(str(broken))
    async with rig(tmp_path / "agent") as made:
        local = await made.finish(order)
        assert local.cause == ExitCause.START_FAILED
        assert "Exec format error" in local.error


async def test_a_script_whose_interpreter_is_missing_is_not_called_missing_itself(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    order = an_order(str(script))
    async with rig(tmp_path / "agent") as made:
        local = await made.finish(order)
        assert local.cause == ExitCause.START_FAILED
        assert local.error.endswith("the interpreter that it names was not found")


async def test_no_shell_stands_between_the_arguments_and_the_program(tmp_path: Path) -> None:
    evil = "'; touch /tmp/x; '$(touch /tmp/x)`touch /tmp/x`\n--flag"
    order = an_order("/usr/bin/printf", "%s", evil)
    async with rig(tmp_path) as made:
        await made.finish(order)
        assert made.output(order) == evil


async def test_a_task_is_stopped_with_its_jobs_signal_and_may_use_its_grace(tmp_path: Path) -> None:
    order = an_order(
        *sh("trap 'echo saving; exit 0' USR1; echo ready; while :; do sleep 0.05; done"), stop_signal="SIGUSR1"
    )
    async with rig(tmp_path) as made:
        made.runner.start(order)
        await made.phase(order, Phase.RUNNING)
        await made.heard(order, "ready")
        made.runner.stop(order.task.id, ExitCause.STOPPED)
        local = await made.phase(order, Phase.EMPTY)
        assert (local.cause, local.exit_code) == (ExitCause.STOPPED, 0)
        assert made.output(order).endswith("saving\n")


async def test_a_task_that_ignores_its_signal_is_killed_after_its_grace_with_all_it_started(tmp_path: Path) -> None:
    order = an_order(
        *sh("trap '' TERM; sleep 1000 & setsid sleep 1000 & echo ready; wait; wait; sleep 1000"), grace_s=1
    )
    async with rig(tmp_path) as made:
        made.runner.start(order)
        await made.phase(order, Phase.RUNNING)
        await made.heard(order, "ready")
        supervisor = made.runner.lives[order.task.id].life.pid
        before = proc.members(proc.everything(), supervisor)
        assert len(before) >= 3
        made.runner.stop(order.task.id, ExitCause.STOPPED)
        local = await made.phase(order, Phase.EMPTY)
        assert (local.cause, local.exit_code) == (ExitCause.STOPPED, 137)
        assert not set(before) & set(proc.everything())


async def test_a_task_is_stopped_at_its_time_limit(tmp_path: Path) -> None:
    order = an_order("/bin/sleep", "1000", time_limit_s=1)
    async with rig(tmp_path) as made:
        local = await made.finish(order)
        assert (local.cause, local.exit_code) == (ExitCause.TIME_LIMIT, 143)


async def test_room_is_not_free_while_a_grandchild_lives_and_strays_are_stopped(tmp_path: Path) -> None:
    deaf = "setsid sh -c 'trap \"\" TERM; : > deaf; sleep 1000'"
    order = an_order(*sh(f"{deaf} & while [ ! -e deaf ]; do sleep 0.01; done; echo $!; exit 0"), grace_s=1)
    async with rig(tmp_path) as made:
        made.runner.start(order)
        local = await made.phase(order, Phase.EXITED)
        assert (local.cause, local.exit_code) == (ExitCause.EXITED, 0)
        assert proc.members(proc.everything(), made.runner.lives[order.task.id].life.pid)
        await made.phase(order, Phase.EMPTY)
        stray = int(made.output(order))
        assert proc.read(stray) is None


async def test_a_task_stopped_while_it_waits_to_be_launched_never_runs(tmp_path: Path) -> None:
    order = an_order(*sh(f"touch {tmp_path}/ran"))
    async with rig(tmp_path / "agent") as made:
        made.runner.start(order)
        made.runner.stop(order.task.id, ExitCause.STOPPED)
        local = await made.phase(order, Phase.EMPTY)
        assert (local.cause, local.started) == (ExitCause.STOPPED, False)
        assert not (tmp_path / "ran").exists()


async def test_a_notice_tells_the_program_that_it_will_be_stopped(tmp_path: Path) -> None:
    order = an_order(
        *sh("trap 'cat $GANGLINE_TASK_NOTICE_FILE; exit 0' TERM; echo ready; while :; do sleep 0.05; done")
    )
    async with rig(tmp_path) as made:
        made.runner.start(order)
        await made.heard(order, "ready")
        made.runner.stop(order.task.id, ExitCause.STOPPED)
        await made.phase(order, Phase.EMPTY)
        notice = next(line for line in made.output(order).splitlines() if line.startswith("{"))
        assert json.loads(notice)["cause"] == "stopped"


async def test_the_program_finds_default_signals_and_no_files_of_ours(tmp_path: Path) -> None:
    code = (
        "import os,signal;"
        "print(signal.getsignal(signal.SIGTERM)==signal.SIG_DFL, signal.pthread_sigmask(signal.SIG_BLOCK, []));"
        "print(sorted(int(f) for f in os.listdir('/proc/self/fd'))[:4], os.getpid()==os.getpgid(0))"
    )
    order = an_order("/usr/bin/env", "python3", "-c", code)
    async with rig(tmp_path) as made:
        await made.finish(order)
        first, second = made.output(order).splitlines()
        assert first == "True set()"
        assert second == "[0, 1, 2, 3] True"  # 3 is the listing itself


async def test_secrets_reach_the_program_and_no_file(tmp_path: Path) -> None:
    order = an_order(
        *sh('printf \'%s %s\' "$API_TOKEN" "$0"'),
        "{{secret:API_TOKEN}}",
        env={"API_TOKEN": "{{secret:API_TOKEN}}"},
        secrets=("API_TOKEN",),
    )
    async with rig(tmp_path) as made:
        await made.finish(order)
        assert made.output(order) == "s3cr3t-123 s3cr3t-123"
    files = [path for path in everything_in(tmp_path) if not path.name.startswith("output.")]
    assert {"task.json", "life"} <= {path.name for path in files}
    for path in files:
        assert b"s3cr3t" not in path.read_bytes(), path
        assert path.stat().st_mode & 0o077 == 0, path


@pytest.mark.parametrize("mode", [None, 0o600, 0o700], ids=["is not there", "is no program", "cannot be run"])
async def test_a_secret_that_stands_where_the_program_should_is_in_no_error(tmp_path: Path, mode: int | None) -> None:
    """`TOKEN=value python train.py` is what a shell would understand."""
    if mode is not None:
        file = tmp_path / "s3cr3t-123"
        file.write_bytes(b"\0")
        file.chmod(mode)
    named = "API_TOKEN={{secret:API_TOKEN}}" if mode is None else f"{tmp_path}/{{{{secret:API_TOKEN}}}}"
    order = an_order(named, "python", secrets=("API_TOKEN",))
    async with rig(tmp_path / "agent") as made:
        local = await made.finish(order)
        assert local.cause == ExitCause.START_FAILED
        assert "{{secret:API_TOKEN}}" in local.error
        assert "s3cr3t" not in local.error + made.output(order)


async def test_a_long_output_keeps_its_head_and_tail_and_says_what_is_left_out(tmp_path: Path) -> None:
    order = an_order("/usr/bin/seq", "1", "100000")
    async with rig(tmp_path, caps=SMALL) as made:
        await made.finish(order)
        told = made.output(order)
        assert told.startswith("1\n2\n3\n")
        assert told.endswith("\n99999\n100000\n")
        assert "bytes left out here" in told
        kept = sum(path.stat().st_size for path in made.runner.lives[order.task.id].folder.path.glob("output.*"))
        assert kept <= SMALL.head_bytes + 2 * SMALL.tail_bytes


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("seq 1 1000", "".join(f"{k}\n" for k in range(1, 1001))),
        ("printf 'no newline at the end'", "no newline at the end"),
        ("printf '\\377\\376x'", "\ufffd\ufffdx"),
        ("head -c 1000000 /dev/zero | tr '\\0' a", "a" * 1_000_000),
        ("echo before; kill -9 $$", "before\n"),
    ],
)
async def test_every_byte_up_to_the_exit_is_heard(tmp_path: Path, script: str, expected: str) -> None:
    order = an_order(*sh(script))
    async with rig(tmp_path) as made:
        await made.finish(order)
        assert made.output(order) == expected


async def test_a_restarted_agent_finds_its_task_again_and_hears_all_of_it(tmp_path: Path) -> None:
    order = an_order(*sh("echo one; while [ ! -e go ]; do sleep 0.05; done; echo two; exit 5"))
    async with rig(tmp_path) as first:
        first.runner.start(order)
        await first.heard(order, "one")
        life = first.runner.lives[order.task.id].life
        work = first.runner.lives[order.task.id].folder.work
    async with rig(tmp_path) as second:
        local = second.runner.known[order.task.id]
        assert (local.phase, local.pid) == (Phase.RUNNING, life.main)
        second.told = first.told
        (work / "go").touch()
        local = await second.phase(order, Phase.EMPTY)
        assert (local.cause, local.exit_code) == (ExitCause.EXITED, 5)
        assert second.output(order) == "one\ntwo\n"


@pytest.mark.parametrize(
    "done",
    ["rm -rf $F", "rm $F/task.json $F/life", "echo x > $F/life; echo y > $F/task.json", ": > $F/life", "rm $F/life"],
)
async def test_a_task_that_took_its_files_away_is_over_before_its_room_is_free(tmp_path: Path, done: str) -> None:
    """The next agent gave its room back and started it again, though its processes lived."""
    wait = "while [ ! -e go ]; do sleep 0.02; done"
    order = an_order(*sh(f"F=$GANGLINE_TASK_FOLDER; trap '' TERM; {wait}; {done}; sleep 1000 & wait; sleep 1000"))
    async with rig(tmp_path) as first:
        first.runner.start(order)
        await first.phase(order, Phase.RUNNING)
        live = first.runner.lives[order.task.id]
        (live.folder.work / "go").touch()
        await first.until_true(lambda: live.folder.life() == Life())
        members = proc.members(proc.everything(), live.life.pid)
    async with rig(tmp_path, has=[order]) as second:
        assert second.runner.known[order.task.id].phase in (Phase.EXITED, Phase.EMPTY)
        local = await second.phase(order, Phase.EMPTY)
        assert local.cause == ExitCause.PROCESS_LOST
        assert not set(members) & set(proc.everything())


async def test_a_task_is_not_over_while_a_process_that_was_killed_dies(tmp_path: Path) -> None:
    """It has lost the environment by which it was found, and may hold its GPUs still: here it never had it."""
    order = an_order(*sh("sleep 1000"))
    async with rig(tmp_path) as made:
        made.runner.start(order)
        await made.phase(order, Phase.RUNNING)
        live, group = made.runner.lives[order.task.id], made.runner.group
        dying = await asyncio.create_subprocess_exec("sleep", "60")
        assert dying.pid not in group.left(live)
        seen = proc.read(dying.pid)
        assert seen is not None
        live.killed[dying.pid] = seen.start_ticks
        assert dying.pid in group.left(live)
        dying.kill()
        await dying.wait()
        assert dying.pid not in group.left(live)


async def test_a_program_that_ends_its_own_supervisor_is_seen_to_whatever_it_writes_first(tmp_path: Path) -> None:
    """A story of another boot in its files must not make it look like a machine that began anew."""
    forged = "echo claimed 1 1 another-boot > $GANGLINE_TASK_FOLDER/life"
    order = an_order(*sh(f"{forged}; kill -9 $PPID; sleep 1000"))
    async with rig(tmp_path) as made:
        local = await made.finish(order)
        assert (local.cause, local.witnessed) == (ExitCause.PROCESS_LOST, True)
        mark = f"{MARK}{made.runner.journal.folder(order.task.id).notice}"
        assert not proc.marked(proc.everything(), mark), "it was told to be empty, and ran on"


async def test_a_task_that_is_not_here_and_has_no_files_is_not_made_up(tmp_path: Path) -> None:
    async with rig(tmp_path, has=[an_order(*sh("echo ran"))]) as made:
        assert not made.runner.known


async def test_an_exit_that_no_agent_saw_is_found_by_the_next(tmp_path: Path) -> None:
    order = an_order(*sh("while [ ! -e go ]; do sleep 0.02; done; echo late; exit 7"))
    async with rig(tmp_path) as first:
        first.runner.start(order)
        await first.phase(order, Phase.RUNNING)
        live = first.runner.lives[order.task.id]
    (live.folder.work / "go").touch()
    await asyncio.to_thread(wait_until_gone, live.life.pid)
    async with rig(tmp_path) as second:
        local = await second.phase(order, Phase.EMPTY)
        assert (local.cause, local.exit_code) == (ExitCause.EXITED, 7)
        assert second.output(order) == "late\n"


async def test_after_a_reboot_a_task_is_lost_and_nobody_who_has_its_old_number_is_signalled(tmp_path: Path) -> None:
    order = an_order("/bin/sleep", "1000")
    async with rig(tmp_path) as first:
        first.runner.start(order)
        await first.phase(order, Phase.RUNNING)
        live = first.runner.lives[order.task.id]
    for pid in (live.life.pid, live.life.main):
        os.kill(pid, signal.SIGKILL)
    await asyncio.to_thread(wait_until_gone, live.life.pid)
    # The machine starts again, and the number of the task's supervisor belongs to somebody else: to this test.
    found = proc.read(os.getpid())
    assert found is not None
    story = live.folder.path / "life"
    _, _, rest = story.read_text().partition("claimed ")[2].partition("\n")
    story.write_text(f"claimed {found.pid} {found.start_ticks} another-boot\n{rest}")
    async with rig(tmp_path) as second:
        local = await second.phase(order, Phase.EMPTY)
        assert (local.cause, local.witnessed) == (ExitCause.PROCESS_LOST, False)


async def test_a_start_that_was_only_meant_is_called_off_and_can_be_made_again(tmp_path: Path) -> None:
    order = an_order(*sh("echo ran"))
    async with rig(tmp_path) as first:
        pass
    folder = first.runner.journal.folder(order.task.id)
    folder.make(launch.intent(order, SystemClock()))
    async with rig(tmp_path) as second:
        assert order.task.id not in second.runner.known
        assert (await second.finish(order)).exit_code == 0
        assert second.output(order) == "ran\n"


async def test_a_task_whose_supervisor_was_killed_is_lost_and_nothing_of_it_runs_on(tmp_path: Path) -> None:
    order = an_order(*sh("setsid sleep 1000 & echo ready; sleep 1000"))
    async with rig(tmp_path) as made:
        made.runner.start(order)
        await made.heard(order, "ready")
        supervisor = made.runner.lives[order.task.id].life.pid
        members = proc.members(proc.everything(), supervisor)
        os.kill(supervisor, signal.SIGKILL)
        local = await made.phase(order, Phase.EMPTY)
        assert (local.cause, local.witnessed) == (ExitCause.PROCESS_LOST, True)
        assert not set(members) & set(proc.everything())


def a_cgroup(state: Path) -> Path:
    """A cgroup we may make others in; skips on a machine that allows none."""
    home = cgroups.own()
    made = cgroups.Cgroups("rig", home=home, state=state)
    if home is None or made.make(TaskId("try")) is None:
        pytest.skip("no cgroup of version 2 may be made on this machine")
    made.remove(TaskId("try"))
    made.close()
    return home


async def test_even_a_process_that_left_group_session_parent_and_environment_is_found_by_its_cgroup(
    tmp_path: Path,
) -> None:
    home = a_cgroup(tmp_path)
    order = an_order(*sh("(setsid env -i sh -c 'echo stray $$ left; exec sleep 1000' &); sleep 1000"))
    async with rig(tmp_path, cgroup=home) as made:
        made.runner.start(order)
        await made.heard(order, "left")
        stray = int(made.output(order).split()[1])
        assert stray in made.runner.cgroups.pids(order.task.id)
        os.kill(made.runner.lives[order.task.id].life.pid, signal.SIGKILL)
        await made.phase(order, Phase.EMPTY)
        assert proc.read(stray) is None
        made.runner.forget(order.task.id)
        assert made.runner.cgroups.pids(order.task.id) == []


async def test_two_agents_of_one_name_on_one_machine_keep_their_hands_off_each_other_s_tasks(tmp_path: Path) -> None:
    home = a_cgroup(tmp_path)
    order = an_order(*sh("echo ready; sleep 1000"))
    async with rig(tmp_path / "a", cgroup=home) as mine, rig(tmp_path / "b", cgroup=home) as other:
        for made in (mine, other):
            made.runner.start(order)
            await made.heard(order, "ready")
        theirs = set(other.runner.cgroups.pids(order.task.id))
        assert theirs
        assert not theirs & set(mine.runner.cgroups.pids(order.task.id))
        mine.runner.stop(order.task.id, ExitCause.STOPPED)
        await mine.phase(order, Phase.EMPTY)
        assert theirs <= set(proc.everything())
        other.runner.stop(order.task.id, ExitCause.STOPPED)
        await other.phase(order, Phase.EMPTY)
        for made in (mine, other):
            made.runner.forget(order.task.id)


async def test_a_stop_that_an_earlier_agent_began_is_not_begun_again(tmp_path: Path) -> None:
    script = "n=0; trap 'n=$((n+1)); echo signal $n' TERM; echo ready; while [ $n -lt 9 ]; do sleep 0.05; done"
    order = an_order(*sh(script), grace_s=2)
    async with rig(tmp_path) as first:
        first.runner.start(order)
        await first.heard(order, "ready")
        first.runner.stop(order.task.id, ExitCause.STOPPED)
        await first.heard(order, "signal 1")
    async with rig(tmp_path) as second:
        second.told = first.told
        second.runner.stop(order.task.id, ExitCause.STOPPED)
        local = await second.phase(order, Phase.EMPTY)
        assert (local.cause, local.exit_code) == (ExitCause.STOPPED, 137)
        assert second.output(order).count("signal") == 1


async def test_without_an_agent_a_supervisor_stops_its_task_when_the_lease_ends(tmp_path: Path) -> None:
    order = an_order("/bin/sleep", "1000", grace_s=1)
    async with rig(tmp_path, lease_s=1) as made:
        made.runner.renew_lease()
        local = await made.finish(order)
        assert (local.cause, local.exit_code) == (ExitCause.BUS_LOST, 143)


async def test_an_ended_task_is_put_aside_with_its_output(tmp_path: Path) -> None:
    order = an_order(*sh("echo kept; echo result > file"))
    async with rig(tmp_path) as made:
        await made.finish(order)
        made.runner.forget(order.task.id)
        assert not made.runner.known
        assert not made.runner.lives
        assert not list((tmp_path / "tasks").iterdir())
        (ended,) = (tmp_path / "ended").iterdir()
        assert (ended / "work" / "file").read_text() == "result\n"
        assert made.runner.journal.clean(older_than_ms=0, most=0) == 1
        assert not list((tmp_path / "ended").iterdir())


async def test_a_job_may_name_the_folder_it_starts_in(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    here = an_order("/bin/pwd", attributes={"workdir": str(tmp_path / "code")})
    async with rig(tmp_path / "agent") as made:
        await made.finish(here)
        assert made.output(here) == f"{tmp_path}/code\n"


async def test_a_folder_that_is_not_there_is_said_and_the_task_starts_in_its_own(tmp_path: Path) -> None:
    gone = an_order("/bin/pwd", attributes={"workdir": "/no/such/folder"})
    async with rig(tmp_path / "agent") as made:
        await made.finish(gone)
        assert made.output(gone).startswith("[gangline: there is no folder /no/such/folder")
        assert made.output(gone).endswith(f"{made.runner.journal.folder(gone.task.id).work}\n")


def wait_until_gone(pid: int) -> None:
    """Wait until a process that is no child of ours has ended."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    gone, _, _ = select.select([process], [], [], LONG_S)
    os.close(process)
    assert gone


def everything_in(folder: Path) -> list[Path]:
    """All files below a folder, named pipes left out."""
    return [path for path in folder.rglob("*") if path.is_file()]

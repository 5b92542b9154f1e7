"""A paused task's processes stand still, through restarts of the agent, and end when they are told to."""

import sys
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.services.agent.rig import Rig, an_order, rig

from gangline_agent import proc
from gangline_agent.group import Group
from gangline_agent.journal import Intent, Life, write_whole
from gangline_agent.judge import due
from gangline_agent.lives import Live
from gangline_agent.runner import Local, Order, Phase
from gangline_agent.simulated import SimulatedRunner, worked_ms
from gangline_core.facts import ExitCause
from gangline_core.job import TaskState
from gangline_kit.clock import ManualClock
from gangline_wire.codec import encode
from gangline_wire.contract import sizing

COUNTS = ("/bin/sh", "-c", "sleep 1000 & echo ready; while :; do echo x; sleep 0.02; done")


def standing(made, order: Order) -> list[str]:
    found = proc.members(proc.everything(), made.runner.lives[order.task.id].life.pid)
    return [process.state for pid in found if (process := proc.read(pid)) is not None]


async def test_all_processes_stand_still_and_work_again(tmp_path: Path) -> None:
    order = an_order(*COUNTS)
    async with rig(tmp_path) as made:
        made.runner.start(order)
        await made.heard(order, "x")
        made.runner.pause(order.task.id, 0)
        await made.until(lambda: made.runner.known[order.task.id].still)
        states = standing(made, order)
        assert len(states) >= 2
        assert set(states) == {"T"}
        made.runner.go_on(order.task.id)
        lines = made.output(order).count("x")
        await made.until(lambda: made.output(order).count("x") > lines + 3)
        assert not made.runner.known[order.task.id].still
        made.runner.stop(order.task.id, ExitCause.STOPPED)
        await made.phase(order, Phase.EMPTY)


async def test_it_is_told_first_and_stands_still_as_soon_as_it_is_ready(tmp_path: Path) -> None:
    order = an_order(*COUNTS)
    async with rig(tmp_path) as made:
        made.runner.start(order)
        await made.heard(order, "ready")
        made.runner.pause(order.task.id, 1000)
        assert made.runner.known[order.task.id].pausing
        assert not made.runner.known[order.task.id].still
        assert made.runner.safe(order.task.id)
        await made.until(lambda: made.runner.known[order.task.id].still)
        made.runner.stop(order.task.id, ExitCause.STOPPED)
        await made.phase(order, Phase.EMPTY)


async def test_a_task_that_stands_still_ends_when_it_is_stopped_with_its_grace(tmp_path: Path) -> None:
    order = an_order("/bin/sh", "-c", "trap 'echo saved; exit 0' TERM; echo ready; while :; do sleep 0.02; done")
    async with rig(tmp_path) as made:
        made.runner.start(order)
        await made.heard(order, "ready")
        made.runner.pause(order.task.id, 0)
        await made.until(lambda: made.runner.known[order.task.id].still)
        made.runner.stop(order.task.id, ExitCause.STOPPED)
        local = await made.phase(order, Phase.EMPTY)
        assert (local.cause, local.exit_code) == (ExitCause.STOPPED, 0)
        assert made.output(order).endswith("saved\n")


async def test_a_restarted_agent_finds_it_standing_and_lets_it_go_on(tmp_path: Path) -> None:
    order = an_order(*COUNTS)
    async with rig(tmp_path) as first:
        first.runner.start(order)
        await first.heard(order, "x")
        first.runner.pause(order.task.id, 0)
        await first.until(lambda: first.runner.known[order.task.id].still)
    async with rig(tmp_path) as second:
        assert second.runner.known[order.task.id].still
        assert set(standing(second, order)) == {"T"}
        second.told = first.told
        second.runner.go_on(order.task.id)
        lines = second.output(order).count("x")
        await second.until(lambda: second.output(order).count("x") > lines + 3)
        second.runner.stop(order.task.id, ExitCause.STOPPED)
        await second.phase(order, Phase.EMPTY)


async def test_what_the_agent_meant_to_stop_before_it_was_killed_is_stopped_by_the_next(tmp_path: Path) -> None:
    order = an_order(*COUNTS)
    async with rig(tmp_path) as first:
        first.runner.start(order)
        await first.heard(order, "x")
        live = first.runner.lives[order.task.id]
        live.folder.write(replace(live.intent, pause=True, still_s=SINCE_BOOT_S))
    async with rig(tmp_path) as second:
        await second.until_true(lambda: set(standing(second, order)) == {"T"})
        second.told = first.told
        second.runner.stop(order.task.id, ExitCause.STOPPED)
        await second.phase(order, Phase.EMPTY)


SINCE_BOOT_S = 1.0


class KilledError(Exception):
    """The agent ends here."""


class Killed(Group):
    """The agent is killed as it begins to signal."""

    def tell(self, live: Live, number: int) -> None:
        raise KilledError


def test_time_in_which_it_stood_still_does_not_count_against_its_limit() -> None:
    intent = Intent(task="t", job=1, placed_ms=0, stop_signal=15, grace_s=5, limit_s=10, paused_s=100)
    local = Local(task="t", placed_ms=0, phase=Phase.RUNNING, started=True)

    def cause(now_s: float, given: Intent = intent) -> ExitCause | None:
        return due(given, Life(), local, now_s=now_s, running_since_s=1000)[1].stop_cause

    assert cause(1109) is None
    assert cause(1111) == ExitCause.TIME_LIMIT
    stands = replace(intent, pause=True, still_s=1105, pause_at_s=1105)
    assert cause(2000, stands) is None, "it stands still, and its time with it"


async def test_simulated_work_stands_still_for_as_long_as_it_is_paused() -> None:
    clock = ManualClock()
    order = an_order("x", attributes={"run_time_s": 100})
    runner = SimulatedRunner(clock, lambda task: None)
    runner.start(order)
    await clock.advance(40)
    runner.pause(order.task.id, 0)
    assert runner.known[order.task.id].still
    await clock.advance(1000)
    runner.end_due(clock.monotonic_s())
    assert runner.known[order.task.id].phase == Phase.RUNNING
    runner.go_on(order.task.id)
    await clock.advance(59)
    runner.end_due(clock.monotonic_s())
    assert runner.known[order.task.id].phase == Phase.RUNNING
    await clock.advance(2)
    runner.end_due(clock.monotonic_s())
    assert runner.known[order.task.id].phase == Phase.EMPTY


def test_a_restarted_simulation_counts_only_the_time_in_which_it_worked() -> None:
    task = replace(an_order("x").task, state=TaskState.STARTED, started_ms=1000, paused_ms=300)
    assert worked_ms(task, 2000) == 700


def test_a_deadline_comes_while_a_task_stands_still_and_is_not_moved_by_its_pauses() -> None:
    intent = Intent(task="t", job=1, placed_ms=0, stop_signal=15, grace_s=5, limit_s=500, ends_at_s=1500)
    local = Local(task="t", placed_ms=0, phase=Phase.RUNNING, started=True)
    for pauses in ({"paused_s": 400}, {"pause": True, "still_s": 1100, "pause_at_s": 1100}):
        given = replace(intent, **pauses)
        assert due(given, Life(), local, now_s=1499, running_since_s=1000)[1].stop_cause is None
        assert due(given, Life(), local, now_s=1500, running_since_s=1000)[1].stop_cause == ExitCause.TIME_LIMIT


async def test_a_process_that_stands_still_ends_at_its_jobs_deadline(tmp_path: Path) -> None:
    order = an_order(*COUNTS)
    stood_still = False
    for left_ms in (1_500, 6_000, 24_000, 60_000):  # enough to begin and to stand still, on a machine however busy
        async with rig(tmp_path / str(left_ms)) as made:
            local = await stands_till_its_deadline(made, order, left_ms)
            stood_still = local.still
            assert (await made.phase(order, Phase.EMPTY)).cause == ExitCause.TIME_LIMIT
        if stood_still:
            break
    assert stood_still


async def stands_till_its_deadline(made: Rig, order: Order, left_ms: int) -> Local:
    """The task once it stands still, unless its deadline came before that."""
    deadline_ms = made.runner.around.clock.now_ms() + left_ms
    spec = replace(order.job.spec, deadline_ms=deadline_ms)
    made.runner.start(replace(order, job=replace(order.job, spec=spec)))

    def is_over() -> bool:
        return made.runner.known[order.task.id].phase == Phase.EMPTY

    await made.until(lambda: "x" in made.output(order) or is_over())
    made.runner.pause(order.task.id, 0)
    await made.until(lambda: made.runner.known[order.task.id].still or is_over())
    return made.runner.known[order.task.id]


async def test_an_agent_that_ends_while_it_wakes_a_task_leaves_it_to_the_next_one(tmp_path: Path) -> None:
    order = an_order(*COUNTS)
    async with rig(tmp_path) as first:
        first.runner.start(order)
        await first.heard(order, "x")
        first.runner.pause(order.task.id, 0)
        await first.until(lambda: first.runner.known[order.task.id].still)
        first.runner.group = Killed(first.runner.cgroups, first.runner._boot)
        with pytest.raises(KilledError):
            first.runner.go_on(order.task.id)
    async with rig(tmp_path) as second:
        second.told = first.told
        # The log says that it works, and the agent knows that it does not: it is told to go on.
        assert second.runner.known[order.task.id].pausing
        second.runner.go_on(order.task.id)
        lines = second.output(order).count("x")
        await second.until(lambda: second.output(order).count("x") > lines + 3)
        second.runner.stop(order.task.id, ExitCause.STOPPED)
        await second.phase(order, Phase.EMPTY)


class Stubborn(Group):
    """The first time, a process is in the midst of something that nobody interrupts."""

    tries = 0

    def stand_still(self, live: Live) -> bool:
        self.tries += 1
        return self.tries > 1 and super().stand_still(live)


async def test_a_task_that_could_not_be_stopped_is_not_said_to_stand_still_and_is_stopped_later(tmp_path: Path) -> None:
    order = an_order(*COUNTS)
    async with rig(tmp_path) as made:
        stubborn = made.runner.group = Stubborn(made.runner.cgroups, made.runner._boot)
        made.runner.start(order)
        await made.heard(order, "x")
        made.runner.pause(order.task.id, 0)
        assert not made.runner.known[order.task.id].still
        await made.until(lambda: made.runner.known[order.task.id].still)
        assert stubborn.tries == 2
        assert set(standing(made, order)) == {"T"}
        made.runner.stop(order.task.id, ExitCause.STOPPED)
        await made.phase(order, Phase.EMPTY)


LISTENS = """
import signal, time
signal.signal(signal.SIGUSR1, lambda *_: print("told", flush=True))
print("ready", flush=True)
while True: time.sleep(0.05)
"""


async def test_news_that_the_last_agent_wrote_down_and_did_not_signal_are_signalled_by_the_next(tmp_path: Path) -> None:
    order = an_order(sys.executable, "-c", LISTENS)
    news = sizing(order.job, order.task, [order.task])
    async with rig(tmp_path) as first:
        first.runner.start(order)
        await first.heard(order, "ready")
        write_whole(first.runner.lives[order.task.id].folder.size, encode(replace(news, signals=True)))
    async with rig(tmp_path) as second:
        second.told = first.told
        await second.heard(order, "told")
        second.runner.stop(order.task.id, ExitCause.STOPPED)
        await second.phase(order, Phase.EMPTY)


async def test_simulated_work_that_stands_still_ends_at_its_jobs_deadline() -> None:
    clock = ManualClock()
    order = an_order("x", attributes={"run_time_s": 1000}, deadline_ms=clock.now_ms() + 100_000)
    runner = SimulatedRunner(clock, lambda task: None)
    runner.start(order)
    await clock.advance(40)
    runner.pause(order.task.id, 0)
    await clock.advance(59)
    runner.end_due(clock.monotonic_s())
    assert runner.known[order.task.id].still
    await clock.advance(2)
    runner.end_due(clock.monotonic_s())
    assert (runner.known[order.task.id].phase, runner.known[order.task.id].cause) == (Phase.EMPTY, ExitCause.TIME_LIMIT)

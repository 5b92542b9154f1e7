"""What a task's files and processes mean, and what is due."""

import pytest
from msgspec.structs import replace

from gangline_agent.journal import Intent, Life
from gangline_agent.judge import Due, Found, due, local
from gangline_agent.runner import Phase
from gangline_core.facts import ExitCause
from gangline_core.ids import JobId, TaskId

INTENT = Intent(task=TaskId("1-1-w-0"), job=JobId(1), placed_ms=5, stop_signal=15, grace_s=30)
CLAIMED = Life(pid=100, start_ticks=1, boot="b")
RUNNING = replace(CLAIMED, main=101, main_ticks=2)
EXITED = replace(RUNNING, exit_code=0)
EMPTY = replace(EXITED, empty=True)
ALIVE = Found(supervisor_lives=True, something_is_left=False, is_told=False)
GONE = Found(supervisor_lives=False, something_is_left=False, is_told=True)
TOLD = replace(ALIVE, is_told=True)


@pytest.mark.parametrize(
    ("life", "found", "phase"),
    [
        (Life(), ALIVE, Phase.STARTING),
        (CLAIMED, ALIVE, Phase.STARTING),
        (RUNNING, ALIVE, Phase.RUNNING),
        (EXITED, TOLD, Phase.EXITED),
        (EMPTY, ALIVE, Phase.EXITED),
        (EMPTY, TOLD, Phase.EMPTY),
        (EXITED, GONE, Phase.EMPTY),
        (EXITED, replace(GONE, something_is_left=True), Phase.EXITED),
        (RUNNING, replace(GONE, something_is_left=True), Phase.EXITED),
        (RUNNING, GONE, Phase.EMPTY),
        (CLAIMED, GONE, Phase.EMPTY),
        (Life(failed="not found", empty=True), GONE, Phase.EMPTY),
    ],
)
def test_a_task_is_as_far_as_its_processes_and_its_output_are(life: Life, found: Found, phase: Phase) -> None:
    assert local(INTENT, life, found).phase == phase


def test_a_task_whose_supervisor_vanished_is_lost_unless_its_end_was_written_down() -> None:
    assert local(INTENT, RUNNING, GONE).cause == ExitCause.PROCESS_LOST
    known = local(INTENT, EXITED, GONE)
    assert (known.cause, known.exit_code) == (ExitCause.EXITED, 0)


def test_who_started_a_task_and_was_there_ever_since_says_that_it_saw_the_supervisor_go() -> None:
    assert local(INTENT, RUNNING, replace(GONE, is_mine=True)).witnessed
    assert not local(INTENT, RUNNING, GONE).witnessed, "of a task of an earlier agent nobody can tell who ended it"
    assert not local(INTENT, EXITED, replace(GONE, is_mine=True)).witnessed


def test_a_stopped_task_ended_because_it_was_stopped() -> None:
    asked = replace(INTENT, stop_cause=ExitCause.TIME_LIMIT)
    assert local(asked, EMPTY, TOLD).cause == ExitCause.TIME_LIMIT
    assert local(asked, replace(EMPTY, bus_lost=True), TOLD).cause == ExitCause.BUS_LOST
    assert local(asked, Life(failed="x", empty=True), TOLD).cause == ExitCause.TIME_LIMIT


def when(intent: Intent, life: Life, found: Found, now_s: float) -> tuple[Due, Intent]:
    return due(intent, life, local(intent, life, found), now_s=now_s, running_since_s=1000)


def test_a_running_task_is_left_alone_until_its_limit() -> None:
    limited = replace(INTENT, limit_s=60)
    assert when(limited, RUNNING, ALIVE, 1059) == (Due.NOTHING, limited)
    act, after = when(limited, RUNNING, ALIVE, 1060)
    assert (act, after.stop_cause, after.kill_at_s) == (Due.SIGNAL, ExitCause.TIME_LIMIT, 1090)


def test_a_stop_is_one_signal_then_a_kill_that_is_repeated_until_it_works() -> None:
    asked = replace(INTENT, stop_cause=ExitCause.STOPPED)
    act, asked = when(asked, RUNNING, ALIVE, 2000)
    assert (act, asked.kill_at_s) == (Due.SIGNAL, 2030)
    assert when(asked, RUNNING, ALIVE, 2029) == (Due.NOTHING, asked)
    assert when(asked, RUNNING, ALIVE, 2030) == (Due.KILL, asked)
    assert when(asked, RUNNING, ALIVE, 2031) == (Due.KILL, asked)


def test_a_task_that_has_not_begun_is_signalled_once_it_has() -> None:
    asked = replace(INTENT, stop_cause=ExitCause.STOPPED)
    assert when(asked, CLAIMED, ALIVE, 2000) == (Due.NOTHING, asked)
    assert when(asked, RUNNING, ALIVE, 2001)[0] == Due.SIGNAL


def test_strays_of_an_ended_task_are_asked_then_killed() -> None:
    act, after = when(INTENT, EXITED, ALIVE, 2000)
    assert (act, after.kill_at_s, after.stop_cause) == (Due.SIGNAL, 2030, None)
    assert when(after, EXITED, ALIVE, 2030)[0] == Due.KILL
    assert when(after, EMPTY, ALIVE, 2030)[0] == Due.NOTHING


def test_what_is_left_of_a_lost_task_is_killed_at_once() -> None:
    assert when(INTENT, RUNNING, replace(GONE, something_is_left=True), 2000)[0] == Due.KILL


def test_cut_off_from_the_bus_the_grace_is_short_enough_to_be_gone_before_the_node_is_lost() -> None:
    asked = replace(INTENT, stop_cause=ExitCause.BUS_LOST)
    assert when(asked, RUNNING, ALIVE, 2020)[1].kill_at_s == 2028

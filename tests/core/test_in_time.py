"""Nobody goes for a job that may start only before they must be gone, by its deadline or a window: both would lose."""

from typing import Any

import pytest
from msgspec.structs import replace
from tests.make import World, group, node, spec

from gangline_core.facts import WindowSet
from gangline_core.ids import NodeId
from gangline_core.job import JobState
from gangline_core.reserving.windows import Window
from gangline_core.spec import Pausing

GRACE_S, RUNS_S = 30, 100


def full(**policy: Any) -> World:
    """Eight GPUs, on which two jobs of four run that may take half a minute to stop."""
    there = World(node("n1")).set_policy(**policy)
    there.submit(*(spec(f"runs-{k}", gpus=4, grace_s=GRACE_S) for k in range(2)))
    there.settle()
    return there.wait(10)


def due(there: World, within_s: int, **fields: Any):
    """A job that may start for so long yet."""
    deadline_ms = there.at + (within_s + RUNS_S) * 1_000
    return spec("due", **{"gpus": 4, "estimate_s": RUNS_S, "priority": 1, "deadline_ms": deadline_ms, **fields})


@pytest.mark.parametrize(("within_s", "goes"), [(GRACE_S - 1, False), (GRACE_S, True)])
def test_who_might_be_gone_too_late_stays(within_s, goes):
    there = full()
    there.submit(due(there, within_s))
    decided = there.round()
    assert decided is not None
    assert bool(decided.evictions) is goes
    assert bool(decided.claims) is goes
    there.wait(GRACE_S).settle()
    assert sorted(there.in_state(JobState.RUNNING)) == ([1, 3] if goes else [1, 2])


@pytest.mark.parametrize(("runs_s", "goes"), [(100, False), (80, True)])
def test_nor_does_who_might_be_gone_when_the_job_would_run_into_a_window(runs_s, goes):
    there = full()
    start_ms = there.at + 120_000
    window = Window(name="care", pool="default", start_ms=start_ms, end_ms=start_ms + 10_000, nodes=(NodeId("n1"),))
    there.tell("admission", WindowSet(window=window, by="admin"))
    there.submit(spec("urgent", gpus=4, priority=1, time_limit_s=runs_s, grace_s=1))
    decided = there.round()
    assert decided is not None
    assert bool(decided.evictions) is goes
    there.wait(GRACE_S).settle()
    assert sorted(there.in_state(JobState.RUNNING)) == ([1, 3] if goes else [1, 2])


def test_of_those_that_run_the_one_goes_that_is_gone_in_time():
    there = World(node("n1"))
    there.submit(spec("quick", gpus=4, grace_s=5), spec("slow", gpus=4, grace_s=GRACE_S))
    there.settle()
    there.wait(10).submit(due(there, 10))
    decided = there.round()
    assert decided is not None
    assert [one.job for one in decided.evictions] == [1]


def test_who_is_paused_need_not_be_gone():
    there = World(node("n1"))
    there.submit(spec("stands", gpus=8, grace_s=GRACE_S, pausing=Pausing()))
    there.settle()
    there.wait(10).submit(due(there, 10))
    decided = there.round()
    assert decided is not None
    assert [one.job for one in decided.pauses] == [1]


def test_who_has_no_time_left_does_not_speak_for_an_equal_one_that_has():
    there = full()
    there.submit(due(there, 10), due(there, 10), due(there, 0, deadline_ms=0))
    decided = there.round()
    assert decided is not None
    assert [(one.job, one.beneficiary) for one in decided.evictions] == [(2, 5)]


def test_nor_in_a_crowd_that_is_refused_in_passing():
    """By service alone, where nobody has a date: the two that are in a hurry are refused, and equal in all but that."""
    there = full(ordering="least_attained", service_thresholds=(20,), backfill_depth=0, shrink=False)
    in_a_hurry = due(there, 10, priority=0, time_limit_s=1_000)
    there.submit(in_a_hurry, in_a_hurry, replace(in_a_hurry, deadline_ms=0), replace(in_a_hurry, deadline_ms=0))
    decided = there.round()
    assert decided is not None
    assert sorted(one.beneficiary for one in decided.evictions) == [5, 6]


def test_nor_does_who_counts_for_a_limit_when_a_window_closes_the_free_node_by_then():
    """The job would go to n1, which is free, and waits for who uses the limit on n2: by then n1 is closed."""
    there = World(node("n1", gpus=2), node("n2", gpus=2), groups=[group("lab", limit={"jobs": 1})])
    there.submit_running(spec("runs", group="lab", gpus=1, grace_s=GRACE_S), "n2")
    there.submit_running(spec("other", gpus=1, priority=9), "n2")
    start_ms = there.at + 60_000
    window = Window(name="care", pool="default", start_ms=start_ms, end_ms=start_ms + 10_000, nodes=(NodeId("n1"),))
    there.tell("admission", WindowSet(window=window, by="admin"))
    there.submit(spec("urgent", group="lab", gpus=2, priority=1, time_limit_s=50, grace_s=1))
    decided = there.round()
    assert decided is not None
    assert decided.evictions == ()


def test_where_a_window_closes_one_node_by_then_the_job_goes_to_another():
    there = World(node("n1", gpus=2), node("n2", gpus=4), groups=[group("lab", limit={"jobs": 1})])
    there.submit_running(spec("runs", group="lab", gpus=1, grace_s=GRACE_S), "n2")
    start_ms = there.at + 60_000
    window = Window(name="care", pool="default", start_ms=start_ms, end_ms=start_ms + 10_000, nodes=(NodeId("n1"),))
    there.tell("admission", WindowSet(window=window, by="admin"))
    job = there.submit(spec("urgent", group="lab", gpus=2, priority=1, time_limit_s=50, grace_s=1))
    decided = there.round()
    assert decided is not None
    assert [one.job for one in decided.evictions] == [1]
    assert {place.node for claim in decided.claims for place in claim.placement.tasks} == {"n2"}
    there.wait(GRACE_S).settle()
    assert there.job(job).state == JobState.RUNNING

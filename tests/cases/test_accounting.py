"""What is charged and what counts as waiting, over re-runs, chains, holds and evictions; after public reports."""

from pathlib import Path

import pytest
from tests.cases.drive import Drive
from tests.cases.house import ask, house
from tests.make import HOUR, SECOND, World, node, spec

from dollhouse.loop import live
from gangline_core import facts as f
from gangline_core.job import JobState
from gangline_core.limits.accounting import charge
from gangline_core.reasons import Reason, ReasonCode, hint
from gangline_core.scoring.ageing import waited_ms
from gangline_core.spec import Dependency
from gangline_core.telling.explain import explain
from gangline_core.wake import next_wake_ms


def charged(world: World) -> int:
    """GPU-seconds charged so far."""
    world.tell("accounting", *charge(world.state, world.at))
    return world.state.kept.charged.get("", 0) // 1000 // SECOND


# --- what is charged (armadaproject/armada#4388, actions/runner#2964) ---------------------------------------------


def test_a_failed_part_that_is_run_again_is_charged_for_both_runs_and_the_others_once() -> None:
    world = World(node("n1"))
    parts = [world.submit_running(spec(gpus=1), "n1") for _ in range(4)]
    world.wait(100)
    world.finish(parts[0], code=1)
    again = world.submit(gpus=1)
    world.wait(500)
    world.finish(*parts[1:])
    assert charged(world) == 100 + 3 * 600
    world.run(again, "n1")
    world.wait(50)
    world.finish(again)
    assert charged(world) == 100 + 3 * 600 + 50
    assert charged(world) == 1950, "asking again charges nothing again"


def test_a_job_that_is_placed_and_evicted_before_it_ran_is_charged_for_no_run() -> None:
    world = World(node("n1", gpus=4))
    low = world.submit(gpus=4)
    world.round()
    urgent = world.submit(gpus=4, priority=100)
    world.round()
    # Nothing was started: the agent says so at once, and the GPUs were held for no time at all.
    tasks = [task.id for task in world.tasks(low)]
    world.exit(*tasks, cause=f.ExitCause.STOPPED).empty(*tasks)
    assert charged(world) == 0
    world.round()
    assert world.job(urgent).state == JobState.STARTING
    assert world.job(low).started_ms == 0


@pytest.mark.parametrize("stop", [0.0, 7.0])
def test_all_charges_are_the_time_that_gpus_were_held_and_no_gpu_is_charged_twice(stop: float) -> None:
    drive = Drive(node("n1", gpus=4), node("n2", gpus=4))
    drive.asks_of(6, gpus=2, run=100, stop=stop)
    drive.asks_of(3, at=30, gpus=4, run=40, priority=10, stop=stop)
    drive.finish_all()
    charges = drive.state.kept.uncharged.values()
    held_ms = sum(charge.gpu_milli_ms for charge in charges) // 1000
    # All ends of runs are known, so the sum is known too: six runs of 2 GPUs and three of 4, each with its slow stop.
    assert held_ms >= (6 * 2 * 100 + 3 * 4 * 40) * SECOND
    assert held_ms <= 8 * (drive.at - drive.log[0].at)
    assert len({charge.task for charge in charges}) == len(charges)


# --- what counts as waiting ---------------------------------------------------------------------------------------


def test_waiting_for_a_predecessor_is_nobodys_queue() -> None:
    world = World(node("n1", gpus=1))
    first = world.submit_running(spec(gpus=1), "n1")
    second = world.submit(gpus=1, after=[first])
    world.wait(3600)
    assert waited_ms(world.state, world.job(second), world.at) == 0
    world.finish(first)
    world.wait(60)
    assert waited_ms(world.state, world.job(second), world.at) == 60 * SECOND
    world.run(second, "n1")
    assert world.job(second).waited_ms == 60 * SECOND


def test_time_before_the_begin_that_was_asked_for_is_no_wait() -> None:
    world = World(node("n1", gpus=1))
    job = world.submit(gpus=1, not_before_ms=world.at + 600 * SECOND)
    world.wait(100)
    assert waited_ms(world.state, world.job(job), world.at) == 0
    world.wait(530)
    world.run(job, "n1")
    assert world.job(job).waited_ms == 30 * SECOND


def test_waits_add_up_over_holds_suspensions_and_evictions_and_nothing_else() -> None:
    world = World(node("n1", gpus=1))
    job = world.submit(gpus=1)
    world.wait(10)
    world.tell("admission", f.HoldSet(job=job, held=True, by="ada"))
    world.wait(1000)
    world.tell("admission", f.HoldSet(job=job, held=False, by="ada"))
    world.wait(20)
    world.run(job, "n1")
    world.wait(500)
    world.tell("admission", f.HoldSet(job=job, held=True, by="ada"))
    world.stop_all().wait(1000)
    world.tell("admission", f.HoldSet(job=job, held=False, by="ada"))
    world.wait(5)
    world.run(job, "n1")
    assert world.job(job).waited_ms == 35 * SECOND


def test_any_end_of_a_predecessor_begins_the_wait() -> None:
    world = World(node("n1", gpus=2))
    first = world.submit_running(spec(gpus=1), "n1")
    both = world.submit(gpus=1, after=[Dependency(job=first, any_outcome=True)])
    world.wait(50)
    world.finish(first, code=9)
    world.wait(7)
    world.run(both, "n1")
    assert world.job(both).waited_ms == 7 * SECOND


def test_the_queue_wakes_when_a_job_that_waited_before_begins_to_starve() -> None:
    world = World(node("n1", gpus=1))
    world.set_policy(starvation_s=3600)
    job = world.submit(gpus=1)
    world.wait(3000)
    world.run(job, "n1")
    world.wait(100)
    world.tell("admission", f.HoldSet(job=job, held=True, by="ada"))
    world.stop_all()
    world.tell("admission", f.HoldSet(job=job, held=False, by="ada"))
    assert next_wake_ms(world.state, "default", world.at) == world.at + 600 * SECOND
    world.set_policy(starvation_s=0)
    assert next_wake_ms(world.state, "default", world.at) is None


def test_the_queue_wakes_when_victims_do_not_die() -> None:
    world = World(node("n1", gpus=1))
    world.set_policy(starvation_s=0)
    world.submit_running(spec(gpus=1, grace_s=100), "n1")
    urgent = world.submit(gpus=1, priority=9)
    world.round()
    assert urgent in world.state.kept.claims
    wake = next_wake_ms(world.state, "default", world.at)
    assert wake is not None
    assert 100 * SECOND < wake - world.at <= 160 * SECOND
    world.at = wake
    world.round()
    assert urgent not in world.state.kept.claims


# --- what is said of it -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gpus", [0, 2])
def test_nobody_promises_a_start_when_no_node_takes_the_job(gpus: int) -> None:
    world = World(node("n1"), node("n2"))
    for name in ("n1", "n2"):
        world.tell("admission", f.DrainSet(node=world.state.kept.nodes[name].id, drained=True, by="root"))  # type: ignore[index]  # a plain name will do here
    job = world.submit(gpus=gpus)
    for _ in range(2):
        told = explain(world.state, job, world.at)
        assert told is not None
        assert (told.start_from_ms, told.confidence) == (None, "")
        world.round()
    assert told.code == ReasonCode.NO_ELIGIBLE_NODE or world.reason(job) == ReasonCode.NO_ELIGIBLE_NODE


def test_a_sum_that_is_free_nowhere_together_is_no_promise_to_start_now() -> None:
    world = World(node("n1", gpus=4), node("n2", gpus=4))
    for name in ("n1", "n2"):
        world.submit_running(spec(gpus=2), name)
    job = world.submit(gpus=4)
    world.round()
    told = explain(world.state, job, world.at)
    assert told is not None
    assert told.code == ReasonCode.FRAGMENTED_GPUS
    assert told.start_from_ms is None or told.start_from_ms > world.at + 1 or told.confidence != "high"


def test_where_there_is_no_gpu_nobody_is_told_to_split_the_task() -> None:
    none = Reason(ReasonCode.NEVER_FITS_NODE, {"needed": 1, "dimension": "GPUs", "largest": 0})
    some = Reason(ReasonCode.NEVER_FITS_NODE, {"needed": 16, "dimension": "GPUs", "largest": 8})
    assert "another pool" in hint(none, job=1)
    assert "smaller tasks" in hint(some, job=1)


def test_the_whole_platform_tells_the_same_waits(tmp_path: Path) -> None:
    live(chain_story(tmp_path))


async def chain_story(tmp_path: Path) -> None:
    async with house(tmp_path, {"one": {"n1": 1}}) as world:
        (first,) = await world.submit(ask(run=600, gpus=1))
        (second,) = await world.submit(ask(run=10, gpus=1, after=[first]))
        await world.reached(second, state=JobState.SUCCEEDED, within_s=800)
        assert world.state.kept.jobs[second].waited_ms < 2 * SECOND
        assert world.state.kept.jobs[first].silent == 1
        await world.until(lambda state: not state.kept.uncharged)
        assert abs(world.state.kept.charged["lab"] - 610 * 1000 * SECOND) < 3 * 1000 * SECOND
        assert world.state.kept.at < 1_700_000_000_000 + HOUR

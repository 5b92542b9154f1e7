"""Where attained service orders, whoever had little may take the room of who had much, never the other way round."""

from random import Random

import pytest
from tests.make import World, node, spec

from gangline_core.scoring.attained import crossings, sank_ms
from gangline_core.state import State
from gangline_core.wake import next_wake_ms


def world() -> World:
    """Four GPUs, all taken by job 1, in a pool that orders by service with one threshold at 3,600 GPU-seconds."""
    there = World(node("n1", gpus=4))
    there.set_policy(ordering="least_attained", service_thresholds=(3_600,), starvation_s=0)
    there.submit(spec("long", gpus=4))
    there.settle()
    return there


def test_a_job_that_sank_gives_way_to_one_that_had_nothing() -> None:
    there = world().wait(900)
    there.submit(spec("new", gpus=4))
    decided = there.round()
    assert decided is not None
    assert [(one.job, one.beneficiary, one.rule) for one in decided.evictions] == [(1, 2, "service")]


def test_a_job_in_the_same_queue_keeps_its_room() -> None:
    there = world().wait(890)
    there.submit(spec("new", gpus=4))
    decided = there.round()
    assert decided is not None
    assert not decided.evictions


def test_somebody_looks_when_a_running_job_sinks() -> None:
    there = world()
    there.submit(spec("new", gpus=4))
    there.settle()
    begun = there.state.kept.tasks["1-1-worker-0"].placed_ms  # type: ignore[index]  # a task id is a plain string here
    assert next_wake_ms(there.state, "default", there.at) == begun + 900_000


def test_somebody_looks_when_a_waiting_job_is_back_in_the_first_queue() -> None:
    """It waited for the next event, whenever that was: seed 1400037 of the dollhouse."""
    there = World(node("n1", gpus=4))
    there.set_policy(ordering="least_attained", service_thresholds=(3_600,), starvation_s=0, promote_after=2)
    waits = there.submit_running(spec("stopped", gpus=4, retries=1), "n1")
    there.wait(1_000).exit(*there.job(waits).tasks, code=1).empty(*there.job(waits).tasks)
    began = there.job(waits).queued_ms
    there.submit_running(spec("runs", gpus=4), "n1")
    there.wait(1_500).round()
    assert next_wake_ms(there.state, "default", there.at) == began + 2_000_000
    decided = there.wait(500).round()
    assert decided is not None
    assert [(one.job, one.beneficiary) for one in decided.evictions] == [(2, waits)]


def test_inside_one_queue_the_older_takes_the_room_of_younger_ones_only_where_the_policy_says_so() -> None:
    for allowed in (False, True):
        there = World(node("n1", gpus=4))
        there.set_policy(ordering="least_attained", starvation_s=0, backfill_depth=0, oldest_preempts=allowed)
        there.submit(spec("first", gpus=2))
        there.settle()
        there.submit(spec("wide", gpus=3))
        there.wait(1)
        there.submit(spec("passes", gpus=2))
        there.settle()
        there.finish(1)
        there.settle()
        assert (there.state.job(3).state == "running") is not allowed  # type: ignore[union-attr, arg-type]  # the job is there


def _two_take_turns(**policy: bool) -> World:
    """Job 1 has sunk and made way for job 2, which now sinks itself: both are in the last queue, one runs."""
    there = world().set_policy(ordering="least_attained", service_thresholds=(3_600,), starvation_s=0, **policy)
    there.wait(900)
    there.submit(spec("second", gpus=4))
    there.settle()
    assert _states(there) == ["waiting", "running"]
    begun = there.state.kept.tasks["2-1-worker-0"].placed_ms  # type: ignore[index]  # a task id is a plain string here
    there.at = begun + 900_000
    return there


def _states(there: World) -> list[str]:
    return [there.job(number).state for number in (1, 2)]


@pytest.mark.parametrize("sinks_last", [False, True])
def test_who_sinks_makes_room_for_those_that_wait_in_its_new_queue_only_where_the_policy_says_so(
    sinks_last: bool,
) -> None:
    there = _two_take_turns(sinks_last=sinks_last)
    there.round()
    there.settle()
    assert _states(there) == (["running", "waiting"] if sinks_last else ["waiting", "running"])
    there.wait(100_000).round()
    there.settle()
    assert (there.job(1).preemptions, there.job(2).preemptions) == (1, int(sinks_last))


def test_who_was_left_its_room_when_it_sank_keeps_it_from_those_in_its_queue() -> None:
    """At the crossing job 1 needs more than job 2 has, so that the round leaves it its room. Later it would do."""
    there = World(node("n1", gpus=4), node("n2", gpus=4))
    there.set_policy(ordering="least_attained", service_thresholds=(3_600,), starvation_s=0, sinks_last=True)
    there.submit(spec("wide", gpus=4, tasks=2))
    there.settle()
    there.wait(450)
    there.submit(spec("second", gpus=4))
    there.submit(spec("other", gpus=4, preemptible=False))
    there.settle()
    assert _states(there) == ["waiting", "running"]
    decided = there.wait(1_000).round()
    assert decided is not None
    assert not decided.evictions
    there.finish(3).settle()
    assert _states(there) == ["waiting", "running"], "it sank before a round that left it its room"


@pytest.mark.parametrize("seed", range(20))
def test_when_a_job_came_into_its_queue_is_what_was_foretold_of_it(seed: int) -> None:
    draw = Random(seed)
    there = World(node("n1", gpus=8))
    bounds = tuple(sorted(draw.sample(range(100, 9_000), 3)))
    there.set_policy(ordering="least_attained", service_thresholds=bounds, starvation_s=0)
    job = there.submit(spec("one", gpus=draw.randint(1, 8)))
    there.settle()
    policy, one = there.state.kept.pools["default"].policy, there.job(job)
    tasks = there.state.tasks_of(one)
    known, at, told = 0, there.at, crossings(one, tasks, policy, there.at)
    while told is not None:
        assert sank_ms(one, tasks, policy, at) == known
        assert sank_ms(one, tasks, policy, told - 1) == known
        known, at = told, told + draw.randint(0, 5_000)
        told = crossings(one, tasks, policy, at)
    assert sank_ms(one, tasks, policy, at) == known > 0


@pytest.mark.parametrize("seed", range(20))
def test_when_somebody_sinks_is_known_whatever_was_asked_before(seed: int) -> None:
    draw = Random(seed)
    there = World(node("n1", gpus=4), node("n2", gpus=4))
    there.set_policy(ordering="least_attained", service_thresholds=(600, 3_600), starvation_s=0)
    for number in range(30):
        there.wait(draw.randint(1, 300))
        running = sorted(there.state.live.get("default", {}))
        match draw.randint(0, 3):
            case 0 | 1:
                there.submit(spec(f"j{number}", gpus=draw.choice([1, 2, 4]), tasks=draw.choice([1, 2])))
            case 2 if running:
                there.finish(draw.choice(running))
            case _:
                bounds = draw.choice([(600, 3_600), (900,), (300, 1_800, 7_200)])
                there.set_policy(ordering="least_attained", service_thresholds=bounds, starvation_s=0)
        there.settle()
        anew = State(there.state.kept)
        assert next_wake_ms(there.state, "default", there.at) == next_wake_ms(anew, "default", there.at), number

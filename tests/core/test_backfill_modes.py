"""EASY and conservative backfill, jobs without limits, and the promise that waiting ends."""

import pytest
from tests.clockwork import Clockwork
from tests.make import SECOND, World, gpu_amount, group, node, spec

from gangline_core import facts
from gangline_core.ids import NodeId


def crowded(**policy) -> tuple[World, list[int]]:
    """Half of eight GPUs is held for 1,000 s; two jobs of eight wait one behind the other, each for 1,000 s."""
    world = World(node()).set_policy(ordering="fifo", starvation_s=0, preemption=False, **policy)
    world.submit_running(spec(gpus=4, time_limit_s=1_000), "n1")
    large = [world.submit(gpus=8, time_limit_s=1_000), world.submit(gpus=8, time_limit_s=1_000)]
    return world, large


def dates(world: World) -> dict[int, float]:
    began = world.at
    found = world.state.kept.pools["default"].reservations
    return {reservation.job: (reservation.start_ms - began) / SECOND for reservation in found}


def test_easy_backfill_dates_the_first_that_cannot_start():
    world, large = crowded(backfill_depth=1)
    world.round()
    assert dates(world) == {large[0]: 1_000}


def test_conservative_backfill_dates_those_behind_it_too_one_after_the_other():
    world, large = crowded(backfill_depth=8)
    world.round()
    assert dates(world) == {large[0]: 1_000, large[1]: 2_000}


def test_a_job_without_limit_may_pass_when_jobs_like_it_always_ended_in_time():
    world = World(node()).set_policy(ordering="fifo", starvation_s=0, preemption=False, unlimited_run_percent=150)
    for _ in range(5):
        brief = world.run(world.submit(spec("eval", gpus=1)), "n1")
        world.wait(60).finish(brief)
    world.submit_running(spec(gpus=4, time_limit_s=1_000), "n1")
    world.submit(gpus=8, time_limit_s=1_000)
    known = world.submit(spec("eval", gpus=1))
    world.round()
    assert world.job(known).tasks, "90 s by prediction, and 1,000 s are left"
    assert world.job(known).expected_ms == 90_000


def test_no_job_without_limit_passes_when_predictions_are_not_to_be_trusted():
    world = World(node()).set_policy(ordering="fifo", starvation_s=0, preemption=False, unlimited_run_percent=0)
    for _ in range(5):
        brief = world.run(world.submit(spec("eval", gpus=1)), "n1")
        world.wait(60).finish(brief)
    world.submit_running(spec(gpus=4, time_limit_s=1_000), "n1")
    world.submit(gpus=8, time_limit_s=1_000)
    late = world.submit(spec("eval", gpus=1))
    world.round()
    assert not world.job(late).tasks


@pytest.mark.parametrize("depth", [1, 8])
@pytest.mark.parametrize("ordering", ["fair_share", "dominant_resource", "round_robin", "shortest_predicted"])
def test_under_an_endless_stream_a_job_that_fits_the_empty_pool_starts_in_time(ordering, depth):
    """No later than its reservation's delay plus the longest limit among those that ran when it came."""
    clock = Clockwork(node(), ordering=ordering, backfill_depth=depth, preemption=False, starvation_s=300)
    for k in range(60):
        clock.arrive(10 * k, spec(f"small-{k}", gpus=2, time_limit_s=50, user="eve"), runs_s=45)
    clock.arrive(25, spec("large", gpus=8, time_limit_s=100), runs_s=80)
    clock.run(600)
    large = next(job.id for job in clock.world.state.kept.jobs.values() if job.spec.name == "large")
    started = clock.first_start(large)
    assert started is not None
    assert started - 25 <= 300 + 50 + 1


def test_who_is_most_over_its_fair_part_gives_back_first():
    """Lent capacity goes by weight: three GPUs are more than the light group's part, five are the heavy one's."""
    groups = [group("owner", guaranteed=gpu_amount(2)), group("heavy", weight=5), group("light", weight=1)]
    world = World(node(), groups=groups).set_policy(ordering="fifo", starvation_s=0)
    heavy = [world.submit_running(spec(gpus=1, group="heavy"), "n1") for _ in range(5)]
    light = [world.submit_running(spec(gpus=1, group="light"), "n1") for _ in range(3)]
    world.submit(gpus=1, group="heavy")
    world.submit(gpus=1, group="light")
    owner = world.wait(60).submit(gpus=1, group="owner")
    decided = world.round()
    assert decided is not None
    assert [(one.beneficiary, one.job in light) for one in decided.evictions] == [(owner, True)]
    assert not any(one.job in heavy for one in decided.evictions)


def test_a_date_counts_on_those_that_started_in_the_same_round():
    """The first that waits needs a drained machine; behind it one starts, and only then the second gets its date."""
    world = World(node("n0", gpus=2), node("n1", gpus=4)).set_policy(ordering="fifo", starvation_s=0, preemption=False)
    world.tell("admission", facts.DrainSet(node=NodeId("n1"), drained=True, by="root"))
    world.submit_running(spec(gpus=1, time_limit_s=227), "n0")
    world.submit(gpus=4, time_limit_s=100)
    starts = world.submit(gpus=1, time_limit_s=318)
    second = world.submit(gpus=2, time_limit_s=50)
    world.round()
    assert world.job(starts).tasks
    assert dates(world)[second] == 318


def test_without_backfill_nobody_passes_those_of_an_equal_ask_that_are_out_of_view():
    world = World(node(gpus=4)).set_policy(ordering="fifo", starvation_s=0, backfill=False, candidates_per_shape=2)
    small = [world.submit(gpus=1) for _ in range(4)]
    wide = world.submit(gpus=2)
    world.settle()
    assert [bool(world.job(job).tasks) for job in (*small, wide)] == [True, True, True, True, False]

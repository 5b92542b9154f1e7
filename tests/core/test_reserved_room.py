"""What a reservation counts on: whoever makes room there sooner makes it for the reserved job, not for later ones."""

import pytest
from tests.make import SECOND, World, node, spec

from gangline_core.job import JobState


def date(world: World, job: int, began: int) -> float | None:
    found = world.state.kept.pools["default"].reservations
    return next(((one.start_ms - began) / SECOND for one in found if one.job == job), None)


def elastic_and_waiting(**policy) -> tuple[World, int, int, int]:
    """Four GPUs: an elastic job of two until 100, another job until 200, and a whole-node job dated then."""
    world = World(node("n1", gpus=4))
    if policy:
        world.set_policy(**policy)
    began = world.at
    elastic = world.submit(tasks=2, minimum=1, maximum=2, gpus=1, time_limit_s=100, user="eve")
    world.settle()
    world.submit(gpus=2, time_limit_s=200, user="eve")
    world.settle()
    large = world.submit(gpus=4, time_limit_s=100)
    world.settle()
    assert date(world, large, began) == 200
    world.wait(5)
    return world, began, elastic, large


@pytest.mark.parametrize("policy", [{}, {"ordering": "fifo", "starvation_s": 0}])
@pytest.mark.parametrize("limit_s", [0, 50_000])
def test_nobody_behind_a_reserved_job_shrinks_others_off_its_room(policy, limit_s):
    world, began, elastic, large = elastic_and_waiting(**policy)
    late = world.submit(gpus=1, user="eve", time_limit_s=limit_s)
    world.settle()
    assert world.job(late).state == JobState.WAITING
    assert len(world.tasks(elastic)) == 2
    assert date(world, large, began) == 200
    world.at = began + 200 * SECOND
    world.finish(*world.in_state(JobState.RUNNING))
    world.settle()
    assert world.job(large).state == JobState.RUNNING


def test_who_ends_before_the_reservation_may_shrink_others_there():
    world, began, elastic, large = elastic_and_waiting()
    brief = world.submit(gpus=1, user="eve", time_limit_s=60)
    world.settle()
    assert world.job(brief).state == JobState.RUNNING
    assert len(world.tasks(elastic)) == 1
    assert date(world, large, began) == 200


@pytest.mark.parametrize(("priority", "limit_s", "moves"), [(0, 50_000, False), (0, 500, True), (1, 50_000, True)])
def test_who_ranks_no_higher_than_a_reserved_job_evicts_nobody_off_its_room_unless_it_ends_before(
    priority, limit_s, moves
):
    world = World(node("n1", gpus=4)).set_policy(ordering="fifo", starvation_s=0)
    began = world.at
    low = world.submit(gpus=1, priority=-1, time_limit_s=1_000)
    world.submit(gpus=3, time_limit_s=1_000)
    world.settle()
    large = world.submit(gpus=4, time_limit_s=100)
    world.settle()
    high = world.wait(10).submit(gpus=1, priority=priority, time_limit_s=limit_s)
    world.settle()
    assert (world.job(high).state == JobState.RUNNING) == moves
    assert bool(world.tasks(low)) != moves
    assert priority or date(world, large, began) == 1_000


@pytest.mark.parametrize("low_s", [5_000, 0])
def test_on_a_reserved_node_others_may_evict_whom_the_reservation_does_not_count_on(low_s):
    """Six of eight GPUs are reserved from 1,000; the low job would stay beyond that."""
    world = World(node("n1")).set_policy(ordering="fifo", starvation_s=0)
    began = world.at
    low = world.submit(gpus=1, priority=-1, time_limit_s=low_s)
    world.settle()
    world.submit(gpus=7, time_limit_s=1_000)
    world.settle()
    large = world.submit(gpus=6, time_limit_s=100)
    world.settle()
    late = world.wait(10).submit(gpus=1, time_limit_s=50_000)
    world.settle()
    assert world.job(late).state == JobState.RUNNING
    assert not world.tasks(low)
    assert date(world, large, began) == 1_000


@pytest.mark.parametrize("checkpoints", [False, True])
def test_who_passed_a_date_by_what_jobs_like_it_took_leaves_its_room_to_that_date(checkpoints: bool) -> None:
    """Who may not pass the date got there all the same: it evicted the one that was let past it.

    What jobs like it took in all says less of one that may be stopped and go on later.
    """
    world = World(node("n1", gpus=4)).set_policy(ordering="fifo", starvation_s=0)
    for _ in range(5):
        brief = world.run(world.submit(spec("eval", gpus=1)), "n1")
        world.wait(60).finish(brief)
    began = world.at
    first = world.submit_running(spec(gpus=2, priority=10, time_limit_s=200), "n1")
    large = world.submit(gpus=4, priority=10, time_limit_s=100)
    world.settle()
    passing = world.submit(spec("eval", gpus=2, checkpoints=checkpoints))
    world.settle()
    assert (len(world.tasks(passing)), date(world, large, began)) == (1, 200), "90 s by prediction"
    late = world.submit(gpus=1, priority=5, time_limit_s=300)
    world.settle()
    if checkpoints:
        assert (world.job(late).state, world.job(passing).state) == (JobState.RUNNING, JobState.WAITING)
        return
    assert (world.job(late).state, world.job(passing).state) == (JobState.WAITING, JobState.RUNNING)
    world.wait(200).finish(first, passing).settle()
    assert world.in_state(JobState.RUNNING) == [large]

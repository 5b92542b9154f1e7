"""A guarantee and a job that starves: what an owner is owed comes to it elsewhere, wherever others can give it."""

import pytest
from tests.clockwork import Clockwork
from tests.make import World, gpu_amount, group, node, spec

from gangline_core.job import JobState

STARVES_S, LIMIT_S = 120, 50
GROUPS = (group("owner", guaranteed=gpu_amount(4)), group("lab"), group("third"))


def owners_stream(*, lent: bool, **policy) -> tuple[Clockwork, int]:
    """Of 16 GPUs 4 are guaranteed, and small jobs use them without end; one of 8 waits; others may fill the rest."""
    clock = Clockwork(node("n1"), node("n2"), groups=GROUPS, starvation_s=STARVES_S, **policy)
    for k in range(120):
        clock.arrive(7 * k + 0.5, spec(f"owner-{k}", gpus=1, group="owner", time_limit_s=LIMIT_S), runs_s=27)
    for k in range(300 if lent else 0):
        clock.arrive(3 * k + 0.2, spec(f"third-{k}", gpus=1, group="third", time_limit_s=LIMIT_S), runs_s=45)
    clock.arrive(25, spec("large", gpus=8, group="lab", time_limit_s=100), runs_s=80)
    clock.run(800)
    return clock, next(job.id for job in clock.world.state.kept.jobs.values() if job.spec.name == "large")


@pytest.mark.parametrize("lent", [False, True])
@pytest.mark.parametrize("preemption", [False, True])
def test_a_job_that_fits_beside_what_others_are_guaranteed_starts_in_time_and_ends(lent, preemption):
    """It never did where the stream took what was reserved for it, though lent room was there to take back."""
    clock, large = owners_stream(lent=lent, preemption=preemption)
    started = clock.first_start(large)
    assert started is not None
    assert started - 25 <= STARVES_S + LIMIT_S + 1
    assert clock.world.job(large).state == JobState.SUCCEEDED


def test_the_owner_never_waits_longer_for_it_than_its_victims_need_to_stop():
    clock, _ = owners_stream(lent=True)
    waits = [job.waited_ms for job in clock.world.state.kept.jobs.values() if job.spec.group == "owner" and job.attempt]
    assert max(waits) <= 1_000


def reserved(**fields) -> tuple[World, int]:
    """A job of 8 has room reserved on n2 from when a job there ends; n1 is lent to `third`."""
    world = World(node("n1"), node("n2"), groups=GROUPS).set_policy(ordering="fifo", starvation_s=STARVES_S)
    world.submit_running(spec(gpus=4, group="third", time_limit_s=500, **fields), "n1")
    world.submit_running(spec(gpus=4, group="third", time_limit_s=900, **fields), "n1")
    world.submit_running(spec(gpus=4, group="third", time_limit_s=300, protected_s=-1), "n2")
    large = world.submit(gpus=8, group="lab")
    world.round()
    assert [one.job for one in world.state.kept.pools["default"].reservations] == [large]
    return world, large


def test_of_a_job_that_has_not_starved_idle_reserved_room_is_taken_rather_than_anybody_evicted():
    world, _ = reserved()
    owed = world.submit(gpus=4, group="owner")
    decided = world.round()
    assert decided is not None
    assert not decided.evictions
    assert {task.node for task in world.tasks(owed)} == {"n2"}


def test_of_one_that_starves_it_is_left_alone_where_lent_room_elsewhere_comes_back():
    world, _ = reserved()
    world.wait(STARVES_S + 1)
    owed = world.submit(gpus=4, group="owner")
    decided = world.round()
    assert decided is not None
    assert len(decided.evictions) == 1
    assert {task.node for task in decided.claims[0].placement.tasks} == {"n1"}
    assert owed in world.state.kept.claims


def test_where_nobody_else_can_give_it_the_guarantee_goes_before_whoever_starves():
    world, _ = reserved(protected_s=-1)
    world.wait(STARVES_S + 1)
    owed = world.submit(gpus=4, group="owner")
    world.round()
    assert {task.node for task in world.tasks(owed)} == {"n2"}


def test_free_room_that_a_date_leaves_is_taken_before_what_it_counts_on():
    world = World(node("n1"), node("n2"), node("n3", gpus=4), groups=GROUPS)
    world.set_policy(ordering="fifo", starvation_s=0)
    world.submit_running(spec(gpus=8, group="third", time_limit_s=900, protected_s=-1), "n1")
    world.submit_running(spec(gpus=6, group="third", time_limit_s=300, protected_s=-1), "n2")
    world.submit(gpus=8, group="lab")
    world.round()
    owed = world.submit(gpus=2, group="owner")
    world.round()
    assert {task.node for task in world.tasks(owed)} == {"n3"}

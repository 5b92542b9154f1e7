"""Below a limit, what goes for a claim and what the claim takes count once: nobody more has to go, then or later."""

from tests.make import World, gpu_amount, group, node, spec

from gangline_core.ids import JobId
from gangline_core.job import JobState
from gangline_core.limits.quota import Ledger
from gangline_core.limits.usage_by_class import recompute
from gangline_core.spec import ServiceClass


def limited(*, running: int, **fields) -> World:
    """A group that may have eight GPUs of sixteen, all eight in use by jobs of two."""
    world = World(node("n1"), node("n2"), groups=[group("g", limit=gpu_amount(8))])
    for _ in range(running):
        world.submit_running(spec(gpus=2, group="g", **fields), "n1")
        world.wait(1)
    return world


def test_each_of_several_important_jobs_below_one_limit_has_one_victim_of_its_size():
    world = limited(running=4)
    highs = [world.submit(gpus=2, group="g", priority=9) for _ in range(3)]
    decided = world.round()
    assert sorted(eviction.job for eviction in decided.evictions) == [2, 3, 4]
    assert set(world.state.kept.claims) == set(highs)
    world.settle()
    assert all(world.job(high).state == JobState.RUNNING for high in highs)
    assert world.job(JobId(1)).state == JobState.RUNNING


def test_while_victims_take_their_time_later_important_jobs_evict_no_more_than_they_need():
    world = limited(running=4, grace_s=60)
    world.submit(gpus=2, group="g", priority=9)
    first = world.round()
    world.wait(5)
    world.submit(gpus=2, group="g", priority=9)
    second = world.round()
    assert [len(first.evictions), len(second.evictions)] == [1, 1]
    assert not {one.job for one in first.evictions} & {one.job for one in second.evictions}


def test_running_jobs_that_go_for_a_claim_count_once_where_their_number_is_limited():
    world = World(node("n1"), groups=[group("g", limit={"jobs": 4})])
    for _ in range(4):
        world.submit_running(spec(gpus=1, group="g"), "n1")
        world.wait(1)
    for _ in range(2):
        world.submit(gpus=1, group="g", priority=9)
    assert sorted(eviction.job for eviction in world.round().evictions) == [3, 4]


def test_what_leaves_is_lent_to_nobody_beside_the_claim():
    world = limited(running=4)
    world.submit(gpus=2, group="g", priority=9)
    late = world.submit(gpus=2, group="g")
    decided = world.round()
    assert len(decided.evictions) == 1
    assert not decided.placements
    world.stop_all()
    world.round()
    assert world.job(late).state == JobState.WAITING
    assert recompute(world.state)["g"]["gpu_milli"] == 8000


def test_a_claim_that_opportunistic_victims_make_room_for_fills_its_guarantee():
    world = World(node("n1"), groups=[group("g", guaranteed=gpu_amount(4), limit=gpu_amount(8))])
    for _ in range(4):
        world.submit_running(spec(gpus=2, group="g", service_class=ServiceClass.OPPORTUNISTIC), "n1")
        world.wait(1)
    claiming, other = (world.job(world.submit(gpus=4, group="g")) for _ in range(2))
    ledger = Ledger(world.state)
    assert ledger.within_guarantee(claiming, gpu_amount(4))
    ledger.take(claiming, gpu_amount(4))
    ledger.count_once("g", "gpu_milli", 4_000, loose=4_000)
    assert ledger.used("g", "gpu_milli") == 8_000
    assert not ledger.within_guarantee(other, gpu_amount(1))

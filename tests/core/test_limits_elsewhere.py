"""A limit holds in all pools: who waits in one is told of it when a job of another has used it up."""

import pytest
from tests.core.test_parsync import commit, shares
from tests.core.test_parsync import world as with_schedulers
from tests.core.test_pausing import gpu_spec, resume, suspend
from tests.make import World, gpu_amount, group, node

from gangline_core import cycle
from gangline_core import facts as f
from gangline_core.cluster import Pool
from gangline_core.ids import JobId
from gangline_core.reasons import ReasonCode

LAB = group("lab", limit=gpu_amount(2))


def two_pools() -> World:
    world = World(node("n1", gpus=4), groups=[LAB, group("shop")])
    world.tell("admission", f.PoolSet(pool=Pool(name="west"), by="admin"))
    return world


def waits_in_west(world: World, **asked: object) -> JobId:
    """A job that was told that no node suits it, in a pool that has none."""
    far = world.submit(**{"gpus": 1, "group": "lab", "pool": "west", **asked})
    world.round("west")
    assert world.reason(far) == ReasonCode.NO_ELIGIBLE_NODE
    assert not cycle.round_due(world.state, "west")
    return far


def is_told_of_the_limit(world: World, far: JobId) -> bool:
    world.settle("west")
    return world.reason(far) == ReasonCode.GROUP_LIMIT


def test_who_waits_elsewhere_is_told_of_the_limit_that_a_start_uses_up() -> None:
    """It was told that no node suits it until the next event, and nothing below the limit was kept for it."""
    world = two_pools()
    world.submit(gpus=2, group="lab")
    far = waits_in_west(world)
    world.round()
    assert is_told_of_the_limit(world, far)
    assert [date.job for date in world.state.kept.pools["west"].limit_dates] == [far]


def test_so_it_is_of_one_that_goes_on() -> None:
    world = two_pools()
    paused = world.submit_running(gpu_spec(group="lab", gpus=2), "n1")
    suspend(world, paused)
    world.round()
    resume(world, paused)
    far = waits_in_west(world)
    world.round()
    assert is_told_of_the_limit(world, far)


def test_so_it_is_where_several_schedulers_decide() -> None:
    world = with_schedulers(node("n1", gpus=4), groups=[LAB])
    world.tell("admission", f.PoolSet(pool=Pool(name="west"), by="admin"))
    world.submit(gpus=2, group="lab")
    far = waits_in_west(world)
    for number, share in shares(world):
        commit(world, number, share)
    assert is_told_of_the_limit(world, far)


@pytest.mark.parametrize("asked", [{"group": "shop"}, {"gpus": 0}])
def test_no_round_follows_where_nobody_is_told_anything_else(asked: dict[str, object]) -> None:
    world = two_pools()
    world.submit(gpus=2, group="lab")
    waits_in_west(world, **asked)
    world.round()
    assert not cycle.round_due(world.state, "west")

"""Claims below limits: who waits for a limit alone, and whoever is more important and needs the same quota."""

import pytest
from tests.make import gpu_amount, group, node, spec
from tests.watched import Watched

from gangline_core.limits.gates import judge
from gangline_core.reasons import ReasonCode
from gangline_core.spec import ServiceClass


def below_a_limit(**lab):
    """A job of `lab` waits below its limit alone: its V100s are free, and for it one on A100s has to go."""
    groups = [group("lab", **(lab or {"limit": gpu_amount(4)})), group("shop")]
    world = Watched(node("n1", gpus=4), node("n2", gpus=4, model="V100"), groups=groups)
    world.set_policy(ordering="priority", starvation_s=0)
    world.submit_running(spec(gpus=4, group="lab", grace_s=60), "n1")
    small = world.submit(gpus=4, gpu_models=["V100"], group="lab", priority=1)
    world.wait(1).round()
    assert [place.node for place in world.state.kept.claims[small].placement.tasks] == ["n2"]
    return world, small


def test_who_waits_for_quota_alone_keeps_its_free_room_when_a_more_important_job_takes_that_of_its_victims():
    world, small = below_a_limit()
    large = world.submit(gpus=4, gpu_models=["A100"], group="shop", priority=2)
    lesser = world.submit(gpus=4, gpu_models=["V100"], group="shop")
    world.wait(1)
    world.settle(stops=False)
    assert set(world.state.kept.claims) == {small, large}
    assert not world.job(lesser).tasks
    world.settle()
    assert world.job(small).tasks
    assert world.job(large).tasks
    assert not world.job(lesser).tasks
    assert world.reason(lesser) == ReasonCode.INSUFFICIENT_GPUS


def test_when_the_more_important_job_is_cancelled_the_other_still_starts():
    world, small = below_a_limit()
    large = world.submit(gpus=4, gpu_models=["A100"], group="shop", priority=2)
    world.wait(1)
    world.settle(stops=False)
    world.cancel(large)
    world.settle()
    assert world.job(small).tasks


def test_what_it_will_use_of_a_limit_is_given_to_nobody_while_it_waits():
    world, small = below_a_limit()
    large = world.submit(gpus=4, gpu_models=["A100"], group="shop", priority=2)
    world.wait(1)
    world.settle(stops=False)
    other = world.submit(gpus=1, group="lab", gpu_models=["A100"])
    world.see(node("n3", gpus=4))
    world.settle()
    assert world.job(small).tasks
    assert world.job(large).tasks
    assert not world.job(other).tasks


def quota_is_cleared(**lab):
    """A job of `lab`, below its limit, waits for another of it to go; its own room was free all along."""
    groups = [group("lab", **(lab or {"limit": gpu_amount(4)})), group("lab/a"), group("lab/b"), group("shop")]
    world = Watched(node("n1", gpus=4), node("n2", gpus=4, model="V100"), groups=groups)
    world.set_policy(ordering="priority", starvation_s=0)
    world.submit_running(spec(gpus=4, group="lab/a", grace_s=60), "n1")
    small = world.submit(gpus=4, gpu_models=["V100"], group="lab/a", priority=1)
    world.wait(1).round()
    assert set(world.state.kept.claims) == {small}
    return world, small


@pytest.mark.parametrize("owner", ["lab/a", "lab/b"])
@pytest.mark.parametrize("models", [["V100"], ["A100"], []])
@pytest.mark.parametrize("limited", ["limit", "borrow_limit"])
def test_quota_that_is_being_cleared_for_a_lesser_job_goes_to_a_more_important_one(owner, models, limited):
    """The gates kept it out until the lesser one had started, and then it evicted it: work was lost for nothing."""
    world, small = quota_is_cleared(**{limited: gpu_amount(4)})
    large = world.submit(gpus=4, gpu_models=models, group=owner, priority=2)
    world.wait(1)
    world.settle(stops=False)
    assert set(world.state.kept.claims) == {large}
    world.settle()
    assert world.job(large).tasks
    assert not world.job(small).tasks
    assert world.job(small).attempt == 0, "it never started in vain"
    world.finish(large)
    world.settle()
    assert world.job(small).tasks


def test_quota_is_not_taken_over_by_an_equal_an_opportunistic_job_or_where_nothing_is_preempted():
    for fields in ({"priority": 1}, {"priority": 9, "service_class": ServiceClass.OPPORTUNISTIC}):
        world, small = quota_is_cleared()
        other = world.submit(gpus=4, group="lab/b", **fields)
        world.wait(1)
        world.settle(stops=False)
        assert set(world.state.kept.claims) == {small}
        world.settle()
        assert world.job(small).tasks
        assert not world.job(other).tasks


def test_what_only_partly_suffices_is_not_taken_over():
    world, small = quota_is_cleared()
    large = world.submit(gpus=4, tasks=2, group="lab/b", priority=2)
    world.wait(1)
    world.settle(stops=False)
    assert set(world.state.kept.claims) == {small}
    assert world.reason(large) in (ReasonCode.GROUP_LIMIT, ReasonCode.NEVER_FITS_LIMIT)


def test_a_job_above_its_own_limit_takes_nothing_over_below_another_one():
    world, small = quota_is_cleared()
    large = world.submit(gpus=4, group="shop", gpu_models=["A100"], priority=2)
    world.wait(1)
    world.settle(stops=False)
    assert set(world.state.kept.claims) == {small, large}, "there is room and quota for both"


def test_what_a_claim_will_use_of_a_limit_with_room_left_goes_to_a_more_important_job():
    """Its victims are of another group: nothing goes below the limit, and the gates let both pass."""
    world = Watched(node("n1", gpus=4), node("n2", gpus=4), groups=[group("lab", limit=gpu_amount(4)), group("shop")])
    world.set_policy(ordering="priority", starvation_s=0)
    for name in ("n1", "n2"):
        world.submit_running(spec(gpus=4, group="shop", grace_s=60), name)
    small = world.submit(gpus=4, group="lab", priority=1)
    world.wait(1).round()
    assert set(world.state.kept.claims) == {small}
    large = world.submit(gpus=4, group="lab", priority=2)
    world.wait(1)
    world.settle(stops=False)
    assert set(world.state.kept.claims) == {large}
    assert len(world.state.stopping_tasks) == 1, "nobody else goes"


def test_what_may_be_taken_over_is_found_as_soon_as_it_is_being_cleared():
    """The gates remember whom a limit keeps out for as long as nothing changes below it; a claim is a change."""
    world, _ = quota_is_cleared()
    warm = judge(world.state, "default", world.at)
    world.state.gate_memos.clear()
    assert warm == judge(world.state, "default", world.at)
    large = world.submit(gpus=4, group="lab/b", priority=2)
    assert large in {job.id for job in judge(world.state, "default", world.at).may}

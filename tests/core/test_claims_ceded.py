"""A claim of a job that a limit alone kept out."""

from tests.make import gpu_amount, group, node, spec
from tests.watched import Watched

from gangline_core.reasons import ReasonCode


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

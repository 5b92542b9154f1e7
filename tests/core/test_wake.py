"""A pool is looked at again when time alone has changed what a round would decide."""

from tests.make import World, gpu_amount, group, node, spec

from gangline_core.reasons import ReasonCode
from gangline_core.wake import next_wake_ms


def test_when_a_date_below_a_limit_is_over_those_that_it_kept_out_are_looked_at_again():
    """What should have ended by then has not: the job has a later date, and whoever ends before that need not wait."""
    world = World(node("n1"), node("n2"), groups=[group("lab", limit=gpu_amount(8))])
    world.set_policy(ordering="fifo", starvation_s=0, preemption=False)
    world.submit_running(spec(gpus=4, group="lab", time_limit_s=1_000, grace_s=600), "n1")
    world.submit(gpus=8, group="lab")
    world.wait(980)
    small = world.submit(gpus=2, group="lab", time_limit_s=40, grace_s=0)
    world.settle()
    assert world.reason(small) == ReasonCode.LIMIT_KEPT
    (date,) = world.state.kept.pools["default"].limit_dates
    assert next_wake_ms(world.state, "default", world.at) == date.start_ms
    world.wait((date.start_ms - world.at) / 1000).round()
    assert world.job(small).tasks

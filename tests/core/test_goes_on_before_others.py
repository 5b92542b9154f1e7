"""A paused job goes on before those who wait, and whoever may pause it again need not wait for anything else."""

from tests.core.test_pausing import gpu_spec, stand_still
from tests.make import World, gpu_amount, group, node

from gangline_core import cycle
from gangline_core.ids import JobId
from gangline_core.job import JobState
from gangline_core.spec import ServiceClass


def paused_below_a_limit() -> tuple[World, JobId, JobId, list[JobId]]:
    """An opportunistic job was paused for the first of three that a limit lets run one at a time."""
    world = World(node("n1"), groups=[group("lab", limit=gpu_amount(1))])
    world.set_policy(ordering="fifo", starvation_s=0)
    loose = world.submit_running(gpu_spec(group="lab", service_class=ServiceClass.OPPORTUNISTIC), "n1")
    first, *others = [world.submit(gpus=1, group="lab") for _ in range(3)]
    at_rest(world)
    assert world.job(loose).state == JobState.PAUSED
    assert world.job(first).state == JobState.RUNNING
    return world, loose, first, others


def at_rest(world: World) -> None:
    """Rounds until none is due, and every task that was told to stand still does; time stays."""
    for _ in range(20):
        world.settle(stops=False)
        stand_still(world)
        if not cycle.round_due(world.state, "default"):
            return
    raise AssertionError("rounds never end")


def test_whoever_may_have_an_opportunistic_job_paused_again_does_not_wait_for_another_event() -> None:
    """The limit's room went to the paused one, no round was due, and the others waited for something else."""
    world, loose, first, others = paused_below_a_limit()
    for ended, next_one in zip((first, *others), others, strict=False):
        world.finish(ended)
        at_rest(world)
        assert world.job(next_one).state == JobState.RUNNING
        assert world.job(loose).state == JobState.PAUSED
    world.finish(others[-1])
    at_rest(world)
    assert world.job(loose).state == JobState.RUNNING, "nobody waits any more"

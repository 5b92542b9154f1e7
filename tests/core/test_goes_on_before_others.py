"""A paused job goes on before those who wait, and whoever may pause it again need not wait for anything else."""

import pytest
from tests.core.test_pausing import gpu_spec, stand_still
from tests.make import World, gpu_amount, group, node

from gangline_core import cycle
from gangline_core.ids import JobId
from gangline_core.job import JobState
from gangline_core.spec import ServiceClass


def paused_below_a_limit(service_class: ServiceClass, priority: int) -> tuple[World, JobId, JobId, list[JobId]]:
    """A job was paused for the first of three, more important ones, that a limit lets run one at a time."""
    world = World(node("n1"), groups=[group("lab", limit=gpu_amount(1))])
    world.set_policy(ordering="priority" if priority else "fifo", starvation_s=0)
    loose = world.submit_running(gpu_spec(group="lab", service_class=service_class), "n1")
    first, *others = [world.submit(gpus=1, group="lab", priority=priority) for _ in range(3)]
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


@pytest.mark.parametrize(("service_class", "priority"), [(ServiceClass.OPPORTUNISTIC, 0), (ServiceClass.GUARANTEED, 3)])
def test_whoever_may_have_a_job_paused_again_does_not_wait_for_another_event(
    service_class: ServiceClass, priority: int
) -> None:
    """The limit's room went to the paused one, no round was due, and the others waited for something else."""
    world, loose, first, others = paused_below_a_limit(service_class, priority)
    for ended, next_one in zip((first, *others), others, strict=False):
        world.finish(ended)
        at_rest(world)
        assert world.job(next_one).state == JobState.RUNNING
        assert world.job(loose).state == JobState.PAUSED
    world.finish(others[-1])
    at_rest(world)
    assert world.job(loose).state == JobState.RUNNING, "nobody waits any more"

"""Who stands in front below a limit is somebody for whom there may be room: who never fits keeps it for nobody."""

import pytest
from tests.core.test_goes_on_before_others import at_rest
from tests.make import World, gpu_amount, group, node

from gangline_core.job import JobState
from gangline_core.reasons import ReasonCode


@pytest.mark.parametrize("oldest", [3, 6])
def test_the_room_below_a_limit_is_kept_for_the_oldest_that_ever_fits(oldest: int) -> None:
    """The limit was lowered below what the oldest asks for, which then stood in front, and had no date.

    A round in which the next one was above the limit for the first time kept the room for that one, and any other
    round gave it away.
    """
    world = World(node("n1", gpus=8), groups=[group("lab", limit=gpu_amount(3))]).set_policy(starvation_s=0)
    old = world.submit(gpus=oldest, group="lab")
    dated = world.submit(gpus=3, group="lab", time_limit_s=600)
    world.submit(gpus=2, group="lab", priority=5, time_limit_s=600)
    small = world.submit(gpus=1, group="lab")
    for _ in range(2):
        at_rest(world)
        job = world.job(small)
        assert job.state == JobState.WAITING
        assert job.reason is not None
        assert job.reason.code == ReasonCode.LIMIT_KEPT
        assert job.reason.numbers["job"] == (dated if oldest > 3 else old)
        world.wait(5).submit(gpus=3, group="lab")

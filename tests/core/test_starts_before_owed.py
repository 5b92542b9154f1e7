"""Whoever is owed its guarantee has others paused for it as soon as they work, though nothing else happens."""

import pytest
from tests.core.test_goes_on_before_others import at_rest
from tests.core.test_pausing import gpu_spec
from tests.make import World, gpu_amount, group, node

from gangline_core import cycle
from gangline_core.ids import JobId
from gangline_core.job import JobState
from gangline_core.spec import ServiceClass


def starts_first(policy: dict[str, object], **owed: object) -> tuple[World, JobId, JobId]:
    """A job that may be paused starts on all that there is before one of a group that is promised half of it."""
    groups = [group("lab", guaranteed=gpu_amount(1)), group("shop")]
    world = World(node("n1", gpus=2), groups=groups).set_policy(ordering="priority", starvation_s=0, **policy)
    borrower = world.submit(gpu_spec(group="shop", gpus=2, priority=2))
    waiting = world.submit(**{"gpus": 1, "group": "lab", **owed})
    world.round()
    assert world.job(borrower).state == JobState.STARTING
    return world, borrower, waiting


def test_who_borrows_and_may_be_paused_makes_way_without_another_event() -> None:
    """Nothing opened the round that paused it."""
    world, borrower, owed = starts_first({})
    assert cycle.round_due(world.state, "default")
    at_rest(world)
    assert (world.job(borrower).state, world.job(owed).state) == (JobState.PAUSED, JobState.RUNNING)


@pytest.mark.parametrize(
    ("policy", "owed"),
    [({"preemption": False}, {}), ({}, {"group": "shop"}), ({}, {"service_class": ServiceClass.OPPORTUNISTIC})],
)
def test_no_round_follows_where_nobody_may_ask_anything_back(
    policy: dict[str, object], owed: dict[str, object]
) -> None:
    world, *_ = starts_first(policy, **owed)
    assert not cycle.round_due(world.state, "default")

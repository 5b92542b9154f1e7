"""Whom a limit keeps out enters the round where others below the limit had their turn, by service or by time."""

import pytest
from tests.make import World, group, node, spec

from gangline_core.job import JobState

BY_SERVICE = {"ordering": "least_attained", "service_thresholds": (600,)}
BY_SLICES = {"time_slice_s": 300}


def later(run_s: int, policy: dict[str, object], **fields: object) -> tuple[JobState, JobState]:
    """The states of a job that ran for so long in all that its group may use, and of one that came then."""
    world = World(node("n1"), groups=[group("lab", limit={"gpu_milli": 2000})])
    world.set_policy(starvation_s=0, **policy)
    asked = spec(gpus=2, group="lab", **fields)
    first = world.submit_running(asked, "n1")
    second = world.wait(run_s).submit(asked)
    world.settle()
    return world.job(first).state, world.job(second).state


@pytest.mark.parametrize("policy", [BY_SERVICE, BY_SLICES], ids=["service", "slices"])
def test_below_a_full_limit_who_had_its_turn_makes_way_as_it_does_in_a_full_pool(policy: dict[str, object]) -> None:
    assert later(1000, policy, checkpoints=True) == (JobState.WAITING, JobState.RUNNING)


@pytest.mark.parametrize("policy", [BY_SERVICE, BY_SLICES], ids=["service", "slices"])
def test_who_had_less_than_its_turn_stays(policy: dict[str, object]) -> None:
    assert later(100, policy, checkpoints=True) == (JobState.RUNNING, JobState.WAITING)


def test_nor_does_who_may_not_be_preempted_make_way() -> None:
    assert later(1000, BY_SERVICE, preemptible=False) == (JobState.RUNNING, JobState.WAITING)

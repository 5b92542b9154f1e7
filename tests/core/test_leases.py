"""Room that is lent for a time: whose lease is over, and whose room it is then."""

import pytest
from tests.make import World, node, spec

from gangline_core import facts as f
from gangline_core.job import JobState


def lent(*nodes) -> World:
    return World(*nodes).set_policy(ordering="gavel", lease_s=100, starvation_s=0)


def test_a_job_on_a_node_that_went_to_another_pool_is_in_nobodys_way_when_leases_are_given() -> None:
    world = lent(node("n1", gpus=1), node("n2", gpus=1), node("n3", pool="other"))
    here, there = (world.submit_running(spec(gpus=1), name) for name in ("n1", "n2"))
    world.round()
    world.tell("admission", f.NodeAssigned(node="n2", pool="other", by="ada"))
    waits = [world.submit(spec(gpus=1)) for _ in range(2)]
    for _ in range(4):
        world.wait(101).round()
        world.settle()
        assert world.job(there).state == JobState.RUNNING, "its room would be nobody's here"
    runs = [job for job in (here, *waits) if world.job(job).state == JobState.RUNNING]
    assert len(runs) == 1
    assert max(world.job(job).preemptions for job in (here, *waits)) > 0, "the others take turns"


@pytest.mark.parametrize(
    ("prices", "said", "first"),
    [
        ({"v100": 2_480, "k80": 450}, {}, "n2"),
        ({"k80": 450}, {}, "n2"),
        ({"v100": 450, "*": 2_480}, {}, "n1"),
        ({}, {}, "n1"),
        ({"k80": 2_480}, {"speed_v100": 2.0}, "n2"),
    ],
)
def test_the_model_that_jobs_call_faster_is_handed_out_first_then_the_dearer_one(prices, said, first) -> None:
    world = lent(node("n1", gpus=1, model="K80"), node("n2", gpus=1, model="V100"))
    world.tell("admission", f.PricesSet(milli=prices, by="ada"))
    job = world.submit(spec(gpus=1, attributes=said))
    world.round()
    [task] = world.state.tasks_of(world.job(job))
    assert task.node == first

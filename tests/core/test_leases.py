"""Room that is lent for a time: whose lease is over, and whose room it is then."""

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

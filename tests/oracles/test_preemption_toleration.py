"""Preemption toleration of Kubernetes's scheduler plugins: whom a job need not make way for, and how long."""

import pytest
from tests.make import World, node, spec
from tests.oracles.played import name_of, table

from gangline_core.job import JobState

TABLE = table("preemption_toleration")


@pytest.mark.parametrize("case", TABLE["exempt"], ids=name_of)
def test_who_is_exempt_from_whom(case):
    world = World(node("n1", gpus=1))
    victim = world.submit(
        gpus=1, priority=case["victim"], protected_s=case["seconds"], protected_below=case["minimum"], preemptible=True
    )
    world.place(victim, "n1")
    if case["ran_s"] >= 0:
        world.start(victim).wait(case["ran_s"])
    world.submit(spec(gpus=1, priority=case["preemptor"], preempts=not case.get("never")))
    decided = world.round()
    evicted = [] if decided is None else [eviction.job for eviction in decided.evictions]
    assert (evicted == []) == case["exempt"]
    assert (world.job(victim).state == JobState.STOPPING) == (not case["exempt"])
    assert ("difference" in case) == (case.get("theirs", case["exempt"]) != case["exempt"])


def test_whoever_is_protected_from_some_is_asked_again_when_his_time_is_over():
    world = World(node("n1", gpus=1))
    world.submit_running(spec(gpus=1, priority=100, protected_s=60, protected_below=200), "n1")
    high = world.submit(gpus=1, priority=199)
    world.settle()
    assert world.job(high).state == JobState.WAITING
    world.wait(60)
    world.round()
    world.settle()
    assert world.job(high).state == JobState.RUNNING

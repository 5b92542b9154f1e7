"""Of some jobs only so many tasks may go at a time: others do with those, and its owner's word still counts."""

import pytest
from tests.make import World, node, role, spec

from gangline_core.door.edits import JobEdit
from gangline_core.elasticity.view import resizable
from gangline_core.facts import JobEdited


def elastic(stays: int, **more) -> World:
    """One node that a job fills which may have two to eight tasks."""
    world = World(node("n1"))
    wide = role(tasks=8, minimum=2, maximum=8, gpus=1)
    world.submit_running(spec(roles=(wide,), stays=stays, **more), *["n1"] * 8)
    return world


@pytest.mark.parametrize(("stays", "wanted", "given"), [(0, 6, 6), (6, 2, 2), (6, 4, 0), (8, 1, 0)])
def test_others_get_only_as_many_as_may_go(stays, wanted, given):
    world = elastic(stays, preemptible=False)
    world.submit(gpus=wanted, priority=100)
    decided = world.round()
    assert sum(len(less.tasks) for less in decided.shrinks) == given
    assert not decided.evictions


@pytest.mark.parametrize(("stays", "least"), [(0, 2), (6, 6), (8, 8), (20, 8)])
def test_a_policy_sees_no_smaller_sizes(stays, least):
    world = elastic(stays)
    (one,) = resizable(world.state, "default", world.at)
    assert (min(one.sizes), max(one.sizes)) == (least, 8)


def test_it_is_said_and_taken_back_while_the_job_runs():
    world = elastic(0, preemptible=False)
    world.tell("admission", JobEdited(job=1, edit=JobEdit(stays=8), by="budget"))
    world.submit(gpus=1, priority=100)
    assert not world.round().shrinks
    world.tell("admission", JobEdited(job=1, edit=JobEdit(stays=0), by="budget"))
    assert world.round().shrinks

"""A gang of more different tasks than are searched: seated where the quick ways seat it, and never refused for good."""

import pytest
from tests.core.test_placement import Place
from tests.make import World, node, role, spec

from gangline_core.job import JobState
from gangline_core.placement.exact import ITEMS_MAX
from gangline_core.reasons import ReasonCode, sentence
from gangline_core.telling.explain import explain

LARGE = {"many tasks": (6, 12), "many roles": (ITEMS_MAX + 1, 1)}
TOLD = "whether there are so many is not worked out for so many different tasks"


def gang(kind: str, *, of_memory: int = 10):
    """Roles that each ask for another amount of memory, and for a card."""
    roles, tasks = LARGE[kind]
    return [role(f"r{k:02}", tasks=tasks, gpus=1, cpus=1, memory_mib=of_memory + k) for k in range(roles)]


def machines(kind: str, *, lacks: int = 0):
    """As many cards as the gang has tasks, or fewer."""
    roles, tasks = LARGE[kind]
    return [node(f"n{k:03}", gpus=1, cpus=1, memory_mib=1000) for k in range(roles * tasks - lacks)]


@pytest.mark.parametrize("kind", sorted(LARGE))
def test_it_starts_where_one_role_after_the_other_finds_room(kind):
    assert len(Place(*machines(kind)).seat(spec(roles=gang(kind))).tasks) == len(machines(kind))


@pytest.mark.parametrize("kind", sorted(LARGE))
def test_what_sums_tell_is_told_all_the_same(kind):
    world = World(*machines(kind))
    world.submit_running(spec(gpus=1, cpus=1, memory_mib=10), "n000")
    waits = world.submit(roles=gang(kind))
    world.settle()
    assert world.reason(waits) == ReasonCode.INSUFFICIENT_GPUS
    assert explain(world.state, waits, world.at).shortfall.missing == "1 more GPU would have to come free."


@pytest.mark.parametrize("kind", sorted(LARGE))
def test_what_no_sum_tells_waits_and_says_that_it_was_not_worked_out(kind):
    # Each node has a card for a task, but the last has not the memory for the smallest one.
    roles, tasks = LARGE[kind]
    nodes = [*machines(kind, lacks=1), node("small", gpus=1, cpus=1, memory_mib=9)]
    world = World(*nodes, node("spare", gpus=0, cpus=1, memory_mib=100_000))
    waits = world.submit(roles=gang(kind))
    world.settle()
    job = world.job(waits)
    assert job.state == JobState.WAITING
    assert TOLD in sentence(job.reason)
    told = explain(world.state, waits, world.at)
    assert told.shortfall.verdict == "not now"
    assert job.reason.numbers["needed"] == roles * tasks

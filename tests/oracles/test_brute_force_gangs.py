"""Brute force on tiny clusters: who has to go for a whole gang at least cost, victims on several nodes included."""

from itertools import combinations

from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.make import World, node, spec

from gangline_core.job import JobState

CAPACITY = 4


def places(free, gpus):
    """How many tasks of so many GPUs these nodes hold."""
    return sum(count // gpus for count in free)


def cheapest(nodes, running, *, tasks, gpus):
    """The least work lost over all sets of victims after which the gang fits; None when no set does."""
    best = None
    for size in range(len(running) + 1):
        for gone in combinations(range(len(running)), size):
            free = [CAPACITY] * nodes
            for j, (held, _) in enumerate(running):
                for k, own in held.items() if j not in gone else ():
                    free[k] -= own
            if places(free, gpus) >= tasks:
                cost = sum(sum(running[j][0].values()) * running[j][1] for j in gone)
                best = cost if best is None else min(best, cost)
    return best


_VICTIMS = st.lists(
    st.tuples(st.lists(st.integers(0, 3), min_size=1, max_size=2, unique=True), st.integers(1, 4), st.integers(1, 50)),
    min_size=1,
    max_size=6,
)


@settings(max_examples=150, deadline=None)
@example(3, [([2], 1, 5), ([0, 2], 2, 15), ([1, 2], 3, 23), ([0], 3, 33)], 4, 2)
@example(2, [([0], 1, 42), ([1], 1, 41), ([0, 1], 1, 42), ([0, 1], 2, 17)], 2, 1)
@example(4, [([1, 2], 2, 41), ([3], 2, 19), ([0], 2, 44), ([2], 3, 21)], 3, 3)
@example(3, [([0], 3, 27), ([2], 1, 7), ([1, 2], 3, 30), ([1], 2, 3)], 4, 2)
@given(st.integers(1, 4), _VICTIMS, st.integers(1, 4), st.sampled_from([1, 2, 3, 4]))
def test_the_victims_of_a_gang_cost_no_more_than_the_cheapest_set_there_is(nodes, asked, tasks, gpus):
    world = World(*(node(f"n{k}", gpus=CAPACITY) for k in range(nodes)))
    running, jobs, free = [], [], [CAPACITY] * nodes
    for where, own, age in sorted(asked, key=lambda entry: -entry[2]):
        spots = sorted({k % nodes for k in where})
        if any(free[k] < own for k in spots):
            continue
        for k in spots:
            free[k] -= own
        running.append((dict.fromkeys(spots, own), age))
        jobs.append(world.submit(spec(gpus=own, tasks=len(spots), cpus=0, priority=-1)))
    base = world.at
    for (held, age), job in zip(running, jobs, strict=True):
        world.at = base + (60 - age) * 1000
        world.run(job, *(f"n{k}" for k in held))
    world.at = base + 60_000
    beneficiary = world.submit(spec(gpus=gpus, tasks=tasks, cpus=0, priority=10))
    decided = world.round()
    gone = {eviction.job for eviction in decided.evictions}
    best = cheapest(nodes, running, tasks=tasks, gpus=gpus)
    if best is None:
        assert not gone
        assert world.job(beneficiary).state == JobState.WAITING
        return
    cost = sum(sum(held.values()) * age for (held, age), job in zip(running, jobs, strict=True) if job in gone)
    assert cost == best

"""Brute force on sums of victims: the cheapest that together free enough, whichever and however many they are."""

from itertools import combinations
from random import Random

import pytest
from tests.make import World, node, spec

from gangline_core.making_room.by_sums import STEPS_MAX, cheapest_cover


@pytest.mark.parametrize("seed", range(300))
def test_the_cheapest_that_free_enough_are_found(seed):
    draw = Random(seed)
    count = draw.randint(1, 10)
    weights = [draw.choice([0, draw.randint(1, 9), draw.randint(1, 10**13)]) for _ in range(count)]
    freed = [draw.choice([0, 250, 500, 1000, 1000, 2000, draw.randint(0, 8) * 1000]) for _ in range(count)]
    missing = draw.choice([-1000, 0, 100, 1000, 3000, draw.randint(1, 12) * 500])
    sets = [some for size in range(count + 1) for some in combinations(range(count), size)]
    able = [sum(weights[k] for k in some) for some in sets if sum(freed[k] for k in some) >= missing]
    found = cheapest_cover(weights, freed, missing)
    assert (None if found is None else found[0]) == min(able, default=None)
    assert found is None or sum(weights[k] for k in found[1]) == found[0]
    assert found is None or sum(freed[k] for k in found[1]) >= missing


def test_of_many_alike_only_as_many_are_looked_at_as_are_needed():
    weights = [(k * 7919) % 2_000 for k in range(2_000)]
    assert len(weights) * 64 > STEPS_MAX
    assert cheapest_cover(weights, [1_000] * 2_000, 64_000) == (
        sum(range(64)),
        sorted(weights.index(k) for k in range(64)),
    )


def test_what_would_take_too_many_steps_is_not_worked_out():
    assert cheapest_cover([1] * 2_000, list(range(1, 2_001)), 1_999) is None


@pytest.mark.parametrize("seed", range(12))
def test_of_two_dozen_on_one_node_those_go_who_lose_least_work_together(seed):
    draw = Random(seed)
    sizes = [draw.choice([1, 2, 3, 5]) for _ in range(24)]
    world = World(node("n1", gpus=sum(sizes)))
    names = []
    for size in sizes:
        names.append(world.submit(spec(gpus=size)))
        world.settle()
        world.wait(draw.randint(1, 400))
    wide = draw.randint(11, 24)
    world.submit(spec(gpus=wide, priority=5))
    gone = {one.job for one in world.round().evictions}
    work = [(world.at - world.job(name).started_ms) * size for name, size in zip(names, sizes, strict=True)]
    least = {0: 0}
    """By GPUs freed."""
    for size, own in zip(sizes, work, strict=True):
        for freed, lost in sorted(least.items(), reverse=True):
            least[freed + size] = min(lost + own, least.get(freed + size, lost + own))
    best = min(lost for freed, lost in least.items() if freed >= wide)
    assert sum(own for name, own in zip(names, work, strict=True) if name in gone) == best

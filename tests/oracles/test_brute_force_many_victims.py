"""Brute force on tiny clusters where more could go than are tried set by set, and where a guarantee is reclaimed."""

from itertools import combinations
from random import Random

import pytest
from tests.make import World, gpu_amount, group, node, spec
from tests.oracles import test_brute_force_victims as victims
from tests.oracles.tiny import Ask, Machine, fits

from gangline_core.making_room.by_failures import Known, cheapest
from gangline_core.making_room.cheaper import FEW_MAX
from gangline_core.placement.together import GaveUpError


def helps(free, running, gone, asked):
    """True when the gang fits without these; the machines are as they were afterwards."""
    for sign in (1, -1):
        for k in gone:
            for number, cards in running[k][1]:
                free[number].add(running[k][0], cards, sign)
        if sign == 1:
            found = fits(free, *asked)
    return found


def ascending(free, running, *asked):
    """As `victims.cheapest`: sets in the order of their cost, the first that helps."""
    legal = [k for k, (_, _, _, _, is_firm) in enumerate(running) if not is_firm]
    if not helps(free, running, legal, asked):
        return None
    sets = [some for size in range(len(legal) + 1) for some in combinations(legal, size)]
    ordered = sorted((victims.cost_of(running, some), some) for some in sets)
    return next(cost for cost, some in ordered if helps(free, running, some, asked))


def crowd(draw: Random):
    """Nodes, who runs there, the roles that wait, and their level."""
    sizes = [draw.choice([2, 4, 4, 4]) for _ in range(draw.randint(2, 4))]
    asked = [
        (
            [draw.randint(0, 3) for _ in range(draw.choice([1, 1, 1, 2]))],
            draw.choice([1, 1, 1, 2]),
            draw.choice([0, 0, 250, 500]),
            draw.randint(0, 2),
            draw.randint(1, 50),
            draw.choice([-1, -1, -1, -2]),
            draw.random() < 0.1,
        )
        for _ in range(draw.randint(10, 18))
    ]
    roles = [
        (
            draw.randint(1, 2),
            draw.choice([(1, 0), (2, 0), (3, 0), (0, 500), (0, 300)]),
            draw.randint(0, 3),
            draw.choice([(), (), ("A100",)]),
        )
        for _ in range(draw.choice([1, 2, 2, 3]))
    ]
    return sizes, asked, roles, draw.choice(["", "", "node", "nvlink", "rack"])


@pytest.mark.parametrize("first", range(0, 250, 50))
def test_of_more_than_are_tried_set_by_set_the_cheapest_go_too(first, monkeypatch):
    monkeypatch.setattr(victims, "cheapest", ascending)
    tried = 0
    for seed in range(first, first + 50):
        sizes, asked, roles, level = crowd(Random(seed))
        running = victims.seated(victims.machines(sizes), asked)
        if sum(not is_firm for *_, is_firm in running) > FEW_MAX and len(running) <= 12:
            victims.check(sizes, asked, roles, level)
            tried += 1
    assert tried > 5


# --- guarantees that are taken back -----------------------------------------------------------------------------


def reclaimed(draw: Random):
    """A group comes for its guarantee, and one or two others have borrowed: (running, who went, what it asked for)."""
    names, own, nodes = draw.choice(["b", "bc"]), draw.randint(2, 6), draw.randint(1, 3)
    groups = [group("a", guaranteed=gpu_amount(own)), *(group(name) for name in names)]
    world = World(*(node(f"n{k}", gpus=4) for k in range(nodes)), groups=groups)
    free = [Machine(milli=[1000] * 4, cpus=64) for _ in range(nodes)]
    asked = [
        (draw.randint(0, 2), draw.choice([1, 1, 2, 3]), draw.randint(1, 50), draw.choice(names))
        for _ in range(draw.randint(3, 14))
    ]
    running = []
    for where, gpus, age, of in sorted(asked, key=lambda entry: -entry[2]):
        cards = [card for card, left in enumerate(free[where % nodes].milli) if left][:gpus]
        if len(cards) == gpus:
            free[where % nodes].add(Ask(gpus=gpus), cards, -1)
            running.append((Ask(gpus=gpus), [(where % nodes, cards)], age, of))
    jobs = [world.submit(spec(gpus=ask.gpus, cpus=0, group=of)) for ask, *_, of in running]
    base = world.at
    for (_, [(number, cards)], age, _), job in zip(running, jobs, strict=True):
        world.at = base + (60 - age) * 1000
        world.run(job, (f"n{number}", cards))
    world.at = base + 60_000
    gpus = draw.randint(1, min(4, own))
    tasks = draw.randint(1, own // gpus)
    world.submit(spec(gpus=gpus, tasks=tasks, cpus=0, group="a"))
    evicted = {eviction.job for eviction in world.round().evictions}
    return free, running, [k for k, job in enumerate(jobs) if job in evicted], [Ask(gpus=gpus)] * tasks


def given(running, gone):
    """GPUs that each group gives."""
    found = {of: 0 for *_, of in running}
    for k in gone:
        found[running[k][3]] += running[k][0].gpus
    return found


def work(running, gone):
    """GPU seconds lost, and how many go."""
    return sum(running[k][0].gpus * running[k][2] for k in gone), len(gone)


@pytest.mark.parametrize("first", range(0, 240, 60))
def test_of_what_is_taken_back_from_each_group_the_least_work_is_lost(first):
    seen = 0
    for seed in range(first, first + 60):
        free, running, gone, asks = reclaimed(Random(seed))
        if not gone:
            continue
        seen += 1
        most, best = given(running, gone), work(running, gone)
        for size in range(1, len(running) + 1):
            for some in combinations(range(len(running)), size):
                if work(running, some) < best and all(n <= most[of] for of, n in given(running, some).items()):
                    assert not helps(free, running, some, (asks, "")), (seed, some, gone)
    assert seen > 10


# --- the search itself ------------------------------------------------------------------------------------------


def weight(weights, some):
    return sum(own for k, own in enumerate(weights) if some >> k & 1)


@pytest.mark.parametrize("seed", range(200))
def test_what_fails_leads_to_the_cheapest_set_that_helps_and_may_go(seed):
    draw = Random(seed)
    count = draw.randint(1, 9)
    everybody = (1 << count) - 1
    weights = [draw.randint(1, 20) for _ in range(count)]
    least = [draw.randint(1, everybody) for _ in range(draw.randint(1, 4))]
    most = [draw.choice([everybody, draw.randint(1, everybody)]) for _ in range(draw.randint(1, 3))]
    below = draw.choice([None, None, draw.randint(1, 60)])

    def do(some: int) -> bool:
        return any(not one & ~some for one in least)

    def may(some: int) -> bool:
        return any(not some & ~one for one in most)

    able = [weight(weights, some) for some in range(1, everybody + 1) if do(some) and may(some)]
    best = min((own for own in able if below is None or own < below), default=None)
    found = cheapest(weights, do, may, below=below, known=Known(do=least[:1]))
    assert (None if found is None else weight(weights, found)) == best
    assert found is None or (do(found) and may(found))


def test_who_may_ask_no_more_is_not_told_that_there_is_none():
    asked = []

    def once(some: int) -> bool:
        if asked:
            raise GaveUpError
        asked.append(some)
        return False

    with pytest.raises(GaveUpError):
        cheapest([1, 1, 1], once, lambda some: True, below=None)

"""Brute force on tiny clusters whose racks lie across blocks: slices, spread and required levels hold all the same."""

from random import Random

import pytest
from tests.oracles.enumerated import Ask, Card, Machine, Shape, fits, keeps
from tests.oracles.scenes import Scene

from gangline_core.cluster import Pool
from gangline_core.door.never_fits import never_fits
from gangline_core.placement import PLACERS
from gangline_core.placement.crossing import components
from gangline_core.placement.gang import gang_of
from gangline_core.placement.why_not import why_not
from gangline_core.room.inventory import Inventory

TASKS_MAX = 8


def drawn(draw: Random) -> Scene:
    """Up to four machines, each in any rack and any block, and a gang in slices that is spread."""
    machines = []
    racks, blocks = draw.choice([2, 3, 4]), draw.choice([2, 3])
    for _ in range(draw.randint(2, 4)):
        models = ["A" if draw.random() < 0.9 else "B" for _ in range(draw.randint(1, 3))]
        cards = [Card(model, 40_000, 0, 0, 1000, 40_000, 0) for model in models]
        rack, block = draw.choice(["r0", "r1", "r2", ""][:racks]), draw.choice(["b0", "b1", ""][:blocks])
        machines.append(Machine(draw.choice([2, 4, 9]), rack, block, 9, tuple(cards)))
    unit = draw.choice([2, 2, 3])
    asks = [Ask(unit * draw.randint(1, 2), draw.choice([0, 1]), gpus=1) for _ in range(draw.choice([1, 1, 2]))]
    slices, spread = draw.choice([("rack", "block"), ("block", "rack")])
    shape = Shape(required=draw.choice(["", "", "block", "rack"]), unit=unit, slices=slices)
    if draw.random() < 0.8:
        shape = shape._replace(most=draw.randint(1, 4), spread=spread)
    return Scene(machines, asks, shape)


@pytest.mark.parametrize("first", range(0, 300, 50))
def test_a_gang_is_seated_exactly_when_some_way_exists_though_racks_lie_across_blocks(first):
    for seed in range(first, first + 50):
        scene = drawn(Random(seed))
        if sum(ask.tasks for ask in scene.asks) > TASKS_MAX:
            continue
        expected = fits(scene.machines, scene.asks, scene.shape)
        asked, room = scene.spec(), scene.room()
        gang = gang_of(asked, {role.name: role.count for role in asked.roles}, Pool(name="default"))
        for name, placer in sorted(PLACERS.items()):
            seats = placer(room, gang)
            assert (seats is not None) == expected, (seed, name)
            if seats is not None:
                spots = [(int(t.role[1:]), (int(t.node[1:]), tuple(g.index for g in t.gpus), 0)) for t in seats.tasks]
                assert keeps(scene.machines, scene.asks, scene.shape, spots), (seed, name)
        assert (never_fits(Inventory(scene.nodes), Pool(name="default"), asked) is None) == expected, seed
        assert expected or "steps" not in why_not(room, gang).numbers, seed


def test_cells_hang_together_by_the_domains_that_they_share():
    assert components([(0, 0), (1, 1), (1, 0), (2, 2), (3, 2), (4, 3)]) == [
        [(0, 0), (1, 0), (1, 1)],
        [(2, 2), (3, 2)],
        [(4, 3)],
    ]

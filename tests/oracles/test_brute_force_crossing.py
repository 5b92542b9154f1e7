"""Brute force on tiny clusters whose racks lie across blocks: slices, spread and required levels hold all the same."""

from random import Random

import pytest
from tests.core.test_placement import BLOCK, RACK
from tests.make import World, node, role
from tests.oracles.enumerated import Ask, Card, Machine, Shape, fits, keeps
from tests.oracles.scenes import Scene

from gangline_core.cluster import Pool
from gangline_core.door.never_fits import never_fits
from gangline_core.elasticity import propose
from gangline_core.ids import JobId
from gangline_core.placement import PLACERS
from gangline_core.placement.crossing import components
from gangline_core.placement.gang import gang_of
from gangline_core.placement.ranks import stands_within
from gangline_core.placement.shaped import keeps_shape
from gangline_core.placement.why_not import why_not
from gangline_core.room.inventory import Inventory
from gangline_core.spec import TopologyWish, whole_slices

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


def growing(draw: Random) -> tuple[World, JobId]:
    """Nodes in any rack and any block, some small jobs, and one that starts small and may grow."""
    nodes = [
        node(
            f"n{k}", gpus=draw.randint(1, 4), labels={RACK: draw.choice(["r0", "r1"]), BLOCK: draw.choice(["b0", "b1"])}
        )
        for k in range(draw.randint(3, 6))
    ]
    world = World(*nodes)
    for _ in range(draw.randint(0, 4)):
        world.submit(gpus=1)
    world.settle()
    unit = draw.choice([1, 2])
    slices, spread = draw.choice([("rack", "block"), ("block", "rack")])
    wish = TopologyWish(
        required=draw.choice(["", "", "rack", "block"]),
        slice_tasks=unit if unit > 1 else 0,
        slice_level=slices if unit > 1 else "",
        spread_level=draw.choice([spread, spread, ""]),
        spread_most=draw.randint(1, 4),
    )
    own = role(tasks=unit, minimum=unit, maximum=8, gpus=1)
    return world, world.submit(roles=[whole_slices(own, unit) if unit > 1 else own], topology=wish)


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_a_gang_that_grows_keeps_its_level_slices_and_spread_there_as_well(first):
    grown = 0
    for seed in range(first, first + 20):
        draw = Random(seed)
        world, job = growing(draw)
        for _ in range(3):
            others = [other for other in world.state.kept.jobs if other != job and world.tasks(other)]
            if others and draw.random() < 0.6:
                world.finish(draw.choice(others))
            for proposal in propose(world.state, "default", world.at):
                world.tell("elastic.default", proposal)
            world.settle()
            tasks = sorted((task for task in world.tasks(job) if not task.stop), key=lambda task: task.rank)
            gang = gang_of(world.job(job).spec, world.job(job).sizes, world.state.kept.pools["default"].pool)
            layout = world.state.room("default").layout
            assert not tasks or keeps_shape(layout, gang, tasks), seed
            assert not (tasks and gang.required) or stands_within(layout, gang, gang.required, tasks), seed
            grown += len(tasks) > 2
    assert grown > 5


def test_cells_hang_together_by_the_domains_that_they_share():
    assert components([(0, 0), (1, 1), (1, 0), (2, 2), (3, 2), (4, 3)]) == [
        [(0, 0), (1, 0), (1, 1)],
        [(2, 2), (3, 2)],
        [(4, 3)],
    ]

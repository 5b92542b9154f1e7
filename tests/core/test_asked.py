"""What equal jobs ask for outlives a round, and gangs that no node holds are not looked for: no decision changes."""

from msgspec.structs import replace
from tests.make import World, node, spec

from gangline_core.placement import PLACERS
from gangline_core.placement.gang import gang_of
from gangline_core.seating import unless_hopeless
from gangline_core.table import Table


def table(world: World) -> Table:
    return Table(world.state, "default", world.at)


def test_equal_jobs_ask_the_same_in_later_rounds_until_the_pool_or_its_nodes_are_others():
    world = World(node("n1"), node("n2"))
    job = world.state.kept.jobs[world.submit(spec(gpus=2))]
    first = table(world).seating.at_start(job).ask
    assert table(world).seating.at_start(job).ask is first, "kept"
    pool = world.state.kept.pools["default"]
    pool.pool = replace(pool.pool, levels={"low": -1})
    assert table(world).seating.at_start(job).ask is not first, "another pool"
    second = table(world).seating.at_start(job).ask
    world.see(node("n3"))
    assert table(world).seating.at_start(job).ask is not second, "other nodes"
    assert table(world).seating.at_start(job).ask == second, "which ask the same nonetheless"


def test_a_task_of_two_gpus_is_not_looked_for_where_each_node_has_one_free():
    world = World(node("n1", gpus=2), node("n2", gpus=2))
    for name in ("n1", "n2"):
        world.run(world.submit(spec(gpus=1)), name)
    pair = gang_of(spec(gpus=2), {"worker": 1}, world.state.kept.pools["default"].pool)
    asked = []
    placer = PLACERS["best_fit"]
    seek = unless_hopeless(lambda room, gang: asked.append(gang) or placer(room, gang))
    room = world.state.room("default")
    assert placer(room, pair) is None
    assert seek(room, pair) is None
    assert not asked
    apart = gang_of(spec(gpus=1, tasks=2), {"worker": 2}, world.state.kept.pools["default"].pool)
    assert seek(room, apart) == placer(room, apart) is not None

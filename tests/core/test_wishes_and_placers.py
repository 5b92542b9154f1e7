"""Whichever placer a pool names: a gang's wishes hold, and what the pool owes to groups is not lost by the choice."""

import pytest
from msgspec.structs import replace
from tests.core.test_cells import world as cell_world
from tests.core.test_placement import RACK, Place
from tests.make import World, node, role, spec

from gangline_core import facts as f
from gangline_core.cluster import Nic, Pool
from gangline_core.ids import NodeId
from gangline_core.placement import PLACERS
from gangline_core.placement.shaped import keeps_shape
from gangline_core.reasons import ReasonCode
from gangline_core.room.layout import Layout
from gangline_core.settings import check_policy, check_pool
from gangline_core.spec import TopologyWish
from gangline_core.telling.explain import explain

ANY = sorted(PLACERS)


def machines():
    """Eight nodes in four racks, with islands, sockets, switches and a network card on one switch."""
    found = []
    for k in range(8):
        one = node(
            f"n{k}",
            gpus=8,
            model="A100" if k < 4 else "H100",
            islands=[0] * 4 + [1] * 4,
            sockets=[0] * 4 + [1] * 4,
            labels={RACK: f"r{k // 2}"},
        )
        gpus = tuple(replace(gpu, switch=gpu.index // 2) for gpu in one.gpus)
        found.append(replace(one, gpus=gpus, nics=(Nic(name="mlx5_0", socket=1, switch=3),)))
    return found


@pytest.mark.parametrize("placer", ANY)
def test_slices_and_spread_hold_whoever_places(placer):
    for wish in (
        TopologyWish(slice_tasks=2, slice_level="nvlink"),
        TopologyWish(slice_tasks=4, slice_level="node"),
        TopologyWish(slice_tasks=4, slice_level="rack"),
        TopologyWish(spread_level="node", spread_most=1),
        TopologyWish(spread_level="rack", spread_most=2),
    ):
        place = Place(*machines(), placer=placer)
        asked = spec(gpus=2, tasks=8, topology=wish)
        seats = place.seat(asked)
        assert seats is not None, wish
        assert keeps_shape(place.room.layout, place.gang(asked), seats.tasks), wish


@pytest.mark.parametrize("placer", ANY)
def test_required_levels_hold_whoever_places(placer):
    for level, gpus, tasks in (("nvlink", 4, 1), ("switch", 2, 1), ("socket", 4, 1), ("node", 2, 4), ("rack", 4, 4)):
        place = Place(*machines(), placer=placer)
        for _ in range(3):
            seats = place.seat(gpus=gpus, tasks=tasks, topology=level)
            assert seats is not None, level
            ladder = ("nvlink", "switch", "socket", "node", "rack", "block", "")
            assert ladder.index(seats.level) <= ladder.index(level)
            if level in ("nvlink", "socket", "switch"):
                parts = {share.index // (2 if level == "switch" else 4) for t in seats.tasks for share in t.gpus}
                assert len(parts) == 1, level
            if level == "rack":
                assert len({int(t.node[1:]) // 2 for t in seats.tasks}) == 1


@pytest.mark.parametrize("placer", ANY)
def test_one_island_over_both_sockets_is_no_socket(placer):
    """As with NVSwitch: all cards reach each other alike, but not the same CPU."""
    place = Place(node("n1", islands=[0] * 8, sockets=[0] * 4 + [1] * 4), placer=placer)
    world = World(*place.room.nodes)
    world.submit_running(spec(gpus=4), ("n1", [0, 1, 2, 4]))
    place.room = world.state.room("default").copy()
    seats = place.seat(gpus=1, tasks=2, topology="socket")
    assert seats is not None
    assert {share.index // 4 for task in seats.tasks for share in task.gpus} == {1}
    assert place.seat(gpus=1, tasks=2, topology="socket") is None
    assert place.seat(gpus=1, tasks=2, topology="nvlink") is not None


@pytest.mark.parametrize("placer", ANY)
def test_closed_nodes_one_model_and_near_cards_hold_whoever_places(placer):
    place = Place(*machines(), placer=placer)
    seats = place.seat(gpus=4, tasks=4, exclude_nodes=("n0", "n1", "n4", "n5"))
    assert {task.node for task in seats.tasks}.isdisjoint({"n0", "n1", "n4", "n5"})
    place = Place(*machines(), placer=placer)
    seats = place.seat(gpus=4, tasks=8, same_model=True)
    assert len({int(task.node[1:]) < 4 for task in seats.tasks}) == 1
    assert Place(*machines(), placer=placer).seat(gpus=4, tasks=9, same_model=True) is None
    near = spec(roles=[role(gpus=2)])
    near = replace(near, roles=(replace(near.roles[0], resources=replace(near.roles[0].resources, near_nic=True)),))
    seats = Place(*machines(), placer=placer).seat(near)
    assert [share.index for share in seats.tasks[0].gpus] == [6, 7]


@pytest.mark.parametrize("placer", sorted(set(PLACERS) - {"cells"}))
def test_no_other_placer_can_be_chosen_while_the_pool_owes_cells(placer):
    made = cell_world(node("n1"), node("n2"), cells={"a": {"node": 1}})
    policy = made.state.kept.pools["default"].policy
    problem = check_policy(made.state, replace(policy, placement=placer), "default")
    assert problem is not None
    assert (problem.kind, problem.field) == ("conflict", "placement")
    assert check_policy(made.state, replace(policy, starvation_s=60), "default") is None
    owing = Pool(name="default", cells={"a": {"node": 1}})
    plain = World(node("n1")).set_policy(placement=placer)
    problem = check_pool(plain.state, owing)
    assert problem is not None
    assert problem.field == "cells"


def test_cells_are_kept_when_members_are_placed_again_or_added():
    made = cell_world(node("n1"), node("n2"), node("n3"), cells={"a": {"node": 1}, "b": {"node": 1}})
    job = made.submit(spec(gpus=8, group="a", repair_s=600))
    made.round()
    made.start(job)
    [task] = made.tasks(job)
    assert task.cells
    made.tell("telemetry", f.NodeLost(node=task.node, silent_ms=30_000))
    other = made.submit(spec(gpus=8, group="b"))
    made.settle()
    assert made.tasks(other), "b has its cell whatever became of a's"
    owners = {made.tasks(one)[0].node: one for one in (job, other) if made.tasks(one)}
    assert NodeId(task.node) not in owners
    layout = Layout(made.state.nodes_of("default"))
    assert all(name in layout.row for name in owners)


# --- nodes without the label that names a level ------------------------------------------------------------------

BOUND = (
    spec(gpus=1, topology="rack"),
    spec(gpus=4, topology="rack"),
    spec(gpus=2, tasks=2, topology="rack"),
    spec(gpus=0.5, topology="rack"),
    spec(gpus=0, topology="rack"),
    spec(gpus=1, topology=TopologyWish(spread_level="rack")),
    spec(gpus=1, tasks=2, topology=TopologyWish(spread_level="rack", spread_most=2)),
    spec(gpus=1, tasks=2, topology=TopologyWish(slice_tasks=2, slice_level="rack")),
    spec(roles=[role("chief", gpus=1), role("worker", tasks=2, gpus=1)], topology="rack"),
)
"""Jobs that a level above the node binds."""


def partly_labelled(labels):
    """Four nodes, of which some have a label for their rack."""
    return [node(f"n{k}", gpus=4, labels=label) for k, label in enumerate(labels)]


@pytest.mark.parametrize("placer", ANY)
def test_a_node_without_the_label_is_in_no_domain_whoever_places(placer):
    some = partly_labelled([{}, {RACK: ""}, {RACK: "r1"}, {RACK: "r1"}])
    for asked in BOUND:
        seats = Place(*some, placer=placer).seat(asked)
        assert seats is not None, asked
        assert {task.node for task in seats.tasks} <= {"n2", "n3"}, asked
        nowhere = Place(*partly_labelled([{}, {RACK: ""}, {}, {}]), placer=placer)
        assert nowhere.seat(asked) is None, asked
        assert nowhere.why(asked).code == ReasonCode.NO_LABEL
        assert Place(*some, placer=placer).seat(gpus=4, tasks=4, topology=TopologyWish(preferred="rack")) is not None


def test_the_reason_names_the_label_and_counts_the_nodes_that_lack_it():
    world = World(*partly_labelled([{}, {}, {}, {}]))
    job = world.submit(gpus=1, topology="rack")
    world.round()
    told = explain(world.state, job, world.at)
    assert told.code == ReasonCode.NO_LABEL
    assert RACK in told.sentence
    assert "label" in told.hint
    world.see(*partly_labelled([{}, {}, {}, {RACK: "r1"}]))
    world.round()
    assert [task.node for task in world.tasks(job)] == ["n3"]
    large = world.submit(gpus=4, topology="rack")
    world.round()
    told = explain(world.state, large, world.at)
    assert next((one.cause, one.nodes) for one in told.shortfall.excluded) == (
        f"in no rack, for lack of the label {RACK}",
        3,
    )

"""What other schedulers' own tests and documents say they would choose; the data names each source."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.make import World, node, role, spec, state_with

from gangline_core import facts as f
from gangline_core.cluster import Gpu, Pool
from gangline_core.placement import PLACERS, placer_for
from gangline_core.placement.allocatable import scores as allocatable_scores
from gangline_core.placement.balance import closeness_scores, network_scores
from gangline_core.placement.card_links import Tree, fragment, link
from gangline_core.placement.devices import NodeView
from gangline_core.placement.flow import NEVER, assign
from gangline_core.placement.gang import gang_of
from gangline_core.placement.numa import (
    Zone,
    balanced,
    fits_zone,
    least,
    least_zones,
    least_zones_together,
    most,
    node_score,
    zones_of,
)
from gangline_core.placement.trimaran import Risk, risk_scores, target_scores
from gangline_core.room.beside import Beside
from gangline_core.spec import JobSpec

TABLES = json.loads((Path(__file__).parent / "data" / "placement.json").read_text(encoding="utf-8"))
BLOCK_MIB = 256
STRATEGIES = {"least": least, "most": most, "balanced": balanced}


def gang(asked: JobSpec):
    return gang_of(asked, {r.name: r.count for r in asked.roles}, Pool(name="default"))


def place(placer: str, room, asked: JobSpec):
    seats = PLACERS[placer](room, gang(asked))
    for task in seats.tasks if seats else ():
        room.take(task)
    return seats


def cards(node_id: str, *, parts: dict[str, list[int]], memory_mib: int = 40_960, **fields):
    """A node whose cards have these parts: lists of numbers by field of Gpu."""
    count = len(next(iter(parts.values())))
    gpus = tuple(
        Gpu(index=k, model="A100", memory_mib=memory_mib, **{name: part[k] for name, part in parts.items()})
        for k in range(count)
    )
    return replace(node(node_id, gpus=count, **fields), gpus=gpus)


# --- shares -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", TABLES["gpushare"]["cases"])
def test_gpushare_takes_the_card_with_least_free_memory_that_suffices(case):
    most_mib = 16_276
    room = state_with(node("n1", gpus=len(case["free_mib"]), gpu_memory_mib=most_mib)).room("default").copy()
    for k, free in enumerate(case["free_mib"]):
        room.gpu_memory[0, k] = free
        room.milli[0, k] = 1000 if free == most_mib else 1000 * free // most_mib
    seats = place("gpushare", room, spec(gpus=0, gpu_memory_mib=case["request_mib"]))
    assert seats.tasks[0].gpus[0].index == case["card"]


@pytest.mark.parametrize("case", TABLES["gpushare"]["counts"], ids=lambda case: case["why"])
def test_gpushare_counts_a_share_until_its_task_is_gone(case):
    room = state_with(node("n1", gpus=1, gpu_memory_mib=case["card_mib"])).room("default").copy()
    placed = [
        place("gpushare", room, spec(roles=[role(f"c{k}", gpus=0, gpu_memory_mib=mib) for k, mib in enumerate(pod)]))
        for pod in case["requests_mib"]
    ]
    assert room.gpu_memory[0, 0] == case["card_mib"] - case["used_mib"]
    for task in placed[0].tasks:
        room.give(task)
    assert room.gpu_memory[0, 0] == case["card_mib"] - case["used_mib"] + sum(case["requests_mib"][0])


def test_gpu_admission_fills_nodes_as_its_own_test_says():
    table = TABLES["gpu_admission"]
    card_mib = table["blocks_per_card"] * BLOCK_MIB
    names = ["n0", "n1", "n2"]
    nodes = [node(name, gpus=table["cards_per_node"], gpu_memory_mib=card_mib) for name in names]
    room = state_with(*nodes).room("default").copy()
    for pod in table["pods"]:
        roles = [
            role(f"c{k}", gpus=core / 100, gpu_memory_mib=blocks * BLOCK_MIB if core < 100 else 0)
            for k, (core, blocks) in enumerate(pod["containers"])
        ]
        seats = place("gpu_admission", room, spec(roles=roles, topology="node"))
        assert {task.node for task in seats.tasks} == {pod["node"]}


TREE = Tree(levels=((0, 1, 2, 3, 4, 5), tuple(TABLES["gpu_manager"]["switch"]), tuple(TABLES["gpu_manager"]["socket"])))


@pytest.mark.parametrize("case", TABLES["gpu_manager"]["link"])
def test_gpu_manager_links_several_cards(case):
    assert list(link(TREE, case["free"], case["count"])) == case["cards"]


@pytest.mark.parametrize("case", TABLES["gpu_manager"]["fragment"])
def test_gpu_manager_takes_a_single_card_from_what_is_broken(case):
    assert fragment(TREE, case["free"]) == case["card"]


def test_gpu_manager_knows_what_to_do_with_a_single_card():
    single, table = Tree(levels=((0,), (0,), (0,))), TABLES["gpu_manager"]["single"]
    assert [list(link(single, case["free"], case["count"])) for case in table["link"]] == [
        case["cards"] for case in table["link"]
    ]
    assert [fragment(single, case["free"]) for case in table["fragment"]] == [
        case["card"] for case in table["fragment"]
    ]


@pytest.mark.parametrize("counts", TABLES["gpu_manager"]["occupied_and_freed"], ids=str)
def test_gpu_manager_has_every_part_back_when_all_are_freed(counts):
    table = TABLES["gpu_manager"]
    parts = {"island": list(range(6)), "switch": table["switch"], "socket": table["socket"]}
    room = state_with(cards("n1", parts=parts)).room("default").copy()
    before = [int(most[0]) for most in (room.free, room.switched, room.socketed)]
    taken = [place("gpu_manager", room, spec(gpus=count)) for count in counts]
    assert int(room.free[0]) == 6 - sum(counts)
    for seats in taken:
        room.give(seats.tasks[0])
    assert [int(most[0]) for most in (room.free, room.switched, room.socketed)] == before


def test_gpu_manager_books_the_cards_that_it_chose():
    table = TABLES["gpu_manager"]
    parts = {"island": list(range(6)), "switch": table["switch"], "socket": table["socket"]}
    room = state_with(cards("n1", parts=parts)).room("default").copy()
    for count, chosen in ((1, [4]), (2, [0, 1]), (1, [5]), (2, [2, 3])):
        seats = place("gpu_manager", room, spec(gpus=count))
        assert [share.index for share in seats.tasks[0].gpus] == chosen


# --- scores over nodes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", TABLES["allocatable"]["cases"])
def test_allocatable_scores(case):
    found = allocatable_scores(np.array(case["cpu_milli"]), np.array(case["memory_mib"]), most=case["most"])
    assert found.tolist() == case["scores"]


def test_allocatable_prefers_small_or_large_machines_whatever_is_free_on_them():
    nodes = [node("n1", gpus=8, cpus=64), node("n2", gpus=8, cpus=32), node("n3", gpus=8, cpus=96)]
    for placer, best in (("allocatable_least", "n2"), ("allocatable_most", "n3")):
        room = state_with(*nodes).room("default").copy()
        assert [place(placer, room, spec(gpus=1)).tasks[0].node for _ in range(3)] == [best] * 3


@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
def test_numa_scores(strategy):
    table = TABLES["numa"]
    found = {
        name: node_score([Zone(free=zone) for zone in zones], table["request"], STRATEGIES[strategy])
        for name, zones in table["nodes"].items()
    }
    assert found == table["scores"][strategy]


@pytest.mark.parametrize("case", TABLES["numa"]["fewest"])
def test_fewest_zones_scores(case):
    nodes = {name: [Zone(free=zone) for zone in zones] for name, zones in TABLES["numa"]["nodes"].items()}
    assert {name: least_zones(zones, case["request"]) for name, zones in nodes.items()} == case["scores"]


@pytest.mark.parametrize("case", TABLES["numa"]["together"])
def test_requests_of_one_node_take_from_its_zones_in_turn_and_the_worst_counts(case):
    nodes = {name: [Zone(free=zone) for zone in zones] for name, zones in TABLES["numa"]["nodes"].items()}
    assert {name: least_zones_together(zones, case["requests"]) for name, zones in nodes.items()} == case["scores"]


@pytest.mark.parametrize("table", ["filter", "filter_of_bare_zones"])
def test_the_single_zone_filter(table):
    """All containers of a pod on one zone; where a pod is not guaranteed, CPU and memory are no zone's."""
    zones = [Zone(free=zone) for zone in TABLES["numa"][table]["zones"]]
    for case in TABLES["numa"][table]["cases"]:
        names = {name for container in case["containers"] for name in container}
        names -= {"cpu", "memory_gib"} if case.get("burstable") else set()
        request = {name: sum(container.get(name, 0) for container in case["containers"]) for name in names}
        assert any(fits_zone(zone, request) for zone in zones) == case["fits"], case


def test_what_victims_hold_comes_back_in_the_zone_where_they_hold_it():
    table = TABLES["numa"]["victims_gone"]
    sockets = [zone for zone, count in enumerate(table["gpus"]) for _ in range(count)]
    room = state_with(node("n1", gpus=len(sockets), sockets=sockets, cpus=64)).room("default").copy()
    kinds = tuple(range(len(room.layout.kinds)))
    need = gang(spec(gpus=1, cpus=1)).needs[0]
    held = []
    for number, victim in enumerate(table["held"]):
        view = NodeView(room, 0)
        columns = view.columns(view.socket, victim["zone"])
        asked = replace(need, gpus=victim["gpus"])
        held.append(view.seat(asked, kinds if victim["gpus"] else (), number, within=columns))
        room.take(held[-1])
    assert [zone.free["gpu"] for zone in zones_of(room, kinds, 0)] == table["before"]
    for task in held:
        room.give(task)
    assert [zone.free["gpu"] for zone in zones_of(room, kinds, 0)] == table["after"]


@pytest.mark.parametrize("placer", ["numa_least", "numa_most", "numa_balanced"])
def test_a_task_that_fits_no_single_socket_waits(placer):
    two_sockets = node("n1", gpus=8, sockets=[0, 0, 0, 0, 1, 1, 1, 1], cpus=64)
    room = state_with(two_sockets).room("default").copy()
    assert place(placer, room, spec(gpus=6)) is None
    seats = place(placer, room, spec(gpus=3))
    assert len({share.index // 4 for share in seats.tasks[0].gpus}) == 1
    assert place("numa_fewest", room, spec(gpus=5)) is not None


def test_target_load_rises_to_its_target_and_falls_after_it():
    load = np.array([percent for percent, _ in TABLES["target_load"]["cases"]], dtype=float)
    assert target_scores(load).tolist() == [score for _, score in TABLES["target_load"]["cases"]]


@pytest.mark.parametrize("case", TABLES["load_risk"]["cases"])
def test_load_risk_scores(case):
    found = risk_scores(
        np.array([case["capacity"]]),
        np.array([case["mean"]], dtype=float),
        np.array([case["deviation"]], dtype=float),
        TABLES["load_risk"]["request"],
        Risk(margin=case["margin"], sensitivity=case["sensitivity"]),
    )
    assert int(np.floor(found[0] + 0.5)) == case["score"]


def measured(world: World, name: str, cpu: int, deviation: int) -> None:
    world.tell(
        "telemetry",
        f.UtilisationSummary(
            node=name,
            gpu_percent=None,
            memory_mib=None,
            samples=10,
            cpu_percent=cpu,
            cpu_deviation=deviation,
            memory_percent=10,
            memory_deviation=0,
        ),
    )


def test_measured_load_decides_and_a_silent_node_is_judged_by_what_was_asked_of_it():
    world = World(node("n1", cpus=10), node("n2", cpus=10), node("n3", cpus=10))
    measured(world, "n1", 90, 0)
    measured(world, "n2", 30, 30)
    beside = Beside(world.state, "default", world.at)
    room = world.state.room("default")
    one = gang(spec(gpus=0, cpus=1))
    assert placer_for("target_load", beside)(room, one).tasks[0].node == "n2"
    assert placer_for("load_risk", beside)(room, one).tasks[0].node == "n3"
    late = Beside(world.state, "default", world.at + 3_600_000)
    assert placer_for("target_load", late)(room, one).tasks[0].node == "n1"


@pytest.mark.parametrize("case", TABLES["balanced_network"]["cases"])
def test_balanced_network_scores(case):
    found = network_scores(case["need"], np.array(case["current"]), np.array(case["capacity"]))
    assert found.tolist() == case["scores"]


@pytest.mark.parametrize("case", TABLES["balanced_all"]["cases"])
def test_balanced_all_scores(case):
    rows = [[*parts, 100 * used // there, there] for *parts, used, there in case["rows"]]
    assert closeness_scores(np.array(rows, dtype=float)).tolist() == case["scores"]


def test_equal_nodes_are_equally_balanced():
    assert len(set(closeness_scores(np.array([[10.0, 10, 10, 10, 1000]] * 3)).tolist())) == 1


# --- flows --------------------------------------------------------------------------------------------------

prices = st.one_of(st.integers(0, 50), st.just(NEVER))


@st.composite
def flows(draw):
    slots = draw(st.integers(0, 5))
    tasks = draw(st.integers(1, 5))
    costs = draw(st.lists(st.lists(prices, min_size=slots, max_size=slots), min_size=tasks, max_size=tasks))
    return np.array(costs, dtype=np.int64).reshape(tasks, slots), draw(
        st.lists(st.integers(0, 60), min_size=tasks, max_size=tasks)
    )


def total(costs, unscheduled, chosen) -> int:
    return sum(unscheduled[k] if slot is None else int(costs[k, slot]) for k, slot in enumerate(chosen))


@settings(max_examples=60, deadline=None)
@given(flows())
def test_a_flow_costs_no_more_than_the_best_of_all_assignments(flow):
    costs, unscheduled = flow
    tasks, slots = costs.shape
    found = assign(costs, unscheduled)
    used = [slot for slot in found if slot is not None]
    assert len(used) == len(set(used))
    ways = itertools.product([None, *range(slots)], repeat=tasks)
    proper = (way for way in ways if len({s for s in way if s is not None}) == sum(s is not None for s in way))
    assert total(costs, unscheduled, found) == min(total(costs, unscheduled, way) for way in proper)


@settings(max_examples=40, deadline=None)
@given(flows(), st.integers(0, 4), st.integers(1, 40))
def test_waiting_that_costs_more_never_keeps_a_task_from_its_slot(flow, task, more):
    costs, unscheduled = flow
    task %= len(unscheduled)
    dearer = [cost + more * (k == task) for k, cost in enumerate(unscheduled)]
    if assign(costs, unscheduled)[task] is not None:
        assert assign(costs, dearer)[task] is not None


def test_a_gang_flows_to_the_nodes_where_least_is_taken():
    room = state_with(*(node(f"n{k}", gpus=4) for k in range(3))).room("default").copy()
    place("best_fit", room, spec(gpus=2))
    seats = place("min_cost_flow", room, spec(gpus=1, tasks=7))
    count = {name: sum(task.node == name for task in seats.tasks) for name in ("n0", "n1", "n2")}
    assert count == {"n0": 1, "n1": 3, "n2": 3}


# --- links --------------------------------------------------------------------------------------------------

PARTS = {"island": [0, 0, 1, 1, 2, 2, 3, 3], "switch": [0, 0, 1, 1, 2, 2, 3, 3], "socket": [0, 0, 0, 0, 1, 1, 1, 1]}


@pytest.mark.parametrize("placer", ["bisection", "buddy", "default"])
def test_a_pair_stays_linked_and_four_stay_on_one_socket(placer):
    room = state_with(cards("n1", parts=PARTS)).room("default").copy()
    assert place(placer, room, spec(gpus=1)) is not None
    pair = place(placer, room, spec(gpus=2))
    assert len({PARTS["island"][share.index] for share in pair.tasks[0].gpus}) == 1
    four = place(placer, room, spec(gpus=4))
    assert len({PARTS["socket"][share.index] for share in four.tasks[0].gpus}) == 1


def test_bisection_prefers_a_quiet_socket_that_it_fills():
    room = state_with(cards("n1", parts=PARTS), cards("n2", parts=PARTS)).room("default").copy()
    first = place("bisection", room, spec(gpus=4))
    second = place("bisection", room, spec(gpus=4))
    assert first.tasks[0].node == second.tasks[0].node


def test_metric_score_prefers_cards_with_more_memory_and_sees_what_was_just_placed():
    room = state_with(node("n1", gpu_memory_mib=16_384), node("n2", gpu_memory_mib=40_960)).room("default").copy()
    first = place("metric_score", room, spec(gpus=4))
    assert first.tasks[0].node == "n2"
    assert place("metric_score", room, spec(gpus=8)).tasks[0].node == "n1"

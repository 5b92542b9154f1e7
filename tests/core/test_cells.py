"""Guarantees of shape: what a group is owed it gets at once, whatever others did before; others use what is left."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.make import World, node, spec

from gangline_core import facts as f
from gangline_core.cluster import Gpu, Policy, Pool
from gangline_core.groups import Group
from gangline_core.job import JobState
from gangline_core.room.cells import promise_fault
from gangline_core.room.layout import Layout
from gangline_core.settings import check_policy, check_pool
from gangline_core.spec import ServiceClass
from gangline_core.telling.explain import explain

RACK = "topology.gangline.dev/rack"
TOPOLOGY = {"rack": RACK}
TABLE = json.loads((Path(__file__).parent.parent / "oracles" / "data" / "hived.json").read_text(encoding="utf-8"))


def machine(name: str, rack: str = "r0"):
    """Eight GPUs in pairs below switches, four on a socket."""
    gpus = tuple(
        Gpu(index=k, model="V100", memory_mib=32_768, island=k // 2, switch=k // 2, socket=k // 4) for k in range(8)
    )
    return replace(node(name, gpus=8, cpus=96, labels={RACK: rack}), gpus=gpus)


def layout(*nodes) -> Layout:
    found = Layout(nodes)
    for one in found.nodes:
        found.put(one)
    return found


def world(*nodes, cells: dict[str, dict[str, int]], groups=("a", "b", "c")) -> World:
    made = World(*nodes, groups=[Group(path=path) for path in groups])
    made.set_policy(placement="cells")
    made.tell("admission", f.PoolSet(pool=Pool(name="default", topology=TOPOLOGY, cells=cells), by="admin"))
    return made


def places(made: World, job) -> list[tuple[str, list[int]]]:
    return [(task.node, [share.index for share in task.gpus]) for task in made.tasks(job)]


# --- promises -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", TABLE["feasibility"]["cases"])
def test_promises_are_accepted_exactly_when_every_level_has_room_for_them(case):
    names = [f"n{k}" for k in range(TABLE["feasibility"]["nodes"])]
    per_rack = TABLE["feasibility"]["nodes_per_rack"]
    machines = [machine(name, f"r{k // per_rack}") for k, name in enumerate(names)]
    fault = promise_fault(layout(*machines), Pool(name="default", topology=TOPOLOGY, cells=case["cells"]))
    assert (fault is None) == case["accepted"], fault


def test_a_refused_promise_says_what_is_too_much():
    made = World(machine("n1"), machine("n2"), groups=[Group(path="a"), Group(path="b")])
    made.set_policy(placement="cells")
    problem = check_pool(made.state, Pool(name="default", cells={"a": {"node": 2}, "b": {"socket": 1}}))
    assert problem is not None
    assert (problem.field, problem.kind) == ("cells", "invalid")
    assert "1 cells of level socket are promised and only 0 are left beside the larger ones" in problem.message


def test_cells_need_the_placement_that_keeps_them():
    made = World(machine("n1"), groups=[Group(path="a")])
    assert check_pool(made.state, Pool(name="default", cells={"a": {"node": 1}})).kind == "conflict"
    made.set_policy(placement="cells")
    assert check_pool(made.state, Pool(name="default", cells={"a": {"node": 1}})) is None
    made.tell("admission", f.PoolSet(pool=Pool(name="default", cells={"a": {"node": 1}}), by="admin"))
    assert check_policy(made.state, Policy(placement="best_fit"), "default").kind == "conflict"


# --- placing ------------------------------------------------------------------------------------------------


def test_others_keep_away_from_promised_cells():
    made = world(machine("n1"), machine("n2"), cells={"a": {"node": 1}})
    others = [made.submit(spec(gpus=4, group="b")) for _ in range(3)]
    made.round()
    assert sorted(made.job(job).state for job in others) == [JobState.STARTING, JobState.STARTING, JobState.WAITING]
    assert len({name for job in others for name, _ in places(made, job)}) == 1
    owed = made.submit(spec(gpus=8, group="a"))
    made.round()
    assert made.job(owed).state == JobState.STARTING


def test_a_group_gets_its_shape_and_no_more():
    made = world(*(machine(f"n{k}") for k in range(3)), cells={"a": {"node": 1}, "b": {"socket": 1}})
    first = made.submit(spec(gpus=8, group="a"))
    second = made.submit(spec(gpus=1, group="a"))
    half = made.submit(spec(gpus=4, group="b"))
    made.round()
    assert made.job(first).state == made.job(half).state == JobState.STARTING
    assert made.job(second).state == JobState.WAITING
    assert made.tasks(half)[0].cells == (f"b:socket:{made.tasks(half)[0].node}/{places(made, half)[0][1][0] // 4}",)


def test_what_is_missing_is_told_of_the_cells_that_a_group_may_use_and_not_of_all_that_is_free():
    made = world(*(machine(f"n{k}") for k in range(3)), cells={"a": {"node": 1}, "b": {"node": 2}})
    made.submit(spec(gpus=8, group="a"))
    waits = made.submit(spec(gpus=1, group="a"))
    made.round()
    lacks = explain(made.state, waits, made.at).shortfall
    assert (lacks.verdict, lacks.missing) == ("not now", "1 more GPU would have to come free.")


def test_small_jobs_share_a_cell_before_they_open_another():
    made = world(*(machine(f"n{k}") for k in range(3)), cells={"a": {"node": 2}})
    jobs = [made.submit(spec(gpus=2, group="a")) for _ in range(4)]
    made.round()
    assert len({name for job in jobs for name, _ in places(made, job)}) == 1


def test_a_job_below_the_group_uses_the_groups_cells():
    made = world(machine("n1"), cells={"a": {"node": 1}}, groups=("a", "a/team", "b"))
    below = made.submit(spec(gpus=8, group="a/team"))
    made.round()
    assert made.job(below).state == JobState.STARTING


def test_an_opportunistic_job_borrows_a_cell_and_goes_when_its_owner_comes():
    made = world(machine("n1"), cells={"a": {"node": 1}})
    borrower = made.submit(spec(gpus=8, group="b", service_class=ServiceClass.OPPORTUNISTIC))
    made.round()
    made.start(borrower)
    assert made.job(borrower).state == JobState.RUNNING
    owner = made.submit(spec(gpus=8, group="a"))
    decided = made.round()
    assert [eviction.job for eviction in decided.evictions] == [borrower]
    assert [claim.job for claim in decided.claims] == [owner]
    made.settle()
    assert made.job(owner).state == JobState.RUNNING


def test_a_broken_node_does_not_cost_others_their_cells():
    made = world(*(machine(f"n{k}") for k in range(3)), cells={"a": {"node": 1}, "b": {"node": 1}})
    made.tell("telemetry", f.NodeLost(node="n0", silent_ms=30_000))
    jobs = [made.submit(spec(gpus=8, group=group)) for group in ("a", "b")]
    made.round()
    assert {places(made, job)[0][0] for job in jobs} == {"n1", "n2"}


def test_a_promise_of_four_cards_is_not_met_by_two_halves_of_the_cards():
    made = world(machine("n1"), cells={"a": {"socket": 1}})
    whole = made.submit(spec(gpus=4, group="a"))
    made.round()
    [(_, gpus)] = places(made, whole)
    assert len({k // 4 for k in gpus}) == 1


# --- the promise itself -------------------------------------------------------------------------------------

SIZES = {"socket": 4, "node": 8, "rack": 16}


@st.composite
def steps(draw):
    kinds = st.sampled_from(["a", "b", "c", "spare"])
    return draw(st.lists(st.tuples(kinds, st.sampled_from([1, 2, 4, 8]), st.integers(0, 5)), min_size=1, max_size=14))


@settings(max_examples=40, deadline=None)
@given(steps(), st.sampled_from(TABLE["invariant"]["divisions"]))
def test_a_job_that_fits_its_groups_free_cells_starts_at_once(moves, cells):
    made = world(*(machine(f"n{k}", f"r{k // 2}") for k in range(4)), cells=cells)
    running: list = []
    for who, gpus, leaving in moves:
        if running and leaving < 2:
            made.finish(running.pop(leaving % len(running)))
        group = "d" if who == "spare" else who
        job = made.submit(spec(gpus=gpus, group=group))
        made.round()
        if made.job(job).state == JobState.STARTING:
            made.start(job)
            running.append(job)
        else:
            made.cancel(job)
    # Whatever happened: every group gets all of its unused cells now, whole, one job each.
    in_use = {label for task in made.state.kept.tasks.values() for label in task.cells}
    owed = []
    for group, own in cells.items():
        for level, count in own.items():
            bound = sum(label.startswith(f"{group}:{level}:") for label in in_use)
            owed += [(group, level)] * (count - bound)
    jobs = [
        made.submit(spec(gpus=min(8, SIZES[level]), tasks=max(1, SIZES[level] // 8), group=group))
        for group, level in sorted(owed, key=lambda one: -SIZES[one[1]])
    ]
    made.round()
    assert [made.job(job).state for job in jobs] == [JobState.STARTING] * len(jobs)

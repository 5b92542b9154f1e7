"""The utility band: nodes that the jobs use well, sizes that fit on them, and both the same for equal inputs.

Scenes and bounds are those of petuum/adaptdl, sched/adaptdl_sched/policy/pollux_test.py, with its model's parameters.
"""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.core.test_elastic_policies import LIMITS, PERF, bidder, report, running
from tests.make import World, node, spec

from gangline_core import elasticity
from gangline_core import facts as f
from gangline_core.elasticity.band import AIM, DAMPING, LEAST, MOST, choose_nodes, states
from gangline_core.elasticity.goodput import Grad
from gangline_core.elasticity.pollux import most, speed_ups

GRAD = Grad(sqr=0.00136, var=0.000502)


def test_the_band_is_adaptdls() -> None:
    assert (LEAST, MOST, AIM, DAMPING) == (0.35, 0.65, 0.5, 0.9)


@pytest.mark.parametrize("nodes", [1, 2, 4, 8, 16])
def test_sixteen_jobs_on_sixteen_gpus_stay_within_capacity_and_their_bounds_for_three_rounds(nodes: int) -> None:
    present = [0] * 16
    for _ in range(3):
        asked = [bidder(present=size, perf=PERF, grad=GRAD, limits=LIMITS) for size in present]
        chosen = choose_nodes(asked, nodes=nodes, per_node=16 // nodes)
        present = list(chosen.sizes)
        assert sum(present) <= 16
        assert all(0 <= size <= 8 for size in present)


def test_jobs_that_may_not_be_moved_keep_their_size_and_the_others_their_least() -> None:
    # mixed: half non-preemptible, min 2 max 4: a placed one never changes, an allocation is empty or at least the least
    fixed = [bidder(present=2, sizes=(2,), perf=PERF, grad=GRAD, limits=LIMITS, must_run=True) for _ in range(4)]
    free = [bidder(present=0, sizes=(2, 4), perf=PERF, grad=GRAD, limits=LIMITS) for _ in range(4)]
    for _ in range(3):
        chosen = choose_nodes([*fixed, *free], nodes=4, per_node=4)
        assert chosen.sizes[:4] == (2, 2, 2, 2)
        assert all(size in (0, 2, 4) for size in chosen.sizes[4:])
        assert sum(chosen.sizes) <= 16


def test_more_nodes_are_wanted_when_one_of_them_cannot_be_used() -> None:
    # unusable node: of three nodes one is too small; three jobs of one GPU: two run, more than three nodes are wanted
    chosen = choose_nodes([bidder(present=0, sizes=(1,), profiled=1) for _ in range(3)], nodes=2, per_node=1)
    assert sorted(chosen.sizes) == [0, 1, 1]
    assert chosen.nodes + 1 > 3


@pytest.mark.parametrize(("nodes", "per_node", "utility"), [(1, 4, 1.982 / 4), (2, 2, 1.935 / 4)])
def test_a_cluster_used_within_the_band_is_right_as_it_is(nodes: int, per_node: int, utility: float) -> None:
    # The golden speed-ups of four GPUs on one node and on two.
    four = bidder(present=4, sizes=(1, 2, 4), profiled=4, perf=PERF, grad=GRAD, limits=LIMITS)
    chosen = choose_nodes([four], nodes=nodes, per_node=per_node)
    assert chosen.utility == pytest.approx(utility, abs=1e-3)
    assert (chosen.nodes, chosen.sizes) == (nodes, (4,))


def test_a_job_that_gains_nothing_from_more_gpus_gives_nodes_back() -> None:
    sizes = (1, 2, 4, 8, 16)
    stale = bidder(present=16, sizes=sizes, profiled=16, perf=PERF, grad=GRAD, limits=LIMITS, must_run=True)
    chosen = choose_nodes([stale], nodes=16, per_node=1)
    assert chosen.nodes < 16
    assert chosen.sizes[0] <= chosen.nodes
    assert chosen.utility >= LEAST


def test_jobs_that_use_all_of_it_well_want_as_many_nodes_again_at_most() -> None:
    linear = [bidder(present=2, sizes=(1, 2, 4, 8), profiled=8) for _ in range(8)]
    chosen = choose_nodes(linear, nodes=4, per_node=4)
    assert 4 < chosen.nodes <= 8
    assert sum(chosen.sizes) == 16


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([(1, 2), (1, 2, 4), (2,)]), st.integers(0, 2)), min_size=1, max_size=3),
    st.integers(1, 3),
    st.integers(1, 3),
)
def test_no_other_sizes_are_worth_more_on_as_many_nodes(jobs, nodes: int, per_node: int) -> None:
    asked = [
        bidder(sizes=sizes, present=present if present in sizes else 0, perf=PERF, grad=GRAD) for sizes, present in jobs
    ]

    def worth(sizes: tuple[int, ...]) -> float:
        total = 0.0
        for one, size in zip(asked, sizes, strict=True):
            reached = float(speed_ups(one, [size], fair=1, per_node=per_node)[0])
            total += reached if size == one.present else DAMPING * reached
        return total

    options = [[0, *(size for size in one.sizes if size <= most(one))] for one in asked]
    for state in states(asked, nodes=nodes, per_node=per_node):
        able = [own for own in itertools.product(*options) if sum(own) <= state.nodes * per_node]
        assert worth(state.sizes) == pytest.approx(max(map(worth, able)))
        assert state.worth == pytest.approx(worth(state.sizes))


def test_a_pool_says_how_many_nodes_it_wants_once_and_frees_the_others() -> None:
    world = World(*(node(f"n{k}", gpus=1) for k in range(8))).set_policy(elastic="band")
    job = world.submit_running(spec(gpus=1, tasks=8, minimum=1, maximum=8), *(f"n{k}" for k in range(8)))
    report(world, job, (1, 100), (2, 190), (4, 380), (8, 780))
    world.wait(3600)
    facts = elasticity.propose(world.state, "default", world.at)
    [said] = [fact for fact in facts if isinstance(fact, f.NodesWanted)]
    [sized] = [fact for fact in facts if isinstance(fact, f.ResizeProposed)]
    assert said.nodes < 8
    assert sized.size <= said.nodes
    world.tell("elastic.default", *facts)
    world.settle()
    assert world.job(job).sizes["worker"] == sized.size
    assert world.state.kept.pools["default"].nodes_wanted == said.nodes
    world.wait(3600)
    assert elasticity.propose(world.state, "default", world.at) == ()


def test_jobs_that_wait_for_room_want_more_nodes_and_a_node_that_is_too_small_for_them_gives_none() -> None:
    # unusable node: node 0 has half a CPU, the two others eight; three jobs of one CPU and one GPU: two run, and more
    # than three nodes are wanted
    machines = [replace(node("n0", gpus=1), cpu_milli=500), node("n1", gpus=1, cpus=8), node("n2", gpus=1, cpus=8)]
    world = World(*machines).set_policy(elastic="band")
    jobs = [world.submit(gpus=1, cpus=1) for _ in range(3)]
    world.settle()
    assert sorted(world.job(job).state for job in jobs) == ["running", "running", "waiting"]
    world.wait(3600)
    [said] = elasticity.propose(world.state, "default", world.at)
    assert isinstance(said, f.NodesWanted)
    assert said.nodes > 3
    world.tell("elastic.default", said)
    world.wait(3600).see(node("n3", gpus=1, cpus=8))
    world.settle()
    assert {world.job(job).state for job in jobs} == {"running"}
    [enough] = elasticity.propose(world.state, "default", world.at)
    assert enough.nodes == 4, "what runs has its nodes, and nobody wants more"


def test_growth_is_not_planned_on_gpus_of_a_node_on_which_no_member_fits() -> None:
    small = replace(node("n0", gpus=4), cpu_milli=500)
    world = World(node("n1", gpus=3), small).set_policy(elastic="goodput")
    world.submit_running(spec(gpus=1, cpus=1, tasks=2, minimum=1, maximum=8), "n1")
    world.wait(3600)
    [sized] = elasticity.propose(world.state, "default", world.at)
    assert sized.size == 3


def test_jobs_without_whole_gpus_want_nothing() -> None:
    world = World(node(gpus=0)).set_policy(elastic="band")
    running(world, gpus=0)
    world.wait(3600)
    assert elasticity.propose(world.state, "default", world.at) == ()

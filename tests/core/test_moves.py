"""Which moves would let a waiting job start: as few as can be, and only if everybody who moves finds a place."""

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.make import HOUR, SECOND, World, node, spec

from gangline_core.explain import explain
from gangline_core.moves import plan_moves


def scattered():
    """Three nodes of eight with 7, 6 and 7 GPUs taken (volcano-sh/volcano#3948)."""
    world = World(*(node(f"n{k}") for k in (1, 2, 3)))
    jobs = {}
    for name, sizes in (("n1", (4, 2, 1)), ("n2", (4, 2)), ("n3", (4, 2, 1))):
        for gpus in sizes:
            jobs[name, gpus] = world.submit_running(spec(gpus=gpus), name)
    return world, jobs


def test_two_moves_make_room_for_four_where_no_single_one_does():
    world, jobs = scattered()
    waiting = world.submit(gpus=4)
    world.round()
    world.wait(HOUR / SECOND)
    plan = plan_moves(world.state, world.job(waiting), world.at)
    assert plan is not None
    assert len(plan.moves) == 2
    moved = {move.job: (move.from_nodes, move.to_nodes) for move in plan.moves}
    assert set(plan.nodes) <= {"n1", "n3"}
    (name,) = plan.nodes
    assert set(moved) == {jobs[name, 2], jobs[name, 1]}
    assert moved[jobs[name, 2]] == ((name,), ("n2",))
    assert plan.lost_gpu_ms == 3 * HOUR


def test_the_plan_is_told_with_the_reason_and_moves_nobody():
    world, _ = scattered()
    waiting = world.submit(gpus=4)
    world.round()
    told = explain(world.state, waiting, world.at)
    assert told.sentence == "Needs 4 GPUs on one node; at its turn 4 were free, at most 2 on one node (n2)."
    assert told.shortfall.verdict == "not now"
    assert told.shortfall.best == "Needs 4 in one node; the best free node has 2, on n2."
    assert told.shortfall.missing == "2 more GPUs would have to come free there."
    assert [(one.cause, one.nodes, one.gpus) for one in told.shortfall.excluded] == [("not enough GPUs free", 3, 24)]
    assert len(told.shortfall.moves.moves) == 2
    assert world.state.stopping_tasks == {}


def test_nobody_is_moved_who_may_not_be_or_without_a_place_to_go():
    world = World(node("n1", gpus=2), node("n2", gpus=2))
    world.submit_running(spec(gpus=1, preemptible=False), "n1")
    world.submit_running(spec(gpus=1, preemptible=False), "n2")
    waiting = world.submit(gpus=2)
    assert plan_moves(world.state, world.job(waiting), world.at) is None
    full = World(node("n1", gpus=2))
    full.submit_running(spec(gpus=1), "n1")
    large = full.submit(gpus=2)
    assert plan_moves(full.state, full.job(large), full.at) is None


def test_what_no_empty_pool_could_hold_is_told_as_never():
    world = World(node("n1", gpus=4))
    waiting = world.submit(gpus=8)
    world.round()
    lacks = explain(world.state, waiting, world.at).shortfall
    assert (lacks.verdict, lacks.moves) == ("never", None)
    assert "needs 8" in lacks.best


def test_the_best_island_is_named():
    world = World(node("n17", islands=[0] * 6 + [1] * 2), node("n2", islands=[0] * 4 + [1] * 4))
    waiting = world.submit(gpus=6, topology="nvlink")
    world.run(world.submit(gpus=1), ("n17", [0]))
    lacks = explain(world.state, waiting, world.at).shortfall
    assert lacks.best == "Needs 6 in one NVLink island; the best free NVLink island has 5, on n17."
    assert lacks.missing == "1 more GPU would have to come free there."


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(1, 4), max_size=4), min_size=2, max_size=4), st.integers(2, 4))
def test_after_the_moves_everything_has_a_place(sizes, wanted):
    world = World(*(node(f"n{k}", gpus=4) for k in range(len(sizes))))
    for k, own in enumerate(sizes):
        left = 4
        for gpus in own:
            if gpus <= left:
                left -= gpus
                world.submit_running(spec(gpus=gpus), f"n{k}")
    waiting = world.submit(gpus=wanted)
    plan = plan_moves(world.state, world.job(waiting), world.at)
    if plan is None:
        return
    held = {f"n{k}": sum(world.state.use[f"n{k}"].gpu_milli) // 1000 for k in range(len(sizes))}
    for move in plan.moves:
        gpus = world.job(move.job).spec.roles[0].resources.whole_gpus
        held[move.from_nodes[0]] -= gpus
        held[move.to_nodes[0]] += gpus
    held[plan.nodes[0]] += wanted
    assert all(count <= 4 for count in held.values())

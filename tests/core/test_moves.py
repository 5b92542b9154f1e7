"""Which moves would let a waiting job start: as few as can be, and only if everybody who moves finds a place."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.test_shapes_of_gangs import cut, sliced
from tests.make import HOUR, SECOND, World, gpu_amount, group, node, role, spec

from gangline_core.making_room.moves import plan_moves
from gangline_core.spec import Elastic, ResizeKind
from gangline_core.telling.explain import explain


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


# --- what else may move ------------------------------------------------------------------------------------------


def plan_for(world, waiting):
    return plan_moves(world.state, world.job(waiting), world.at)


def test_a_slice_of_a_card_moves_so_that_a_whole_card_is_free():
    world = World(cut("n1", gpus=1), cut("n2", gpus=1))
    first, second, third = (world.submit(sliced(profile)) for profile in ("3g.20gb", "3g.20gb", "1g.5gb"))
    world.round()
    world.start(first, second, third).finish(second)
    waiting = world.submit(sliced("7g.40gb"))
    world.wait(60)
    assert {task.node for job in (first, third) for task in world.tasks(job)} == {"n1", "n2"}
    plan = plan_for(world, waiting)
    assert [move.job for move in plan.moves] == [third]


def test_one_worker_of_an_elastic_job_moves_alone_and_only_its_work_counts():
    world = World(node("n1", gpus=2), node("n2", gpus=2), node("n3", gpus=2))
    workers = role(tasks=3, minimum=1, maximum=4, gpus=1)
    elastic = world.submit_running(spec(roles=[workers]), "n1", "n2", "n3")
    world.submit_running(spec(gpus=1, preemptible=False), "n3")
    waiting = world.submit(gpus=2)
    world.wait(60)
    plan = plan_for(world, waiting)
    assert [(move.job, move.tasks, move.of_tasks) for move in plan.moves] == [(elastic, 1, 3)]
    assert plan.lost_gpu_ms == 60 * SECOND
    assert set(plan.moves[0].from_nodes) != set(plan.moves[0].to_nodes)


@pytest.mark.parametrize(("kind", "moved"), [(ResizeKind.TORCHRUN, 1), (ResizeKind.TASKS, 1)])
def test_a_gang_that_replaces_lost_members_moves_one_but_never_rank_0_of_a_rendezvous(kind, moved):
    world = World(node("n1", gpus=2), node("n2", gpus=2), node("n3", gpus=2))
    gang = spec(roles=[role(tasks=2, gpus=1)], repair_s=60, elastic=Elastic(kind=kind), attributes={})
    job = world.submit_running(gang, "n1", "n2")
    world.submit_running(spec(gpus=1, preemptible=False), "n3")
    waiting = world.submit(gpus=2)
    plan = plan_for(world, waiting)
    assert [(move.job, move.tasks) for move in plan.moves] == [(job, moved)]
    if kind == ResizeKind.TORCHRUN:
        assert plan.moves[0].from_nodes == ("n2",), "rank 0 is on n1"


def test_a_gang_without_such_a_contract_moves_whole():
    world = World(node("n1", gpus=3), node("n2", gpus=3), node("n3", gpus=2))
    job = world.submit_running(spec(tasks=2, gpus=1), "n1", "n2")
    world.submit_running(spec(gpus=1, preemptible=False), "n1")
    waiting = world.submit(gpus=3)
    plan = plan_for(world, waiting)
    assert [(move.job, move.tasks, move.of_tasks) for move in plan.moves] == [(job, 2, 2)]
    assert plan.nodes == ("n2",)


def test_no_plan_promises_a_start_that_a_limit_forbids():
    def scene(limit):
        world = World(node("n1", gpus=2), node("n2", gpus=2), groups=[group("a", limit=gpu_amount(limit))])
        world.submit_running(spec(gpus=1, group="a"), "n1")
        world.submit_running(spec(gpus=1), "n2")
        return plan_for(world, world.submit(gpus=2, group="a"))

    assert scene(2) is None
    assert len(scene(3).moves) == 1


def test_the_plan_of_a_full_pool_of_many_jobs_is_found_among_the_cheapest():
    world = World(*(node(f"n{k:02}", gpus=8) for k in range(40)))
    for k in range(40):
        world.submit_running(spec(gpus=1), f"n{k:02}")
        world.submit_running(spec(tasks=2, gpus=1), f"n{k:02}")
        world.submit_running(spec(gpus=0.5), f"n{k:02}")
    waiting = world.submit(gpus=8)
    plan = plan_for(world, waiting)
    assert plan is not None
    assert len(plan.moves) == 3

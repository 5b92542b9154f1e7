"""Gangs that start again in one round are seated together, as close as they can be, and nobody loses what it has."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.make import World, group, node, role, spec

from gangline_core import cycle, elasticity
from gangline_core import facts as f
from gangline_core.cluster import Pool
from gangline_core.groups import BudgetMode
from gangline_core.ids import NodeId
from gangline_core.job import JobState
from gangline_core.sizes.progress import Point, Progress
from gangline_core.spec import Elastic, ResizeKind
from gangline_core.state import State


def gang(world: World, size: int, *nodes: str, **more) -> int:
    """A running gang of so many single GPUs that starts again for every change."""
    asked = role(tasks=size, minimum=1, maximum=16, gpus=1)
    return world.submit_running(
        spec(roles=[asked], elastic=Elastic(kind=ResizeKind.RESTART, cost_s=30), **more), *nodes
    )


def propose(world: World, **sizes: int) -> None:
    """Sizes of jobs, by "j" and their id; a job's own size is a move."""
    world.round()
    facts = []
    for name, size in sizes.items():
        job = int(name[1:])
        moves = world.job(job).sizes["worker"] == size
        facts.append(f.ResizeProposed(pool="default", job=job, role="worker", size=size, why="test", moves=moves))
    world.tell("elastic.default", *facts)
    world.round()


def on(world: World, job: int) -> list[str]:
    return sorted(task.node for task in world.tasks(job))


def held(state: State) -> dict[tuple[str, int], int]:
    """How many tasks hold each GPU."""
    count: dict[tuple[str, int], int] = {}
    for task in state.kept.tasks.values():
        for share in task.gpus:
            count[task.node, share.index] = count.get((task.node, share.index), 0) + 1
    return count


def test_a_gang_that_grows_leaves_the_node_that_is_too_small_for_it() -> None:
    world = World(node("n1", gpus=4), node("n2", gpus=4))
    world.submit_running(spec(gpus=3), "n1")
    job = gang(world, 1, "n1")
    propose(world, **{f"j{job}": 4})
    world.settle()
    assert on(world, job) == ["n2"] * 4


@pytest.mark.parametrize(("late_s", "is_stopped"), [(0, True), (1, False)])
def test_a_gang_whose_deadline_would_not_let_it_begin_again_is_not_stopped_for_another_size(
    late_s: int, is_stopped: bool
) -> None:
    world = World(node("n1", gpus=4))
    due_ms = world.at + 1000 * (900 + 30 - late_s)
    job = gang(world, 1, "n1", estimate_s=900, deadline_ms=due_ms)
    world.wait(600)
    propose(world, **{f"j{job}": 4})
    assert (world.job(job).state == JobState.STOPPING) == is_stopped
    world.wait(30).settle()
    assert world.job(job).state == JobState.RUNNING


@pytest.mark.parametrize(("spent", "late"), [(False, False), (True, False), (False, True)])
def test_a_gang_that_could_not_begin_again_is_not_made_smaller_for_another(spent: bool, late: bool) -> None:
    world = World(node("n1", gpus=4), node("n2", gpus=2), groups=[group("few")])
    due_ms = world.at + 920_000 if late else 0
    job = gang(world, 4, *["n1"] * 4, group="few", estimate_s=900, deadline_ms=due_ms)
    other = world.submit_running(spec(gpus=2, level="normal", checkpoints=True), "n2")
    world.wait(600)
    if spent:
        world.tell("accounting", f.BudgetExhausted(group="few", used_gpu_milli_ms=1))
    urgent = world.submit(spec(gpus=2, priority=1000))
    world.settle()
    keeps = spent or late
    assert (world.job(urgent).state, world.job(job).state) == (JobState.RUNNING, JobState.RUNNING)
    assert (world.job(job).attempt, world.job(other).preemptions) == ((1, 1) if keeps else (2, 0))


def test_a_gang_whose_budget_is_used_up_runs_on_as_it_is() -> None:
    world = World(node("n1", gpus=4), groups=[group("few")])
    job = gang(world, 1, "n1", group="few")
    world.tell("accounting", f.BudgetExhausted(group="few", used_gpu_milli_ms=1))
    propose(world, **{f"j{job}": 4})
    world.settle()
    assert (world.job(job).state, world.job(job).attempt) == (JobState.RUNNING, 1)


def test_two_gangs_change_places_in_one_round_and_start_once_each() -> None:
    world = World(node("n1", gpus=4), node("n2", gpus=4))
    small, large = gang(world, 3, "n1", "n1", "n2"), gang(world, 3, "n1", "n2", "n2")
    propose(world, **{f"j{small}": 1, f"j{large}": 4})
    assert {world.job(job).state for job in (small, large)} == {JobState.STOPPING}
    world.settle()
    assert len(set(on(world, large))) == 1
    assert (world.job(small).sizes, world.job(large).sizes) == ({"worker": 1}, {"worker": 4})
    assert (world.job(small).attempt, world.job(large).attempt) == (2, 2)


def test_a_small_gang_makes_room_for_a_larger_one_and_keeps_its_size() -> None:
    world = World(node("n1", gpus=4), node("n2", gpus=4))
    world.submit_running(spec(gpus=3), "n1")
    small, large = gang(world, 1, "n2"), gang(world, 2, "n2", "n2")
    propose(world, **{f"j{small}": 1, f"j{large}": 4})
    world.settle()
    assert (on(world, small), on(world, large)) == (["n1"], ["n2"] * 4)


def test_nobody_moves_who_neither_comes_closer_nor_lets_another_in() -> None:
    world = World(node("n1", gpus=4), node("n2", gpus=4))
    job = gang(world, 1, "n1")
    propose(world, **{f"j{job}": 1})
    world.settle()
    assert (world.job(job).attempt, on(world, job)) == (1, ["n1"])


def test_a_gang_waits_for_the_members_of_another_whose_room_it_takes() -> None:
    world = World(node("n1", gpus=4))
    small, large = gang(world, 2, "n1", "n1"), gang(world, 2, "n1", "n1")
    propose(world, **{f"j{small}": 1, f"j{large}": 3})
    [other, mine] = [[task.id for task in world.tasks(job)] for job in (small, large)]
    for task in mine:
        world.exit(task, code=0).empty(task)
    world.round()
    assert world.job(large).state == JobState.WAITING, "the other still holds a GPU that it needs"
    for task in other:
        world.exit(task, code=0).empty(task)
    world.settle()
    assert (world.job(small).sizes, world.job(large).sizes) == ({"worker": 1}, {"worker": 3})


@pytest.mark.parametrize("what", ["cancel", "lost", "ended"])
def test_what_becomes_of_one_leaves_the_others_where_they_can_be(what: str) -> None:
    world = World(node("n1", gpus=4), node("n2", gpus=4))
    small, large = gang(world, 2, "n1", "n1"), gang(world, 2, "n1", "n1")
    propose(world, **{f"j{small}": 1, f"j{large}": 3})
    if what == "cancel":
        world.cancel(small)
    elif what == "ended":
        world.cancel(large)
    else:
        world.tell("telemetry", f.NodeLost(node="n1", silent_ms=31_000))
    world.settle()
    ends = {"cancel": small, "ended": large}.get(what)
    for job in (small, large):
        assert world.job(job).state == (JobState.CANCELLED if job == ends else JobState.RUNNING)
    assert not world.state.kept.claims
    assert max(held(world.state).values()) == 1


def test_a_decision_that_one_of_them_does_not_live_to_see_stops_nobody_who_waited_for_it() -> None:
    world = World(node("n1", gpus=4))
    small, large = gang(world, 2, "n1", "n1"), gang(world, 2, "n1", "n1")
    world.round()
    for job, size in ((small, 1), (large, 3)):
        world.tell("elastic.default", f.ResizeProposed(pool="default", job=job, role="worker", size=size, why="test"))
    world.tell("queue.default", cycle.open_round(world.state, "default", world.at))
    decided = cycle.decide_round(world.state, "default", world.at)
    assert {restart.job for restart in decided.restarts} == {small, large}
    world.cancel(small)
    world.tell("placement.default", decided)
    assert world.job(large).state == JobState.RUNNING, "what it waited for did not start again: it runs on as it was"
    assert world.job(large).sizes == {"worker": 2}


def test_a_limit_that_only_the_others_leaving_would_keep_is_not_broken() -> None:
    limit = {"gpu_milli": 4000}
    world = World(node("n1", gpus=8), groups=[group("q", limit=limit)])
    small, large = gang(world, 2, "n1", "n1", group="q"), gang(world, 2, "n1", "n1", group="q")
    propose(world, **{f"j{small}": 1, f"j{large}": 3})
    assert world.job(large).state == JobState.RUNNING, "what the other counts is not back yet"
    world.settle()
    assert world.job(small).sizes == {"worker": 1}


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_whatever_is_proposed_no_gpu_is_held_twice_and_everybody_runs_on(data: st.DataObject) -> None:
    world = World(*(node(f"n{k}", gpus=4) for k in range(4)))
    jobs = []
    for _ in range(data.draw(st.integers(1, 6))):
        size = data.draw(st.integers(1, 4))
        free = [n for n in range(4) if sum(on(world, job).count(f"n{n}") for job in jobs) + size <= 4]
        if free:
            jobs.append(gang(world, size, *[f"n{data.draw(st.sampled_from(free))}"] * size))
    for _ in range(3):
        sizes = {f"j{job}": data.draw(st.integers(1, 8)) for job in jobs}
        propose(world, **sizes)
        assert max(held(world.state).values()) == 1
        world.settle()
        assert all(world.job(job).state == JobState.RUNNING for job in jobs)
        assert max(held(world.state).values()) == 1
        assert not world.state.kept.claims


def test_of_those_that_may_shrink_the_job_that_loses_least_by_its_own_reports_gives_first() -> None:
    def gave(flat: str) -> str:
        world = World(node("n1", gpus=8), node("n2", gpus=8))
        asked, kind = role(tasks=8, minimum=1, maximum=8, gpus=1), Elastic(kind=ResizeKind.TASKS)
        jobs = {}
        for name, at in (("a", "n1"), ("b", "n2")):
            jobs[name] = world.submit_running(spec(name=name, roles=[asked], elastic=kind), *[at] * 8)
            for size in (1, 2, 4, 8):
                point = Point(1, size, 64, 0, 1_000_000 * size if name == flat else 1_000_000)
                world.tell("telemetry", f.ProgressReported(job=jobs[name], progress=Progress(points=(point,))))
        world.submit(gpus=1)
        [shrink] = world.round().shrinks
        return next(name for name, job in jobs.items() if job == shrink.job)

    assert (gave("a"), gave("b")) == ("a", "b")


def test_a_node_that_serves_another_pool_now_is_no_place_to_make_room_on() -> None:
    world = World(node("n1", gpus=4), node("n2", gpus=4), node("n3", gpus=4)).set_policy(elastic="goodput")
    world.tell("admission", f.PoolSet(pool=Pool(name="other"), by="admin"))
    jobs = [gang(world, 1, "n1"), gang(world, 2, "n1", "n2"), gang(world, 1, "n3")]
    for job in jobs:
        size = world.job(job).sizes["worker"]
        points = tuple(Point(1, k, 64, 0, 1_000_000 // k) for k in (1, 2, 4) if k <= size)
        progress = Progress(points=points, grad_sqr=1_000_000, grad_var=9_000_000, remaining_s=9000)
        world.tell("telemetry", f.ProgressReported(job=job, progress=progress))
    world.see(replace(world.state.kept.nodes[NodeId("n3")], pool="other"))
    world.wait(3600)
    for job in jobs:
        world.tell("telemetry", f.ProgressReported(job=job, progress=Progress(remaining_s=9000)))
    proposals = elasticity.propose(world.state, "default", world.at)
    assert proposals
    world.tell("elastic.default", *proposals)
    world.settle()
    assert all(world.job(job).state == JobState.RUNNING for job in jobs)
    assert max(held(world.state).values()) == 1


@pytest.mark.parametrize(("hours", "size"), [(14, 1), (15, 4)])
def test_a_gang_for_whose_new_run_its_budget_has_too_little_left_goes_on_as_it_is(hours: int, size: int) -> None:
    """A whole run can cost 14 hours, and the present one has cost almost half of one."""
    safe = group("lab", budget_gpu_hours=hours, budget_mode=BudgetMode.SAFE)
    world = World(node("n1", gpus=4), groups=[safe])
    job = gang(world, 1, "n1", group="lab", time_limit_s=3_150, grace_s=0)
    world.wait(1_500)
    propose(world, **{f"j{job}": 4})
    world.settle()
    assert world.job(job).state == JobState.RUNNING
    assert world.job(job).sizes == {"worker": size}


@pytest.mark.parametrize(("hours", "size"), [(14, 2), (15, 1)])
def test_nor_does_it_give_members_to_another_job_when_it_could_not_begin_again(hours: int, size: int) -> None:
    safe = group("lab", budget_gpu_hours=hours, budget_mode=BudgetMode.SAFE)
    world = World(node("n1", gpus=2), groups=[safe, group("other")])
    world.set_policy(preemption=False)
    job = gang(world, 2, "n1", group="lab", time_limit_s=3_150, grace_s=0)
    world.wait(1_000)
    world.submit(spec(gpus=1, group="other", priority=5))
    world.settle()
    assert world.job(job).state == JobState.RUNNING
    assert world.job(job).sizes == {"worker": size}

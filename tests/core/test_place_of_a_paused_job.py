"""Who grew into the place of a paused job leaves it again when that goes on, and goes on itself where it may."""

import pytest
from msgspec.structs import replace
from tests.core.test_pausing import gpu_spec, resume, stand_still, suspend
from tests.make import World, gpu_amount, group, node, role, spec

from gangline_core import elasticity
from gangline_core import facts as f
from gangline_core.elasticity.room import open_to_growth
from gangline_core.job import JobState
from gangline_core.reasons import ReasonCode
from gangline_core.spec import Elastic, Pausing, ResizeKind, TopologyWish
from gangline_core.table import Table

GENTLE = (ResizeKind.TASKS, ResizeKind.TORCHRUN, ResizeKind.SIGNAL)


def a_place(world: World, *gpus: int, **fields) -> int:
    """A job of as many GPUs, paused in its place on these."""
    paused = world.submit_running(gpu_spec(len(gpus), name="paused", **fields), ("n1", gpus))
    suspend(world, paused)
    return paused


def elastic_on(world: World, *gpus: int, kind: ResizeKind = ResizeKind.TASKS, minimum: int = 1, **fields) -> int:
    """An elastic job with a member on each of these GPUs, in this order."""
    sizes = fields.pop("sizes", ())
    asked = spec(gpus=1, tasks=len(gpus), minimum=minimum, maximum=8, sizes=sizes, elastic=Elastic(kind=kind), **fields)
    return world.submit_running(asked, *[("n1", [gpu]) for gpu in gpus])


def gpus_of(world: World, job: int) -> list[int]:
    return sorted(share.index for task in world.tasks(job) if not task.stop for share in task.gpus)


@pytest.mark.parametrize("kind", GENTLE)
def test_an_elastic_job_gives_the_members_in_the_place_and_works_on(kind: ResizeKind) -> None:
    world = World(node(gpus=4))
    paused = a_place(world, 2)
    other = elastic_on(world, 0, 1, 2, 3, kind=kind)
    resume(world, paused)
    decided = world.round()
    assert [(less.job, less.beneficiary) for less in decided.shrinks] == [(other, paused)]
    assert (decided.evictions, decided.pauses) == ((), ())
    world.settle()
    assert world.job(paused).state == world.job(other).state == JobState.RUNNING
    assert (gpus_of(world, paused), gpus_of(world, other)) == ([2], [0, 1, 3])


def test_a_gang_that_starts_again_for_each_size_does_so_beside_the_place() -> None:
    world = World(node(gpus=4))
    paused = a_place(world, 0)
    other = elastic_on(world, 0, 1, 2, 3, kind=ResizeKind.RESTART)
    resume(world, paused)
    world.settle()
    assert (gpus_of(world, paused), gpus_of(world, other)) == ([0], [1, 2, 3])
    assert {world.job(job).state for job in (paused, other)} == {JobState.RUNNING}
    assert [task.rank for task in world.tasks(other)] == [0, 1, 2]


def test_the_free_part_of_a_place_is_kept_while_a_gang_starts_again_beside_it() -> None:
    world = World(node(gpus=4))
    paused = a_place(world, 0, 1)
    other = elastic_on(world, 1, 2, 3, kind=ResizeKind.RESTART, minimum=2)
    resume(world, paused)
    world.round()
    late = world.submit(gpus=1)
    world.settle(stops=False)
    assert world.job(late).state == JobState.WAITING
    world.settle()
    assert (gpus_of(world, paused), gpus_of(world, other)) == ([0, 1], [2, 3])


def test_as_many_more_leave_as_the_next_allowed_size_is_smaller_and_those_of_the_highest_ranks() -> None:
    world = World(node(gpus=8))
    paused = a_place(world, 2)
    other = elastic_on(world, 0, 1, 2, 3, kind=ResizeKind.TORCHRUN, sizes=(1, 2, 4, 8))
    resume(world, paused)
    world.settle()
    assert (gpus_of(world, paused), gpus_of(world, other)) == ([2], [0, 1])


def test_a_gang_in_slices_gives_whole_slices() -> None:
    world = World(node(gpus=8))
    paused = a_place(world, 2)
    wish = TopologyWish(slice_tasks=2, slice_level="node")
    asked = spec(
        roles=[role(gpus=1, tasks=6, minimum=2, maximum=8, sizes=(2, 4, 6, 8))], topology=wish, elastic=Elastic()
    )
    other = world.submit_running(asked, *[("n1", [gpu]) for gpu in range(6)])
    resume(world, paused)
    world.settle()
    assert (gpus_of(world, paused), gpus_of(world, other)) == ([2], [0, 1, 4, 5])


@pytest.mark.parametrize("minimum", [3, 4])
def test_who_would_be_below_its_least_gives_nothing_and_the_paused_one_waits(minimum: int) -> None:
    world = World(node(gpus=4))
    paused = a_place(world, 2, 3)
    other = elastic_on(world, 0, 1, 2, 3, minimum=minimum)
    resume(world, paused)
    assert not world.round().shrinks
    world.settle()
    assert (world.job(paused).state, world.reason(paused)) == (JobState.PAUSED, ReasonCode.PLACE_TAKEN)
    assert gpus_of(world, other) == [0, 1, 2, 3]


@pytest.mark.parametrize("kind", GENTLE)
def test_rank_0_never_leaves_by_a_change_of_size(kind: ResizeKind) -> None:
    world = World(node(gpus=4))
    paused = a_place(world, 0)
    elastic_on(world, 0, 1, 2, kind=kind)
    resume(world, paused)
    assert not world.round().shrinks


@pytest.mark.parametrize("kind", [*GENTLE, ResizeKind.RESTART])
@pytest.mark.parametrize("size", [1, 3])
def test_who_makes_way_in_a_round_changes_its_size_in_none_of_it(kind: ResizeKind, size: int) -> None:
    world = World(node(gpus=4)).set_policy(time_slice_s=60)
    paused = a_place(world, 0, 1)
    other = elastic_on(world, 0, 1, kind=kind, sizes=(1, 2, 3), pausing=Pausing())
    resume(world, paused)
    proposed = f.ResizeProposed(pool="default", job=other, role="worker", size=size, why="x")
    world.wait(61).tell("elastic.default", proposed)
    decided = world.round()
    assert [(one.job, one.beneficiary) for one in decided.pauses] == [(other, paused)]
    assert not (*decided.growths, *decided.restarts, *decided.shrinks)
    world.settle(stops=False)
    stand_still(world)
    world.settle(stops=False)
    assert (world.job(paused).state, world.job(other).state) == (JobState.RUNNING, JobState.PAUSED)


def test_who_is_evicted_in_a_round_does_not_grow_in_it() -> None:
    world = World(node(gpus=4)).set_policy(ordering="priority", shrink=False)
    other = elastic_on(world, 0, 1)
    urgent = world.submit(gpus=3, priority=9)
    world.tell("elastic.default", f.ResizeProposed(pool="default", job=other, role="worker", size=3, why="x"))
    decided = world.round()
    assert [(one.job, one.beneficiary) for one in decided.evictions] == [(other, urgent)]
    assert not decided.growths


def test_a_pool_that_does_not_shrink_tasks_that_must_stay_and_a_guarantee_keep_everybody() -> None:
    world = World(node(gpus=4))
    world.set_policy(shrink=False)
    paused = a_place(world, 2)
    elastic_on(world, 0, 1, 2, 3)
    resume(world, paused)
    assert not world.round().shrinks
    world = World(node(gpus=4))
    paused = a_place(world, 2)
    elastic_on(world, 0, 1, 2, 3, stays=4)
    resume(world, paused)
    assert not world.round().shrinks
    world = World(node(gpus=4), groups=[group(), group("a", guaranteed=gpu_amount(4)), group("b")])
    paused = a_place(world, 2, group="b")
    elastic_on(world, 0, 1, 2, 3, group="a")
    resume(world, paused)
    assert not world.round().shrinks


def test_where_time_is_sliced_an_elastic_job_is_shrunk_from_the_place_and_not_evicted() -> None:
    world = World(node(gpus=4))
    world.set_policy(time_slice_s=60)
    paused = a_place(world, 3)
    other = elastic_on(world, 0, 1, 2, 3)
    resume(world, paused)
    world.wait(600)
    decided = world.round()
    assert (decided.evictions, decided.pauses) == ((), ())
    world.settle()
    assert (gpus_of(world, paused), gpus_of(world, other)) == ([3], [0, 1, 2])


def test_only_who_is_needed_makes_way_and_two_places_are_cleared_in_one_round() -> None:
    world = World(node(gpus=8))
    first, second = a_place(world, 2), a_place(world, 3)
    other = elastic_on(world, 0, 1, 2, 3, 4)
    beside = elastic_on(world, 5, 6)
    resume(world, first)
    resume(world, second)
    decided = world.round()
    assert {less.beneficiary for less in decided.shrinks} == {first, second}
    world.settle()
    assert {world.job(job).state for job in (first, second, other, beside)} == {JobState.RUNNING}
    assert (gpus_of(world, other), gpus_of(world, beside)) == ([0, 1, 4], [5, 6])


def test_waiting_jobs_count_what_paused_ones_took_from_an_elastic_job_in_the_same_round() -> None:
    world = World(node(gpus=4))
    paused = a_place(world, 3)
    other = elastic_on(world, 0, 1, 2, 3, minimum=3)
    resume(world, paused)
    waits = world.submit(gpus=1)
    decided = world.round()
    assert [less.beneficiary for less in decided.shrinks] == [paused]
    world.settle()
    assert (world.job(waits).state, world.job(other).sizes) == (JobState.WAITING, {"worker": 3})


def test_cpus_are_given_as_gpus_are() -> None:
    world = World(node(gpus=0, cpus=4))
    paused = world.submit_running(spec(gpus=0, cpus=1), "n1")
    suspend(world, paused)
    other = world.submit_running(spec(gpus=0, cpus=1, tasks=4, minimum=1, maximum=8, elastic=Elastic()), "n1")
    resume(world, paused)
    world.settle()
    assert (world.job(paused).state, world.job(other).sizes) == (JobState.RUNNING, {"worker": 3})


def test_nobody_grows_into_the_place_of_a_job_that_waits_to_go_on() -> None:
    world = World(node(gpus=4))
    world.set_policy(shrink=False)
    paused = a_place(world, 1, 2)
    blocking = world.submit_running(spec(gpus=1), ("n1", [2]))
    growing = elastic_on(world, 0)
    resume(world, paused)
    world.settle()
    table = Table(world.state, "default", world.at)
    open_to_growth(table)
    assert table.room.milli[0].tolist()[:2] == [0, 0]
    world.tell("elastic.default", f.ResizeProposed(pool="default", job=growing, role="worker", size=3))
    world.settle()
    assert gpus_of(world, growing) == [0, 3]
    world.finish(blocking)
    world.settle()
    assert world.job(paused).state == JobState.RUNNING
    assert elasticity.propose(world.state, "default", world.at) == ()


def test_the_same_round_twice_gives_the_same_bytes_and_no_job_is_told_twice() -> None:
    world = World(node(gpus=4))
    paused = a_place(world, 2)
    elastic_on(world, 0, 1, 2, 3, kind=ResizeKind.TORCHRUN)
    resume(world, paused)
    assert len(world.round().shrinks) == 1
    world.tell("queue.default", f.NodeSeen(node=replace(world.state.kept.nodes["n1"], labels={"x": "y"})))
    again = world.round()
    assert again is None or not again.shrinks

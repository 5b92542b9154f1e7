"""Members that a change of size brings: when they cannot start, a job that works goes on, at an allowed size."""

import pytest
from tests.make import World, node, spec

from gangline_core import elasticity
from gangline_core import facts as f
from gangline_core.job import JobState, ResizeStage, TaskState
from gangline_core.limits.usage_by_class import recompute
from gangline_core.spec import Elastic, ResizeKind

CANNOT = [f.ExitCause.START_FAILED, f.ExitCause.PLACE_REFUSED]
GO_ON = [kind for kind in ResizeKind if kind != ResizeKind.RESTART]


def grown(
    kind: ResizeKind, *, size: int = 4, to: int = 8, sizes: tuple[int, ...] = (), **terms: int
) -> tuple[World, int]:
    world = World(node("n1"), node("n2"))
    job = world.submit_running(
        spec(gpus=1, tasks=size, minimum=size, maximum=8, sizes=sizes, elastic=Elastic(kind=kind, **terms)), "n1"
    )
    world.wait(3600)
    world.tell("elastic.default", f.ResizeProposed(pool="default", job=job, role="worker", size=to))
    world.round()
    return world, job


def refuse(world: World, job: int, cause: f.ExitCause, *, number: int = -1) -> None:
    """One of the new members cannot be started."""
    new = [task for task in world.tasks(job) if task.state == TaskState.PLACED and not task.stop][number]
    world.tell("agent.sim", f.TaskExited(task=new.id, cause=cause, error="no space left on device"))
    world.empty(new.id)


@pytest.mark.parametrize("cause", CANNOT)
@pytest.mark.parametrize("kind", GO_ON)
@pytest.mark.parametrize(("sizes", "left"), [((), 7), ((4, 6, 8), 6), ((4, 8), 4)])
def test_a_new_member_that_cannot_be_started_costs_a_working_job_nothing_but_that_growth(
    kind: ResizeKind, cause: f.ExitCause, sizes: tuple[int, ...], left: int
) -> None:
    world, job = grown(kind, sizes=sizes)
    working = {task.id for task in world.tasks(job) if task.state == TaskState.STARTED}
    refuse(world, job, cause)
    world.start(job)
    world.stop_all()
    known = world.job(job)
    assert (known.state, known.sizes, known.attempt, known.retries_used) == (JobState.RUNNING, {"worker": left}, 1, 0)
    assert working <= {task.id for task in world.tasks(job)}, "whoever worked works on"
    assert recompute(world.state) == {holder: use for holder, use in world.state.usage.items() if use}


@pytest.mark.parametrize("cause", CANNOT)
def test_a_gang_that_cannot_start_at_its_new_size_starts_again_and_loses_no_retry(cause: f.ExitCause) -> None:
    world, job = grown(ResizeKind.RESTART)
    world.stop_all()
    world.round()
    assert world.job(job).state == JobState.STARTING
    refuse(world, job, cause)
    world.stop_all()
    world.settle()
    known = world.job(job)
    assert (known.state, known.attempt, known.retries_used) == (JobState.RUNNING, 3, 0)


def test_a_program_that_cannot_be_started_at_all_still_fails_its_job() -> None:
    world = World(node("n1"))
    job = world.submit(spec(gpus=1, tasks=2, minimum=1, maximum=8))
    world.round()
    refuse(world, job, f.ExitCause.START_FAILED)
    world.stop_all()
    assert world.job(job).state == JobState.FAILED


@pytest.mark.parametrize("came", range(7))
def test_of_new_members_that_came_in_time_only_so_many_stay_as_make_a_size_that_the_job_allows(came: int) -> None:
    sizes = (2, 4, 8)
    world, job = grown(ResizeKind.TORCHRUN, size=2, sizes=sizes, start_s=20)
    new = [task.id for task in world.tasks(job) if task.state == TaskState.PLACED]
    for name in new[:came]:
        world.tell("agent.sim", f.TaskStarted(task=name))
    world.wait(20)
    late = elasticity.propose(world.state, "default", world.at)
    if came < 6:
        assert [type(fact) for fact in late] == [f.ResizeFailed]
        world.tell("elastic.default", *late)
    world.stop_all()
    known = world.job(job)
    assert known.state == JobState.RUNNING
    assert known.sizes["worker"] == max(size for size in sizes if size <= 2 + came)
    assert known.resize is not None
    assert (known.resize.stage == ResizeStage.FAILED) == (came in (0, 1, 2) and 2 + came in sizes)

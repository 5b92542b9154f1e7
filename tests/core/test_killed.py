"""A job whose supervisor is ended again and again is held; a node on which that befalls several holds nobody."""

import pytest
from tests.make import World, node, role, spec

from gangline_core import facts as f
from gangline_core.ids import JobId
from gangline_core.job import JobState
from gangline_core.killed import KILLED_MAX, RAN_WELL_MS
from gangline_core.reasons import ReasonCode, sentence
from gangline_core.spec import Elastic, ResizeKind


def kill(world: World, job: JobId, *, after_s: float = 2, rank: int = 0, witnessed: bool = True) -> None:
    """It runs for a while somewhere, and then its supervisor is gone."""
    world.settle()
    world.wait(after_s)
    task = next(task for task in world.tasks(job) if task.rank == rank)
    world.tell("agent.sim", f.TaskExited(task=task.id, cause=f.ExitCause.PROCESS_LOST, witnessed=witnessed))
    world.empty(task.id)
    world.settle()


def killed(world: World, times: int, **fields: object) -> JobId:
    job = world.submit(spec(gpus=1, **fields))
    for _ in range(times):
        kill(world, job)
    return job


def test_a_job_whose_supervisor_is_ended_again_and_again_is_held_and_says_why() -> None:
    world = World(node())
    job = killed(world, KILLED_MAX - 1)
    assert world.job(job).state == JobState.RUNNING, "it is tried again for as long as it may be chance"
    kill(world, job)
    found = world.job(job)
    assert (found.state, found.retries_used, found.losses) == (JobState.SUSPENDED, 0, KILLED_MAX)
    assert found.reason is not None
    assert sentence(found.reason) == "Something ended its supervisor on n1, 5 of 5 times in a row; then it is held."
    assert world.settle() == 0, "nothing goes on about it"


def test_the_last_end_is_told_once() -> None:
    world = World(node())
    job = killed(world, KILLED_MAX - 1)
    [task] = world.tasks(job)
    step = world.tell("agent.sim", f.TaskExited(task=task.id, cause=f.ExitCause.PROCESS_LOST, witnessed=True))
    assert [(moved.before, moved.after) for moved in step.moves] == [(JobState.RUNNING, JobState.STOPPING)]
    step = world.tell("agent.sim", f.GpusEmpty(tasks=(task.id,)))
    assert [(moved.before, moved.after) for moved in step.moves] == [(JobState.STOPPING, JobState.SUSPENDED)]


def test_who_releases_it_has_it_tried_anew_from_the_beginning() -> None:
    world = World(node())
    job = killed(world, KILLED_MAX)
    world.tell("admission", f.HoldSet(job=job, held=False, by="ann"))
    for _ in range(KILLED_MAX - 1):
        kill(world, job)
    assert world.job(job).state == JobState.RUNNING
    kill(world, job)
    assert world.job(job).state == JobState.SUSPENDED


def test_losses_that_no_agent_witnessed_are_no_more_bounded_than_those_of_nodes() -> None:
    world = World(node())
    job = world.submit(spec(gpus=1))
    for _ in range(3 * KILLED_MAX):
        kill(world, job, witnessed=False)
    assert (world.job(job).state, world.job(job).killed) == (JobState.RUNNING, None)


def test_a_run_that_lasted_begins_a_new_row() -> None:
    world = World(node())
    job = killed(world, KILLED_MAX - 1)
    for _ in range(3):
        kill(world, job, after_s=RAN_WELL_MS / 1000)
        assert world.job(job).state == JobState.RUNNING
    for _ in range(KILLED_MAX - 1):
        kill(world, job)
    assert world.job(job).state == JobState.SUSPENDED


def test_members_of_one_attempt_count_once() -> None:
    world = World(node())
    job = world.submit(spec(gpus=1, tasks=4))
    world.settle()
    for task in world.tasks(job):
        world.tell("agent.sim", f.TaskExited(task=task.id, cause=f.ExitCause.PROCESS_LOST, witnessed=True))
    found = world.job(job)
    assert found.killed is not None
    assert len(found.killed.nodes) == 1


def test_members_that_go_at_once_count_once_where_each_is_placed_again_alone() -> None:
    """A gang of five was held at once when its machine had no memory left."""
    world = World(node())
    tasks = Elastic(kind=ResizeKind.TASKS)
    job = world.submit(spec(gpus=1, tasks=4, repair_s=600, elastic=tasks))
    for times in range(1, KILLED_MAX):
        world.settle()
        world.wait(2)
        for task in world.tasks(job):
            world.tell("agent.sim", f.TaskExited(task=task.id, cause=f.ExitCause.PROCESS_LOST, witnessed=True))
            world.empty(task.id)
        found = world.job(job)
        assert found.killed is not None
        assert (len(found.killed.nodes), found.state) == (times, JobState.WAITING)
        assert found.reason is not None
        assert found.reason.numbers["times"] == times
    kill(world, job)
    assert world.job(job).state == JobState.SUSPENDED


def test_a_gang_that_goes_on_without_a_member_is_not_held_for_it() -> None:
    world = World(node())
    elastic = Elastic(kind=ResizeKind.TASKS)
    job = world.submit(spec(roles=[role(tasks=7, minimum=1, maximum=7, gpus=1)], elastic=elastic))
    for rank in range(KILLED_MAX + 1):
        kill(world, job, rank=rank)
    assert (world.job(job).state, world.job(job).killed) == (JobState.RUNNING, None)


def test_a_member_that_is_placed_again_alone_is_not_placed_for_ever() -> None:
    world = World(node())
    job = world.submit(spec(gpus=1, tasks=2, repair_s=600))
    for _ in range(KILLED_MAX):
        assert world.job(job).attempt <= 1
        kill(world, job, rank=1)
    assert (world.job(job).state, world.job(job).attempt) == (JobState.SUSPENDED, 1)


def test_a_gang_that_runs_for_months_is_not_held_for_a_member_lost_now_and_then() -> None:
    world = World(node())
    job = world.submit(spec(gpus=1, tasks=2, repair_s=600))
    for _ in range(2 * KILLED_MAX):
        world.settle()
        world.wait(RAN_WELL_MS / 1000)
        kill(world, job, rank=1)
    assert (world.job(job).state, world.job(job).attempt) == (JobState.RUNNING, 1)


@pytest.mark.parametrize("times", range(1, KILLED_MAX + 1))
def test_what_befell_a_job_on_a_node_that_is_closed_for_it_counts_no_more(times: int) -> None:
    world = World(node("n1"))
    job = killed(world, times)
    world.see(node("n2"))
    world.tell("telemetry", f.NodeQuarantined(node="n1", problem="3 different jobs in a row failed at once here"))
    assert world.job(job).killed is None
    world.settle()
    if times < KILLED_MAX:
        kill(world, job, witnessed=False)
    assert [(world.job(job).state, task.node) for task in world.tasks(job)] == [(JobState.RUNNING, "n2")]


def test_who_is_held_by_somebody_else_stays_held_when_a_node_is_closed() -> None:
    world = World(node("n1"))
    job = killed(world, KILLED_MAX - 1)
    world.tell("admission", f.HoldSet(job=job, held=True, by="ann"))
    world.stop_all()
    world.tell("telemetry", f.NodeQuarantined(node="n1", problem="3 different jobs in a row failed at once here"))
    assert (world.job(job).state, world.reason(job)) == (JobState.SUSPENDED, ReasonCode.SUSPENDED)


def test_a_node_closed_while_the_last_of_its_processes_go_has_the_job_queued_anew() -> None:
    world = World(node("n1"))
    job = killed(world, KILLED_MAX - 1)
    [task] = world.tasks(job)
    world.tell("agent.sim", f.TaskExited(task=task.id, cause=f.ExitCause.PROCESS_LOST, witnessed=True))
    assert world.job(job).state == JobState.STOPPING
    world.tell("telemetry", f.NodeQuarantined(node="n1", problem="3 different jobs in a row failed at once here"))
    world.empty(task.id)
    assert world.job(job).state == JobState.WAITING

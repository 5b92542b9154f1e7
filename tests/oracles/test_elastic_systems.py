"""What other systems' tests say of torchrun's variables, exit codes and failing members; and where we are stricter."""

import pytest
from tests.make import World, node, role, spec
from tests.services.agent.rig import some_orders

from gangline_agent.environment import Place, build, role_of
from gangline_core import facts as f
from gangline_core.job import JobState
from gangline_core.spec import Elastic, ResizeKind


def elastic_environment(least: int, most: int, tasks: int) -> dict[str, str]:
    order = some_orders("train", tasks=tasks)[0]
    wanted = role(tasks=tasks, minimum=least, maximum=most)
    place = Place(folder="/t", notice_file="/t/notice.json", devices=())
    return build(order, wanted, place, {}).values


# kubeflow/training-operator pkg/controller.v1/pytorch/elastic_test.go: min 1, max 3, c10d


def test_an_elastic_role_gets_torchruns_range_and_a_rendezvous_on_rank_0() -> None:
    values = elastic_environment(1, 3, 2)
    order = some_orders("train", tasks=2)[0]
    assert values["PET_NNODES"] == "1:3"
    assert values["PET_RDZV_BACKEND"] == "c10d"
    assert values["PET_RDZV_ENDPOINT"] == order.task.endpoint
    assert values["PET_RDZV_ID"] == "1-1"
    assert role_of(order).name == "worker"


def test_a_fixed_role_gets_a_number_and_no_rendezvous_backend() -> None:
    values = elastic_environment(2, 2, 2)
    assert values["PET_NNODES"] == "2"
    assert "PET_RDZV_BACKEND" not in values


# The same project, pytorch and tensorflow status_test.go: (failed, succeeded, active) per role -> condition.
# There a test asks only that the condition is somewhere in the list; here it is the job's one state.


def outcome(chief: tuple[int, int, int] | None, worker: tuple[int, int, int], *, retries: int = 0) -> str:
    """The job's state after so many members of each role failed, succeeded, or run on."""
    counts = {"worker": worker} | ({"chief": chief} if chief is not None else {})
    world = World(node("n1", gpus=0))
    roles = [role(name, tasks=sum(count), gpus=0) for name, count in sorted(counts.items())]
    job = world.submit_running(spec(roles=roles, retries=retries), "n1")
    for name, (failed, succeeded, _) in sorted(counts.items()):
        members = [task.id for task in world.tasks(job) if task.role == name]
        for task in members[failed : failed + succeeded]:
            world.exit(task, code=0).empty(task)
        for task in members[:failed]:
            if task in world.state.kept.tasks and world.job(job).state == JobState.RUNNING:
                world.exit(task, code=1)
    world.stop_all()
    for task in list(world.job(job).tasks):
        if world.state.kept.tasks[task].state == "exited":
            world.empty(task)
    return world.job(job).state.value


@pytest.mark.parametrize(
    ("chief", "worker", "state"),
    [
        ((0, 1, 0), (0, 1, 0), "succeeded"),
        ((0, 0, 1), (0, 0, 1), "running"),
        ((1, 0, 0), (0, 0, 1), "failed"),
        (None, (1, 0, 0), "failed"),
        (None, (0, 1, 0), "succeeded"),
        (None, (0, 0, 1), "running"),
        (None, (0, 2, 2), "running"),
        (None, (2, 0, 2), "failed"),
        (None, (2, 2, 0), "failed"),
        ((0, 0, 1), (4, 0, 0), "failed"),
        ((0, 0, 1), (1, 0, 3), "failed"),
    ],
)
def test_what_members_do_decides_what_the_job_is(chief, worker, state) -> None:
    assert outcome(chief, worker) == state


def test_stricter_one_member_that_is_done_ends_nothing_while_others_run() -> None:
    # There, worker 0 with exit code 0 makes the job succeed while three others run; their work would be thrown away.
    assert outcome(None, (0, 1, 3)) == "running"


def test_a_failure_with_retries_left_starts_the_whole_gang_again() -> None:
    assert outcome((1, 0, 0), (0, 0, 4), retries=1) == "waiting"


@pytest.mark.parametrize(("code", "cause"), [(137, "node"), (143, "stopped")])
def test_ends_that_are_nobodys_fault_cost_no_retry(code: int, cause: str) -> None:
    # There, exit codes from 128 on are retryable; here it counts who ended it: a program can exit with 137, too.
    world = World(node("n1"), node("n2"))
    job = world.submit_running(spec(gpus=1, tasks=2, retries=1), "n1")
    if cause == "node":
        world.tell("telemetry", f.NodeLost(node="n1", silent_ms=31_000))
    else:
        world.tell("telemetry", f.GpuFailed(node="n1", gpu=0, problem="Xid 79"))
        world.exit(*(task.id for task in world.tasks(job)), code=code, cause=f.ExitCause.STOPPED)
        world.empty(*(task.id for task in world.tasks(job)))
    world.settle()
    assert (world.job(job).state, world.job(job).retries_used, world.job(job).attempt) == (JobState.RUNNING, 0, 2)


# the same, tensorflow pod_test.go: scaling down removes the highest indexes, scaling up makes the missing ones


def test_scaling_down_removes_the_highest_indexes_and_new_members_never_reuse_one() -> None:
    world = World(node())
    terms = Elastic(kind=ResizeKind.TASKS)
    job = world.submit_running(spec(gpus=1, tasks=4, minimum=1, maximum=8, elastic=terms), "n1")
    for size in (2, 4):
        world.tell("elastic.default", f.ResizeProposed(pool="default", job=job, role="worker", size=size))
        world.round()
        world.stop_all()
        world.start(job)
    assert [task.index for task in world.tasks(job)] == [0, 1, 4, 5]

"""What other systems' tests say of torchrun's variables, exit codes and failing members; and where we are stricter.

The tables stand in data/training_operator.json, each row with what the other system says and what holds here.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.make import World, node, role, spec
from tests.services.agent.rig import some_orders

from gangline_agent.environment import Place, build, role_of
from gangline_core import facts as f
from gangline_core.job import JobState
from gangline_core.spec import Elastic, ResizeKind

TABLES = json.loads((Path(__file__).parent / "data" / "training_operator.json").read_text())
WORDS = {"Succeeded": "succeeded", "Failed": "failed", "Running": "running", "Restarting": "waiting"}
"""Conditions there, and the states that they are here."""


def named(row: dict[str, Any]) -> str:
    roles = " ".join(f"{name}{tuple(counts)}" for name, counts in row["roles"].items())
    return f"{row['of']} {row.get('policy', '')} {roles}"


def elastic_environment(row: dict[str, Any]) -> dict[str, str]:
    order = some_orders("train", tasks=row["tasks"], elastic=Elastic(kind=ResizeKind.TORCHRUN))[0]
    wanted = role(tasks=row["tasks"], minimum=row["min"], maximum=row["max"])
    place = Place(folder="/t", notice_file="/t/notice.json", devices=())
    return build(order, wanted, place, {}).values


@pytest.mark.parametrize("row", TABLES["elastic"], ids=lambda row: f"{row['min']}:{row['max']}")
def test_torchrun_finds_its_range_and_a_rendezvous_on_rank_0(row: dict[str, Any]) -> None:
    values = elastic_environment(row)
    order = some_orders("train", tasks=row["tasks"])[0]
    assert row["values"].items() <= values.items()
    assert values["PET_RDZV_ID"] == "1-1"
    assert role_of(order).name == "worker"
    if ":" in values["PET_NNODES"]:
        assert values["PET_RDZV_ENDPOINT"] == order.task.endpoint
    else:
        assert "PET_RDZV_BACKEND" not in values


def outcome(roles: dict[str, list[int]], *, retries: int = 0, code: int = 1, retry_from: int = 0) -> str:
    """The job's state after so many members of each role failed, succeeded, or run on."""
    world = World(node("n1", gpus=0))
    asked = [role(name, tasks=sum(count), gpus=0) for name, count in sorted(roles.items())]
    job = world.submit_running(spec(roles=asked, retries=retries, retry_from=retry_from), "n1")
    for name, (failed, succeeded, _) in sorted(roles.items()):
        members = [task.id for task in world.tasks(job) if task.role == name]
        for task in members[failed : failed + succeeded]:
            world.exit(task, code=0).empty(task)
        for task in members[:failed]:
            if task in world.state.kept.tasks and world.job(job).state == JobState.RUNNING:
                world.exit(task, code=code)
    world.stop_all()
    for task in list(world.job(job).tasks):
        if world.state.kept.tasks[task].state == "exited":
            world.empty(task)
    return world.job(job).state.value


@pytest.mark.parametrize("row", TABLES["status"], ids=named)
def test_what_members_do_decides_what_the_job_is(row: dict[str, Any]) -> None:
    retry_from = 128 if row.get("policy") == "ExitCode" else 0
    state = outcome(row["roles"], retries=row.get("retries", 0), code=row.get("exit_code", 1), retry_from=retry_from)
    assert state == row["here"]
    assert bool(row.get("why")) == (row["here"] != WORDS[row["there"]]), "whatever differs is meant to, with its reason"


@pytest.mark.parametrize("row", TABLES["exit_codes"], ids=lambda row: str(row["code"]))
def test_exit_codes_from_128_on_are_worth_another_attempt_where_a_job_says_so(row: dict[str, Any]) -> None:
    bounded = outcome({"worker": [1, 0, 3]}, retries=1, code=row["code"], retry_from=128)
    assert bounded == ("waiting" if row["there"] == "retryable" else "failed")
    assert outcome({"worker": [1, 0, 3]}, retries=1, code=row["code"]) == "waiting", "by default any failure is"


@pytest.mark.parametrize("row", TABLES["backoff"], ids=lambda row: f"{row['failures']} of {row['limit']}")
def test_the_budget_of_attempts_is_kept_in_the_job_and_counts_whole_gangs(row: dict[str, Any]) -> None:
    world = World(node("n1", gpus=0))
    job = world.submit(spec(gpus=0, tasks=3, retries=row["limit"]))
    for _ in range(row["failures"]):
        world.settle()
        world.exit(world.tasks(job)[1].id, code=1)
        world.stop_all()
    world.settle()
    assert world.job(job).state == row["here"]
    assert bool(row.get("why")) == (row["here"] != WORDS[row["there"]])


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

"""Factors about the machines a job could go to: how busy they were measured, and who would run beside it."""

import pytest
from tests.make import World, node, spec

from gangline_core import facts as f
from gangline_core.cluster import LOAD_STALE_MS
from gangline_core.ids import JobId, NodeId
from gangline_core.ordering import order

MILLION = 1_000_000


def factor(world: World, job: JobId, name: str) -> float:
    world.set_policy(ordering="weighted", formula=name)
    ordered = order(world.state, world.state.kept.pools["default"], world.waiting(), world.at)
    return next(candidate.score for candidate in ordered.candidates if candidate.job == job) / MILLION


def busy(world: World, name: str, percent: int | None) -> None:
    world.tell("telemetry", f.UtilisationSummary(node=NodeId(name), gpu_percent=percent, memory_mib=None, samples=5))


def test_load_is_the_mean_of_the_gpus_that_a_job_accepts() -> None:
    world = World(node("n1", model="A100"), node("n2", model="H100"))
    busy(world, "n1", 80)
    busy(world, "n2", 20)
    fast = world.submit(spec(gpus=1, gpu_models=("H100",)))
    anything = world.submit(gpus=1)
    assert factor(world, fast, "load") == pytest.approx(0.2)
    assert factor(world, anything, "load") == pytest.approx(0.5)


def test_a_load_that_nobody_measured_or_that_is_old_is_not_taken_for_idle_beside_one_that_is_known() -> None:
    world = World(node("n1"), node("n2"), node("n3"))
    busy(world, "n2", 100)
    world.wait(LOAD_STALE_MS / 1000 + 1)
    busy(world, "n1", 60)
    busy(world, "n3", None)
    job = world.submit(gpus=1)
    assert factor(world, job, "load") == pytest.approx(0.6)


def test_interference_counts_who_runs_where_there_is_room_by_their_gpus() -> None:
    world = World(node("n1"), node("n2"))
    loud, calm = {"interference": 0.9}, {"interference": 0.1}
    world.submit_running(spec("loud", gpus=2, attributes=loud), "n1")
    world.submit_running(spec("calm", gpus=6, attributes=calm), "n2")
    job = world.submit(gpus=1)
    assert factor(world, job, "interference") == pytest.approx((2 * 0.9 + 6 * 0.1) / 8)
    world.submit_running(spec("fills", gpus=6), "n1")
    assert factor(world, job, "interference") == pytest.approx(0.1), "nobody can go to a full machine"


def test_alone_nobody_interferes() -> None:
    world = World(node("n1"))
    assert factor(world, world.submit(gpus=1), "interference") == 0

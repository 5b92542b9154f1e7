"""Factors about the machines a job could go to: how busy they were measured, and who would run beside it."""

import pytest
from tests.make import World, node, spec

from gangline_core import cycle
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


def test_a_load_that_nobody_measured_or_that_is_old_is_judged_by_what_is_asked_for_and_never_taken_for_idle() -> None:
    world = World(node("n1"), node("n2"), node("n3"))
    busy(world, "n2", 100)
    world.wait(LOAD_STALE_MS / 1000 + 1)
    busy(world, "n1", 60)
    busy(world, "n3", None)
    world.submit_running(spec(gpus=4), "n2")
    world.submit_running(spec(gpus=8), "n3")
    job = world.submit(gpus=1)
    assert factor(world, job, "load") == pytest.approx((0.6 + 0.5 + 1.0) / 3)
    assert factor(world, job, "load_measured") == pytest.approx(1 / 3)


def test_a_full_fleet_that_nobody_measures_is_not_preferred_to_a_measured_one_that_is_half_busy() -> None:
    world = World(node("n1", model="A100"), node("n2", model="H100"))
    world.submit_running(spec(gpus=8, gpu_models=("A100",)), "n1")
    world.submit_running(spec(gpus=8, gpu_models=("H100",)), "n2")
    busy(world, "n2", 50)
    unseen, seen = world.submit(spec(gpus=1, gpu_models=("A100",))), world.submit(spec(gpus=1, gpu_models=("H100",)))
    world.set_policy(ordering="weighted", formula="-5 * load")
    ordered = order(world.state, world.state.kept.pools["default"], world.waiting(), world.at)
    assert [candidate.job for candidate in ordered.candidates] == [seen, unseen]


def test_the_terms_of_a_round_say_of_how_many_gpus_the_load_is_not_measured() -> None:
    world = World(node("n1"), node("n2"))
    world.submit_running(spec(gpus=8), "n1")
    job = world.submit(gpus=8)
    world.set_policy(ordering="weighted", formula="age_hours - 5 * load")
    book = cycle.open_round(world.state, "default", world.at)
    assert book is not None
    assert book.terms == ("age_hours", "-5 * load (load of 16 of 16 GPUs as asked for, not measured)")
    [candidate] = [one for one in book.candidates if one.job == job]
    assert candidate.terms[1] == -5 * MILLION // 2
    for name in ("n1", "n2"):
        busy(world, name, 30)
    ordered = order(world.state, world.state.kept.pools["default"], world.waiting(), world.at)
    assert ordered.terms == ("age_hours", "-5 * load")


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

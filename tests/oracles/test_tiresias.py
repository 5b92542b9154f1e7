"""Tiresias's queues by two-dimensional attained service: thresholds, crossings, promotion, the Gittins index."""

import pytest
from tests.make import World, node, spec
from tests.oracles.played import name_of, table

from gangline_core import facts as f
from gangline_core.ids import JobId
from gangline_core.job import JobState
from gangline_core.ordering import order
from gangline_core.ordering.gittins import index
from gangline_core.scoring.attained import crossings

TABLE = table("tiresias")
MILLION = 1_000_000


def world_of(case) -> World:
    world = World(node("n1", gpus=16))
    thresholds = tuple(case.get("thresholds", TABLE["thresholds"]))
    return world.set_policy(
        ordering="least_attained", service_thresholds=thresholds, promote_after=case.get("factor", 0)
    )


def ran_once(world: World, case) -> JobId:
    """A job that ran so long and went back to the queue."""
    job = world.submit_running(spec(gpus=case.get("gpus", 1), preemptible=True), "n1")
    world.wait(case["ran_s"])
    other = world.submit(gpus=1, level="low")
    eviction = f.Eviction(job=job, beneficiary=other, rule="service")
    world.tell("placement.default", f.RoundDecided(pool="default", round=0, evictions=(eviction,)))
    world.stop_all().cancel(other)
    return job


def queue_now(world: World, job: JobId) -> int:
    ordered = order(world.state, world.state.kept.pools["default"], world.waiting(), world.at)
    [candidate] = [one for one in ordered.candidates if one.job == job]
    return -candidate.terms[ordered.terms.index("service_queue")] // MILLION


@pytest.mark.parametrize("case", TABLE["queues"], ids=name_of)
def test_the_queue_of_a_job_by_gpus_times_time(case):
    world = world_of(case)
    assert queue_now(world, ran_once(world, case)) == case["queue"]


@pytest.mark.parametrize("case", TABLE["crossings"], ids=name_of)
def test_when_a_running_job_sinks_next(case):
    world = world_of(case)
    job = world.job(world.submit_running(spec(gpus=case["gpus"]), "n1"))
    world.wait(case["ran_s"])
    policy = world.state.kept.pools["default"].policy
    crossed = crossings(job, world.state.tasks_of(job), policy, world.at)
    expected = None if case["next_s"] is None else world.at + case["next_s"] * 1000
    assert crossed == expected


@pytest.mark.parametrize("case", TABLE["promotions"], ids=name_of)
def test_who_waited_long_for_what_it_ran_comes_back_to_the_first_queue(case):
    world = world_of(case)
    job = ran_once(world, case)
    world.wait(case["waited_s"])
    assert queue_now(world, job) == case["queue"]


@pytest.mark.parametrize("case", TABLE["gittins"], ids=name_of)
def test_the_gittins_index(case):
    assert index(case["services"], case["attained"]) == pytest.approx(case["index"])


def test_queues_are_walked_from_the_top_and_who_got_nothing_is_preempted():
    world = world_of({})
    long = world.submit_running(spec(gpus=16), "n1")
    world.wait(4000)
    fresh = world.submit(gpus=16)
    world.settle()
    assert (world.job(long).state, world.job(fresh).state) == (JobState.WAITING, JobState.RUNNING)


def test_smaller_jobs_pass_one_that_does_not_fit():
    world = world_of({}).set_policy(backfill_depth=0)
    world.submit_running(spec(gpus=12), "n1")
    large, small = world.submit(gpus=8), world.submit(gpus=4)
    world.settle()
    assert (world.job(large).state, world.job(small).state) == (JobState.WAITING, JobState.RUNNING)

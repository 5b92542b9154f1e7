"""How long jobs of a log truly run, whatever came between: the what-if and the tuning live with these times."""

import pytest
from tests.core.test_pausing import gpu_spec, resume, stand_still, suspend
from tests.lab.logged import LoggedWorld
from tests.make import node, spec

from gangline_core import facts as f
from gangline_core.job import JobState
from gangline_core.spec import Elastic, JobSpec, ResizeKind
from gangline_lab.readers.archives import history


def run_s(world: LoggedWorld, place: int = 0) -> float:
    """The true duration of a job of the world's log, in seconds."""
    return history("log", world.log).trace.arrivals[place].work.run_ms / 1000


def evicted(asked: JobSpec) -> LoggedWorld:
    """A job has run for 100 s when a more important one takes its room for 30 s; then it runs for 50 s to its end."""
    world = LoggedWorld(node(gpus=8))
    world.set_policy(ordering="priority")
    first = world.submit_running(asked, "n1")
    world.wait(100)
    second = world.submit(spec(name="urgent", gpus=8, priority=9))
    world.settle()
    assert world.job(first).state == JobState.WAITING
    world.wait(30).finish(second)
    world.settle()
    return world


def test_who_was_evicted_and_waits_when_the_log_ends_has_run_so_long_already() -> None:
    world = LoggedWorld(node(gpus=8))
    world.set_policy(ordering="priority")
    world.submit_running(spec(name="long", gpus=8, checkpoints=True), "n1")
    world.wait(5000).submit(spec(name="urgent", gpus=8, priority=9))
    world.settle()
    assert (run_s(world), run_s(world, 1)) == (5000, 0.001)


@pytest.mark.parametrize(("checkpoints", "seconds"), [(True, 150), (False, 50)])
def test_who_goes_on_from_its_checkpoint_ran_as_long_as_all_its_runs(checkpoints: bool, seconds: int) -> None:
    """Of ten hours of work in two runs only the last counted."""
    world = evicted(spec(name="long", gpus=8, checkpoints=checkpoints))
    world.wait(50).finish(world.in_state(JobState.RUNNING)[0])
    world.settle()
    assert run_s(world) == seconds


def test_what_waits_to_go_on_has_run_at_least_as_long_as_it_did() -> None:
    """It counted as one that never ran, and was given a minute."""
    world = LoggedWorld(node(gpus=8))
    job = world.submit_running(spec(name="long", gpus=8, checkpoints=True), "n1")
    world.wait(5000).tell("admission", f.HoldSet(job=job, held=True, by="ada"))
    world.stop_all()
    assert world.job(job).state == JobState.SUSPENDED
    world.wait(100)
    told = history("log", world.log)
    assert told.trace.arrivals[0].work.run_ms == 5_000_000
    assert told.past[0].censored


def test_a_pause_is_no_run_time() -> None:
    world = LoggedWorld(node(gpus=1))
    job = world.submit_running(gpu_spec(1), "n1")
    world.wait(60)
    suspend(world, job)
    world.wait(3600)
    resume(world, job)
    world.settle()
    stand_still(world)
    assert world.job(job).state == JobState.RUNNING
    world.wait(40).finish(job)
    assert run_s(world) == 100


def test_an_elastic_job_ran_at_each_time_as_fast_as_it_was_large() -> None:
    """It asked for four members and had them for 100 s, then six for 100 s: as much as four do in 250 s."""
    world = LoggedWorld(node(gpus=8))
    asked = spec(gpus=1, tasks=4, minimum=1, maximum=8, elastic=Elastic(kind=ResizeKind.TASKS))
    job = world.submit_running(asked, "n1")
    world.set_policy(elastic_growth=False)
    world.wait(100)
    world.tell("elastic.default", f.ResizeProposed(pool="default", job=job, role="worker", size=6))
    world.round()
    world.start(job)
    assert (world.job(job).state, len(world.job(job).tasks)) == (JobState.RUNNING, 6)
    world.wait(100).finish(job)
    assert run_s(world) == 250

"""What a job's view says of lost members and of cells that another job took over."""

import pytest
from tests.core.test_cells import world as cell_world
from tests.core.test_repair import lose, running, world
from tests.make import World, node, spec

from gangline_core import facts as f
from gangline_core.job import JobState
from gangline_core.sizes.progress import Progress
from gangline_gateway.show import job_view


def test_a_job_shows_which_members_it_lost_until_they_are_placed_again() -> None:
    made = world()
    job = running(made, tasks=2, gpus=1, repair_s=600)
    assert (job_view(made.state, made.job(job)).missing, job_view(made.state, made.job(job)).missing_ms) == ({}, 0)
    made.wait(30)
    lose(made, "n1")
    shown = job_view(made.state, made.job(job))
    assert (shown.state, shown.missing, shown.missing_ms) == ("running", {"worker": 1}, made.at)
    made.round()
    made.start(job)
    assert (job_view(made.state, made.job(job)).missing, job_view(made.state, made.job(job)).missing_ms) == ({}, 0)


def test_a_job_whose_cells_were_taken_over_names_the_job_that_has_them() -> None:
    made = cell_world(node("n1"), node("n2"), cells={"a": {"node": 1}})
    first = made.submit(spec(gpus=8, group="a", lazy_preemption=True))
    made.round()
    made.start(first)
    assert job_view(made.state, made.job(first)).lowered_for == 0
    second = made.submit(spec(gpus=8, group="a", priority=1))
    made.round()
    shown = job_view(made.state, made.job(first))
    assert (shown.lowered_for, made.job(first).state) == (second, JobState.RUNNING)


def test_a_job_shows_what_it_holds_beside_what_it_asked_for() -> None:
    made = world()
    job = made.submit(spec(tasks=2, gpus=1))
    before = job_view(made.state, made.job(job))
    assert (before.gpu_milli, before.gpu_milli_held) == (2000, 0)
    made.round()
    made.start(job)
    after = job_view(made.state, made.job(job))
    assert (after.gpu_milli, after.gpu_milli_held) == (2000, 2000)


@pytest.mark.parametrize(
    ("is_watched", "gpus", "fence"),
    [(False, 1, "not enforced"), (False, 0.5, "not enforced"), (True, 1, "container"), (False, 0, "")],
)
def test_a_job_says_whether_anything_keeps_it_to_its_gpus(is_watched: bool, gpus: float, fence: str) -> None:
    made = World(node("n1", is_watched=is_watched))
    job = made.submit_running(spec(gpus=gpus), "n1")
    shown = job_view(made.state, made.job(job), tuple(made.state.tasks_of(made.job(job))))
    assert [task.gpu_fence for task in shown.tasks] == [fence]


def test_progress_that_a_job_told_bears_the_time_of_its_last_report() -> None:
    world = World(node())
    job = world.submit_running(spec(gpus=1), "n1")
    world.wait(10).tell("telemetry", f.ProgressReported(job=job, progress=Progress(step=3, permille=20)))
    world.wait(5).tell("telemetry", f.ProgressReported(job=job, progress=Progress(step=4)))
    told_ms = world.at
    world.wait(60)
    said = job_view(world.state, world.job(job)).progress
    assert said is not None
    assert (said.step, said.percent, said.told_ms) == (4, 2.0, told_ms)

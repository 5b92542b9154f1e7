"""The log alone tells what was done with a job: starts, moves, sizes, pauses and stops, each with its cause."""

from pathlib import Path

from tests.lab.logged import LoggedWorld
from tests.make import node, spec

from gangline_core import elasticity
from gangline_core import facts as f
from gangline_core.ids import JobId
from gangline_lab.past_words import why_lines
from gangline_lab.why import why

SPEEDS = {"speed_v100": 1.0, "speed_h100": 3.0}


def life(world: LoggedWorld, job: JobId, folder: Path) -> list[str]:
    """What was done with the job, in words."""
    return [one.what for one in why(world.write(folder), job).life]


def test_a_move_to_faster_gpus_is_told_with_both_places_and_why(tmp_path: Path) -> None:
    world = LoggedWorld(node("v0", gpus=4, model="V100"), node("z0", gpus=4, model="H100"))
    other = world.submit_running(spec(gpus=4, name="other"), "z0")
    job = world.submit_running(spec(gpus=2, name="train", attributes=SPEEDS, checkpoints=True), "v0")
    world.wait(7200).finish(other)
    world.tell("elastic.default", *elasticity.propose(world.state, "default", world.at))
    world.settle()
    assert life(world, job, tmp_path / "a") == [
        "placed on v0 (2 V100) (attempt 1)",
        "stopped on v0 (2 V100), to start again on z0 (2 H100): faster on H100",
        "waited again",
        "placed on z0 (2 H100) (attempt 2)",
    ]
    lines = why_lines(why(tmp_path / "a", job))
    assert "What was done with it" in lines


def test_an_eviction_is_told_with_whom_it_was_for_and_by_which_rule(tmp_path: Path) -> None:
    world = LoggedWorld(node("n1", gpus=2))
    world.set_policy(ordering="priority")
    job = world.submit_running(spec(gpus=2, name="low"), "n1")
    first = world.submit(spec(gpus=2, name="high", priority=9))
    world.settle()
    world.finish(first).settle()
    told = life(world, job, tmp_path / "a")
    assert told[1:] == [
        f"stopped on n1 (2 A100) for job {first} (priority: that job is of a higher priority or level)",
        "waited again",
        "placed on n1 (2 A100) (attempt 2)",
    ]


def test_growth_and_its_end_are_told(tmp_path: Path) -> None:
    world = LoggedWorld(node("n1", gpus=4))
    job = world.submit_running(spec(gpus=1, name="wide", tasks=1, minimum=1, maximum=3), "n1")
    world.wait(7200)
    world.tell("elastic.default", *elasticity.propose(world.state, "default", world.at))
    world.settle()
    told = life(world, job, tmp_path / "a")
    assert told[1].startswith("given 2 more tasks on n1 (2 A100)")


def test_how_it_ended_is_told(tmp_path: Path) -> None:
    world = LoggedWorld(node("n1", gpus=1))
    job = world.submit_running(spec(gpus=1), "n1")
    world.finish(job)
    assert life(world, job, tmp_path / "a")[1:] == ["ended (succeeded): All tasks ended with code 0."]


def test_an_end_that_one_message_tells_whole_is_told_once(tmp_path: Path) -> None:
    world = LoggedWorld(node("n1", gpus=1))
    job = world.submit_running(spec(gpus=1), "n1")
    task = world.tasks(job)[0].id
    ended = f.TaskExited(task=task, cause=f.ExitCause.EXITED, exit_code=0)
    world.tell(world._agent(world.tasks(job)[0]), ended, f.GpusEmpty(tasks=(task,)))
    assert life(world, job, tmp_path / "a")[1:] == ["ended (succeeded): All tasks ended with code 0."]


def test_a_stop_that_somebody_asked_for_is_told_with_who_it_was(tmp_path: Path) -> None:
    world = LoggedWorld(node("n1", gpus=1))
    job = world.submit_running(spec(gpus=1), "n1")
    world.cancel(job).stop_all()
    told = life(world, job, tmp_path / "a")[1:]
    assert told == ["stopped: Cancelled by ada.", "ended (cancelled): Cancelled by ada."]

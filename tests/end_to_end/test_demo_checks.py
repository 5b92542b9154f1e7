"""The demo's checks hold when they should, and name the offender when they should not."""

from pathlib import Path

import pytest
from tests.lab.logged import LoggedWorld
from tests.make import node, spec

from gangline_core.facts import TaskStarted
from gangline_embedded.demo_chaos import Check, check_promises
from gangline_embedded.demo_submit import Answers
from gangline_lab.chronicle import chronicle


@pytest.fixture
def world() -> LoggedWorld:
    """One job that ran and ended, one that still runs."""
    made = LoggedWorld(node("n1", gpus=2))
    made.finish(made.submit_running(spec("done", gpus=1), "n1"))
    made.submit_running(spec("runs", gpus=1), "n1")
    return made


def broken(world: LoggedWorld, folder: Path, accepted: dict[int, str]) -> list[Check]:
    """The checks that do not hold."""
    answers = Answers()
    answers.accepted = accepted
    checks = check_promises(
        chronicle(world.log), answers, starts_file=folder / "starts", agent_folders=[folder / "agent"]
    )
    return [check for check in checks if not check.holds]


def test_all_checks_hold_when_every_answered_job_ended_and_ran_once(world: LoggedWorld, tmp_path: Path) -> None:
    (tmp_path / "starts").write_text("1-1-worker-0 77\n2-1-worker-0 78\n")
    world.finish(world.job(2).id)
    assert broken(world, tmp_path, {1: "done", 2: "runs"}) == []


def test_an_answered_job_that_is_not_in_the_log_is_named(world: LoggedWorld, tmp_path: Path) -> None:
    world.finish(world.job(2).id)
    (check,) = broken(world, tmp_path, {1: "done", 2: "runs", 3: "gone"})
    assert check.name == "every job answered 202 is in the log"
    assert check.detail.endswith("not so: 3")


def test_a_job_that_did_not_end_is_named(world: LoggedWorld, tmp_path: Path) -> None:
    (check,) = broken(world, tmp_path, {1: "done", 2: "runs"})
    assert check.name == "every one of them came to an end"
    assert check.detail.endswith("not so: 2")


def test_a_job_that_nobody_was_told_of_is_named(world: LoggedWorld, tmp_path: Path) -> None:
    world.finish(world.job(2).id)
    (check,) = broken(world, tmp_path, {1: "done"})
    assert "nobody was told of" in check.name


def test_a_task_that_started_twice_is_named_by_whoever_saw_it(world: LoggedWorld, tmp_path: Path) -> None:
    world.tell("agent.sim", TaskStarted(task=world.tasks(world.job(2).id)[0].id))
    world.finish(world.job(2).id)
    (tmp_path / "starts").write_text("2-1-worker-0 77\n2-1-worker-0 78\n")
    life = tmp_path / "agent" / "ended" / "2-1-worker-0.5" / "life"
    life.parent.mkdir(parents=True)
    life.write_text("claimed 1 2 boot\nstarted 7 8\nstarted 9 10\n")
    found = broken(world, tmp_path, {1: "done", 2: "runs"})
    assert [check.name.partition(",")[2] for check in found] == [
        " says the log",
        " say the agents' records",
        " say the programs themselves",
    ]
    assert all("2-1-worker-0" in check.detail for check in found)

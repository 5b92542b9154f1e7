"""What is on disk is whole, private, and decides who may start a task."""

from pathlib import Path

import pytest

from gangline_agent.journal import Folder, Intent, Journal, Life, parse_life
from gangline_core.ids import JobId, TaskId

INTENT = Intent(task=TaskId("1-1-w-0"), job=JobId(1), placed_ms=5, stop_signal=15, grace_s=30)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    made = Journal(tmp_path / "agent").folder(INTENT.task)
    made.make(INTENT)
    return made


def test_an_intent_is_read_back_and_only_its_owner_can_read_it(folder: Folder) -> None:
    assert folder.intent() == INTENT
    assert (folder.path / "task.json").stat().st_mode & 0o777 == 0o600
    assert folder.path.stat().st_mode & 0o777 == 0o700


def test_a_folder_without_a_whole_intent_means_nothing_was_started(folder: Folder) -> None:
    (folder.path / "task.json").write_bytes(b'{"task": "1-')
    assert folder.intent() is None


def test_after_a_power_cut_the_story_of_a_started_task_tells_the_intent_too(folder: Folder) -> None:
    whole = (folder.path / "task.json").read_bytes()
    (folder.path / "task.json").write_bytes(b"")
    (folder.path / "life").write_bytes(b"intent " + whole + b"\nclaimed 7 8 boot\n")
    assert folder.intent() == INTENT
    assert folder.life().pid == 7


def test_a_start_can_be_called_off_once_and_for_all(folder: Folder) -> None:
    assert folder.call_off()
    assert folder.call_off()
    assert folder.life() == Life(called_off=True)
    assert not folder.fail("too late")


def test_a_claimed_task_cannot_be_called_off(folder: Folder) -> None:
    (folder.path / "life").write_text("claimed 7 8 boot\n")
    assert not folder.call_off()
    assert folder.life().pid == 7


def test_a_line_that_was_cut_off_by_a_crash_is_not_told_yet() -> None:
    story = b"claimed 7 8 boot\nstarted 9 10\nexited 1"
    assert parse_life(story) == Life(pid=7, start_ticks=8, boot="boot", main=9, main_ticks=10)
    assert parse_life(story + b"37\nempty\n").exit_code == 137
    assert parse_life(b"") == Life()


def test_a_garbled_line_takes_no_other_with_it() -> None:
    assert parse_life(b"claimed 7 8 boot\nexited\nstarted x y\n\nexited 3\n").exit_code == 3


@pytest.mark.parametrize("name", ["../../etc", "a/b", "1-1-w-0.x", "-rf"])
def test_no_name_leads_out_of_the_folder(tmp_path: Path, name: str) -> None:
    journal = Journal(tmp_path)
    assert journal.folder(TaskId(name)).path.parent == journal.live


def test_ended_tasks_are_kept_for_a_while_and_so_many(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for k in range(5):
        task = journal.folder(TaskId(f"{k}-1-w-0"))
        task.make(INTENT)
        journal.archive(task, 5)
    assert journal.found() == []
    assert journal.clean(older_than_ms=0, most=3) == 2
    assert journal.clean(older_than_ms=1 << 62, most=3) == 3

"""What is on disk is whole, private, and decides who may start a task."""

from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from gangline_agent.journal import WORDS_MAX, Folder, Intent, Journal, Life, parse_life
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


def test_the_folders_around_it_are_closed_too(tmp_path: Path) -> None:
    folder = Journal(tmp_path / "agent" / "vm").folder(INTENT.task)
    folder.make(INTENT)
    around = [path for path in (folder.path, *folder.path.parents) if path.is_relative_to(tmp_path / "agent")]
    assert {path.stat().st_mode & 0o777 for path in around} == {0o700}


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


@pytest.mark.parametrize(
    "line",
    [
        b"claimed 99999999999999999999999999 8 boot",
        b"claimed -1 8 boot",
        b"claimed 7 " + b"9" * 400 + b" boot",
        b"started 4194305 10",
        b"started 9 -10",
        b"exited " + b"9" * 4000,
        b"exited -1",
        b"exited \xff\xfe",
    ],
)
def test_a_number_that_a_job_wrote_itself_is_none_of_a_process(line: bytes) -> None:
    assert parse_life(line + b"\n") == Life()


def test_no_word_of_a_job_is_too_long_for_the_log() -> None:
    assert len(parse_life(b"failed " + b"x" * (10 << 20) + b"\n").failed) == WORDS_MAX


@pytest.mark.parametrize(
    "forged",
    [
        replace(INTENT, task=TaskId("2-1-w-0"), job=JobId(2)),
        replace(INTENT, job=JobId(2)),
        replace(INTENT, stop_signal=1 << 40),
        replace(INTENT, placed_ms=-5),
        replace(INTENT, placed_ms=1 << 80),
    ],
)
def test_a_task_speaks_for_no_other_one_by_what_it_puts_in_its_folder(folder: Folder, forged: Intent) -> None:
    (folder.path / "task.json").write_bytes(msgspec.json.encode(forged))
    assert folder.intent() is None


@pytest.mark.parametrize("nested", [b"[" * 100_000, b'{"z":' + b"[" * 5_000 + b"]" * 5_000 + b"}"])
def test_what_is_nested_without_end_is_not_read(folder: Folder, nested: bytes) -> None:
    for name in ("task.json", "size.json", "life"):
        (folder.path / name).write_bytes(nested)
    assert (folder.intent(), folder.sizing(), folder.life()) == (None, None, Life())


def test_folders_and_links_in_the_place_of_our_files_make_way_for_them(folder: Folder, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "file").write_text("theirs")
    for name in ("task.json", ".task.json.new", "life.agent"):
        (folder.path / name).unlink(missing_ok=True)
        (folder.path / name / "inside").mkdir(parents=True)
        (folder.path / name / "link").symlink_to(theirs)
    folder.write(INTENT)
    assert folder.intent() == INTENT
    assert folder.call_off()
    assert (theirs / "file").read_text() == "theirs"


@pytest.mark.parametrize("made", ["closed", "a link", "a link to nothing", "gone"])
def test_a_folder_is_put_aside_whatever_its_job_made_of_it(tmp_path: Path, made: str) -> None:
    journal, theirs = Journal(tmp_path / "agent"), tmp_path / "theirs"
    theirs.mkdir()
    folder = journal.folder(INTENT.task)
    folder.make(INTENT)
    if made == "closed":
        folder.path.chmod(0o500)
    else:
        folder.path.rename(tmp_path / "moved")
    if made.startswith("a link"):
        folder.path.symlink_to(theirs if made == "a link" else tmp_path / "nothing")
    journal.archive(folder, 5)
    assert journal.found() == []
    assert not folder.path.is_symlink()
    journal.clean(older_than_ms=1 << 62, most=0)
    assert theirs.exists()


def test_nothing_is_written_behind_a_link_that_a_job_put_in_the_place_of_its_folder(
    folder: Folder, tmp_path: Path
) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    folder.path.rename(tmp_path / "moved")
    folder.path.symlink_to(theirs)
    folder.set_told(5)
    for write in (lambda: folder.write(INTENT), folder.call_off, lambda: folder.fail("it did not start")):
        with pytest.raises(OSError, match="symbolic links"):
            write()
    assert list(theirs.iterdir()) == []

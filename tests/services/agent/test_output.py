"""Output is told in order, each byte once, with what is missing said and an end."""

import os
from pathlib import Path

import pytest

from gangline_agent.journal import INTENT, LIFE, Folder, parse_life
from gangline_agent.output import LAST_FILES, NAMES_MAX, Caps, allowed, piece
from gangline_agent.teller import Telling, tell
from gangline_core.ids import JobId, TaskId
from gangline_kit.errors import TemporaryError
from gangline_wire.output import END, OFFSET

CAPS = Caps(head_bytes=10, tail_bytes=5, bytes_per_s=2, piece_bytes=4)


class Heard:
    """A bus that keeps each message id once, and may be away."""

    def __init__(self) -> None:
        self.messages: dict[str, tuple[bytes, dict[str, str]]] = {}
        self.away_after = 1_000

    async def append(self, subject: str, data: bytes, name: str, headers: dict[str, str]) -> None:
        if len(self.messages) >= self.away_after:
            raise TemporaryError("away")
        assert subject == "gangline.output.1.1-1-w-0"
        self.messages.setdefault(name, (data, headers))

    @property
    def text(self) -> bytes:
        return b"".join(data for data, _ in self.messages.values())


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def write(folder: Folder, start: int, data: bytes) -> None:
    (folder.path / f"output.{start:020d}").write_bytes(data)


def telling(position: int = 0) -> Telling:
    return Telling(job=JobId(1), task=TaskId("1-1-w-0"), placed_ms=5, position=position)


async def test_all_is_told_in_pieces_with_their_offsets_and_the_last_one_is_the_end(folder: Folder) -> None:
    write(folder, 0, b"0123456789")
    heard = Heard()
    await tell(telling(), folder, heard.append, caps=CAPS, running_s=0, end="3")
    assert [(data, h.get(OFFSET), h.get(END)) for data, h in heard.messages.values()] == [
        (b"0123", "0", None),
        (b"4567", "4", None),
        (b"89", "8", "3"),
    ]


async def test_a_task_that_wrote_nothing_has_an_end_all_the_same(folder: Folder) -> None:
    write(folder, 0, b"")
    heard = Heard()
    await tell(telling(), folder, heard.append, caps=CAPS, running_s=0, end="0")
    assert list(heard.messages.values()) == [(b"", {OFFSET: "0", END: "0"})]


async def test_a_fast_task_is_shown_slowly_beyond_its_head_and_whole_at_its_end(folder: Folder) -> None:
    write(folder, 0, b"0123456789")
    write(folder, 10, b"abcde")
    write(folder, 15, b"fghij")
    heard, state = Heard(), telling()
    await tell(state, folder, heard.append, caps=CAPS, running_s=1, end="")
    assert heard.text == b"0123456789ab"
    (folder.path / f"output.{10:020d}").unlink()
    write(folder, 20, b"kl")
    await tell(state, folder, heard.append, caps=CAPS, running_s=2, end="0")
    assert heard.text == b"0123456789ab\n[gangline: 3 bytes left out here]\nfghijkl"
    assert state.is_done


async def test_telling_goes_on_where_it_stopped_when_the_bus_was_away(folder: Folder) -> None:
    write(folder, 0, b"0123456789")
    heard, state = Heard(), telling()
    heard.away_after = 1
    with pytest.raises(TemporaryError):
        await tell(state, folder, heard.append, caps=CAPS, running_s=0, end="0")
    heard.away_after = 1_000
    await tell(telling(folder.told()), folder, heard.append, caps=CAPS, running_s=0, end="0")
    assert heard.text == b"0123456789"


def test_a_file_that_is_dropped_while_it_is_read_is_a_gap(tmp_path: Path) -> None:
    (tmp_path / "output.00000000000000000010").write_bytes(b"later")
    found = piece(tmp_path, 4, 100, CAPS)
    assert found is not None
    assert (found.offset, found.next) == (4, 10)
    assert b"6 bytes left out" in found.data


def test_the_allowance_grows_with_time() -> None:
    assert [allowed(CAPS, running_s=s) for s in (0, 1, 10)] == [10, 12, 30]


@pytest.mark.parametrize("put", ["link", "folder", "pipe", "device"])
async def test_nothing_that_a_job_puts_in_the_place_of_its_output_leads_out_of_its_folder_or_holds_anybody_up(
    folder: Folder, tmp_path_factory: pytest.TempPathFactory, put: str
) -> None:
    write(folder, 0, b"0123")
    place = folder.path / f"output.{4:020d}"
    elsewhere = tmp_path_factory.mktemp("others") / "output.00000000000000000004"
    elsewhere.write_bytes(b"theirs")
    match put:
        case "link":
            place.symlink_to(elsewhere)
        case "folder":
            place.mkdir()
        case "pipe":
            os.mkfifo(place)
        case "device":
            place.symlink_to("/dev/zero")
    heard = Heard()
    await tell(telling(), folder, heard.append, caps=CAPS, running_s=0, end="0")
    assert heard.text == b"0123"


async def test_a_file_that_is_only_called_like_output_is_none(folder: Folder) -> None:
    write(folder, 0, b"0123")
    for name in ("output.²", "output.١٢", "output.", "output.-1", "output.0x4"):
        (folder.path / name).write_bytes(b"forged")
    heard = Heard()
    await tell(telling(), folder, heard.append, caps=CAPS, running_s=0, end="0")
    assert heard.text == b"0123"


@pytest.mark.parametrize("start", ["9" * 200, str(1 << 63), str((1 << 63) - 1), f"{1 << 50:020d}", str(1 << 45)])
async def test_a_file_that_says_it_begins_where_no_output_does_ends_nobody(folder: Folder, start: str) -> None:
    write(folder, 0, b"0123")
    (folder.path / f"output.{start}").write_bytes(b"forged")
    heard = Heard()
    for end in ("", "", "0", "0"):
        await tell(telling(), folder, heard.append, caps=CAPS, running_s=0, end=end)
    assert heard.text.startswith(b"0123")


async def test_no_more_is_told_than_a_supervisor_keeps_whatever_a_job_makes_of_its_files(folder: Folder) -> None:
    """Output is kept for all jobs in one place of a fixed size: what one makes up would push out the others'."""
    for start in (0, 10, 20, 30, 40, 50, 60, 70):
        write(folder, start, b"x" * 1_000)
    for name in range(50):
        (folder.path / f"other.{name}").touch()
    os.truncate(folder.path / f"output.{0:020d}", 1 << 40)
    heard, state = Heard(), telling()
    while not state.is_done:
        await tell(state, folder, heard.append, caps=CAPS, running_s=0, end="0")
    kept = CAPS.head_bytes + 3 * CAPS.tail_bytes
    assert len([letter for letter in heard.text if letter in b"x\0"]) <= kept + heard.text.count(b"gangline") * 10


async def test_a_folder_full_of_names_holds_nobody_up_for_long(folder: Folder) -> None:
    for number in range(NAMES_MAX + 200):
        (folder.path / f"output.{number}").touch()
    heard = Heard()
    await tell(telling(), folder, heard.append, caps=CAPS, running_s=0, end="0")
    assert len(heard.messages) <= LAST_FILES + 2


async def test_a_folder_that_is_gone_or_is_a_file_has_no_output(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "gone", tmp_path / "file"):
        heard = Heard()
        await tell(telling(), Folder(path), heard.append, caps=CAPS, running_s=0, end="-")
        assert list(heard.messages.values()) == [(b"", {OFFSET: "0", END: "-"})]


def test_what_a_job_puts_in_the_place_of_our_own_files_is_not_read(folder: Folder) -> None:
    os.mkfifo(folder.path / LIFE)
    (folder.path / INTENT).symlink_to("/dev/zero")
    assert folder.intent() is None
    assert folder.life() == parse_life(b"")

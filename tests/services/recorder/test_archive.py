"""The archive keeps every message, notices every change, and survives an unfinished last line."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.lines import bytes_only

from gangline_recorder.archive import TAIL_BYTES, Archive, BrokenArchiveError, last_seq, lines, segments


def filled(folder: Path, count: int, *, segment_bytes: int = 400) -> Archive:
    archive = Archive(folder, segment_bytes=segment_bytes)
    for seq in range(1, count + 1):
        archive.append(bytes_only(seq, at=seq * 10, data=f'{{"n":{seq}}}'.encode()))
    archive.close()
    return archive


@contextmanager
def opened(folder: Path, *, segment_bytes: int = 400) -> Iterator[Archive]:
    archive = Archive(folder, segment_bytes=segment_bytes)
    try:
        yield archive
    finally:
        archive.close()


def test_what_was_appended_is_read_back_in_order_from_any_point(tmp_path: Path) -> None:
    filled(tmp_path, 9)
    assert len(segments(tmp_path)) > 1
    assert [line.seq for line in lines(tmp_path)] == list(range(1, 10))
    assert [line.seq for line in lines(tmp_path, after=6)] == [7, 8, 9]


def test_a_reopened_archive_goes_on_where_it_stopped_with_the_same_chain(tmp_path: Path) -> None:
    filled(tmp_path / "a", 3)
    with opened(tmp_path / "a") as reopened:
        reopened.append(bytes_only(4, at=40, data=b'{"n":4}'))
    whole = filled(tmp_path / "b", 4)
    assert (reopened.seq, reopened.digest) == (4, whole.digest)


def test_an_unfinished_last_line_is_cut_and_can_be_appended_again(tmp_path: Path) -> None:
    whole = filled(tmp_path, 5, segment_bytes=1 << 20)
    path = segments(tmp_path)[-1]
    path.write_bytes(path.read_bytes()[:-7])
    with opened(tmp_path, segment_bytes=1 << 20) as reopened:
        assert reopened.seq == 4
        reopened.append(bytes_only(5, at=50, data=b'{"n":5}'))
    assert reopened.digest == whole.digest


@pytest.mark.parametrize("segment_bytes", [1, 400, 1 << 20])
@pytest.mark.parametrize("cut", [0, 7])
def test_where_an_archive_ends_is_found_without_reading_it_all(tmp_path: Path, segment_bytes: int, cut: int) -> None:
    assert last_seq(tmp_path / "nowhere") == 0
    filled(tmp_path, 9, segment_bytes=segment_bytes)
    path = segments(tmp_path)[-1]
    path.write_bytes(path.read_bytes()[: -cut or None])
    assert last_seq(tmp_path) == (8 if cut else 9)


def test_the_end_of_long_lines_is_found_and_a_broken_one_is_left_to_who_reads_it(
    tmp_path: Path,
) -> None:
    with opened(tmp_path, segment_bytes=1 << 30) as archive:
        for seq in (1, 2):
            archive.append(bytes_only(seq, at=seq, data=b'{"n":"%s"}' % (b"x" * 3 * TAIL_BYTES)))
    assert last_seq(tmp_path) == 2
    path = segments(tmp_path)[-1]
    path.write_bytes(path.read_bytes() + b"garbage\n")
    assert last_seq(tmp_path) == 0


def test_a_segment_whose_first_line_never_finished_is_dropped(tmp_path: Path) -> None:
    filled(tmp_path, 3, segment_bytes=1)
    path = segments(tmp_path)[-1]
    path.write_bytes(path.read_bytes()[:10])
    with opened(tmp_path, segment_bytes=1) as archive:
        assert archive.seq == 2


def test_a_flipped_byte_in_the_last_segment_stops_the_recorder(tmp_path: Path) -> None:
    filled(tmp_path, 5, segment_bytes=1 << 20)
    path = segments(tmp_path)[-1]
    data = bytearray(path.read_bytes())
    data[data.index(b'\\"n\\":3') + 6] = ord("4")
    path.write_bytes(bytes(data))
    with pytest.raises(BrokenArchiveError, match="line 3"):
        Archive(tmp_path, segment_bytes=1 << 20)


def test_archive_files_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    filled(tmp_path / "archive", 1)
    assert (tmp_path / "archive").stat().st_mode & 0o777 == 0o700
    assert segments(tmp_path / "archive")[0].stat().st_mode & 0o777 == 0o600

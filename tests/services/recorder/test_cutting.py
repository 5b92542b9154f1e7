"""What is dropped from the log is proven to be in the archive, line by line, before it goes."""

from pathlib import Path

import pytest
from tests.lines import bytes_only

from gangline_recorder.archive import Archive, BrokenArchiveError, segments
from gangline_recorder.cutting import proven


def archived(folder: Path, *, count: int = 9) -> Archive:
    archive = Archive(folder, segment_bytes=300)
    for seq in range(1, count + 1):
        archive.append(bytes_only(seq, at=1000 * seq, data=b'{"n":%d}' % seq))
    archive.close()
    return archive


def test_an_archive_with_every_message_is_proof(tmp_path: Path) -> None:
    archive = archived(tmp_path)
    assert len(segments(tmp_path)) > 2
    assert proven(tmp_path, 1, 9).hash == archive.digest
    assert proven(tmp_path, 4, 6).data == '{"n":6}'


def test_a_missing_segment_is_no_proof(tmp_path: Path) -> None:
    archived(tmp_path)
    segments(tmp_path)[1].unlink()
    with pytest.raises(BrokenArchiveError, match="should be: nothing is dropped"):
        proven(tmp_path, 1, 9)


def test_a_missing_beginning_is_no_proof(tmp_path: Path) -> None:
    archived(tmp_path)
    segments(tmp_path)[0].unlink()
    with pytest.raises(BrokenArchiveError, match="where 1 should be"):
        proven(tmp_path, 1, 9)


def test_an_archive_that_ends_too_early_is_no_proof(tmp_path: Path) -> None:
    archived(tmp_path)
    with pytest.raises(BrokenArchiveError, match="does not reach 10"):
        proven(tmp_path, 1, 10)
    with pytest.raises(BrokenArchiveError, match="does not reach 1"):
        proven(tmp_path / "..", 1, 1)


@pytest.mark.parametrize("number", range(3))
def test_a_changed_message_is_no_proof_wherever_it_stands(tmp_path: Path, number: int) -> None:
    archived(tmp_path)
    path = segments(tmp_path)[number]
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join((lines[0].replace(b'\\"n\\":', b'\\"m\\":'), *lines[1:])))
    with pytest.raises(BrokenArchiveError, match=r"chain breaks"):
        proven(tmp_path, 1, 9)
    first = int(path.stem.removeprefix("archive-"))
    with pytest.raises(BrokenArchiveError, match=r"chain breaks"):
        proven(tmp_path, first, 9)


def test_what_is_not_synced_does_not_count_as_archived(tmp_path: Path) -> None:
    archive = Archive(tmp_path, segment_bytes=1 << 20)
    archive.append(bytes_only(1, at=1, data=b"{}"))
    assert archive.synced_seq == 0
    archive.sync()
    assert archive.synced_seq == 1
    archive.append(bytes_only(2, at=2, data=b"{}"))
    archive.flush()
    assert archive.synced_seq == 1
    archive.close()
    again = Archive(tmp_path, segment_bytes=1 << 20)
    assert again.synced_seq == 2
    again.close()

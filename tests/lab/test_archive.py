"""An archive is either exactly what was written, or the reader says where it is not."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.lab.logged import LoggedWorld
from tests.make import node, spec

from gangline_core.fold import chain
from gangline_lab.archive import ArchiveError, is_unfinished, read, segments, verify
from gangline_lab.replay import replay
from gangline_lab.words import verification_lines
from gangline_wire.archive import decode_line, encode_line, segment_name


def world() -> LoggedWorld:
    """Two dozen messages with text that needs escapes."""
    made = LoggedWorld(node("n1", gpus=2), node("n2", gpus=2))
    for k in range(6):
        job = made.submit(spec(f'job "é\\{k}"'))
        made.wait(1).run(job, "n1")
        made.wait(2).finish(job)
    return made


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """An archive of three segments."""
    return world().write(tmp_path / "archive", segment_messages=12)


def lines_of(file: Path) -> list[bytes]:
    """The lines of a segment, newlines kept."""
    return file.read_bytes().splitlines(keepends=True)


def test_a_sound_archive_is_read_whole_and_its_head_is_the_state_digest(archive: Path) -> None:
    made = world()
    verified = verify(archive, head=made.state.kept.digest)
    assert verified.holds
    assert (verified.segments, verified.messages) == (3, len(made.log))
    assert verified.head == made.state.kept.digest
    assert [entry.message for entry in read(archive)] == made.log


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=150, deadline=None
)
@given(data=st.data())
def test_any_changed_byte_is_reported_at_its_line(archive: Path, data: st.DataObject) -> None:
    files = segments(archive)
    file = data.draw(st.sampled_from(files))
    sound = file.read_bytes()
    position = data.draw(st.integers(0, len(sound) - 1))
    value = data.draw(st.integers(0, 255).filter(lambda byte: byte != sound[position]))
    line = sound[:position].count(b"\n") + 1
    before = sum(len(lines_of(earlier)) for earlier in files[: files.index(file)])
    file.write_bytes(sound[:position] + bytes([value]) + sound[position + 1 :])
    try:
        fault = verify(archive).fault
    finally:
        file.write_bytes(sound)
    assert fault is not None
    assert (fault.segment, fault.line, fault.seq) == (file.name, line, before + line)


def test_a_missing_line_is_reported_where_it_is_missing(archive: Path) -> None:
    file = segments(archive)[1]
    lines = lines_of(file)
    file.write_bytes(b"".join(lines[:4] + lines[5:]))
    fault = verify(archive).fault
    assert fault is not None
    assert (fault.segment, fault.line, fault.seq) == (file.name, 5, 12 + 5)
    assert "missing" in fault.problem


def test_lines_in_another_order_are_reported(archive: Path) -> None:
    file = segments(archive)[0]
    lines = lines_of(file)
    lines[2], lines[3] = lines[3], lines[2]
    file.write_bytes(b"".join(lines))
    fault = verify(archive).fault
    assert fault is not None
    assert (fault.line, fault.seq) == (3, 3)


def test_a_line_that_is_cut_off_is_reported(archive: Path) -> None:
    file = segments(archive)[-1]
    file.write_bytes(file.read_bytes()[:-20])
    fault = verify(archive).fault
    assert fault is not None
    assert fault.problem == "the line is cut off"
    assert fault.line == len(lines_of(file))


def test_an_archive_that_is_being_written_is_read_up_to_its_last_whole_line(archive: Path) -> None:
    file = segments(archive)[-1]
    file.write_bytes(file.read_bytes()[:-20])
    whole = verify(archive)
    assert whole.is_unfinished
    assert is_unfinished(archive)
    assert [entry.message.seq for entry in read(archive)] == list(range(1, whole.last_seq + 1))
    assert replay(archive).fault is None
    assert any("ask again" in line for line in verification_lines(whole))


def test_a_segment_that_was_just_begun_is_read_as_none(archive: Path) -> None:
    last = verify(archive).last_seq
    (archive / segment_name(last + 1)).write_bytes(b"")
    assert is_unfinished(archive)
    assert [entry.message.seq for entry in read(archive)][-1] == last
    assert verify(archive).is_unfinished


def test_a_line_that_is_cut_off_before_the_last_segment_is_no_unfinished_end(archive: Path) -> None:
    file = segments(archive)[0]
    file.write_bytes(file.read_bytes()[:-20])
    assert not is_unfinished(archive)
    assert not verify(archive).is_unfinished
    with pytest.raises(ArchiveError, match="the line is cut off"):
        list(read(archive))


def test_a_missing_segment_is_reported_at_the_next_one(archive: Path) -> None:
    files = segments(archive)
    files[1].unlink()
    fault = verify(archive).fault
    assert fault is not None
    assert (fault.segment, fault.line, fault.seq) == (files[2].name, 1, 13)


def test_messages_missing_at_the_end_are_reported_to_those_who_remember_the_head(archive: Path) -> None:
    head = verify(archive).head
    file = segments(archive)[-1]
    file.write_bytes(b"".join(lines_of(file)[:-1]))
    assert verify(archive).holds
    fault = verify(archive, head=head).fault
    assert fault is not None
    assert "missing at its end" in fault.problem


def test_a_rewritten_message_with_a_rewritten_hash_breaks_the_chain_at_the_next_line(archive: Path) -> None:
    file = segments(archive)[0]
    lines = lines_of(file)
    before, line = decode_line(lines[1]), decode_line(lines[2])
    forged = line.data.replace('"ada"', '"eve"').encode()
    assert forged != line.raw
    lines[2] = encode_line(replace(line.message, raw=forged), head=chain(before.hash, forged))
    file.write_bytes(b"".join(lines))
    fault = verify(archive).fault
    assert fault is not None
    assert (fault.line, fault.seq) == (4, 4)
    assert "chain breaks" in fault.problem


def test_what_lies_before_a_fault_is_given_out(archive: Path) -> None:
    file = segments(archive)[1]
    file.write_bytes(b"x" + file.read_bytes()[1:])
    given_out = []
    with pytest.raises(ArchiveError, match="line 1, message 13"):
        given_out.extend(read(archive))
    with pytest.raises(ArchiveError):
        given_out.extend(entry for entry in read(archive))
    assert verify(archive).messages == 12


def test_an_empty_folder_is_no_archive(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="no segment of an archive is here"):
        list(read(tmp_path))


def test_reading_tells_its_progress_up_to_the_end(archive: Path) -> None:
    told: list[tuple[int, int]] = []
    list(read(archive, progress=lambda done, total: told.append((done, total))))
    size = sum(file.stat().st_size for file in segments(archive))
    assert told[-1] == (size, size)

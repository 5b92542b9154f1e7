"""Reading an archive of the log, and proving on the way that no byte of it was changed, lost or moved."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct

from gangline_core.fold import Message, chain
from gangline_wire.archive import CUT_OFF, SEGMENT_NAME, ArchiveLine, decode_line
from gangline_wire.codec import CodecError

Progress = Callable[[int, int], None]
"""Told how many bytes of how many are read."""


def part_of(progress: Progress | None, done: int, total: int) -> Progress | None:
    """Progress of one of `total` equal parts, of which `done` are over, as a part of the whole."""
    if progress is None:
        return None
    return lambda at, whole: progress(done * max(1, whole) + at, total * max(1, whole))


EMPTY = "the segment is empty"
UNFINISHED = frozenset({EMPTY, CUT_OFF})
"""Faults of an archive's last line that may only mean that the platform is about to write it."""
PROGRESS_LINES = 256
"""Lines between two words to `Progress`."""


class Fault(Struct, frozen=True):
    """Where an archive stops being what was written, and what is wrong there."""

    segment: str
    """File name."""
    line: int
    """Counts from 1."""
    seq: int
    """Log sequence that should stand here."""
    problem: str

    def __str__(self) -> str:
        """One line for people."""
        where = f"{self.segment}, line {self.line}, message {self.seq}" if self.line else self.segment
        return f"{where}: {self.problem}"


class ArchiveError(Exception):
    """The archive is broken, or there is none."""

    def __init__(self, fault: Fault) -> None:
        """Carries the fault."""
        super().__init__(str(fault))
        self.fault = fault


class Entry(Struct, frozen=True):
    """One proven message of the archive and where it stands."""

    message: Message
    head: str
    """Head of the chain after it."""
    segment: Path
    line: int
    """Counts from 1."""
    offset: int
    """First byte of the line in its segment."""


class Verification(Struct, frozen=True):
    """What reading a whole archive came to."""

    segments: int
    messages: int
    """Proven messages, up to the fault if there is one."""
    last_seq: int
    head: str
    fault: Fault | None = None
    is_unfinished: bool = False
    """True when the fault is that the last line is not finished: it is being written, or the archive was cut there."""

    @property
    def holds(self) -> bool:
        """True when every byte is as it was written."""
        return self.fault is None


def verify(path: Path, *, head: str = "", progress: Progress | None = None) -> Verification:
    """Read the whole archive.

    A chain cannot know its own end: messages missing after the last line are noticed only when `head`, the chain's
    head as somebody else remembers it, is given.
    """
    count, last_seq, last_head, last_segment = 0, 0, "", ""
    fault = None
    try:
        for entry in read(path, progress=progress, whole=True):
            count, last_seq, last_head = count + 1, entry.message.seq, entry.head
            last_segment = entry.segment.name
    except ArchiveError as error:
        fault = error.fault
    if fault is None and head and head != last_head:
        problem = f"the archive ends with head {last_head or 'of nothing'}, not {head}: messages are missing at its end"
        fault = Fault(segment=last_segment, line=count + 1, seq=last_seq + 1, problem=problem)
    return Verification(
        segments=len(segments(path)),
        messages=count,
        last_seq=last_seq,
        head=last_head,
        fault=fault,
        is_unfinished=fault is not None and fault.problem in UNFINISHED and fault.segment == segments(path)[-1].name,
    )


def is_unfinished(path: Path) -> bool:
    """True when the last line of an archive is not finished, or its last segment has none yet."""
    files = segments(path)
    if not files:
        return False
    with files[-1].open("rb") as file:
        if not file.seek(0, os.SEEK_END):
            return len(files) > 1
        file.seek(-1, os.SEEK_END)
        return file.read() != b"\n"


def segments(path: Path) -> list[Path]:
    """The archive's segments in order."""
    return sorted(file for file in path.glob("archive-*.jsonl") if SEGMENT_NAME.fullmatch(file.name))


def read(path: Path, *, progress: Progress | None = None, whole: bool = False) -> Iterator[Entry]:
    """Every message in order, each proven before it is given out.

    A last line that is not finished is left out, for the platform may be writing it; with `whole` it is a fault.

    Raises:
        ArchiveError: no archive is there, or the chain breaks; what was given out before is sound.
    """
    files = segments(path)
    if not files:
        raise ArchiveError(Fault(segment=str(path), line=0, seq=1, problem="no segment of an archive is here"))
    total = sum(file.stat().st_size for file in files)
    done = 0
    reader = _ChainReader()
    for file in files:
        for entry in reader.segment(file, may_end=not whole and file == files[-1]):
            yield entry
            if progress is not None and entry.message.seq % PROGRESS_LINES == 0:
                progress(done + entry.offset, total)
        done += file.stat().st_size
    if progress is not None:
        progress(total, total)


def read_at(entry_segment: Path, offset: int) -> Message:
    """A message that was proven before, read again from its place.

    Raises:
        ValueError: the file changed since.
    """
    with entry_segment.open("rb") as file:
        file.seek(offset)
        return decode_line(file.readline()).message


class _ChainReader:
    """Follows the chain from segment to segment."""

    def __init__(self) -> None:
        self.seq = 0
        self.head = ""

    def segment(self, file: Path, *, may_end: bool) -> Iterator[Entry]:
        """Its messages; with `may_end` its last line may be unfinished, and its first one if it is not the first."""
        offset = 0
        with file.open("rb") as lines:
            for number, text in enumerate(lines, start=1):
                if may_end and not text.endswith(b"\n") and self.seq:
                    return
                try:
                    line = decode_line(text)
                    proven = self._prove(line, file.name, first=number == 1)
                except (ValueError, CodecError) as error:
                    fault = Fault(segment=file.name, line=number, seq=self.seq + 1, problem=str(error))
                    raise ArchiveError(fault) from error
                yield Entry(message=proven, head=line.hash, segment=file, line=number, offset=offset)
                offset += len(text)
        if offset == 0 and not (may_end and self.seq):
            raise ArchiveError(Fault(segment=file.name, line=1, seq=self.seq + 1, problem=EMPTY))

    def _prove(self, line: ArchiveLine, name: str, *, first: bool) -> Message:
        expected = self.seq + 1
        named = SEGMENT_NAME.fullmatch(name)
        if first and named is not None and int(named[1]) != expected:
            raise ValueError(f"the segment begins with message {int(named[1])}: what lies before it is missing")
        if line.seq != expected:
            raise ValueError(f"message {line.seq} stands here: lines are missing, repeated or out of order")
        head = chain(self.head, line.raw, line.note)
        if head != line.hash:
            raise ValueError(f"the chain breaks: its head is {head}, but {line.hash} was written")
        proven = line.message
        if line.at != proven.at:
            raise ValueError(f"the line says {line.at} ms, its message {proven.at} ms")
        self.seq, self.head = line.seq, head
        return proven

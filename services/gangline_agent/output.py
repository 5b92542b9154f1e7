"""What a task wrote: reads the supervisor's files from a position on, and says how much may be told now."""

import os
from contextlib import suppress
from itertools import islice
from pathlib import Path

from msgspec import Struct

from gangline_agent.plain import open_plain

PREFIX = "output."
OFFSET_MAX = 1 << 50
"""No task writes so much: a file that says it begins there is the job's own."""
NAMES_MAX = 1_000
"""Names that are read of a task's folder; what a job fills with more of them may lack its output."""
LAST_FILES = 3
"""The supervisor keeps the first file and the last two, and begins another one before it drops the oldest of these."""


class Piece(Struct, frozen=True):
    """Bytes of a task's output, or a note in the place of bytes that were not kept."""

    offset: int
    data: bytes
    next: int
    """Offset at which to go on."""


class Caps(Struct, frozen=True):
    """How much of a task's output is kept and told. The first bytes and the last ones always are."""

    head_bytes: int = 16 << 20
    """Kept and told in full."""
    tail_bytes: int = 4 << 20
    """At least so many of the last bytes are kept beyond the head (on disk up to twice as many)."""
    bytes_per_s: int = 64 << 10
    """Told per second beyond the head while the task runs; a faster task shows a gap."""
    piece_bytes: int = 256 << 10
    """Largest message."""


def piece(folder: Path, position: int, most: int, caps: Caps) -> Piece | None:
    """The next bytes from `position` on, at most `most`; None when there are none yet.

    Where the files have a hole, a line says how many bytes are left out. Of what a job made of its files itself no more
    is told than the supervisor would have kept.
    """
    for start, path in _files(folder):
        if position < start:
            return _gap(position, start)
        left = (caps.tail_bytes if start else caps.head_bytes) - (position - start)
        data = _read(path, position - start, min(max(1, most), left)) if left > 0 else b""
        if data:
            return Piece(offset=position, data=data, next=position + len(data))
    return None


def allowed(caps: Caps, *, running_s: float) -> int:
    """Offset up to which a running task's output may be told by now."""
    return caps.head_bytes + int(caps.bytes_per_s * max(0.0, running_s))


def _files(folder: Path) -> list[tuple[int, Path]]:
    """Output files with the offset of their first byte, in order."""
    with suppress(OSError), os.scandir(folder) as entries:
        names = [entry.name for entry in islice(entries, NAMES_MAX) if entry.name.startswith(PREFIX)]
        starts = [(name[len(PREFIX) :], folder / name) for name in names]
        found = [(int(start), path) for start, path in starts if start.isascii() and start.isdecimal()]
        known = sorted((start, path) for start, path in found if start <= OFFSET_MAX)
        return known if len(known) <= 1 + LAST_FILES else [known[0], *known[-LAST_FILES:]]
    return []


def _read(path: Path, position: int, most: int) -> bytes:
    """Bytes of a file; none when it ends before, was dropped at this moment, or is no file of ours."""
    file = open_plain(path)
    if file is None:
        return b""
    # No file system has files that long.
    with file, suppress(OSError):
        file.seek(position)
        return file.read(most)
    return b""


def _gap(position: int, start: int) -> Piece:
    note = f"\n[gangline: {start - position} bytes left out here]\n"
    return Piece(offset=position, data=note.encode(), next=start)

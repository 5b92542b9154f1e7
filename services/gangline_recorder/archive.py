"""The archive on disk: every message of the log in order, one JSON line each, linked by a hash chain.

What a line and a segment look like is `gangline_wire.archive`'s business. An unfinished last line (power loss) is
cut off at start and fetched again from the log.
"""

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from gangline_core.fold import Message, chain
from gangline_wire.archive import SEGMENT_NAME, ArchiveLine, decode_line, encode_line, segment_name

Opened = Callable[[Path], BinaryIO]
"""Opens a segment for appending."""


TAIL_BYTES = 1 << 16
ENDS_TO_SEE = 2
"""Of the last whole line and of the one before."""


class BrokenArchiveError(Exception):
    """The archive on disk contradicts itself; the message says where."""


class Archive:
    """Appends to the newest segment; reading goes through `lines`."""

    def __init__(self, folder: Path, *, segment_bytes: int, opened: Opened | None = None) -> None:
        """Open the folder's archive, cutting an unfinished last line. `opened` is the disk it lies on.

        Raises:
            BrokenArchiveError: the last segment's chain does not hold.
        """
        self.folder = folder
        self.segment_bytes = segment_bytes
        self.seq = 0
        self.digest = ""
        self.synced_seq = 0
        """Up to here everything survives a power loss."""
        self._is_listed = True
        """False while the folder itself may not know of the newest segment after a power loss."""
        self._file: BinaryIO | None = None
        self._opened = opened or open_private
        self._size = 0
        self.is_unsynced = False
        """True while something appended may not survive a power loss."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._recover()

    def append(self, message: Message) -> None:
        """Add one message. It is on disk after the next `sync`."""
        if self._file is None or self._size >= self.segment_bytes:
            self._begin(message.seq)
        self.digest = chain(self.digest, message.raw, message.note)
        self.seq = message.seq
        line = encode_line(message, head=self.digest)
        assert self._file is not None, "a segment is open while appending"
        self._file.write(line)
        self.is_unsynced = True
        self._size += len(line)

    def flush(self) -> None:
        """Hand what was appended to the operating system, so that readers see it."""
        if self._file is not None:
            self._file.flush()

    def sync(self) -> None:
        """Make everything appended so far survive a power loss."""
        if self._file is not None and self.is_unsynced:
            seq, self.is_unsynced = self.seq, False
            self._file.flush()
            os.fsync(self._file.fileno())
            if not self._is_listed:
                self._is_listed = True
                _sync(self.folder)
            self.synced_seq = seq

    def close(self) -> None:
        """Sync and close."""
        file = self._file
        if file is not None:
            try:
                self.sync()
            finally:
                self._file = None
                file.close()

    def reopen(self) -> None:
        """Begin anew from what is really on disk, after something could not be written; errors as at first."""
        file, self._file = self._file, None
        if file is not None:
            # What it still wants to write is what could not be written.
            with contextlib.suppress(OSError):
                file.close()
        self.seq, self.digest, self.is_unsynced, self.synced_seq = 0, "", False, 0
        self._recover()

    def _begin(self, seq: int) -> None:
        self.close()
        self._file = self._opened(self.folder / segment_name(seq))
        self._is_listed = False
        self._size = 0

    def _recover(self) -> None:
        newest = segments(self.folder)[-1:]
        if not newest:
            return
        path = newest[0]
        good = 0
        for line, end in _whole_lines(path):
            self.seq, self.digest = line.seq, line.hash
            good = end
        if good == 0:
            # The segment was begun but its first line never finished: the one before it is the newest.
            path.unlink()
            self._recover()
            return
        os.truncate(path, good)
        self._file = self._opened(path)
        self._size = good
        # Whoever wrote it may have died before it was safe.
        _sync(path)
        _sync(self.folder)
        self.synced_seq = self.seq


def segments(folder: Path) -> list[Path]:
    """Segment files, oldest first."""
    return sorted(path for path in folder.iterdir() if SEGMENT_NAME.fullmatch(path.name))


def lines(folder: Path, *, after: int = 0, only: Path | None = None) -> Iterator[ArchiveLine]:
    """Messages after a sequence, oldest first; with `only` those of one segment."""
    files = segments(folder) if only is None else [only]
    for position, path in enumerate(files):
        following = files[position + 1] if position + 1 < len(files) else None
        if following is not None and _first_seq(following) <= after + 1:
            continue
        for line, _ in _whole_lines(path):
            if line.seq > after:
                yield line


def last_seq(folder: Path) -> int:
    """Sequence of the last finished line, without reading what stands before it; 0 where there is none to be read."""
    newest = segments(folder)[-1:] if folder.is_dir() else []
    if not newest:
        return 0
    with newest[0].open("rb") as file:
        end = size = file.seek(0, os.SEEK_END)
        tail = b""
        while tail.count(b"\n") < ENDS_TO_SEE and end > 0:
            end = max(0, end - max(TAIL_BYTES, size - end))
            file.seek(end)
            tail = file.read(size - end)
    whole, newline, _ = tail.rpartition(b"\n")
    try:
        return decode_line(whole.rpartition(newline)[2] + newline).seq if newline else _first_seq(newest[0]) - 1
    except ValueError:
        # Whoever reads all of it says what is wrong there.
        return 0


def _first_seq(path: Path) -> int:
    found = SEGMENT_NAME.fullmatch(path.name)
    assert found is not None, "segments only"
    return int(found.group(1))


def _whole_lines(path: Path) -> Iterator[tuple[ArchiveLine, int]]:
    """Finished lines with the offset after each; checks the chain from the second line on."""
    digest: str | None = None
    end = 0
    with path.open("rb") as file:
        for number, raw in enumerate(file, start=1):
            if not raw.endswith(b"\n"):
                return
            try:
                line = decode_line(raw)
            except ValueError as error:
                raise BrokenArchiveError(f"{path.name} line {number}: {error}") from error
            if digest is not None and chain(digest, line.raw, line.note) != line.hash:
                raise BrokenArchiveError(f"{path.name} line {number}, log sequence {line.seq}: the hash chain breaks")
            digest = line.hash
            end += len(raw)
            yield line, end


def _sync(path: Path) -> None:
    """Make what is there survive a power loss; a new file does so only when its folder does."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def open_private(path: Path) -> BinaryIO:
    """A segment that nobody else may read, for appending."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    return os.fdopen(descriptor, "ab")

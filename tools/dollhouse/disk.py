"""A disk that is full when told to be: what did not fit is not there, and whoever wanted it written hears of it."""

import errno
import os
from pathlib import Path
from typing import BinaryIO, cast

from gangline_recorder.archive import open_private


class FullDisk:
    """Opens files on the machine's disk and stops taking anything when `is_full`."""

    def __init__(self) -> None:
        """There is room."""
        self.is_full = False
        self.refused = 0
        """How often somebody wanted to write meanwhile."""

    def open(self, path: Path) -> BinaryIO:
        """A file for appending; a full disk opens it all the same."""
        # It has the few words of a file that an archive uses.
        return cast("BinaryIO", _File(self, open_private(path)))

    def check(self) -> None:
        """OSError when there is no room."""
        if self.is_full:
            self.refused += 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class _File:
    """A file on that disk; half of what does not fit is written all the same."""

    def __init__(self, disk: FullDisk, file: BinaryIO) -> None:
        self.disk = disk
        self.file = file

    def write(self, data: bytes) -> int:
        if self.disk.is_full:
            self.file.write(data[: len(data) // 2])
            self.file.flush()
        self.disk.check()
        return self.file.write(data)

    def flush(self) -> None:
        self.disk.check()
        self.file.flush()

    def fileno(self) -> int:
        self.disk.check()
        return self.file.fileno()

    def close(self) -> None:
        self.file.close()

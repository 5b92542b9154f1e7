"""How files in a task's folder are opened: the job can write there too, so nothing is taken for what it seems."""

import os
import stat
from pathlib import Path
from typing import BinaryIO

FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""No link leads out of the folder, and no pipe that a job put there holds the agent up."""


def open_plain(path: Path) -> BinaryIO | None:
    """The file for reading; None when there is none, or something else has its name."""
    try:
        descriptor = os.open(path, FLAGS)
    except OSError:
        return None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        return None
    return os.fdopen(descriptor, "rb")

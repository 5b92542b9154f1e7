"""How fast jobs go, from what was measured: a throughput table (JSON) or profiles of goodput (a folder)."""

from pathlib import Path

from gangline_lab.rows import TraceError
from gangline_lab.sim.courses import Courses
from gangline_lab.sim.goodput import read_profiles
from gangline_lab.sim.throughput import read_throughputs


def read_courses(path: Path) -> Courses:
    """The courses that a file or folder describes.

    Raises:
        TraceError: it is neither, or something in it is wrong.
    """
    if path.is_dir():
        return read_profiles(path)
    if path.is_file():
        return read_throughputs(path)
    raise TraceError("is neither a throughput table (JSON) nor a folder of profiles", file=str(path), line=0)

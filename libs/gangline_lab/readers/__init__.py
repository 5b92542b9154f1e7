"""Reading traces of other systems: one file per format, one table."""

from collections.abc import Callable
from pathlib import Path

from gangline_lab.readers.archives import read_archive
from gangline_lab.readers.chronus import read_chronus
from gangline_lab.readers.gavel import read_gavel, read_shockwave
from gangline_lab.readers.kubernetes import read_kubernetes
from gangline_lab.readers.muri import read_muri
from gangline_lab.readers.openb_pods import read_openb
from gangline_lab.readers.philly_jobs import read_philly
from gangline_lab.readers.pollux import read_pollux
from gangline_lab.readers.slurm import read_sacct
from gangline_lab.readers.swf import read_swf
from gangline_lab.readers.tiresias import read_tiresias
from gangline_lab.rows import TraceError
from gangline_lab.sim.workload import Workload

READERS: dict[str, Callable[[Path], Workload]] = {
    "archive": read_archive,
    "chronus": read_chronus,
    "gavel": read_gavel,
    "kubernetes": read_kubernetes,
    "muri": read_muri,
    "openb": read_openb,
    "philly": read_philly,
    "pollux": read_pollux,
    "sacct": read_sacct,
    "shockwave": read_shockwave,
    "swf": read_swf,
    "tiresias": read_tiresias,
}
"""Name of a format -> how its files are read. docs/lab.md says the units of each."""


def read_trace(text: str) -> Workload:
    """The trace that `FORMAT:PATH` names; without a format a folder is an archive, and `.swf` says what it is.

    Raises:
        TraceError: no such format or file, or the file is wrong (with line and column).
    """
    kind, mark, rest = text.partition(":")
    if mark and kind in READERS:
        if not rest:
            raise TraceError(f"names no file; say {kind}:PATH", file=kind)
        return READERS[kind](Path(rest))
    path = Path(text)
    if not text:
        raise TraceError(f"say FORMAT:PATH; known formats are {', '.join(READERS)}", file="no trace is named")
    if path.is_dir():
        return read_archive(path)
    if path.name.removesuffix(".gz").endswith(".swf"):
        return read_swf(path)
    if mark and not path.exists() and Path(rest).exists():
        raise TraceError(f"{kind} is no format of traces; known are {', '.join(READERS)}", file=rest, line=0)
    raise TraceError(f"say the format, such as philly:{text}; known are {', '.join(READERS)}", file=text, line=0)

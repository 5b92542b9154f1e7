"""The Philly-derived job trace: arrivals, run times and GPU counts (data/README.md has source, licence and columns)."""

from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from gangline_lab.rows import Row, TraceError, read_rows

JOB_LIST = Path(__file__).parent / "data" / "philly_jobs.csv"
"""The cut of 1,000 consecutive jobs."""

COLUMNS = ("timestamp", "duration", "num_gpus", "gpu_time", "cluster")
TIME_FORM = "%Y-%m-%d %H:%M:%S"
GPUS_MAX = 100_000
"""Most GPUs of one job that are believed."""


class TraceJob(Struct, frozen=True):
    """One job of the trace."""

    number: int
    """Place in the order of arrival, from 0."""
    arrival_s: int
    """Seconds after the first job of the list."""
    run_s: int
    gpus: int
    cluster: str
    """Virtual cluster that it was submitted to."""


def read_jobs(path: Path = JOB_LIST) -> tuple[TraceJob, ...]:
    """All jobs in the order of their arrival.

    Raises:
        TraceError: with line and column.
    """
    arrivals = [(_arrival_s(row), row) for row in read_rows(path, COLUMNS)]
    if not arrivals:
        raise TraceError("has no jobs", file=path.name, line=1)
    first = min(at for at, _ in arrivals)
    arrivals.sort(key=lambda arrival: arrival[0])
    return tuple(_job(row, number=number, arrival_s=at - first) for number, (at, row) in enumerate(arrivals))


def _arrival_s(row: Row) -> int:
    text = row.text("timestamp")
    try:
        # The trace has local times without a zone; only their differences are used.
        return int(datetime.strptime(text, TIME_FORM).replace(tzinfo=UTC).timestamp())
    except ValueError:
        raise row.error("timestamp", f"expected a time such as 2017-11-20 18:23:51, found {text!r}") from None


def _job(row: Row, *, number: int, arrival_s: int) -> TraceJob:
    run_s = row.time_ms("duration") // 1000
    gpus = row.whole("num_gpus", least=1, most=GPUS_MAX)
    gpu_time_s = row.whole("gpu_time")
    if gpu_time_s != run_s * gpus:
        raise row.error("gpu_time", f"expected duration times num_gpus = {run_s * gpus}, found {gpu_time_s}")
    return TraceJob(number=number, arrival_s=arrival_s, run_s=run_s, gpus=gpus, cluster=row.text("cluster"))

"""The folder of one simulated run: its result, its numbers, its jobs as tables, and the page that shows it.

`result.json.gz` is the whole run, from which every other form can be made again.
"""

import csv
import gzip
import io
import zlib
from pathlib import Path

from msgspec import structs

from gangline_lab.metrics import Metrics, isolated_ms, measure, slowdown
from gangline_lab.sim.collect import JobRecord
from gangline_lab.sim.engine import RunResult
from gangline_wire.codec import CodecError, decode, encode

RESULT = "result.json.gz"
RESULT_BYTES_MAX = 2_000_000_000
"""Largest unpacked result that is believed."""


class RunError(Exception):
    """No run is there, or it cannot be read or written."""


def save(result: RunResult, folder: Path, *, parquet: bool = False) -> Metrics:
    """Write a run into its folder; its metrics.

    Raises:
        RunError: Parquet was asked for, and its library is not installed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    metrics = measure(result)
    packed = gzip.compress(encode(result), compresslevel=6, mtime=0)
    (folder / RESULT).write_bytes(packed)
    (folder / "metrics.json").write_bytes(encode(metrics) + b"\n")
    (folder / "jobs.csv").write_text(jobs_csv(result), encoding="utf-8")
    if parquet:
        write_parquet(result, folder / "jobs.parquet")
    return metrics


def load(folder: Path) -> RunResult:
    """The run in this folder (or this result file).

    Raises:
        RunError: there is none, or it was written by another version.
    """
    path = folder / RESULT if folder.is_dir() else folder
    try:
        with gzip.open(path, "rb") as file:
            data = file.read(RESULT_BYTES_MAX)
        return decode(data, RunResult)
    except (OSError, EOFError, zlib.error, CodecError) as error:
        raise RunError(f"{path}: no result of a run: {error}") from error


def columns(result: RunResult) -> dict[str, list[object]]:
    """The run's jobs as columns: every field of the records, and what follows from them."""
    gpus = max(1, sum(result.gpus.values()))
    table: dict[str, list[object]] = {}
    for name in JobRecord.__struct_fields__:
        table[name] = [getattr(job, name) for job in result.jobs]
    ended = [job.ended_ms >= 0 for job in result.jobs]
    table["jct_ms"] = [job.jct_ms for job in result.jobs]
    table["slowdown"] = [slowdown(job) if done else None for job, done in zip(result.jobs, ended, strict=True)]
    table["rho"] = [
        job.jct_ms / max(1.0, isolated_ms(job, gpus)) if done else None
        for job, done in zip(result.jobs, ended, strict=True)
    ]
    return table


def jobs_csv(result: RunResult) -> str:
    """The run's jobs as comma-separated values."""
    table = columns(result)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(table)
    for row in zip(*table.values(), strict=True):
        writer.writerow("" if cell is None else f"{cell:.6g}" if isinstance(cell, float) else cell for cell in row)
    return out.getvalue()


def write_parquet(result: RunResult, path: Path) -> None:
    """The run's jobs as a Parquet file.

    Raises:
        RunError: pyarrow is not installed.
    """
    try:
        import pyarrow  # type: ignore[import-not-found,import-untyped,unused-ignore]  # an extra, untyped
        from pyarrow import parquet  # type: ignore[import-not-found,import-untyped,unused-ignore]  # the same
    except ImportError as error:
        raise RunError("Parquet needs pyarrow: pip install 'gangline[lab]'") from error
    parquet.write_table(pyarrow.table(columns(result)), path)


def relabelled(result: RunResult, label: str) -> RunResult:
    """The same run under this name."""
    return structs.replace(result, label=label)

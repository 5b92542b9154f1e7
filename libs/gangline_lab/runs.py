"""The folder of one simulated run: its result, its numbers, tables of its jobs and its use over time, and its page.

`result.json.gz` is the whole run, from which every other form can be made again.
"""

import csv
import gzip
import io
import zlib
from collections.abc import Iterator
from pathlib import Path

from msgspec import structs, to_builtins

from gangline_lab.metrics import Metrics, isolated_ms, measure, slowdown
from gangline_lab.outside import missing, said, written_whole
from gangline_lab.sim.collect import JobRecord
from gangline_lab.sim.engine import RunResult
from gangline_lab.sim.usage import Point
from gangline_wire.codec import CodecError, decode, encode

RESULT = "result.json.gz"
RESULT_BYTES_MAX = 2_000_000_000
"""Largest unpacked result that is believed."""
FORMULAS = ("=", "+", "-", "@", "\t", "\r")
"""How a text begins that spreadsheets work out: whoever names a job so would have it run where its table is opened."""


class RunError(Exception):
    """No run is there, or it cannot be read or written."""


def save(result: RunResult, folder: Path, *, parquet: bool = False) -> Metrics:
    """Write a run into its folder; its metrics. The result comes last and whole: a folder that has one has all of it.

    Raises:
        RunError: Parquet was asked for, and its library is not installed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    metrics = measure(result)
    (folder / "metrics.json").write_bytes(encode(metrics) + b"\n")
    tables = {"jobs": columns(result), "points": points(result), "metrics": numbers(metrics)}
    for name in ("jobs", "points"):
        (folder / f"{name}.csv").write_text(as_csv(tables[name]), encoding="utf-8")
    if parquet:
        for name, table in tables.items():
            write_parquet(table, folder / f"{name}.parquet")
    with written_whole(folder / RESULT) as part:
        part.write_bytes(gzip.compress(encode(result), compresslevel=6, mtime=0))
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
        raise RunError(f"{path}: no result of a run: {said(error)}") from error


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


def points(result: RunResult) -> dict[str, list[object]]:
    """How each pool was used over time, as columns: a row for each stretch, with its means."""
    rows = [(pool, point) for pool, own in sorted(result.points.items()) for point in own]
    table: dict[str, list[object]] = {"pool": [pool for pool, _ in rows]}
    for name in Point.__struct_fields__:
        table["at_ms" if name == "at" else name] = [getattr(point, name) for _, point in rows]
    table["allocation"] = [point.held_milli / point.there_milli if point.there_milli else None for _, point in rows]
    table["utilisation"] = [
        point.used_milli / point.there_milli if point.there_milli and point.used_milli >= 0 else None
        for _, point in rows
    ]
    return table


def numbers(metrics: Metrics) -> dict[str, list[object]]:
    """Every number of the metrics, those of groups and size classes among them, by its path in `metrics.json`."""
    found = list(_numbers("", to_builtins(metrics)))
    return {"what": [what for what, _ in found], "value": [value for _, value in found]}


def _numbers(path: str, value: object) -> Iterator[tuple[str, float]]:
    if isinstance(value, dict | list):
        named = value.items() if isinstance(value, dict) else enumerate(value)
        for name, inner in named:
            yield from _numbers(f"{path}.{name}" if path else str(name), inner)
    elif isinstance(value, int | float):
        yield path, float(value)


def as_csv(table: dict[str, list[object]]) -> str:
    """A table as comma-separated values."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(table)
    for row in zip(*table.values(), strict=True):
        writer.writerow(map(_cell, row))
    return out.getvalue()


def _cell(value: object) -> object:
    """What stands in a cell; a text that a spreadsheet would take for a formula begins with an apostrophe there."""
    if isinstance(value, str):
        return f"'{value}" if value.startswith(FORMULAS) else value
    return "" if value is None else f"{value:.6g}" if isinstance(value, float) else value


def write_parquet(table: dict[str, list[object]], path: Path) -> None:
    """A table as a Parquet file.

    Raises:
        RunError: pyarrow is not installed.
    """
    try:
        import pyarrow  # type: ignore[import-not-found,import-untyped,unused-ignore]  # an extra, untyped
        from pyarrow import parquet  # type: ignore[import-not-found,import-untyped,unused-ignore]  # the same
    except ImportError as error:
        raise RunError(missing("pyarrow", "Parquet")) from error
    parquet.write_table(pyarrow.table(table), path)


def relabelled(result: RunResult, label: str) -> RunResult:
    """The same run under this name."""
    return structs.replace(result, label=label)

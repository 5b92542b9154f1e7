"""What a benchmark reports: rows with a value, the floor beside it, the bar to clear, and whether it does."""

import json
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

RANGES = Path(__file__).parent / "ranges"

Better = Literal["higher", "lower"]


class Baseline(Struct, frozen=True):
    """The floor or rival measured in the same run."""

    name: str
    value: float


class Bar(Struct, frozen=True, forbid_unknown_fields=True):
    """What a row must reach: `at` least (or at most, where lower is better), of its value or of its ratio."""

    at: float
    of: Literal["value", "ratio"] = "value"
    why: str = ""
    """Where the bar comes from."""


class Row(Struct, frozen=True):
    """One measured thing. `ratio` is value / baseline; `holds` is None without a bar."""

    name: str
    value: float
    unit: str
    better: Better
    baseline: Baseline | None = None
    ratio: float | None = None
    bar: float | None = None
    holds: bool | None = None


class Measured(Struct, frozen=True):
    """What a benchmark hands over, before it is judged."""

    name: str
    value: float
    unit: str
    better: Better = "higher"
    baseline: Baseline | None = None


def bars(benchmark: str) -> dict[str, Bar]:
    """The range file of a benchmark: bars by row name."""
    path = RANGES / f"{benchmark}.json"
    return msgspec.json.decode(path.read_bytes(), type=dict[str, Bar]) if path.exists() else {}


def judge(measured: Measured, bar: Bar | None) -> Row:
    """The row with its ratio, its bar and the verdict."""
    baseline = measured.baseline
    ratio = measured.value / baseline.value if baseline and baseline.value else None
    shown = msgspec.structs.asdict(measured)
    if bar is None:
        return Row(**shown, ratio=ratio)
    figure = measured.value if bar.of == "value" else ratio
    if figure is None:
        return Row(**shown, ratio=ratio, bar=bar.at, holds=False)
    holds = figure >= bar.at if measured.better == "higher" else figure <= bar.at
    return Row(**shown, ratio=ratio, bar=bar.at, holds=holds)


def never_measured(rows: list[Row], expected: dict[str, Bar]) -> list[str]:
    """Names of bars no row answered: a bar must not vanish silently."""
    return sorted(set(expected) - {row.name for row in rows})


def as_json(rows: list[Row]) -> str:
    """The rows as a JSON list."""
    return json.dumps([msgspec.to_builtins(row) for row in rows], indent=2) + "\n"


def as_table(rows: list[Row]) -> str:
    """The rows for people."""
    header = ("what", "value", "unit", "beside", "ratio", "bar", "holds")
    lines = [header, *(cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    return "\n".join("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)) for line in lines)


def cells(row: Row) -> tuple[str, ...]:
    """One row's cells."""
    beside = f"{row.baseline.name} {figure(row.baseline.value)}" if row.baseline else "-"
    verdict = {None: "-", True: "yes", False: "NO"}[row.holds]
    at = "-" if row.bar is None else f"{'>=' if row.better == 'higher' else '<='} {figure(row.bar)}"
    ratio = "-" if row.ratio is None else f"{row.ratio:.2f}"
    return (row.name, figure(row.value), row.unit, beside, ratio, at, verdict)


def figure(value: float) -> str:
    """A number with as many digits as mean something."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}"

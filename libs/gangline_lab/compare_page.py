"""One HTML page that compares any number of runs. It needs nothing but itself."""

from collections.abc import Callable, Sequence
from html import escape
from math import log10
from pathlib import Path

from gangline_core.spec import GPU_MILLI
from gangline_lab import metrics as numbers
from gangline_lab.compare import MEASURES, Comparison, by_label, compare, said
from gangline_lab.metric_words import part_row
from gangline_lab.plots import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Line, over_time, said_at, time_tick
from gangline_lab.report import BUCKETS, STYLE
from gangline_lab.sim.engine import RunResult
from gangline_lab.sim.usage import Point
from gangline_lab.words import duration

COLOURS = ("#2f6fde", "#d9762b", "#2a9d6f", "#a24bd0", "#c43d5a", "#7a7f24", "#1f9fb5", "#8a5a35")
"""Of the labels in order; more than these begin again, dashed."""
CURVE_POINTS = 200
MARKED = (1, 10, 60, 600, 3_600, 36_000, 86_400, 864_000, 8_640_000, 86_400_000, 864_000_000)
"""Seconds marked on the axis of a distribution: one and ten of each unit, and of days more."""


def write_comparison(path: Path, runs: Sequence[RunResult], *, title: str) -> None:
    """Write the page."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page(runs, title=title), encoding="utf-8")


def page(runs: Sequence[RunResult], *, title: str) -> str:
    """The page's text."""
    grouped = by_label(runs)
    firsts = [own[0] for own in grouped.values()]
    labels = list(grouped)
    comparison = compare(runs)
    parts = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="dim">{escape(_what(runs))}</p>',
        _numbers(comparison),
        _key(labels),
        _distribution(
            "Completion times", labels, firsts, lambda run: [j.jct_ms / 1000 for j in run.jobs if j.ended_ms >= 0]
        ),
        _distribution("Waits", labels, firsts, lambda run: [job.waited_ms / 1000 for job in run.jobs]),
        _time("GPUs held", labels, firsts, lambda point: point.held_milli / GPU_MILLI, "GPUs"),
        _time("GPUs at work", labels, firsts, _used, "GPUs"),
        _time("Jobs waiting", labels, firsts, lambda point: point.waiting, "jobs"),
        _time("Free GPUs scattered over partly used nodes", labels, firsts, _scattered, "GPUs"),
        *(_budgets(label, run) for label, run in zip(labels, firsts, strict=True)),
        *(_groups(label, run) for label, run in zip(labels, firsts, strict=True)),
        f'<p class="dim">{escape(" ".join((numbers.__doc__ or "").split()))}</p>',
    ]
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{escape(title)}</title>'
    style = STYLE + "".join(
        f".r{k}{{stroke:{COLOURS[k % len(COLOURS)]};fill:none{';stroke-dasharray:5 3' if k >= len(COLOURS) else ''}}}"
        for k in range(len(labels))
    )
    body = "".join(parts)
    return f'<!doctype html><html lang="en"><head>{head}<style>{style}</style></head><body>{body}</body></html>\n'


def _what(runs: Sequence[RunResult]) -> str:
    traces = sorted({run.trace for run in runs})
    clusters = sorted({", ".join(f"{count} {model}" for model, count in run.gpus.items()) for run in runs})
    of_first = (
        " Plots, and tables by group and size, are of the first seed of each."
        if len(by_label(runs)) < len(runs)
        else ""
    )
    made_of = f"{len(runs)} runs of {', '.join(traces)} on {' / '.join(clusters)} GPUs."
    return f"{made_of} A star marks the best of a row.{of_first}"


def _numbers(comparison: Comparison) -> str:
    head = "".join(f"<th>{escape(label)}</th>" for label in comparison.labels)
    rows = []
    for one in MEASURES:
        cells = comparison.cells[one.name]
        if any(cell.mean for cell in cells.values()):
            inside = "".join(
                f"<td>{'<b>' if cells[label].best else ''}{escape(said(one, cells[label]))}"
                f"{'</b>' if cells[label].best else ''}</td>"
                for label in comparison.labels
            )
            rows.append(f"<tr><td>{escape(one.name)}</td>{inside}</tr>")
    return f'<h2>Numbers</h2><div class="scroll"><table><tr><th></th>{head}</tr>{"".join(rows)}</table></div>'


def _key(labels: Sequence[str]) -> str:
    inside = "".join(
        f'<span><i style="background:{COLOURS[k % len(COLOURS)]}"></i>{escape(label)}</span>'
        for k, label in enumerate(labels)
    )
    return f'<p class="key dim">{inside}</p>'


def _used(point: Point) -> float:
    return max(0, point.used_milli) / GPU_MILLI


def _scattered(point: Point) -> float:
    return point.scattered_milli / GPU_MILLI


def _distribution(
    title: str, labels: Sequence[str], runs: Sequence[RunResult], read: Callable[[RunResult], list[float]]
) -> str:
    """Parts of all jobs over time on a logarithmic axis, from a second on."""
    values = [sorted(max(1.0, value) for value in read(run)) for run in runs]
    top = max((own[-1] for own in values if own), default=1.0)
    width = max(1.0, log10(top))
    body = []
    for k in range(6):
        y = TOP + (1 - k / 5) * (HEIGHT - TOP - BOTTOM)
        body.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        body.append(f'<text class="tick" x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{k * 20} %</text>')
    body += [time_tick(log10(one) / width, said_at(one)) for one in MARKED if log10(one) <= width]
    for k, own in enumerate(values):
        if own:
            name = f"{labels[k]}: median {duration(1000 * own[len(own) // 2])}"
            body.append(
                f'<polyline class="r{k}" points="{_cumulative(own, width)}"><title>{escape(name)}</title></polyline>'
            )
    return f'<h2>{title}: part of all jobs</h2><svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img">{"".join(body)}</svg>'


def _cumulative(own: Sequence[float], width: float) -> str:
    points = []
    for k in range(CURVE_POINTS + 1):
        index = min(len(own) - 1, k * len(own) // CURVE_POINTS)
        x = LEFT + log10(own[index]) / width * (WIDTH - LEFT - RIGHT)
        y = TOP + (1 - (index + 1) / len(own)) * (HEIGHT - TOP - BOTTOM)
        points.append(f"{x:.1f},{y:.1f}")
    return " ".join(points)


def _time(
    title: str, labels: Sequence[str], runs: Sequence[RunResult], read: Callable[[Point], float], unit: str
) -> str:
    end = max((run.end_ms for run in runs), default=1)
    lines = [
        Line(name=label, style=f"r{k}", values=bucketed(run, end, read))
        for k, (label, run) in enumerate(zip(labels, runs, strict=True))
    ]
    return f"<h2>{title} over time</h2>{over_time(lines, seconds=end / 1000, unit=unit)}"


def bucketed(run: RunResult, end_ms: int, read: Callable[[Point], float]) -> tuple[float, ...]:
    """The mean of a value in each of equally long times, over all pools."""
    sums = [0.0] * BUCKETS
    length = max(1, -(-end_ms // BUCKETS))
    for points in run.points.values():
        for place, point in enumerate(points):
            until = points[place + 1].at if place + 1 < len(points) else run.end_ms
            at, value = point.at, read(point)
            while at < until and at // length < BUCKETS:
                step = min(until, (at // length + 1) * length)
                sums[at // length] += value * (step - at) / length
                at = step
    return tuple(sums)


def _budgets(label: str, run: RunResult) -> str:
    """Budgets of groups, and why jobs were refused."""
    measured = numbers.measure(run)
    said = [
        f"Budget of {group or '(all)'}: {used:,.2f} of {had:,} GPU-hours."
        for group, (used, had) in measured.budgets.items()
    ]
    if measured.refused:
        codes = ", ".join(f"{count} for {code}" for code, count in measured.refused.items())
        said.append(f"Refused: {codes}; the first, {measured.refused_first}")
    return "".join(f"<p>{escape(label)}: {escape(line)}</p>" for line in said)


def _groups(label: str, run: RunResult) -> str:
    measured = numbers.measure(run)
    tables = []
    for title, parts in (("group", measured.groups), ("size", measured.sizes)):
        if len(parts) < 2:
            continue
        head = "".join(
            f"<th>{name}</th>"
            for name in (title, "jobs", "GPU-hours", "mean JCT", "mean wait", "p99 wait", "worst rho", "unfair")
        )
        rows = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in part_row(name, part)) + "</tr>"
            for name, part in parts.items()
        )
        tables.append(f'<div class="scroll"><table><tr>{head}</tr>{rows}</table></div>')
    return f"<h2>{escape(label)}: by group and size</h2>{''.join(tables)}" if tables else ""

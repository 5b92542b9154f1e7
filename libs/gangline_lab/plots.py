"""Plots as SVG text: lines and areas over time, and bars of waits. Colours come from the page's style sheet."""

from collections.abc import Sequence
from html import escape
from math import floor, log10

from msgspec import Struct

WIDTH, HEIGHT = 860, 240
LEFT, RIGHT, TOP, BOTTOM = 56, 12, 12, 34
NAME_WIDTH = 120
ROW_HEIGHT = 26
TICKS = 5
STEPS = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)
"""Distances between ticks, times a power of ten."""


class Line(Struct, frozen=True):
    """One line of a plot over time."""

    name: str
    style: str
    """Class of the style sheet that colours it."""
    values: tuple[float, ...]
    filled: bool = False


class Bars(Struct, frozen=True):
    """One row of a bar plot: nested values, the smallest in front."""

    name: str
    note: str
    """What a reader sees who points at the row."""
    middle: float
    high: float
    most: float


def over_time(lines: Sequence[Line], *, seconds: float, unit: str) -> str:
    """Lines of equally many values, evenly spread over a time span that begins at 0."""
    top = nice_top(max((max(line.values, default=0) for line in lines), default=0))
    count = max((len(line.values) for line in lines), default=0)
    body = [*_grid_y(top), *_grid_x(seconds)]
    body += [_curve(line, top, count) for line in lines]
    body += _pointers(lines, seconds, unit, count)
    return _svg(HEIGHT, body)


def nice_top(value: float) -> float:
    """A round number not below the value that TICKS steps divide evenly."""
    if value <= 0:
        return float(TICKS)
    rough = value / TICKS
    step = 10.0 ** floor(log10(rough))
    return next(step * k * TICKS for k in STEPS if step * k >= rough * (1 - 1e-9))


def _svg(height: int, body: Sequence[str]) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img">{"".join(body)}</svg>'


def _x(share: float) -> float:
    return LEFT + share * (WIDTH - LEFT - RIGHT)


def _y(share: float) -> float:
    return TOP + (1 - share) * (HEIGHT - TOP - BOTTOM)


def _grid_y(top: float) -> list[str]:
    parts = []
    for k in range(TICKS + 1):
        y = _y(k / TICKS)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="tick" x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{top * k / TICKS:g}</text>')
    return parts


def _grid_x(seconds: float) -> list[str]:
    top = nice_top(seconds)
    parts = []
    for k in range(TICKS * 2 + 1):
        at = top * k / (TICKS * 2)
        if at <= seconds and seconds > 0:
            x, y = _x(at / seconds), HEIGHT - BOTTOM + 18
            parts.append(f'<text class="tick" x="{x:.1f}" y="{y}" text-anchor="middle">{said_at(at)}</text>')
    return parts


def said_at(seconds: float) -> str:
    """A moment on an axis: seconds of short spans, minutes, hours and days of longer ones."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:g} s"


def _curve(line: Line, top: float, count: int) -> str:
    """A stepped line: each value holds until the next."""
    points = []
    for index, value in enumerate(line.values):
        y = _y(value / top)
        points += [f"{_x(index / count):.1f},{y:.1f}", f"{_x((index + 1) / count):.1f},{y:.1f}"]
    if line.filled:
        points = [f"{_x(0):.1f},{_y(0):.1f}", *points, f"{_x(1):.1f},{_y(0):.1f}"]
    shape = "polygon" if line.filled else "polyline"
    return f'<{shape} class="{line.style}{" filled" if line.filled else ""}" points="{" ".join(points)}"/>'


def _pointers(lines: Sequence[Line], seconds: float, unit: str, count: int) -> list[str]:
    """Invisible columns that say the values where the reader points."""
    parts = []
    for index in range(count):
        at = f"{seconds * index / count:.1f} s"
        said = [f"{line.name} {line.values[index]:.4g}" for line in lines if index < len(line.values)]
        title = escape(f"{at}: {', '.join(said)} {unit}".rstrip())
        x, width = _x(index / count), (WIDTH - LEFT - RIGHT) / count
        box = f'x="{x:.1f}" y="{TOP}" width="{width:.2f}" height="{HEIGHT - TOP - BOTTOM}"'
        parts.append(f'<rect class="pointer" {box}><title>{title}</title></rect>')
    return parts


def bars(rows: Sequence[Bars], *, unit: str) -> str:
    """Rows of nested bars: middle in front of high in front of most."""
    top = nice_top(max((row.most for row in rows), default=0))
    height = ROW_HEIGHT * len(rows) + BOTTOM
    scale = (WIDTH - NAME_WIDTH - RIGHT) / top
    body = []
    for k in range(TICKS + 1):
        x = NAME_WIDTH + scale * top * k / TICKS
        body.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{height - BOTTOM}"/>')
        label = f"{top * k / TICKS:g} {unit}"
        body.append(f'<text class="tick" x="{x:.1f}" y="{height - BOTTOM + 18}" text-anchor="middle">{label}</text>')
    for index, row in enumerate(rows):
        body.append(_bar_row(row, ROW_HEIGHT * index, scale))
    return _svg(height, body)


def _bar_row(row: Bars, y: int, scale: float) -> str:
    parts = [f"<g><title>{escape(row.note)}</title>"]
    parts.append(f'<text class="name" x="{NAME_WIDTH - 8}" y="{y + 17}" text-anchor="end">{escape(row.name)}</text>')
    for style, value in (("most", row.most), ("high", row.high), ("middle", row.middle)):
        box = f'x="{NAME_WIDTH}" y="{y + 5}" width="{max(1.0, scale * value):.1f}" height="{ROW_HEIGHT - 10}"'
        parts.append(f'<rect class="{style}" {box} rx="2"/>')
    return "".join((*parts, "</g>"))

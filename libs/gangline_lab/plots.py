"""Plots as SVG text: lines and areas over time, and bars of waits. Colours come from the page's style sheet."""

from collections.abc import Sequence
from html import escape
from math import ceil, floor, log10

from msgspec import Struct

WIDTH, HEIGHT = 860, 240
LEFT, RIGHT, TOP, BOTTOM = 56, 12, 12, 34
NAME_WIDTH = 150
NAME_CHARS = 22
"""Of a longer name its end is shown; its row's note has the whole."""
ROW_HEIGHT = 26
TICKS = 5
TIME_TICKS = 8
TIME_STEPS = (
    *(0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30),
    *(60 * count for count in (1, 2, 5, 10, 20, 30)),
    *(3_600 * count for count in (1, 2, 3, 6, 12)),
    *(86_400 * count for count in (1, 2, 5, 7, 14, 28)),
)
"""Seconds between two ticks of a time axis."""
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
    step = time_step(seconds)
    return [time_tick(k * step / seconds, said_at(k * step)) for k in range(int(seconds / step) + 1) if seconds > 0]


def time_step(seconds: float) -> float:
    """What a clock or a calendar would mark on a span of time, at most TIME_TICKS times."""
    least = seconds / TIME_TICKS
    if least > TIME_STEPS[-1]:
        return nice_top(least / 86_400 * TICKS) / TICKS * 86_400
    return next(step for step in TIME_STEPS if step >= least)


def time_tick(share: float, text: str) -> str:
    """A moment below the axis; at its right end the text ends where the plot does."""
    x, y = _x(share), HEIGHT - BOTTOM + 18
    anchor = "end" if share > 0.97 else "middle"
    return f'<text class="tick" x="{x:.1f}" y="{y}" text-anchor="{anchor}">{text}</text>'


def said_at(seconds: float) -> str:
    """A moment on an axis: seconds of short spans, minutes, hours and days of longer ones."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size and (seconds >= 2 * size or not seconds % size):
            count = seconds / size
            return f"{count:.3g} {unit}" if count < 1_000 else f"{count:.0f} {unit}"
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


def bars(rows: Sequence[Bars]) -> str:
    """Rows of nested bars of seconds: middle in front of high in front of most."""
    most = max((row.most for row in rows), default=0.0) or 1.0
    step = time_step(most)
    top = step * ceil(most / step)
    height = ROW_HEIGHT * len(rows) + BOTTOM
    scale = (WIDTH - NAME_WIDTH - RIGHT) / top
    body = []
    for k in range(round(top / step) + 1):
        x = NAME_WIDTH + scale * step * k
        body.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{height - BOTTOM}"/>')
        place = f'x="{x:.1f}" y="{height - BOTTOM + 18}" text-anchor="{"end" if step * k == top else "middle"}"'
        body.append(f'<text class="tick" {place}>{said_at(step * k)}</text>')
    for index, row in enumerate(rows):
        body.append(_bar_row(row, ROW_HEIGHT * index, scale))
    return _svg(height, body)


def _bar_row(row: Bars, y: int, scale: float) -> str:
    parts = [f"<g><title>{escape(row.note)}</title>"]
    name = row.name if len(row.name) <= NAME_CHARS else f"…{row.name[1 - NAME_CHARS :]}"
    parts.append(f'<text class="name" x="{NAME_WIDTH - 8}" y="{y + 17}" text-anchor="end">{escape(name)}</text>')
    for style, value in (("most", row.most), ("high", row.high), ("middle", row.middle)):
        box = f'x="{NAME_WIDTH}" y="{y + 5}" width="{max(1.0, scale * value):.1f}" height="{ROW_HEIGHT - 10}"'
        parts.append(f'<rect class="{style}" {box} rx="2"/>')
    return "".join((*parts, "</g>"))

"""Several runs side by side: one row per label, several seeds of it with a confidence interval."""

from collections.abc import Callable, Iterable, Sequence
from math import sqrt

from msgspec import Struct

from gangline_lab.metrics import Metrics, measure
from gangline_lab.sim.engine import RunResult
from gangline_lab.words import duration, table
from gangline_wire.codec import encode


class Measure(Struct, frozen=True):
    """One number of a comparison: how it is read, said, and which way is better (0: neither)."""

    name: str
    read: Callable[[Metrics], float]
    say: Callable[[float], str]
    better: int = -1


def _s(value: float) -> str:
    return duration(1000 * value)


def _percent(value: float) -> str:
    return f"{value:.1%}"


def _two(value: float) -> str:
    return f"{value:.2f}"


def _count(value: float) -> str:
    return f"{value:,.0f}"


MEASURES = (
    Measure("mean JCT", lambda m: m.jct_s.mean, _s),
    Measure("median JCT", lambda m: m.jct_s.median, _s),
    Measure("p90 JCT", lambda m: m.jct_s.p90, _s),
    Measure("p99 JCT", lambda m: m.jct_s.p99, _s),
    Measure("mean wait", lambda m: m.wait_s.mean, _s),
    Measure("median wait", lambda m: m.wait_s.median, _s),
    Measure("p90 wait", lambda m: m.wait_s.p90, _s),
    Measure("p99 wait", lambda m: m.wait_s.p99, _s),
    Measure("mean slowdown", lambda m: m.slowdown.mean, _two),
    Measure("median slowdown", lambda m: m.slowdown.median, _two),
    Measure("p90 slowdown", lambda m: m.slowdown.p90, _two),
    Measure("p99 slowdown", lambda m: m.slowdown.p99, _two),
    Measure("makespan", lambda m: m.makespan_s, _s),
    Measure("allocated", lambda m: m.allocation, _percent, 1),
    Measure("used", lambda m: m.utilisation, _percent, 1),
    Measure("scattered", lambda m: m.fragmentation, _percent),
    Measure("worst rho", lambda m: m.worst_rho, _two),
    Measure("unfair", lambda m: m.unfair, _percent),
    Measure("Jain over groups", lambda m: m.jain, lambda v: f"{v:.3f}", 1),
    Measure("Jain over jobs", lambda m: m.jain_jobs, lambda v: f"{v:.3f}", 1),
    Measure("refused", lambda m: float(m.rejected), _count),
    Measure("lost to failures", lambda m: float(m.losses), _count),
    Measure("preemptions", lambda m: float(m.preemptions), _count, 0),
    Measure("lost GPU-hours", lambda m: m.lost_gpu_hours, _count),
    Measure("deadlines missed", lambda m: float(m.deadline_misses), _count),
)
"""What comparisons show, in order."""


class Cell(Struct, frozen=True):
    """A number over the seeds of one label."""

    mean: float
    half: float
    """Half of the width of its 95 % confidence interval; 0 of a single run."""
    runs: int
    best: bool = False
    """No other label is better."""


class Comparison(Struct, frozen=True):
    """Labels by measures."""

    labels: tuple[str, ...]
    cells: dict[str, dict[str, Cell]]
    """By measure, then by label."""


def label_of(run: RunResult) -> str:
    """What a run is called."""
    return run.label or "; ".join(sorted({policy.ordering for policy in run.policies.values()}))


def by_label(runs: Iterable[RunResult]) -> dict[str, list[RunResult]]:
    """Seeds of one run together, in order of first appearance.

    Only what differs in nothing but the seed is one run; where runs of one label differ, what they were made of says
    which is which.
    """
    found: dict[bytes, list[RunResult]] = {}
    for run in runs:
        found.setdefault(_made_of(run), []).append(run)
    labels = [label_of(own[0]) for own in found.values()]
    named: dict[str, list[RunResult]] = {}
    for own, label in zip(found.values(), labels, strict=True):
        name = label if labels.count(label) == 1 else f"{label}, {_circumstances(own[0])}"
        # What no word tells apart is numbered.
        taken = sum(other == name or other.startswith(f"{name} (") for other in named)
        named[f"{name} ({taken + 1})" if taken else name] = own
    return named


def _made_of(run: RunResult) -> bytes:
    """Everything that a run depends on beside its seed, as far as its result knows it."""
    return encode((label_of(run), run.trace, run.part, run.gpus, run.policies, run.conditions))


def _circumstances(run: RunResult) -> str:
    gpus = " ".join(f"{count}x{model}" for model, count in run.gpus.items())
    return f"{run.trace}{f' {run.part}' if run.part else ''} on {gpus}"


def compare(runs: Sequence[RunResult]) -> Comparison:
    """Every measure of every label."""
    grouped = {label: [measure(run) for run in own] for label, own in by_label(runs).items()}
    cells = {one.name: _cells(one, grouped) for one in MEASURES}
    return Comparison(labels=tuple(grouped), cells=cells)


def _cells(one: Measure, grouped: dict[str, list[Metrics]]) -> dict[str, Cell]:
    cells = {label: interval([one.read(metrics) for metrics in own]) for label, own in grouped.items()}
    if not one.better or len(cells) < 2:
        return cells
    best = max(one.better * cell.mean for cell in cells.values())
    return {
        label: Cell(mean=cell.mean, half=cell.half, runs=cell.runs, best=one.better * cell.mean == best)
        for label, cell in cells.items()
    }


def interval(values: Sequence[float]) -> Cell:
    """Mean and half a 95 % confidence interval (Student's t)."""
    count = len(values)
    mean = sum(values) / count
    if len(set(values)) == 1:
        # Also of several: their mean by sums may miss what they all are by a last digit, and nothing has varied.
        return Cell(mean=values[0], half=0.0, runs=count)
    spread = sqrt(sum((value - mean) ** 2 for value in values) / (count - 1))
    from scipy.special import stdtrit  # type: ignore[import-untyped]  # no hints; only here

    quantile = float(stdtrit(count - 1, 0.975))
    return Cell(mean=mean, half=quantile * spread / sqrt(count), runs=count)


def said(one: Measure, cell: Cell) -> str:
    """A cell as text; the best of its row is marked with a star."""
    text = one.say(cell.mean)
    if cell.half:
        text += f" ± {one.say(cell.half)}"
    return f"{text} *" if cell.best else text


def comparison_lines(comparison: Comparison) -> list[str]:
    """A table: measures down, labels across."""
    rows = []
    for one in MEASURES:
        cells = comparison.cells[one.name]
        if any(cell.mean for cell in cells.values()):
            rows.append((one.name, *(said(one, cells[label]) for label in comparison.labels)))
    return table(("", *comparison.labels), rows)

"""A run's numbers as plain text for people."""

from collections.abc import Sequence

from gangline_core.counted import counted
from gangline_lab.metrics import Metrics, PartMetrics, Stats
from gangline_lab.outside import tame
from gangline_lab.words import duration, table

STATS_HEADER = ("mean", "median", "p90", "p99")


def metrics_lines(metrics: Metrics) -> list[str]:
    """Everything that was measured."""
    head = ("", *STATS_HEADER)
    rows = [
        ("JCT", *_times(metrics.jct_s)),
        ("wait", *_times(metrics.wait_s)),
        ("slowdown", *_plain(metrics.slowdown)),
        ("finish-time fairness", *_plain(metrics.rho)),
    ]
    lines = [
        f"Jobs {metrics.jobs}, ended {metrics.ended}, refused {metrics.rejected}; "
        f"makespan {duration(1000 * metrics.makespan_s)}",
        f"GPUs allocated {metrics.allocation:.1%}, used {metrics.utilisation:.1%}, "
        f"free but scattered {metrics.fragmentation:.1%}",
        f"Preempted {metrics.preemptions}, lost to failures {metrics.losses}; "
        f"{metrics.lost_gpu_hours:,.1f} of {metrics.gpu_hours:,.1f} GPU-hours lost or spent on starting",
        f"Fairness: worst rho {metrics.worst_rho:.2f}, unfair {metrics.unfair:.1%}, "
        f"Jain over groups {metrics.jain:.3f}, over jobs {metrics.jain_jobs:.3f}",
        f"Decided {counted(metrics.verdicts, 'time')} on jobs in {counted(metrics.rounds, 'round')}",
    ]
    if metrics.refused:
        said = ", ".join(f"{count} for {code}" for code, count in metrics.refused.items())
        lines.append(f"Refused: {said}; the first, {tame(metrics.refused_first)}")
    if metrics.deadlines:
        lines.append(f"Deadlines missed {metrics.deadline_misses} of {metrics.deadlines}")
    for group, (used, had) in metrics.budgets.items():
        lines.append(f"Budget of {tame(group) or '(all)'}: {used:,.2f} of {had:,} GPU-hours")
    lines += ["", *table(head, rows)]
    for title, parts in (("by group", metrics.groups), ("by size", metrics.sizes)):
        if len(parts) > 1:
            lines += ["", *part_lines(title, parts)]
    return lines


def part_lines(title: str, parts: dict[str, PartMetrics]) -> list[str]:
    """Groups or sizes, one a row."""
    head = (title, "jobs", "GPU-hours", "mean JCT", "mean wait", "p99 wait", "worst rho", "unfair")
    return table(head, [part_row(name, part) for name, part in parts.items()])


def part_row(name: str, part: PartMetrics) -> tuple[str, ...]:
    """One of them as cells."""
    return (
        name,
        str(part.jobs),
        f"{part.gpu_hours:,.0f}",
        duration(1000 * part.jct_s.mean),
        duration(1000 * part.wait_s.mean),
        duration(1000 * part.wait_s.p99),
        f"{part.worst_rho:.2f}",
        f"{part.unfair:.0%}",
    )


def _times(stats: Stats) -> Sequence[str]:
    return [duration(1000 * value) for value in (stats.mean, stats.median, stats.p90, stats.p99)]


def _plain(stats: Stats) -> Sequence[str]:
    return [f"{value:.2f}" for value in (stats.mean, stats.median, stats.p90, stats.p99)]

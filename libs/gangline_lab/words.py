"""Numbers and results of the lab as plain text for people."""

from collections.abc import Mapping, Sequence

from gangline_core.counted import counted, singular
from gangline_lab.archive import Verification
from gangline_lab.difference import Difference
from gangline_lab.outside import tame
from gangline_lab.replay import ReplayReport
from gangline_lab.summary import Spread, Summary

LINE_CHARS_MAX = 400
"""Longest side of a difference that is shown."""


def duration(ms: float) -> str:
    """A time span in at most two units: 850 ms, 12.3 s, 4 min 10 s, 3 h 20 min."""
    if round(ms) < 1000:
        return f"{ms:.0f} ms"
    if round(ms, -2) < 60_000:
        return f"{ms / 1000:.1f} s"
    minutes, seconds = divmod(round(ms / 1000), 60)
    if minutes < 60:
        return f"{minutes} min {seconds} s"
    return f"{minutes // 60} h {minutes % 60} min"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table: the first column to the left, numbers to the right."""
    tamed = [[tame(cell) for cell in row] for row in (header, *rows)]
    widths = [max(len(row[column]) for row in tamed) for column in range(len(header))]
    lines = []
    for row in tamed:
        first, *rest = (cell.ljust(widths[0]) if k == 0 else cell.rjust(widths[k]) for k, cell in enumerate(row))
        lines.append("  ".join((first, *rest)).rstrip())
    return lines


SPREAD_HEADER = ("jobs", "median", "p90", "p99", "longest")


def spread_row(spread: Spread) -> tuple[str, ...]:
    """A spread as cells: name, then the header's columns."""
    times = (spread.median_ms, spread.p90_ms, spread.p99_ms, spread.longest_ms)
    return (spread.name, str(spread.jobs), *(duration(time) for time in times))


def summary_lines(summary: Summary) -> list[str]:
    """The whole summary."""
    ends = ", ".join(f"{n} {state}" for state, n in summary.ends.items())
    unequal = "" if summary.jobs_in == summary.jobs_out else "  NOT EQUAL"
    use = ", ".join(
        f"{share:.0%} of {counted(summary.gpus[pool], 'GPU')} in {pool}" for pool, share in summary.uses.items()
    )
    lines = [
        f"Jobs in {summary.jobs_in}, jobs out {summary.jobs_out}{unequal} ({ends}); {summary.rejected} refused",
        f"Utilisation {use or 'no GPUs'} (GPU-time held, first submission to last end)",
        f"Decisions {summary.verdicts} on jobs in {counted(summary.rounds, 'round')}: "
        f"{summary.verdicts_per_s:.1f} in a second that had any, {summary.verdicts_per_s_most} in the busiest",
        f"Changes to running jobs: {summary.preemptions} preempted, {summary.grown} grown, {summary.shrunk} shrunk",
    ]
    if summary.starts_at_once.jobs:
        at_once = summary.starts_at_once
        lines.append(
            f"Submit to running for the {counted(at_once.jobs, 'job')} that found room at once: "
            f"median {duration(at_once.median_ms)}, p99 {duration(at_once.p99_ms)}"
        )
    for title, spreads in (("waits by group", summary.waits_by_group), ("waits by size", summary.waits_by_size)):
        rows = [spread_row(spread) for spread in (*spreads, summary.waits)]
        lines += ["", *table((title, *SPREAD_HEADER), rows)]
    return [*lines, "", "Longest waits", *longest_lines(summary)]


def longest_lines(summary: Summary) -> list[str]:
    """The longest waits, each with its recorded reason."""
    lines = []
    for wait in summary.longest:
        head = f"  job {wait.job} ({wait.group}, {singular(f'{wait.gpus:g} GPUs')}) waited {duration(wait.waited_ms)}"
        lines.append(f"{head}: {wait.code + ': ' if wait.code else ''}{wait.reason}")
    return lines


def verification_lines(verified: Verification) -> list[str]:
    """What `verify` found."""
    messages, segments = counted(verified.messages, "message"), counted(verified.segments, "segment")
    where = f"{messages} in {segments}, last sequence {verified.last_seq}"
    if verified.fault is None:
        return [f"The chain holds: {where}.", f"Head {verified.head}"]
    lines = [f"The chain BREAKS at {verified.fault}", f"Before that it holds: {where}."]
    if verified.is_unfinished:
        lines.append("A platform that writes there now has not ended that line yet: ask again. Else its end is lost.")
    return lines


def replay_lines(report: ReplayReport) -> list[str]:
    """What `replay` found."""
    compared = ", ".join(f"{kind} {n}" for kind, n in report.compared.items()) or "none"
    inputs = ", ".join(f"{kind} {n}" for kind, n in report.inputs.items()) or "none"
    lines = [
        f"{counted(report.messages, 'message')} with {counted(report.facts, 'fact')} folded",
        f"Digest of the last state: {report.head or 'none'}",
        f"Decided again: {counted(report.decisions, 'message')} ({compared})",
        f"Input only: {inputs}",
    ]
    if report.alarms:
        lines.append(f"Events that did not belong: {len(report.alarms)}; the first: {report.alarms[0]}")
    if report.fault is not None:
        lines.append(f"The archive BREAKS at {report.fault}")
    if report.difference is not None:
        lines += difference_lines(report.difference)
    if report.equal:
        lines.append("Every decision came out byte for byte as it was written.")
    return lines


def difference_lines(difference: Difference) -> list[str]:
    """Both sides of a difference and the state around them."""
    around = difference.state
    lines = [
        f"FIRST DIFFERENCE: message {difference.seq} of lane {difference.lane}, decided at {difference.at} ms "
        f"on the state at {difference.seq_seen}",
        f"  at {difference.path}",
        f"  written {_cut(difference.written_here)}",
        f"  decided {_cut(difference.decided_here)}",
        f"  state at {around.seq}, digest {around.digest}: waiting {_by_pool(around.waiting)}, "
        f"open rounds {_by_pool(around.open_rounds)}, "
        f"{counted(around.live_tasks, 'live task')}, {counted(around.nodes, 'node')}",
    ]
    for job in around.jobs:
        reason = f": {job.reason}" if job.reason else ""
        lines.append(f"    job {job.job} {job.state} in {job.pool}, attempt {job.attempt}{reason}")
    return [*lines, f"  all as written: {_cut(difference.written)}", f"  all as decided: {_cut(difference.decided)}"]


def _by_pool(numbers: Mapping[str, int]) -> str:
    return ", ".join(f"{number} in {pool}" for pool, number in sorted(numbers.items())) or "none"


def _cut(text: str) -> str:
    return text if len(text) <= LINE_CHARS_MAX else f"{text[:LINE_CHARS_MAX]}... ({len(text)} characters)"

"""What would have changed, as plain text."""

from collections import Counter

from gangline_core.counted import counted
from gangline_lab.compare import Cell
from gangline_lab.whatif import Answer, JobChange, Part
from gangline_lab.words import duration, table

HEADER = ("", "jobs", "mean wait", "then", "durations varied", "mean JCT", "then", "durations varied")


def answer_lines(answer: Answer) -> list[str]:
    """Everything, with what is uncertain about it."""
    lines = [
        f"Under the change ({'; '.join(answer.change) or 'none'}) {counted(answer.better, 'job')} would have waited "
        f"less, {answer.worse} longer; the last would have ended after "
        f"{duration(1000 * answer.makespan_after_s)} instead of {duration(1000 * answer.makespan_before_s)}.",
        "",
        *table(HEADER, [_row(part) for part in (*answer.parts, *answer.classes)]),
        "",
        f"Preemptions: {answer.preemptions_after:,} instead of {answer.preemptions_before:,}; starts and lost work "
        f"take {answer.overhead_after_hours:,.1f} GPU-hours instead of {answer.overhead_before_hours:,.1f}.",
    ]
    lines += _left(answer)
    if answer.differs_first >= 0:
        lines += ["", f"The first job that would have started at another time is {answer.differs_first}."]
    for title, jobs in (("Gained most", answer.gained), ("Lost most", answer.lost)):
        if jobs:
            lines += ["", title, *(_job(job) for job in jobs)]
    return [*lines, "", *uncertainty(answer)]


def first_line(answer: Answer) -> str:
    """The answer in one sentence, while the runs that say how sure it is still go on."""
    everybody = answer.parts[0]
    return (
        f"With the durations as they were the mean wait is {duration(1000 * everybody.wait_after)} instead of "
        f"{duration(1000 * everybody.wait_before)}, mean JCT {duration(1000 * everybody.jct_after)} instead of "
        f"{duration(1000 * everybody.jct_before)}. How sure that is, the other runs say."
    )


def _left(answer: Answer) -> list[str]:
    """Who is in none of the numbers above."""
    lines = []
    if answer.refused:
        codes = Counter(one.code for one in answer.refused)
        said = ", ".join(f"{count} for {code}" for code, count in codes.most_common())
        first = answer.refused[0]
        lines.append(
            f"{counted(len(answer.refused), 'job')} would have been refused at the door ({said}); the first: "
            f"{first.name} ({first.group}): {first.why} They are in none of the numbers."
        )
    if answer.unfinished_before or answer.unfinished_after:
        lines.append(
            f"Not over at the end of the simulated time: {counted(answer.unfinished_after, 'job')} instead of "
            f"{answer.unfinished_before}; they are in none of the numbers."
        )
    if answer.untied:
        lines.append(f"{answer.untied} dependencies on jobs that would not have been there were left out.")
    return ["", *lines] if lines else []


def uncertainty(answer: Answer) -> list[str]:
    """How far this may be believed."""
    left_out = ", ".join(f"{said} ({count})" for said, count in answer.left_out.items())
    spread = (
        "The columns `durations varied` have the mean change and its interval (95 %) over that run and "
        f"{answer.varied} more with durations varied by about a fifth."
        if answer.varied
        else "How much hangs on durations is not known of one run: --varied says it."
    )
    return [
        *([f"Left out of both sides, although the log tells of it: {left_out}."] if left_out else []),
        f"How sure is this? History as it was, simulated, waits {duration(1000 * answer.simulated_wait_s)} on average; "
        f"recorded were {duration(1000 * answer.recorded_wait_s)}. {spread}",
        f"The true duration of {counted(answer.censored, 'job')} is only known to be at least what was recorded. "
        "Users would have reacted: with shorter waits they submit more, "
        "with longer ones they ask for less. The numbers leave that out.",
    ]


def _row(part: Part) -> tuple[str, ...]:
    return (
        part.name or "(root)",
        str(part.jobs),
        duration(1000 * part.wait_before),
        duration(1000 * part.wait_after),
        _signed(part.wait_change),
        duration(1000 * part.jct_before),
        duration(1000 * part.jct_after),
        _signed(part.jct_change),
    )


def _signed(cell: Cell) -> str:
    sign = "-" if cell.mean < 0 else "+"
    text = f"{sign}{duration(1000 * abs(cell.mean))}"
    return f"{text} ± {duration(1000 * cell.half)}" if cell.half else text


def _job(job: JobChange) -> str:
    before, after = duration(job.wait_before_ms), duration(job.wait_after_ms)
    return f"  job {job.job} {job.name} ({job.group}): waited {before}, would have waited {after}"

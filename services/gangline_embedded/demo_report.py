"""What the demo tells at its end: numbers, checks, the replay of the log it wrote, and a page with plots."""

import sys
from collections.abc import Sequence
from pathlib import Path

from gangline_embedded.demo_chaos import Check
from gangline_embedded.demo_plan import RUN_S_LEAST, RUN_S_MOST, DemoPlan
from gangline_embedded.demo_real import RealResult
from gangline_lab.chronicle import Chronicle, tell
from gangline_lab.progress import Bar
from gangline_lab.replay import ReplayReport, replay
from gangline_lab.report import write_report
from gangline_lab.summary import Summary, summarise
from gangline_lab.words import replay_lines, summary_lines, table


def notes(plan: DemoPlan) -> list[str]:
    """How the load of this demo was made."""
    models = sorted({machine.model for machine in plan.machines})
    left_out = f" ({plan.left_out} more want more GPUs than there are and were left out)" if plan.left_out else ""
    return [
        f"Cluster: {len(plan.machines)} machines of the openb list with {plan.gpus} GPUs ({', '.join(models)}), "
        "simulated; and this machine for real commands.",
        f"Jobs: {len(plan.submissions)} of the Philly trace{left_out}, submitted over HTTP by {len(plan.users)} users "
        f"of {len(plan.groups) - 1} groups. Arrivals {plan.speed:g} times faster than in the trace, run times "
        f"{plan.run_speed:g} times shorter and kept between {RUN_S_LEAST:g} s and {RUN_S_MOST:g} s.",
    ]


def read_log(archive: Path) -> tuple[Chronicle, Summary]:
    """The story of the log the demo wrote, and its numbers."""
    bar = Bar(sys.stderr, "reading the log")
    try:
        chronicle = tell(archive, progress=bar)
    finally:
        bar.close()
    return chronicle, summarise(chronicle)


def replay_log(archive: Path) -> ReplayReport:
    """Decide everything again."""
    bar = Bar(sys.stderr, "replaying the log")
    try:
        return replay(archive, progress=bar)
    finally:
        bar.close()


def tell_end(
    summary: Summary, reals: Sequence[RealResult], checks: Sequence[Check], replayed: ReplayReport
) -> list[str]:
    """The summary as lines."""
    rows = [
        (
            result.name,
            f"{result.state}{'' if result.exit_code is None else f' ({result.exit_code})'}",
            "as expected" if result.as_expected else "NOT AS EXPECTED",
            result.output[:70],
        )
        for result in reals
    ]
    return [
        "",
        *summary_lines(summary),
        "",
        *table(("real commands", "became", "", "last line of output"), rows),
        "",
        "Checks",
        *(f"  {'holds ' if check.holds else 'BROKEN'}  {check.name} ({check.detail})" for check in checks),
        "",
        "Replay of the log just written",
        *(f"  {line}" for line in replay_lines(replayed)),
    ]


def write_page(path: Path, chronicle: Chronicle, summary: Summary, plan: DemoPlan, replayed: ReplayReport) -> None:
    """The page with plots."""
    write_report(path, chronicle, summary, title="Gangline demo", notes=notes(plan), replayed=replayed)

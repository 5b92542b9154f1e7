"""One simulated run of a paper's page, as all benchmarks of papers make it; recorded and replayed where asked (B10)."""

import sys
import tempfile
from pathlib import Path

from bench.rows import Measured
from gangline_lab.policyfile import Rules
from gangline_lab.replay import replay
from gangline_lab.sim.courses import Courses
from gangline_lab.sim.engine import Progress, RunResult, Scenario, simulate
from gangline_lab.sim.fleet import read_fleet
from gangline_lab.sim.workload import Input, Workload

TOLD_PARTS = 20


class Told:
    """Tells on stderr how far a long run is, a line for each twentieth of its jobs."""

    def __init__(self) -> None:
        """Nothing told yet."""
        self._told = 0

    def __call__(self, over: int, total: int) -> None:
        """So many jobs of so many are over."""
        if over * TOLD_PARTS >= (self._told + 1) * total:
            self._told = over * TOLD_PARTS // total
            print(f"    {over:,} of {total:,} jobs are over", file=sys.stderr, flush=True)


def run_of(
    trace: Workload,
    cluster: str,
    rules: Rules,
    courses: Courses | None = None,
    archive: Path | None = None,
    inputs: tuple[Input, ...] = (),
    *,
    progress: Progress | None = None,
) -> RunResult:
    """What became of the trace on a cluster such as "16x4xT4" under these rules; an `archive` records it."""
    scenario = Scenario(
        trace=trace,
        fleet=read_fleet(cluster),
        policies=rules.policies,
        conditions=rules.conditions,
        groups=rules.groups,
        courses=courses,
        inputs=inputs,
    )
    return simulate(scenario, archive=archive, progress=progress)


def replayed_run_of(
    trace: Workload,
    cluster: str,
    rules: Rules,
    courses: Courses | None = None,
    *,
    name: str,
    inputs: tuple[Input, ...] = (),
) -> tuple[RunResult, Measured]:
    """The same, recorded; and whether what was recorded comes out again to the byte from the log alone."""
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / "archive"
        result = run_of(trace, cluster, rules, courses, archive, inputs)
        differs = not replay(archive).equal
    return result, Measured(name=f"B10.differences.{name}", value=int(differs), unit="", better="lower")

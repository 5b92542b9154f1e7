"""One simulated run of a paper's page, as all benchmarks of papers make it; recorded and replayed where asked (B10)."""

import tempfile
from pathlib import Path

from bench.rows import Measured
from gangline_lab.policyfile import Rules
from gangline_lab.replay import replay
from gangline_lab.sim.courses import Courses
from gangline_lab.sim.engine import RunResult, Scenario, simulate
from gangline_lab.sim.fleet import read_fleet
from gangline_lab.sim.workload import Input, Workload


def run_of(
    trace: Workload,
    cluster: str,
    rules: Rules,
    courses: Courses | None = None,
    archive: Path | None = None,
    inputs: tuple[Input, ...] = (),
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
    return simulate(scenario, archive=archive)


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

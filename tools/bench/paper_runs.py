"""One simulated run of a paper's page, as all benchmarks of papers make it."""

from pathlib import Path

from gangline_lab.policyfile import Rules
from gangline_lab.sim.courses import Courses
from gangline_lab.sim.engine import RunResult, Scenario, simulate
from gangline_lab.sim.fleet import read_fleet
from gangline_lab.sim.workload import Workload


def run_of(
    trace: Workload, cluster: str, rules: Rules, courses: Courses | None = None, archive: Path | None = None
) -> RunResult:
    """What became of the trace on a cluster such as "16x4xT4" under these rules; an `archive` records it."""
    scenario = Scenario(
        trace=trace,
        fleet=read_fleet(cluster),
        policies=rules.policies,
        conditions=rules.conditions,
        groups=rules.groups,
        courses=courses,
    )
    return simulate(scenario, archive=archive)

"""Optimus on Pollux's workloads: rigid batches, any number of GPUs, sizes by marginal gain, as its artefact has it.

Jobs know their speed by size from a profile, and what is left of them from an oracle: both are told with the first
report. The artefact leaves the epoch under way out of what is left, and takes one update at least; jobs in their
last epoch therefore get no more than their least. `is_exact` tells all that is left.
"""

from bisect import bisect_left
from pathlib import Path

from msgspec.structs import replace

from bench.pollux_lab import GPUS, NODES, PER_NODE, RESTART_S
from bench.pollux_whole import Reporting
from gangline_core.sizes.progress import Point, Progress
from gangline_core.spec import Elastic, JobSpec, ResizeKind
from gangline_lab.policyfile import Rules
from gangline_lab.readers.pollux import read_pollux
from gangline_lab.sim.courses import Course, Held, time_left_ms
from gangline_lab.sim.engine import RunResult, Scenario
from gangline_lab.sim.fleet import read_fleet
from gangline_lab.sim.goodput import Application, Profiles, Progressing
from gangline_lab.sim.journal import Journal
from gangline_lab.sim.workload import Arrival, Work

PROFILED = (*range(1, 17), 20, 24, 28, 32, 40, 48, 64)
"""Sizes whose step times a job knows beforehand."""


class Foretold(Progressing):
    """The progress of one job that says its profile, and what is left of it."""

    def __init__(self, application: Application, batch_size: int, *, is_exact: bool) -> None:
        """Nothing told yet."""
        super().__init__(application, batch_size)
        self._profile = application
        self._batch = batch_size
        self._ends = application.ends
        self._is_exact = is_exact
        self._is_known = False

    def tell(self, done: int, held: Held) -> Progress:
        """What it reports: at first the whole profile, then only where it is."""
        start = done if self._is_exact else self._ends[bisect_left(self._ends, done + 1)]
        points = () if self._is_known else tuple(self._point(_spread(size)) for size in PROFILED if size <= self.most)
        self._is_known = True
        return Progress(
            permille=min(999, 1000 * done // self.total),
            remaining_s=max(1, time_left_ms(self, held, done=start) // 1000),
            points=(*points, self._point(held.per_node)),
        )

    @property
    def most(self) -> int:
        """The largest size at which every member has a batch of its own."""
        return most_of(self._profile, self._batch)

    def _point(self, per_node: tuple[int, ...]) -> Point:
        size = sum(per_node)
        local, gathered = self._profile.local(self._batch, size)
        step_s, sync_s = self._profile.times(per_node, local)
        seconds = step_s + (step_s - sync_s) * gathered
        return Point(len(per_node), size, local, gathered, max(1, round(seconds * 1e6)))


class ForetoldProfiles(Profiles):
    """Jobs that say their profile, by application."""

    def __init__(self, applications: dict[str, Application], *, is_exact: bool = False) -> None:
        """By name."""
        super().__init__(applications)
        self._is_exact = is_exact

    def course(self, spec: JobSpec, work: Work) -> Course:
        """The job's progress."""
        return Foretold(self.applications[work.row], work.batch_size, is_exact=self._is_exact)


def optimus_run(path: Path, profiles: ForetoldProfiles, rules: Rules, archive: Path | None = None) -> RunResult:
    """What became of a workload whose jobs may have any size and report each minute; an `archive` records it."""
    trace = read_pollux(path)
    arrivals = tuple(elastic(one, profiles.applications[one.work.row]) for one in trace.arrivals)
    scenario = Scenario(
        trace=replace(trace, arrivals=arrivals),
        fleet=read_fleet(f"{NODES}x{PER_NODE}xT4"),
        policies=rules.policies,
        conditions=rules.conditions,
        courses=profiles,
    )
    with Journal(archive) as journal:
        simulation = Reporting(scenario, journal)
        simulation.run()
        return simulation.result()


def elastic(arrival: Arrival, application: Application) -> Arrival:
    """The same job with any size that leaves every member a batch of its own."""
    [role] = arrival.spec.roles
    role = replace(role, count=1, min_count=1, max_count=most_of(application, arrival.work.batch_size))
    attributes = {
        **arrival.spec.attributes,
        "batch_member_max": application.local_max,
        "accumulates": True,
    }
    terms = Elastic(kind=ResizeKind.RESTART, cost_s=RESTART_S)
    return replace(arrival, spec=replace(arrival.spec, roles=(role,), attributes=attributes, elastic=terms))


def most_of(application: Application, batch_size: int) -> int:
    """The largest size at which every member has a batch of its own."""
    return max(1, min(GPUS, batch_size // application.local_min))


def _spread(size: int) -> tuple[int, ...]:
    return tuple(min(PER_NODE, size - k) for k in range(0, size, PER_NODE))

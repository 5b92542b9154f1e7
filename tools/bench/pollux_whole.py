"""Pollux's workloads through the whole scheduler: the door, rounds, the default policy for sizes, restarts, the log.

What is simulated is only machines and jobs. Jobs are of kind `restart`, may have from one GPU to all of them in whole
nodes, choose their batches by what they know of themselves, and report each minute, as the contract for elastic jobs
has it; speeds and gradients are those of the paper's profiles, as everywhere else here.
"""

from bisect import bisect_left
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
from msgspec.structs import replace

from bench.pollux_lab import GPUS, NODES, NODES_MOST, PER_NODE, RESTART_S, TICK_S
from gangline_core import facts as f
from gangline_core.cluster import Policy
from gangline_core.elasticity.fit import fitted
from gangline_core.elasticity.goodput import Grad, Limits, Perf, optimise
from gangline_core.elasticity.pollux import configurations
from gangline_core.job import JobState
from gangline_core.sizes.progress import MILLION, POINTS_MAX, Point, Progress
from gangline_core.spec import Elastic, JobSpec, ResizeKind
from gangline_lab.policyfile import Rules
from gangline_lab.readers.pollux import read_pollux
from gangline_lab.sim.conditions import Conditions
from gangline_lab.sim.courses import STEP_UNIT, Course, Held, Leg, advance
from gangline_lab.sim.engine import BEGIN_MS, RunResult, Scenario, Simulation
from gangline_lab.sim.fleet import read_fleet
from gangline_lab.sim.goodput import Application, Profiles
from gangline_lab.sim.journal import Journal
from gangline_lab.sim.workload import Arrival, Work


@runtime_checkable
class Telling(Protocol):
    """A course whose job reports."""

    def tell(self, done: int, held: Held) -> Progress:
        """What it reports."""


class Remembering(Application):
    """A profile that works out each placement's times once."""

    def __init__(self, folder: Path) -> None:
        """Reads the folder."""
        super().__init__(folder)
        self._known: dict[tuple[tuple[int, ...], int], tuple[float, float]] = {}

    def times(self, per_node: tuple[int, ...], local_bsz: int) -> tuple[float, float]:
        """Seconds of a step and of its synchronisation on so many GPUs of each node."""
        key = (per_node, local_bsz)
        if key not in self._known:
            self._known[key] = super().times(per_node, local_bsz)
        return self._known[key]


class Adapting:
    """The progress of one job that chooses its batch by the step times and gradients that it has seen."""

    def __init__(self, application: Application) -> None:
        """Nothing seen yet."""
        self.application = application
        self.total = application.ends[-1]
        self.points: dict[tuple[int, int, int, int], Point] = {}
        self.perf: Perf | None = None
        self.grad = Grad()
        self._batches: dict[tuple[int, int], int] = {}

    @property
    def limits(self) -> Limits:
        """Batches it may use."""
        one = self.application
        return Limits(one.first_batch, one.batch_max, one.local_min, one.local_max, accumulates=True)

    def epoch(self, done: int) -> int:
        """The epoch under way."""
        return min(bisect_left(self.application.ends, done + 1), len(self.application.ends) - 1)

    def batch(self, held: Held) -> int:
        """Samples of one update."""
        key = (len(held.per_node), held.size)
        if key not in self._batches:
            if self.perf is None:
                return max(self.application.first_batch, self.application.local_min * held.size)
            best = optimise(self.perf, self.grad, self.limits, *key)
            self._batches[key] = int(held.size * best.local[0] * (best.gathered[0] + 1))
        return self._batches[key]

    def leg(self, done: int, held: Held) -> Leg:
        """The goodput of the epoch that is under way."""
        epoch = self.epoch(done)
        rate = self.application.goodput(held.per_node, self.batch(held), epoch)
        return Leg(self.application.ends[epoch], max(1, round(rate * STEP_UNIT / 1000)))

    def tell(self, done: int, held: Held) -> Progress:
        """What it reports, and learns for itself."""
        epoch, total = self.epoch(done), self.batch(held)
        rate = self.application.goodput(held.per_node, total, epoch)
        local, gathered = self.application.local(total, held.size)
        step_s, sync_s = self.application.times(held.per_node, local)
        seconds = step_s + (step_s - sync_s) * gathered
        point = Point(len(held.per_node), held.size, local, gathered, max(1, round(seconds * 1e6)))
        sqr, var = self.application.gradient(total, epoch)
        noise = min(var / sqr if sqr > 0 else 1e9, 1e9)
        key = (point.nodes, point.members, point.batch.bit_length(), point.gathered)
        if key not in self.points:
            self.points[key] = point
            while len(self.points) > POINTS_MAX:
                del self.points[next(iter(self.points))]
            self.perf = fitted(tuple(self.points.values()))
        self.grad = Grad(sqr=1.0, var=noise)
        self._batches.clear()
        return Progress(
            permille=min(999, 1000 * done // self.total),
            remaining_s=max(0, round((self.total - done) / STEP_UNIT / rate)),
            points=(self.points[key],),
            grad_sqr=MILLION,
            grad_var=round(noise * MILLION),
        )


class AdaptingProfiles(Profiles):
    """Jobs that adapt, by application."""

    def course(self, spec: JobSpec, work: Work) -> Course:
        """The job's progress."""
        return Adapting(self.applications[work.row])


class Reporting(Simulation):
    """A simulation whose jobs report each minute."""

    def _decide(self, pool: str) -> None:
        if (self.now - BEGIN_MS) % (1000 * TICK_S) == 0:
            self._report()
            self.events.look(self.now + 1000 * TICK_S)
        super()._decide(pool)

    def _report(self) -> None:
        said: list[f.Fact] = []
        for job_id, run in sorted(self.agents.runs.items()):
            job = self.state.job(job_id)
            if job is None or job.state != JobState.RUNNING or not isinstance(run.course, Telling):
                continue
            if run.held is None or self.now <= run.ready_ms:
                continue
            run.count(self.now)
            said.append(f.ProgressReported(job=job_id, progress=run.course.tell(run.done, run.held)))
            # It may go on with another batch from here: what was foreseen of its end is void. Before the next report
            # nobody has to know more than whether it ends by then.
            run.version += 1
            if advance(run.course, run.held, done=run.done, ms=1000 * TICK_S) >= run.course.total:
                self.agents.foresee(job, run)
        self.tell("telemetry", said)


def elastic(arrival: Arrival, application: Application) -> Arrival:
    """The same job with any size that can be placed, and what it says of its batches."""
    most = application.batch_max // application.local_min
    sizes = tuple(size for size in configurations(PER_NODE, NODES_MOST) if size <= most)
    [role] = arrival.spec.roles
    role = replace(role, count=1, min_count=1, max_count=sizes[-1], sizes=sizes)
    attributes = {
        "model": application.name,
        "batch_size": application.first_batch,
        "batch_size_max": application.batch_max,
        "batch_member_min": application.local_min,
        "batch_member_max": application.local_max,
        "accumulates": True,
    }
    terms = Elastic(kind=ResizeKind.RESTART, cost_s=RESTART_S)
    return replace(arrival, spec=replace(arrival.spec, roles=(role,), attributes=attributes, elastic=terms))


def whole_mean_completion_s(
    path: Path, applications: dict[str, Application], policy: Policy | None = None, *, jobs_most: int = 0
) -> float:
    """Mean time from arrival to end under a policy, the default one if none is named; of the first jobs if so many."""
    rules = Rules(
        name="default",
        policies={"default": policy or Policy()},
        conditions=Conditions(round_s=TICK_S, start_s=RESTART_S, restart_s=RESTART_S),
    )
    result = whole_run(path, applications, rules, jobs_most=jobs_most)
    return float(np.mean([record.jct_ms for record in result.jobs]) / 1000)


def whole_run(
    path: Path,
    applications: dict[str, Application],
    rules: Rules,
    archive: Path | None = None,
    *,
    jobs_most: int = 0,
) -> RunResult:
    """What became of a workload, or of its first jobs if so many; an `archive` records it."""
    trace = read_pollux(path)
    arrivals = tuple(elastic(arrival, applications[arrival.work.row]) for arrival in trace.arrivals)
    scenario = Scenario(
        trace=replace(trace, arrivals=arrivals[: jobs_most or len(arrivals)]),
        fleet=read_fleet(f"{NODES}x{PER_NODE}xT4"),
        policies=rules.policies,
        conditions=rules.conditions,
        courses=AdaptingProfiles(applications),
    )
    assert GPUS == NODES * PER_NODE
    with Journal(archive) as journal:
        simulation = Reporting(scenario, journal)
        simulation.run()
        return simulation.result()

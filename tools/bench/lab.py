"""The lab: simulated jobs per second through the code that decides in production, memory, growth, and replay.

The quick run takes the first weeks of the Philly trace, the full one (`--full`) all of its 82,247 jobs. Times are CPU
times of this process, so that other work on the machine counts little.
"""

import resource
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

from msgspec.structs import replace

from bench.rows import Baseline, Measured
from gangline_core.cluster import Policy
from gangline_lab.readers import read_trace
from gangline_lab.replay import ReplayReport, replay
from gangline_lab.sim.conditions import Conditions
from gangline_lab.sim.engine import RunResult, Scenario, simulate
from gangline_lab.sim.fleet import read_fleet
from gangline_lab.sim.workload import Arrival, Workload, cut

PHILLY = Path(__file__).parent / "data" / "philly" / "philly.csv.gz"
CLUSTER = "64x8xV100"
FORMULA = Policy(candidates_per_shape=4, candidates_max=300)
"""The default formula; a round looks at the first four jobs of each kind, as those behind them cannot fare better."""
ROUNDS = Conditions(round_s=60)
"""A decision each simulated minute, as the simulators of the papers take it."""
OFTEN = Conditions(round_s=2)
"""A decision every two seconds, as a platform that decides whenever something happens would take about as many."""
DAY_MS = 86_400_000
DAY_JOBS = 50_000
CROWDED = 2_000
"""Jobs whose last are a crowded week; played once, and twice one after the other."""
ALL = 82_247
REPLAYED = 600
PEERS = {"Blox, LAS on 101 jobs": 101 / 98, "Pollux, Tiresias on 160 jobs": 160 / 85, "Muri, SRTF on 992 jobs": 992 / 3}
"""Simulated jobs per second of published simulators, each on its own trace and on one core of this class."""


async def measure() -> AsyncIterator[Measured]:
    """Speed on the first jobs of the trace, growth from these to twice as many as crowded, memory, replay."""
    trace = read_trace(f"philly:{PHILLY}")
    crowded = cut(trace, jobs=CROWDED)
    small, _ = _timed(crowded)
    large, result = _timed(_twice(crowded))
    for name, rate in PEERS.items():
        yield Measured(name=f"peer.{name}", value=rate, unit="jobs/s")
    peer = Baseline(name="Pollux, Tiresias on 160 jobs", value=PEERS["Pollux, Tiresias on 160 jobs"])
    yield Measured(name="simulated_jobs", value=len(result.jobs) / large, unit="jobs/s", baseline=peer)
    yield Measured(name="decided_rounds", value=result.rounds / large, unit="rounds/s")
    yield Measured(
        name="growth",
        value=large / small,
        unit="x",
        better="lower",
        baseline=Baseline(name="twice the jobs", value=2),
    )
    yield Measured(name="memory", value=_peak_mib(), unit="MiB", better="lower")
    for row in _replayed(cut(trace, jobs=REPLAYED)):
        yield row


async def measure_full() -> AsyncIterator[Measured]:
    """The whole trace as well."""
    async for row in measure():
        yield row
    spent, result = _timed(read_trace(f"philly:{PHILLY}"))
    yield Measured(name="whole_trace", value=spent, unit="s", better="lower")
    yield Measured(name="whole_trace.jobs", value=len(result.jobs) / spent, unit="jobs/s")
    yield Measured(name="whole_trace.memory", value=_peak_mib(), unit="MiB", better="lower")
    for row in _replayed(day(read_trace(f"philly:{PHILLY}"), DAY_JOBS), OFTEN, name="replay.day"):
        yield row


def _timed(trace: Workload, archive: Path | None = None, conditions: Conditions = ROUNDS) -> tuple[float, RunResult]:
    scenario = Scenario(trace=trace, fleet=read_fleet(CLUSTER), policies={"default": FORMULA}, conditions=conditions)
    begun = time.process_time()
    result = simulate(scenario, archive=archive)
    return time.process_time() - begun, result


def _twice(trace: Workload) -> Workload:
    """The same jobs again when all are over, so that the load is the same and only the length is twice as large."""
    span_ms = trace.arrivals[-1].at_ms + sum(one.work.run_ms for one in trace.arrivals if one.work.run_ms)
    again = [replace(one, at_ms=one.at_ms + span_ms) for one in trace.arrivals]
    return replace(trace, arrivals=(*trace.arrivals, *again))


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _replayed(trace: Workload, conditions: Conditions = ROUNDS, *, name: str = "replay") -> list[Measured]:
    """A recorded run and its replay, whole: chain, fold, every decision again, byte by byte.

    The run that the archive records took the days which it covers; the simulation that wrote the archive took CPU time
    for the same decisions. The replay stands beside both.
    """
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / "archive"
        recorded, result = _timed(trace, archive, conditions)
        spent, report = _replay(archive)
    covered_s = result.end_ms / 1000
    return [
        Measured(name=f"{name}.differences", value=0 if report.equal else 1, unit="", better="lower"),
        Measured(name=f"{name}.of_recorded_time", value=covered_s / spent, unit="x"),
        Measured(
            name=f"{name}.of_simulation",
            value=spent,
            unit="s",
            better="lower",
            baseline=Baseline(name="the simulation that decided the same", value=recorded),
        ),
        Measured(name=f"{name}.messages", value=report.messages / spent, unit="messages/s"),
        Measured(name=f"{name}.seconds", value=spent, unit="s", better="lower"),
    ]


def _replay(archive: Path) -> tuple[float, ReplayReport]:
    begun = time.process_time()
    report = replay(archive)
    return time.process_time() - begun, report


def day(trace: Workload, jobs: int) -> Workload:
    """One day with so many jobs: the trace's own, arriving and running faster by one factor."""
    chosen = cut(trace, jobs=jobs)
    factor = DAY_MS / max(1, chosen.arrivals[-1].at_ms)
    return replace(chosen, arrivals=tuple(_faster(one, factor) for one in chosen.arrivals))


def _faster(arrival: Arrival, factor: float) -> Arrival:
    run_ms = max(1_000, round(arrival.work.run_ms * factor))
    cancel_ms = round(arrival.work.cancel_ms * factor)
    return replace(
        arrival,
        at_ms=round(arrival.at_ms * factor),
        spec=replace(arrival.spec, estimate_s=max(1, run_ms // 1000)),
        work=replace(arrival.work, run_ms=run_ms, cancel_ms=cancel_ms),
    )

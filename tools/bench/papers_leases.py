"""B4 and B5: the tables of Shockwave (NSDI 2023) and Gavel (OSDI 2020), whose policies lend room for a time.

- B4: 120 jobs with changing batch sizes on 32 GPUs, leases of 120 s; rho is JCT over the time that the job was foreseen
  to need alone, times jobs per GPU; unfair is who has more than 1.1.
- B5: the physical cluster of 8 V100, 16 P100 and 24 K80, leases of 360 s.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from bench.paper_runs import replayed_run_of, run_of
from bench.rows import Baseline, Measured
from gangline_lab.metrics import measure
from gangline_lab.policyfile import read_policy
from gangline_lab.readers import read_trace
from gangline_lab.sim.engine import RunResult
from gangline_lab.sim.throughput import Throughputs, read_throughputs
from gangline_lab.sim.workload import Workload

DATA = Path(__file__).parent / "data"
PAGES = Path(__file__).parents[2] / "policies" / "papers"
UNFAIR = 1.1
RECORDED = ("shockwave-gangline", "gavel-max-min")
"""Pages whose runs are always recorded and replayed."""


class Published(Struct, frozen=True):
    """What the artefact gave."""

    makespan_s: float
    jct_s: float
    worst_rho: float = 0.0
    unfair: float = 0.0
    """Per cent of the jobs."""


SHOCKWAVE = {
    "max-min": Published(33_207.7, 11_274.1, 2.947, 21.7),
    "min-total-duration": Published(24_204.8, 19_806.7, 7.741, 71.7),
    "gandiva-fair": Published(32_367.4, 12_574.3, 1.854, 43.3),
    "max-sum-throughput": Published(31_909.0, 9_654.7, 4.976, 22.5),
    "themis": Published(31_928.7, 11_302.0, 3.438, 17.5),
}
OWN = ("fifo", "srpt", "gangline")
"""Pages without a published row; what they are put beside is Shockwave itself."""
BEST = Published(24_197.4, 9_958.5, 1.784, 5.0)
GAVEL = {
    "gavel-max-min": ("max_min_fairness", Published(61_596.0, 13_766.0)),
    "gavel-water-filling": ("max_min_fairness", Published(61_596.0, 13_766.0)),
    "gavel-makespan": ("minimize_makespan", Published(62_657.1, 61_380.0)),
    "gavel-las": ("max_min_fairness", Published(70_920.0, 18_705.4)),
}
CLUSTER_32, CLUSTER_48 = "1x32xV100", "1x8xV100,1x16xP100,1x24xK80"


def shockwave(pages: Sequence[str], *, is_replayed: bool = False) -> Iterator[Measured]:
    """B4 for these pages."""
    trace = read_trace(f"shockwave:{DATA / 'shockwave' / '120.trace'}")
    table = read_throughputs(DATA / "shockwave" / "tacc_throughputs.json.gz")
    for page in pages:
        known = SHOCKWAVE.get(page)
        name = f"shockwave-{page}"
        run, replayed = _run(trace, table, name, CLUSTER_32, is_replayed=is_replayed or name in RECORDED)
        found = outcome(run, trace, table)
        source = "Shockwave artefact" if known else "Shockwave's own policy"
        beside = known or BEST
        yield from _rows(f"B4.{page}", found, beside, source)
        yield from replayed
        if known:
            for name, value, published in (
                ("makespan", found.makespan_s, known.makespan_s),
                ("jct", found.jct_s, known.jct_s),
            ):
                yield off(f"B4.off.{page}.{name}", value, published)


def gavel(pages: Sequence[str], *, is_replayed: bool = False) -> Iterator[Measured]:
    """B5 for these pages."""
    table = read_throughputs(DATA / "gavel" / "physical_cluster_throughputs.json.gz")
    for page in pages:
        name, published = GAVEL[page]
        trace = read_trace(f"gavel:{DATA / 'gavel' / f'{name}.trace'}")
        run, replayed = _run(trace, table, page, CLUSTER_48, is_replayed=is_replayed or page in RECORDED)
        metrics = measure(run)
        is_makespan = name == "minimize_makespan"
        value = metrics.makespan_s if is_makespan else metrics.jct_s.mean
        known = published.makespan_s if is_makespan else published.jct_s
        for what, own, theirs in (
            ("makespan", metrics.makespan_s, published.makespan_s),
            ("jct", metrics.jct_s.mean, published.jct_s),
        ):
            beside = Baseline(name="Gavel artefact", value=theirs)
            yield Measured(name=f"B5.{page}.{what}", value=own, unit="s", better="lower", baseline=beside)
        yield off(f"B5.off.{page}", value, known)
        yield from replayed


def outcome(result: RunResult, trace: Workload, table: Throughputs) -> Published:
    """Our numbers in the terms of the artefact."""
    own = table.among(result.gpus)
    crowd = max(1.0, len(trace.arrivals) / sum(result.gpus.values()))
    alone_s = [own.foreseen_s(one.spec, one.work) for one in trace.arrivals]
    rhos = [job.jct_ms / 1000 / (alone_s[job.number] * crowd) for job in result.jobs]
    metrics = measure(result)
    unfair = 100 * sum(rho > UNFAIR for rho in rhos) / len(rhos)
    return Published(metrics.makespan_s, metrics.jct_s.mean, max(rhos), unfair)


def _run(
    trace: Workload, table: Throughputs, page: str, cluster: str, *, is_replayed: bool
) -> tuple[RunResult, list[Measured]]:
    """The run, and where it is recorded whether that replays to the byte (B10)."""
    rules = read_policy(PAGES / f"{page}.yaml")
    if not is_replayed:
        return run_of(trace, cluster, rules, table), []
    result, row = replayed_run_of(trace, cluster, rules, table, name=page)
    return result, [row]


def _rows(name: str, found: Published, beside: Published, source: str) -> Iterator[Measured]:
    for what, unit, value, published in (
        ("makespan", "s", found.makespan_s, beside.makespan_s),
        ("jct", "s", found.jct_s, beside.jct_s),
        ("worst_rho", "", found.worst_rho, beside.worst_rho),
        ("unfair", "%", found.unfair, beside.unfair),
    ):
        yield Measured(
            name=f"{name}.{what}",
            value=value,
            unit=unit,
            better="lower",
            baseline=Baseline(name=source, value=published),
        )


def off(name: str, value: float, published: float) -> Measured:
    """How far a value is from the published one."""
    return Measured(
        name=name,
        value=abs(value / published - 1) * 100,
        unit="% off",
        better="lower",
        baseline=Baseline(name="published", value=published),
    )

"""B6 and B9: gangs on Muri's traces, and spot jobs that live on what guaranteed ones leave.

- B6: Muri (SIGCOMM 2022), traces 3 and 1 on 64 GPUs. Only ratios count: the published simulator charges every running
  job at every event. Leases of ten minutes stand for its decisions at every arrival and end. Muri-S shares GPUs.
- B9: jobs of Alibaba's openb list by their class of service (best effort is spot) on 12 GPUs, whoever is guaranteed
  evicting spot jobs; without a quota for spot jobs, and with one for every half hour, forecast from what the others
  hold then and took on top in earlier ones, in the manner of GFS (ASPLOS 2026), whose own rows are about a cluster of
  10,000 GPUs.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from msgspec.structs import replace

from bench.paper_runs import replayed_run_of, run_of
from bench.papers_leases import off
from bench.papers_philly import only_counted
from bench.rows import Baseline, Measured
from gangline_core.facts import GroupSet
from gangline_core.groups import Group
from gangline_core.spec import GPU_MILLI, ServiceClass, gpu_milli_wanted
from gangline_lab.metrics import HOUR_GPU_MS, measure
from gangline_lab.policyfile import read_policy
from gangline_lab.readers import read_trace
from gangline_lab.sim.collect import JobRecord
from gangline_lab.sim.engine import RunResult
from gangline_lab.sim.workload import Arrival, Input, Workload, cut

DATA = Path(__file__).parent / "data"
PAGES = Path(__file__).parents[2] / "policies" / "papers"
MURI_CLUSTER, SPOT_CLUSTER, SPOT_GPUS = "8x8xV100", "1x12xV100", 12
MURI = {
    "trace3": {"muri-srtf": 193_081.8, "muri-srsf": 185_021.9, "muri-las": 347_213.2, "muri-s": 83_242.5},
    "trace1": {"muri-srtf": 1_370_603.2, "muri-srsf": 980_140.6, "muri-las": 3_330_371.3},
}
"""Mean JCT in s of the published simulator, by trace and policy; of these only ratios to its SRTF are barred."""
COUNTED = ("muri-srtf", "muri-las")
MURI_SLOWER = 1.015
"""The published simulator takes every iteration to last so many times as long as its trace says."""
SPOT = "be"
"""The group of best-effort pods."""
SPOT_PAGE = PAGES / "spot.yaml"
QUANTILE, INTERVAL_MS = 75, 30 * 60_000
SPOT_JOBS = 450


def muri(traces: Sequence[str], *, is_replayed: bool = False) -> Iterator[Measured]:
    """B6 on these traces."""
    for name in traces:
        path = next((DATA / "muri").glob(f"{name}.csv*"))
        trace = slower(read_trace(f"muri:{path}"), MURI_SLOWER)
        means: dict[str, float] = {}
        for page, published in MURI[name].items():
            rules = read_policy(PAGES / f"{page}.yaml")
            if is_replayed:
                run, row = replayed_run_of(trace, MURI_CLUSTER, rules, name=f"{name}.{page}")
                yield row
            else:
                run = run_of(trace, MURI_CLUSTER, rules)
            means[page] = measure(run).jct_s.mean
            known = Baseline(name="Muri artefact", value=published)
            yield Measured(name=f"B6.{name}.{page}.jct", value=means[page], unit="s", better="lower", baseline=known)
        yield from _ratios(name, means)
        if is_replayed:
            yield from _counted(name, trace)


def _counted(name: str, trace: Workload) -> Iterator[Measured]:
    """Attained service over SRTF where GPUs are only counted, as the published loop does."""
    means: dict[str, float] = {}
    for page in COUNTED:
        means[page] = measure(run_of(trace, MURI_CLUSTER, only_counted(read_policy(PAGES / f"{page}.yaml")))).jct_s.mean
        known = Baseline(name="Muri artefact", value=MURI[name][page])
        yield Measured(
            name=f"B6.counted.{name}.{page}.jct", value=means[page], unit="s", better="lower", baseline=known
        )
    (srtf, las), (its_srtf, its_las) = ([of[page] for page in COUNTED] for of in (means, MURI[name]))
    yield off(f"B6.off.counted.{name}.muri-las", las / srtf, its_las / its_srtf)


def _ratios(name: str, means: dict[str, float]) -> Iterator[Measured]:
    """What the policies take of SRTF's mean JCT, and how far that is from the published ratio."""
    srtf = "muri-srtf"
    for page in [one for one in MURI[name] if one != srtf]:
        value, published = means[page] / means[srtf], MURI[name][page] / MURI[name][srtf]
        known = Baseline(name="Muri artefact", value=published)
        yield Measured(name=f"B6.{name}.{page}.over.srtf", value=value, unit="", better="lower", baseline=known)
        yield off(f"B6.off.{name}.{page}", value, published)


def slower(trace: Workload, factor: float) -> Workload:
    """The same jobs, each with so many times the run time."""
    arrivals = (replace(one, work=replace(one.work, run_ms=round(one.work.run_ms * factor))) for one in trace.arrivals)
    return replace(trace, arrivals=tuple(arrivals))


def spot(*, is_replayed: bool = False) -> Iterator[Measured]:
    """B9, the part about spot jobs."""
    trace = cut(read_trace(f"openb:{DATA / 'openb_qos.csv.gz'}"), jobs=SPOT_JOBS)
    others = replace(trace, arrivals=tuple(one for one in trace.arrivals if not _is_spot(one)))
    alone = _spot_run(others)
    free = _spot_run(trace)
    quotas = spot_quotas(others.arrivals)
    bounded = _spot_run(trace, quotas)
    if is_replayed:
        yield replayed_run_of(trace, SPOT_CLUSTER, read_policy(SPOT_PAGE), name="spot", inputs=quotas)[1]
    exclusive = Baseline(name="without spot jobs", value=_jct_s(_of(alone, is_spot=False)))
    for name, run in (("free", free), ("quota", bounded)):
        value = _jct_s(_of(run, is_spot=False))
        yield Measured(name=f"B9.guaranteed.jct.{name}", value=value, unit="s", better="lower", baseline=exclusive)
    done = Baseline(name="without spot jobs", value=_hours(alone))
    yield Measured(name="B9.work", value=_hours(bounded), unit="GPU-hours", better="higher", baseline=done)
    evicted, waited = (_evictions(_of(free, is_spot=True)), _wait_s(_of(free, is_spot=True)))
    yield Measured(
        name="B9.evictions",
        value=_evictions(_of(bounded, is_spot=True)),
        unit="per 100 spot jobs",
        better="lower",
        baseline=Baseline(name="without a quota", value=evicted),
    )
    yield Measured(
        name="B9.spot_wait",
        value=_wait_s(_of(bounded, is_spot=True)),
        unit="s",
        better="lower",
        baseline=Baseline(name="without a quota", value=waited),
    )


def spot_quotas(others: Sequence[Arrival]) -> tuple[Input, ...]:
    """The quota of spot jobs for each interval: what the others hold at its beginning and are likely to take is theirs.

    What they take on top in an interval is known of those before it; three of four stayed within what is left to them.
    Each of them counts as running from when it comes.
    """
    begin = np.array([one.at_ms for one in others])
    end = np.array([one.at_ms + one.work.run_ms for one in others])
    milli = np.array([gpu_milli_wanted(one.spec) for one in others])

    def held(moment: int) -> int:
        return int(milli[(begin <= moment) & (moment < end)].sum())

    quotas: list[Input] = []
    rises: list[int] = []
    over = int(begin[-1]) // INTERVAL_MS * INTERVAL_MS + INTERVAL_MS
    for start in range(0, over, INTERVAL_MS):
        now, until = held(start), start + INTERVAL_MS
        likely = round(float(np.percentile(rises, QUANTILE))) if rises else 0
        limit = {"gpu_milli": max(GPU_MILLI, SPOT_GPUS * GPU_MILLI - now - likely)}
        quotas.append(Input(start, "admission", GroupSet(group=Group(path=SPOT, limit=limit), by="forecast")))
        rises.append(max(held(int(moment)) for moment in (start, *begin[(start < begin) & (begin < until)])) - now)
    return (*quotas, Input(over, "admission", GroupSet(group=Group(path=SPOT), by="forecast")))


def _is_spot(one: Arrival) -> bool:
    return one.spec.service_class == ServiceClass.OPPORTUNISTIC


def _spot_run(trace: Workload, quotas: tuple[Input, ...] = ()) -> RunResult:
    return run_of(trace, SPOT_CLUSTER, read_policy(SPOT_PAGE), inputs=quotas)


def _of(run: RunResult, *, is_spot: bool) -> list[JobRecord]:
    return [job for job in run.jobs if (job.group == SPOT) == is_spot]


def _jct_s(jobs: Sequence[JobRecord]) -> float:
    return float(np.mean([job.jct_ms / 1000 for job in jobs if job.ended_ms >= 0]))


def _wait_s(jobs: Sequence[JobRecord]) -> float:
    return float(np.mean([job.waited_ms / 1000 for job in jobs]))


def _evictions(jobs: Sequence[JobRecord]) -> float:
    return 100 * sum(job.preemptions for job in jobs) / max(1, len(jobs))


def _hours(run: RunResult) -> float:
    return sum(job.useful_gpu_ms for job in run.jobs) / HOUR_GPU_MS

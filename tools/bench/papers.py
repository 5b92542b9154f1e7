"""Published results beside ours: the baselines reproduced first, then our default policy on the same inputs.

Every number of ours comes from the lab's simulator, that is from the code that decides in production, under the policy
pages of policies/papers. A row's baseline is the published value; why they differ stands in docs/lab.md.

- B2: the eight workloads of Pollux (OSDI 2021), rigid: 16 nodes of 4 GPUs, 60 s rounds, 30 s for a start.
- B4 and B5: the tables of Shockwave and Gavel, whose policies lend room for a time (see papers_leases).
- B7: the Philly trace on 512 GPUs (the waits of its first weeks; `--full` takes all of it, GPUs only counted, and 640).
- B10: everything above is recorded, and what was recorded replays to the byte.
"""

import tempfile
from collections.abc import AsyncIterator, Iterator
from itertools import chain
from pathlib import Path

from msgspec.structs import replace

from bench.paper_runs import run_of
from bench.papers_leases import OWN, SHOCKWAVE, gavel, shockwave
from bench.rows import Baseline, Measured
from gangline_lab.metrics import measure as metrics_of
from gangline_lab.policyfile import Rules, read_policy
from gangline_lab.readers import read_trace
from gangline_lab.replay import replay
from gangline_lab.sim.goodput import read_profiles
from gangline_lab.sim.workload import cut

DATA = Path(__file__).parent / "data"
PAGES = Path(__file__).parents[2] / "policies" / "papers"
WORKLOADS = range(1, 9)
TIRESIAS = {1: 2474.0, 2: 5145.0, 3: 3876.0, 4: 3280.0, 5: 3501.0, 6: 3469.69, 7: 5480.0, 8: 5080.0}
"""Mean JCT in s of the Pollux artefact's Tiresias, by workload."""
TIRESIAS_MEAN, OPTIMUS_MEAN = 4038.2, 5681.9
PHILLY_512 = {
    "fifo": 487_747,
    "fifo-naive-backfill": 121_119,
    "sjf": 24_921,
    "srsf": 22_201,
    "qssf": 26_801,
    "srsf-naive-backfill": 25_159,
    "tiresias": 53_327,
}
PHILLY_640 = {
    "fifo": 46_030,
    "fifo-naive-backfill": 30_636,
    "sjf": 17_353,
    "srsf": 17_105,
    "qssf": 17_684,
    "srsf-naive-backfill": 17_246,
    "tiresias": 15_204,
}
"""Mean JCT in s of the whole trace in count-based reference runs, by policy."""
WEEKS_JOBS = 1_800
"""Jobs of the quick run's cut of Philly: the first, and a crowded, week."""
QUICK = ("fifo", "srsf", "gangline")
QUICK_LENT = ("max-min", "min-total-duration", "gangline")
"""Policies of the quick run's B4."""


async def measure() -> AsyncIterator[Measured]:
    """The quick set."""
    for row in (*_pollux(), *_philly_ratios(), *_lent(shockwave(QUICK_LENT), gavel(("gavel-max-min",)))):
        yield row


async def measure_full() -> AsyncIterator[Measured]:
    """The quick set, and the whole Philly trace on 512 and 640 GPUs: hours."""
    async for row in measure():
        yield row
    others = (
        *(page for page in SHOCKWAVE if page not in QUICK_LENT),
        *(page for page in OWN if page not in QUICK_LENT),
    )
    for row in _lent(shockwave(others), gavel(("gavel-makespan", "gavel-las"))):
        yield row
    trace = read_trace(f"philly:{DATA / 'philly' / 'philly.csv.gz'}")
    for cluster, published in (("64x8", PHILLY_512), ("80x8", PHILLY_640)):
        for name, value in published.items():
            result = run_of(trace, cluster, _counted(read_policy(PAGES / f"{name}.yaml")))
            yield Measured(
                name=f"B7.{cluster}.{name}",
                value=metrics_of(result).jct_s.mean,
                unit="s",
                better="lower",
                baseline=Baseline(name="count-based reference", value=value),
            )


def _lent(*tables: Iterator[Measured]) -> Iterator[Measured]:
    return chain.from_iterable(tables)


def _pollux() -> Iterator[Measured]:
    courses = read_profiles(DATA / "pollux" / "profiles")
    las, ours = read_policy(PAGES / "tiresias-pollux.yaml"), read_policy(PAGES / "gangline.yaml")
    ours = replace(ours, conditions=las.conditions)
    means: list[float] = []
    own: list[float] = []
    for number in WORKLOADS:
        trace = read_trace(f"pollux:{DATA / 'pollux' / 'workloads' / f'workload-{number}.csv'}")
        with tempfile.TemporaryDirectory() as folder:
            archive = Path(folder) / "archive" if number == 6 else None
            mean = metrics_of(run_of(trace, "16x4xT4", las, courses, archive)).jct_s.mean
            if archive is not None:
                yield _replayed(archive)
        means.append(mean)
        own.append(metrics_of(run_of(trace, "16x4xT4", ours, courses)).jct_s.mean)
        published = Baseline(name="Pollux artefact, Tiresias", value=TIRESIAS[number])
        yield Measured(name=f"B2.tiresias.w{number}", value=mean, unit="s", better="lower", baseline=published)
    for name, values in (("tiresias", means), ("gangline", own)):
        yield Measured(
            name=f"B2.{name}.mean",
            value=sum(values) / len(values),
            unit="s",
            better="lower",
            baseline=Baseline(name="Pollux artefact, Tiresias", value=TIRESIAS_MEAN),
        )
    yield Measured(
        name="B2.gate.w6",
        value=abs(means[5] / TIRESIAS[6] - 1) * 100,
        unit="% off",
        better="lower",
        baseline=Baseline(name="published mean JCT", value=TIRESIAS[6]),
    )


def _replayed(archive: Path) -> Measured:
    report = replay(archive)
    return Measured(name="B10.differences", value=0 if report.equal else 1, unit="", better="lower")


def _philly_ratios() -> Iterator[Measured]:
    """Mean wait on the first jobs of the trace, on nodes of eight GPUs, beside strict FIFO of ours."""
    trace = cut(read_trace(f"philly:{DATA / 'philly' / 'philly.csv.gz'}"), jobs=WEEKS_JOBS)
    results: dict[str, float] = {}
    for name in QUICK:
        rules = _in_view(read_policy(PAGES / f"{name}.yaml"))
        results[name] = metrics_of(run_of(trace, "64x8", rules)).wait_s.mean
    fifo = Baseline(name="strict FIFO, ours", value=results["fifo"])
    for name, mean in results.items():
        yield Measured(name=f"B7.weeks.wait.{name}", value=mean, unit="s", better="lower", baseline=fifo)


def _in_view(rules: Rules) -> Rules:
    """The same rules where a round looks at a few jobs of each kind: those behind them cannot fare better."""
    policies = {
        pool: replace(policy, candidates_per_shape=4, candidates_max=300) for pool, policy in rules.policies.items()
    }
    return replace(rules, policies=policies)


def _counted(rules: Rules) -> Rules:
    """The same where GPUs are only counted, as in the reference runs."""
    return replace(_in_view(rules), conditions=replace(rules.conditions, single_gpus=True))

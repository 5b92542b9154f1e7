"""The default policy, and the page that we recommend where it is not enough, beside the best published values.

Every metric that a paper or its artefact reports stands beside the best that any published policy reached in it,
whichever that is. What was measured is kept in `measured/beside.csv`; `docs/best-published.md` is drawn from it.
"""

import csv
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from bench.paper_runs import Told, run_of
from bench.papers_leases import CLUSTER_32, CLUSTER_48, outcome
from bench.papers_philly import counted, listed, philly
from bench.papers_sharing import MURI_CLUSTER, MURI_SLOWER, slower
from bench.pollux_whole import Remembering, whole_run
from bench.rows import Baseline, Better, Measured
from gangline_lab.metrics import measure
from gangline_lab.policyfile import Rules, read_policy
from gangline_lab.readers import read_trace
from gangline_lab.sim.conditions import Conditions
from gangline_lab.sim.engine import RunResult
from gangline_lab.sim.goodput import Application, read_profiles
from gangline_lab.sim.throughput import read_throughputs

DATA = Path(__file__).parent / "data"
KEPT = Path(__file__).parent / "measured" / "beside.csv"
POLICIES = Path(__file__).parents[2] / "policies"
DEFAULT = "papers/gangline"
WORKLOADS = range(1, 9)
JCT, MEDIAN, P99, MAKESPAN, GEOMETRIC = "mean JCT", "median JCT", "p99 JCT", "makespan", "geometric mean JCT"
WAIT, P99_WAIT, RHO, UNFAIR, USE = "mean wait", "p99 wait", "worst rho", "unfair", "GPUs in use"
UNITS = {RHO: "", UNFAIR: "%", USE: "%"}
"""Of metrics that are not seconds."""
HIGHER = (USE,)
"""Metrics of which more is better."""

Found = dict[str, float]
"""Values by metric."""
Key = tuple[str, str, str]
"""Benchmark, page and metric."""


class Best(Struct, frozen=True):
    """The best published value of a metric, and the policy that reached it."""

    policy: str
    value: float


class Benchmark(Struct, frozen=True):
    """One trace on one cluster, and what is put beside each other on it."""

    about: str
    best: dict[str, Best]
    run: Callable[[Rules], Found]
    world: str
    """The page whose simulated world this is, and with it what jobs say."""
    recommended: str
    """The page of ours that is meant for such a cluster."""


def beside(names: Sequence[str]) -> Iterator[Measured]:
    """These benchmarks: the default and the recommended page; what comes out is kept."""
    for name in names:
        one = BENCHMARKS[name]
        for page in dict.fromkeys((DEFAULT, one.recommended)):
            found = one.run(rules_of(one, page))
            keep({(name, page, metric): found[metric] for metric in one.best})
            for metric, best in one.best.items():
                better: Better = "higher" if metric in HIGHER else "lower"
                yield Measured(
                    name=f"beside.{name}.{page.rpartition('/')[2]}.{metric}",
                    value=found[metric],
                    unit=UNITS.get(metric, "s"),
                    better=better,
                    baseline=Baseline(name=best.policy, value=best.value),
                )


def rules_of(one: Benchmark, page: str) -> Rules:
    """A page's rules in its own world; where it names none in the benchmark's, in which jobs say that they checkpoint.

    That they go on where they stopped is so under every policy here, and all published ones count on it.
    """
    rules = read_policy(POLICIES / f"{page}.yaml")
    if rules.conditions != Conditions():
        return rules
    world = read_policy(POLICIES / f"{one.world}.yaml").conditions
    return replace(rules, conditions=replace(world, tells_checkpoints=True))


# --- what was measured ----------------------------------------------------------------------------------------


def kept(path: Path = KEPT) -> dict[Key, float]:
    """Everything that was measured, by benchmark, page and metric."""
    if not path.exists():
        return {}
    with path.open(encoding="utf-8", newline="") as file:
        return {(row["benchmark"], row["page"], row["metric"]): float(row["value"]) for row in csv.DictReader(file)}


def keep(found: dict[Key, float], path: Path = KEPT) -> None:
    """Write values down among those that are there."""
    lines = ["benchmark,page,metric,value"]
    lines += [f"{','.join(key)},{value:.8g}" for key, value in sorted((kept(path) | found).items())]
    fresh = path.with_suffix(".new")
    fresh.write_text("\n".join(lines) + "\n", encoding="utf-8")
    fresh.replace(path)


# --- runs -----------------------------------------------------------------------------------------------------


def _rigid(rules: Rules) -> Found:
    courses = read_profiles(DATA / "pollux" / "profiles")
    return _pooled(
        [run_of(read_trace(f"pollux:{_workload(number)}"), "16x4xT4", rules, courses) for number in WORKLOADS]
    )


def _elastic(workloads: Sequence[int], rules: Rules) -> Found:
    folders = sorted(one for one in (DATA / "pollux" / "profiles").iterdir() if one.is_dir())
    applications: dict[str, Application] = {one.name: Remembering(one) for one in folders}
    return _pooled([whole_run(_workload(number), applications, rules) for number in workloads])


def _workload(number: int) -> Path:
    return DATA / "pollux" / "workloads" / f"workload-{number}.csv"


def _pooled(runs: list[RunResult]) -> Found:
    """The mean of the means, and percentiles over the jobs of all workloads."""
    jcts_s = [job.jct_ms / 1000 for run in runs for job in run.jobs]
    means_s = [measure(run).jct_s.mean for run in runs]
    return {
        JCT: float(np.mean(means_s)),
        MEDIAN: float(np.median(jcts_s)),
        P99: float(np.percentile(jcts_s, 99)),
    }


def _shockwave(rules: Rules) -> Found:
    trace = read_trace(f"shockwave:{DATA / 'shockwave' / '120.trace'}")
    table = read_throughputs(DATA / "shockwave" / "tacc_throughputs.json.gz")
    run = run_of(trace, CLUSTER_32, rules, table)
    fair = outcome(run, trace, table)
    return {**_all(run), RHO: fair.worst_rho, UNFAIR: fair.unfair}


def _gavel(trace: str, rules: Rules) -> Found:
    table = read_throughputs(DATA / "gavel" / "physical_cluster_throughputs.json.gz")
    return _all(run_of(read_trace(f"gavel:{DATA / 'gavel' / f'{trace}.trace'}"), CLUSTER_48, rules, table))


def _muri(trace: str, rules: Rules) -> Found:
    path = next((DATA / "muri").glob(f"{trace}.csv*"))
    return _all(run_of(slower(read_trace(f"muri:{path}"), MURI_SLOWER), MURI_CLUSTER, rules))


def _philly(cluster: str, rules: Rules) -> Found:
    return _all(run_of(listed(philly()), cluster, counted(rules), progress=Told()))


def _all(run: RunResult) -> Found:
    metrics = measure(run)
    jcts_s = np.array([job.jct_ms / 1000 for job in run.jobs])
    return {
        JCT: metrics.jct_s.mean,
        P99: metrics.jct_s.p99,
        GEOMETRIC: float(np.exp(np.log(jcts_s).mean())),
        MAKESPAN: metrics.makespan_s,
        WAIT: metrics.wait_s.mean,
        P99_WAIT: metrics.wait_s.p99,
        USE: 100 * metrics.allocation,
    }


BENCHMARKS = {
    "B2": Benchmark(
        about="Pollux' eight workloads, rigid, 64 GPUs",
        best={
            JCT: Best("Tiresias+Tuned", 4_038.2),
            MEDIAN: Best("Tiresias+Tuned", 988),
            P99: Best("Optimus+Oracle+Tuned", 56_568),
        },
        run=_rigid,
        world="papers/tiresias-pollux",
        recommended="unknown-run-times",
    ),
    "B3": Benchmark(
        about="the same, jobs of any size",
        best={JCT: Best("Pollux", 2_751.1), MEDIAN: Best("Pollux", 855), P99: Best("Pollux", 46_882)},
        run=partial(_elastic, WORKLOADS),
        world="papers/pollux",
        recommended=DEFAULT,
    ),
    "B3.w6": Benchmark(
        about="workload 6 of them alone",
        best={JCT: Best("Pollux", 2_446.13), MEDIAN: Best("Pollux", 982), P99: Best("Pollux", 38_771)},
        run=partial(_elastic, (6,)),
        world="papers/pollux",
        recommended=DEFAULT,
    ),
    "B4": Benchmark(
        about="Shockwave's 120 jobs, 32 GPUs",
        best={
            MAKESPAN: Best("Shockwave", 24_197.4),
            JCT: Best("MST", 9_654.7),
            GEOMETRIC: Best("MST", 7_461.6),
            USE: Best("Shockwave", 81.7),
            RHO: Best("Shockwave", 1.784),
            UNFAIR: Best("Shockwave", 5.0),
        },
        run=_shockwave,
        world="papers/shockwave-gangline",
        recommended="papers/shockwave-gangline",
    ),
    "B5.jct": Benchmark(
        about="Gavel's 96 jobs that come over time, 48 GPUs of three models",
        best={JCT: Best("max-min with speeds", 13_766.0), MAKESPAN: Best("min total duration with speeds", 58_500)},
        run=partial(_gavel, "max_min_fairness"),
        world="papers/gavel-water-filling",
        recommended="papers/gavel-water-filling",
    ),
    "B5.makespan": Benchmark(
        about="Gavel's 100 jobs that come at once, 48 GPUs of three models",
        best={MAKESPAN: Best("min total duration with speeds", 62_657.1), JCT: Best("max-min", 33_192)},
        run=partial(_gavel, "minimize_makespan"),
        world="papers/gavel-makespan",
        recommended="papers/gavel-makespan",
    ),
    "B6.trace3": Benchmark(
        about="Muri's trace 3, 64 GPUs",
        best={JCT: Best("Muri-S", 83_242.5), P99: Best("Muri-S", 947_436.6), MAKESPAN: Best("Muri-S", 8_174_135.3)},
        run=partial(_muri, "trace3"),
        world="papers/muri-srsf",
        recommended="papers/muri-s",
    ),
    "B6.trace1": Benchmark(
        about="Muri's trace 1, 64 GPUs",
        best={JCT: Best("SRSF", 980_140.6), P99: Best("LAS", 14_739_851.5), MAKESPAN: Best("LAS", 23_556_410.2)},
        run=partial(_muri, "trace1"),
        world="papers/muri-srsf",
        recommended="papers/muri-s",
    ),
    "B7.64x8": Benchmark(
        about="the whole Philly trace, 512 GPUs, only counted",
        best={JCT: Best("SRSF", 22_201), WAIT: Best("SRSF", 9_064), P99_WAIT: Best("SRSF", 80_409)},
        run=partial(_philly, "64x8"),
        world="papers/srsf",
        recommended="known-run-times",
    ),
    "B7.80x8": Benchmark(
        about="the whole Philly trace, 640 GPUs, only counted",
        best={JCT: Best("LAS", 15_204), WAIT: Best("SRSF", 3_968), P99_WAIT: Best("SJF", 43_917)},
        run=partial(_philly, "80x8"),
        world="papers/srsf",
        recommended="known-run-times",
    ),
}
"""By the name of the part of `bench papers` that measures it."""
QUICK = ("B4", "B5.jct", "B5.makespan")
"""Those of the quick set."""

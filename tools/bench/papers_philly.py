"""B7: the Philly trace under strict, naive and reserved backfill, and why attained service wins at one load only.

- Weeks: the first 1,800 jobs on 512 GPUs, nodes of eight.
- Whole: all 82,229 jobs of the listed clusters on 512 and 640 GPUs, only counted, beside count-based reference runs.
- Thinned: every so many jobs on as small a part of the cluster, at the same two loads (73 and 58 %), under least
  attained service and under least GPU time first; a what-if between the two says which jobs gain and lose.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from bench.paper_runs import replayed_run_of, run_of
from bench.rows import Baseline, Better, Measured
from gangline_core.spec import GPU_MILLI, gpu_milli_wanted
from gangline_lab.metrics import measure
from gangline_lab.policyfile import Rules, read_policy
from gangline_lab.readers import read_trace
from gangline_lab.readers.archives import read_history
from gangline_lab.sim.workload import Workload, cut, gpu_hours
from gangline_lab.whatif import Change, what_if

DATA = Path(__file__).parent / "data"
PAGES = Path(__file__).parents[2] / "policies" / "papers"
WHOLE: dict[str, dict[str, int | None]] = {
    "64x8": {
        "fifo": 487_747,
        "fifo-naive-backfill": 121_119,
        "fifo-easy-backfill": None,
        "sjf": 24_921,
        "srsf": 22_201,
        "qssf": 26_801,
        "srsf-naive-backfill": 25_159,
        "tiresias": 53_327,
    },
    "80x8": {
        "fifo": 46_030,
        "fifo-naive-backfill": 30_636,
        "fifo-easy-backfill": None,
        "sjf": 17_353,
        "srsf": 17_105,
        "qssf": 17_684,
        "srsf-naive-backfill": 17_246,
        "tiresias": 15_204,
    },
}
"""Mean JCT in s of the whole trace in count-based reference runs, by cluster and policy; none where nobody ran it."""
WEEKS_JOBS = 1_800
"""Jobs of the quick run's cut: the first, and a crowded, week."""
WEEKS = ("fifo", "srsf", "gangline")
LOADS = (73, 58)
"""Per cent of the GPUs that the thinned trace keeps busy on average."""
THINNED_MOST = 8
"""GPUs of the widest job that the thinned trace keeps."""
BOTH = ("tiresias", "srsf")


def philly() -> Workload:
    """The whole trace."""
    return read_trace(f"philly:{DATA / 'philly' / 'philly.csv.gz'}")


def weeks(*, is_replayed: bool = False) -> Iterator[Measured]:
    """Mean wait on the first jobs of the trace, on nodes of eight GPUs, beside strict FIFO of ours."""
    trace = cut(philly(), jobs=WEEKS_JOBS)
    results: dict[str, float] = {}
    for name in WEEKS:
        rules = in_view(read_policy(PAGES / f"{name}.yaml"))
        if is_replayed:
            result, row = replayed_run_of(trace, "64x8", rules, name=f"weeks.{name}")
            yield row
        else:
            result = run_of(trace, "64x8", rules)
        results[name] = measure(result).wait_s.mean
    fifo = Baseline(name="strict FIFO, ours", value=results["fifo"])
    for name, mean in results.items():
        yield Measured(name=f"B7.weeks.wait.{name}", value=mean, unit="s", better="lower", baseline=fifo)


def whole() -> Iterator[Measured]:
    """Everything on both clusters: hours."""
    trace = philly()
    for cluster, pages in WHOLE.items():
        for name, published in pages.items():
            result = run_of(trace, cluster, counted(read_policy(PAGES / f"{name}.yaml")))
            known = Baseline(name="count-based reference", value=published) if published is not None else None
            value = measure(result).jct_s.mean
            yield Measured(name=f"B7.{cluster}.{name}", value=value, unit="s", better="lower", baseline=known)


def loads(*, every: int, jobs: int | None = None) -> Iterator[Measured]:
    """Attained service beside least GPU time at two loads, and who makes the difference."""
    trace = cut(thinned(philly(), every=every), jobs=jobs)
    span_hours = max(1, trace.arrivals[-1].at_ms) / 3_600_000
    for load in LOADS:
        gpus = max(THINNED_MOST, round(gpu_hours(trace) / span_hours / load * 100))
        yield from _both(trace, f"1x{gpus}", load)


def thinned(trace: Workload, *, every: int) -> Workload:
    """Every so many jobs, wide ones left out, which a small part of a cluster cannot hold."""
    fitting = [one for one in trace.arrivals if gpu_milli_wanted(one.spec) <= THINNED_MOST * GPU_MILLI]
    return replace(trace, arrivals=tuple(fitting[::every]))


def _both(trace: Workload, cluster: str, load: int) -> Iterator[Measured]:
    attained, shortest = (counted(read_policy(PAGES / f"{name}.yaml")) for name in BOTH)
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / "archive"
        run_of(trace, cluster, shortest, archive=archive)
        change = Change(policies=attained.policies, conditions=attained.conditions)
        answer = what_if(read_history(archive), change, varied=0)
    everybody = answer.parts[0]
    before = Baseline(name="least GPU time first", value=everybody.jct_before)
    value = everybody.jct_before + everybody.jct_change.mean
    yield Measured(name=f"B7.load{load}.attained.jct", value=value, unit="s", better="lower", baseline=before)
    # Attained service wins where the value is above 1: at low load it should, at high load it should not.
    wins = everybody.jct_before / value
    better: Better = "higher" if load == min(LOADS) else "lower"
    yield Measured(name=f"B7.load{load}.least.over.attained", value=wins, unit="", better=better)
    for part in answer.classes:
        own = part.jct_before + part.jct_change.mean
        known = Baseline(name="least GPU time first", value=part.jct_before)
        name = f"B7.load{load}.attained.jct of {part.name}"
        yield Measured(name=name, value=own, unit="s", better="lower", baseline=known)
    yield Measured(name=f"B7.load{load}.attained.preemptions", value=answer.preemptions_after, unit="", better="lower")


def in_view(rules: Rules) -> Rules:
    """The same rules where a round looks at a few jobs of each kind: those behind them cannot fare better."""
    policies = {
        pool: replace(policy, candidates_per_shape=4, candidates_max=300) for pool, policy in rules.policies.items()
    }
    return replace(rules, policies=policies)


def counted(rules: Rules) -> Rules:
    """The same where GPUs are only counted, as in the reference runs."""
    return replace(in_view(rules), conditions=replace(rules.conditions, single_gpus=True))

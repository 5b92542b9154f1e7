"""B7: the Philly trace under strict, naive and reserved backfill, and why attained service wins at one load only.

- Weeks: the first 1,800 jobs on 512 GPUs, nodes of eight.
- Whole: all 82,229 jobs of the listed clusters on 512 and 640 GPUs, only counted, beside count-based reference runs.
- Thinned: every so many jobs on as small a part of the cluster, at the same two loads (73 and 58 %), under least
  attained service and under least GPU time first; a what-if between the two says which jobs gain and lose.
"""

import tempfile
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from bench.paper_runs import Told, replayed_run_of, run_of
from bench.papers_leases import off
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
LISTED = frozenset(
    ("6214e9", "7f04ca", "11cb48", "b436b2", "ee9e8c", "e13805", "6c71a0", "2869ce", "ed69ec", "103959", "0e4a51")
)
"""The virtual clusters whose sizes are published: all rows but 18 are theirs."""


class Published(Struct, frozen=True):
    """What a count-based reference run of the whole trace gave, in s; 0 where it was not told."""

    jct_s: float
    wait_s: float = 0.0
    p99_wait_s: float = 0.0


WHOLE: dict[str, dict[str, Published | None]] = {
    "64x8": {
        "fifo": Published(487_747, 474_610, 868_080),
        "srsf": Published(22_201, 9_064, 80_409),
        "srsf-naive-backfill": Published(25_159, 12_022, 88_273),
        "fifo-naive-backfill": Published(121_119, 107_982, 537_129),
        "sjf": Published(24_921, 11_784, 119_961),
        "qssf": Published(26_801, 13_664, 105_192),
        "tiresias-philly": Published(53_327),
        "fifo-easy-backfill": None,
    },
    "80x8": {
        "fifo": Published(46_030, 32_893, 129_035),
        "srsf": Published(17_105, 3_968, 43_962),
        "srsf-naive-backfill": Published(17_246, 4_109, 46_723),
        "fifo-naive-backfill": Published(30_636, 17_499, 128_983),
        "sjf": Published(17_353, 4_216, 43_917),
        "qssf": Published(17_684, 4_547, 46_010),
        "tiresias-philly": Published(15_204),
        "fifo-easy-backfill": None,
    },
}
"""Reference runs by cluster and policy; none where nobody ran it."""
WEEKS_JOBS = 1_800
"""Jobs of the quick run's cut: the first, and a crowded, week."""
WEEKS = ("fifo", "srsf", "gangline")
LOADS = (73, 58)
"""Per cent of the GPUs that the thinned trace keeps busy on average."""
THINNED_MOST = 8
"""GPUs of the widest job that the thinned trace keeps."""
BOTH = ("tiresias", "srsf")
TOLD: tuple[Literal["true", "philly", "none"], ...] = ("true", "philly", "none")
"""What jobs say of their run times: the truth, the truth with the errors of Philly's users, or nothing."""


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


def whole(cluster: str, page: str) -> Iterator[Measured]:
    """The whole trace under one page, GPUs only counted, beside its reference run."""
    published, begun = WHOLE[cluster][page], time.process_time()
    rules = only_counted(read_policy(PAGES / f"{page}.yaml"))
    metrics = measure(run_of(listed(philly()), cluster, rules, progress=Told()))
    took_s = time.process_time() - begun
    known = published or Published(0.0)
    for name, value, reference in (
        ("jct", metrics.jct_s.mean, known.jct_s),
        ("wait", metrics.wait_s.mean, known.wait_s),
        ("p99_wait", metrics.wait_s.p99, known.p99_wait_s),
    ):
        beside = Baseline(name="count-based reference", value=reference) if reference else None
        yield Measured(name=f"B7.{cluster}.{page}.{name}", value=value, unit="s", better="lower", baseline=beside)
    if published is not None:
        yield off(f"B7.off.{cluster}.{page}", metrics.jct_s.mean, published.jct_s)
    yield Measured(name=f"B7.{cluster}.{page}.processor", value=took_s, unit="s", better="lower")


def listed(trace: Workload) -> Workload:
    """The jobs of the listed virtual clusters."""
    return replace(trace, arrivals=tuple(one for one in trace.arrivals if one.spec.group in LISTED))


def loads(*, every: int, jobs: int | None = None) -> Iterator[Measured]:
    """Attained service beside least GPU time at two loads, and who makes the difference."""
    trace = cut(thinned(philly(), every=every), jobs=jobs)
    for load in LOADS:
        yield from _both(trace, f"1x{gpus_of(trace, load)}", load)


def known(*, every: int) -> Iterator[Measured]:
    """The default, and the page for known run times, at the same loads: told truly, with Philly's errors, and not."""
    trace = thinned(philly(), every=every)
    pages = {"default": PAGES / "gangline.yaml", "known-run-times": PAGES.parent / "known-run-times.yaml"}
    for load in LOADS:
        cluster = f"1x{gpus_of(trace, load)}"
        shortest = measure(run_of(trace, cluster, counted(read_policy(PAGES / "srsf.yaml"))))
        beside = Baseline(name="least GPU time first, told truly", value=shortest.jct_s.mean)
        for (page, path), told in product(pages.items(), TOLD):
            rules = counted(read_policy(path))
            conditions = replace(rules.conditions, estimates=told, tells_checkpoints=True)
            mean = measure(run_of(trace, cluster, replace(rules, conditions=conditions))).jct_s.mean
            name = f"B7.load{load}.{page}.told {told}"
            yield Measured(name=name, value=mean, unit="s", better="lower", baseline=beside)


def gpus_of(trace: Workload, load: int) -> int:
    """So many GPUs the trace keeps busy to so many per cent on average."""
    span_hours = max(1, trace.arrivals[-1].at_ms) / 3_600_000
    return max(THINNED_MOST, round(gpu_hours(trace) / span_hours / load * 100))


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
    """The same, and GPUs are only counted."""
    return only_counted(in_view(rules))


def only_counted(rules: Rules) -> Rules:
    """The same rules where GPUs are only counted, as in the reference runs."""
    return replace(rules, conditions=replace(rules.conditions, single_gpus=True))

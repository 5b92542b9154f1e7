"""B9, two jobs on one GPU: Lucid's pairs on Muri's trace 3, each beside the same page where nobody shares.

Nothing is published of it on this trace, so the baseline is the algorithm's own: the same order on the same trace with
GPUs of one's own. How fast jobs go side by side is an input: the stages that Muri's authors measured, as parts of an
iteration in which a resource is busy (`colocation: {contended: true}`).
"""

from collections.abc import Iterator

import numpy as np
from msgspec.structs import replace

from bench.paper_runs import replayed_run_of, run_of
from bench.papers_sharing import DATA, MURI_CLUSTER, MURI_SLOWER, PAGES, slower
from bench.rows import Baseline, Measured
from gangline_lab.metrics import HOUR_GPU_MS, measure
from gangline_lab.policyfile import Rules, read_policy
from gangline_lab.readers import read_trace
from gangline_lab.sim.engine import RunResult
from gangline_lab.sim.workload import Workload


def pairs() -> Iterator[Measured]:
    """B9, Lucid's rule: JCT, what pairs cost while they run, and work done for the GPU time taken."""
    rules, trace = read_policy(PAGES / "lucid.yaml"), trace3()
    alone = run_of(trace, MURI_CLUSTER, exclusive(rules))
    shared, row = replayed_run_of(trace, MURI_CLUSTER, rules, name="trace3.lucid")
    yield row
    yield from _beside(alone, shared, "lucid")


def trace3() -> Workload:
    """Muri's trace 3, as in B6."""
    return slower(read_trace(f"muri:{next((DATA / 'muri').glob('trace3.csv*'))}"), MURI_SLOWER)


def exclusive(rules: Rules) -> Rules:
    """The same page with GPUs of one's own for everybody."""
    return replace(rules, policies={pool: replace(one, sharing="") for pool, one in rules.policies.items()})


def _beside(alone: RunResult, shared: RunResult, name: str) -> Iterator[Measured]:
    mean = Baseline(name="the same, alone", value=measure(alone).jct_s.mean)
    yield Measured(name=f"B9.{name}.jct", value=measure(shared).jct_s.mean, unit="s", better="lower", baseline=mean)
    ran = [(job.ended_ms - job.first_started_ms) / job.run_ms for job in shared.jobs]
    own = Baseline(name="run time alone", value=1.0)
    yield Measured(name=f"B9.{name}.run_time", value=float(np.mean(ran)), unit="", better="lower", baseline=own)
    yield Measured(
        name=f"B9.{name}.gpu_hours",
        value=taken_hours(shared),
        unit="GPU-hours for the same work",
        better="lower",
        baseline=Baseline(name="the same, alone", value=taken_hours(alone)),
    )


def taken_hours(run: RunResult) -> float:
    """GPU-hours in which GPUs worked: a GPU that two share counts once."""
    return sum(job.useful_gpu_ms for job in run.jobs) / HOUR_GPU_MS

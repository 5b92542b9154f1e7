"""B9, two jobs on the same GPUs: Lucid's pairs and AntMan's guests on Muri's trace 3, each beside its own page alone.

Neither paper says anything of this trace, so the baseline is the algorithm's own: the same order on the same trace with
GPUs of one's own. Only of AntMan's rule, as Muri's simulator has it, a mean JCT is published. How fast jobs go side by
side is an input: the stages that Muri's authors measured, as parts of an iteration in which a resource is busy
(`colocation: {contended: true}`).
"""

from collections.abc import Iterator, Sequence

import numpy as np
from msgspec.structs import replace

from bench.paper_runs import replayed_run_of, run_of
from bench.papers_sharing import DATA, MURI_CLUSTER, MURI_SLOWER, PAGES, slower
from bench.rows import Baseline, Measured
from gangline_lab.metrics import HOUR_GPU_MS, measure
from gangline_lab.policyfile import Rules, read_policy
from gangline_lab.readers import read_trace
from gangline_lab.sim.collect import JobRecord
from gangline_lab.sim.engine import RunResult
from gangline_lab.sim.workload import Arrival, Workload

PUBLISHED_S = 305_453.9
"""Mean JCT of all jobs under AntMan's rule in Muri's simulator."""


def pairs() -> Iterator[Measured]:
    """B9, Lucid's rule: JCT, what pairs cost while they run, and work done for the GPU time taken."""
    rules, trace = read_policy(PAGES / "lucid.yaml"), trace3()
    alone = run_of(trace, MURI_CLUSTER, exclusive(rules))
    shared, row = replayed_run_of(trace, MURI_CLUSTER, rules, name="trace3.lucid")
    yield row
    yield from _beside(alone, shared, "lucid")


def guests() -> Iterator[Measured]:
    """B9, AntMan's rule: what guests cost those who are not, and what they get done."""
    rules, trace = read_policy(PAGES / "antman.yaml"), trace3()
    others = replace(trace, arrivals=tuple(one for one in trace.arrivals if not _is_low(one)))
    low = {one.spec.name for one in trace.arrivals if _is_low(one)}
    undisturbed = run_of(others, MURI_CLUSTER, exclusive(rules))
    alone = run_of(trace, MURI_CLUSTER, exclusive(rules))
    shared, row = replayed_run_of(trace, MURI_CLUSTER, rules, name="trace3.antman")
    yield row
    own = Baseline(name="without opportunistic jobs", value=measure(undisturbed).jct_s.mean)
    firm = _jct_s([job for job in shared.jobs if job.name not in low])
    yield Measured(name="B9.antman.guaranteed.jct", value=firm, unit="s", better="lower", baseline=own)
    evicted = Baseline(name="evicted instead", value=_jct_s([job for job in alone.jobs if job.name in low]))
    guest = _jct_s([job for job in shared.jobs if job.name in low])
    yield Measured(name="B9.antman.opportunistic.jct", value=guest, unit="s", better="lower", baseline=evicted)
    known = Baseline(name="Muri artefact, AntMan", value=PUBLISHED_S)
    mean = measure(shared).jct_s.mean
    yield Measured(name="B9.antman.jct", value=mean, unit="s", better="lower", baseline=known)
    yield _hours_row(alone, shared, "antman")


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
    yield _hours_row(alone, shared, name)


def _hours_row(alone: RunResult, shared: RunResult, name: str) -> Measured:
    return Measured(
        name=f"B9.{name}.gpu_hours",
        value=taken_hours(shared),
        unit="GPU-hours for the same work",
        better="lower",
        baseline=Baseline(name="the same, alone", value=taken_hours(alone)),
    )


def _is_low(one: Arrival) -> bool:
    return bool(one.spec.attributes.get("opportunistic"))


def _jct_s(jobs: Sequence[JobRecord]) -> float:
    return float(np.mean([job.jct_ms / 1000 for job in jobs]))


def taken_hours(run: RunResult) -> float:
    """GPU-hours in which GPUs worked: a GPU that two share counts once."""
    return sum(job.useful_gpu_ms for job in run.jobs) / HOUR_GPU_MS

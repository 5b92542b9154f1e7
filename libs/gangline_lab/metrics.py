"""The numbers by which schedulers are compared, from the records of a run.

- JCT: from a job's arrival to its end. Wait: all time in the queue, over all attempts.
- Medians and percentiles are values that some job had (the next larger one), never between two of them.
- Bounded slowdown: JCT over run time, run times below 10 s counted as 10 s, never below 1.
- Finish-time fairness (rho): JCT over what the job would have taken alone on its equal part of the cluster. Its part is
  all GPUs over the jobs in the system on average during its life (Sia's definition); a job that asks for more than its
  part would have run that much slower. rho above 1.1 is called unfair (Shockwave's line).
- Allocation: GPU-time held over GPU-time there, from the first arrival to the last end; GPUs of lost nodes are not
  there, and who starts or stops holds what it has. Utilisation: the part in which work went on that was not lost.
- Fragmentation: GPU-time free on nodes that somebody holds a part of, over GPU-time there.
- Fairness over time: Jain's index over groups, of what each holds over its part in an even division (max-min).
"""

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from gangline_core.job import JobState
from gangline_core.spec import GPU_MILLI
from gangline_lab.sim.collect import JobRecord
from gangline_lab.sim.engine import RunResult
from gangline_lab.sim.usage import Use, jain
from gangline_lab.summary import LARGEST, SIZES

SLOWDOWN_FLOOR_MS = 10_000
UNFAIR_RHO = 1.1
HOUR_GPU_MS = GPU_MILLI * 3_600_000

Floats = NDArray[np.float64]


class Stats(Struct, frozen=True):
    """A distribution in four numbers; all zero of nothing."""

    mean: float = 0.0
    median: float = 0.0
    p90: float = 0.0
    p99: float = 0.0


class PartMetrics(Struct, frozen=True):
    """The same of a part of the jobs: a group or a class of sizes."""

    jobs: int
    ended: int
    jct_s: Stats
    wait_s: Stats
    slowdown: Stats
    gpu_hours: float
    worst_rho: float
    unfair: float
    preemptions: int


class Metrics(Struct, frozen=True):
    """All numbers of one run. Times in seconds, parts from 0 to 1."""

    jobs: int
    ended: int
    rejected: int
    jct_s: Stats
    wait_s: Stats
    slowdown: Stats
    makespan_s: float
    """From the first arrival to the last end."""
    allocation: float
    utilisation: float
    fragmentation: float
    preemptions: int
    losses: int
    """Jobs' runs ended by failing machines."""
    lost_gpu_hours: float
    """GPU time held without work that lasts: starts, restarts, stops, and work that was lost."""
    gpu_hours: float
    rho: Stats
    worst_rho: float
    unfair: float
    """Part of the ended jobs with rho above 1.1."""
    jain: float
    """Fairness between groups over time, the mean over times in which jobs waited."""
    jain_jobs: float
    """Jain's index over the jobs' 1/rho."""
    deadline_misses: int
    """Jobs with a deadline that had not succeeded by then, refused ones among them."""
    deadlines: int
    groups: dict[str, PartMetrics]
    sizes: dict[str, PartMetrics]
    budgets: dict[str, tuple[float, int]]
    """GPU-hours used and budgeted, by group; used in the last period, as accounting charges."""
    rounds: int
    verdicts: int
    refused: dict[str, int] = {}
    """Jobs that the door refused, by the code of the reason."""
    refused_first: str = ""
    """The first of them, and why."""


def measure(result: RunResult) -> Metrics:
    """The metrics of a run."""
    jobs = result.jobs
    gpus = max(1, sum(result.gpus.values()))
    ended = [job for job in jobs if job.ended_ms >= 0]
    span = max((job.ended_ms for job in ended), default=0) - min((job.submitted_ms for job in jobs), default=0)
    rho = rhos(ended, gpus)
    useful = sum(job.useful_gpu_ms for job in jobs)
    overhead = sum(job.overhead_gpu_ms for job in jobs)
    use = tuple(result.use.values()) or (_use_of(jobs, gpus, span),)
    held = sum(one.held for one in use)
    there = max(1, sum(one.there for one in use))
    deadlines = [job for job in jobs if job.deadline_ms]
    turned_away = sum(one.had_deadline for one in result.refused)
    return Metrics(
        jobs=len(jobs),
        ended=len(ended),
        rejected=result.rejected,
        jct_s=stats([job.jct_ms / 1000 for job in ended]),
        wait_s=stats([job.waited_ms / 1000 for job in jobs]),
        slowdown=stats([slowdown(job) for job in ended]),
        makespan_s=span / 1000,
        allocation=held / there,
        utilisation=useful / there,
        fragmentation=sum(one.scattered for one in use) / there,
        preemptions=sum(job.preemptions for job in jobs),
        losses=sum(job.losses for job in jobs),
        lost_gpu_hours=overhead / HOUR_GPU_MS,
        gpu_hours=(useful + overhead) / HOUR_GPU_MS,
        rho=stats(rho),
        worst_rho=float(max(rho, default=0.0)),
        unfair=_part(rho),
        jain=_fairness(use),
        jain_jobs=jain([1 / value for value in rho if value > 0]) if len(rho) else 1.0,
        deadline_misses=sum(_misses(job) for job in deadlines) + turned_away,
        deadlines=len(deadlines) + turned_away,
        groups=_parts(jobs, gpus, lambda job: job.group, sorted({job.group for job in jobs})),
        sizes=_parts(jobs, gpus, size_class, [*(name for _, name in SIZES), LARGEST]),
        budgets={
            group: (result.spent.get(group, _used_hours(jobs, group)), had) for group, had in result.budgets.items()
        },
        rounds=result.rounds,
        verdicts=result.verdicts,
        refused=dict(Counter(one.code for one in result.refused).most_common()),
        refused_first=next((f"{one.name} ({one.group}): {one.why}" for one in result.refused), ""),
    )


def _used_hours(jobs: Sequence[JobRecord], group: str) -> float:
    below = f"{group}/" if group else ""
    own = (job for job in jobs if job.group == group or job.group.startswith(below))
    return sum(job.useful_gpu_ms + job.overhead_gpu_ms for job in own) / HOUR_GPU_MS


def rhos(ended: Sequence[JobRecord], gpus: int) -> list[float]:
    """Finish-time fairness of each ended job."""
    return [job.jct_ms / max(1.0, isolated_ms(job, gpus)) for job in ended]


def isolated_ms(job: JobRecord, gpus: int) -> float:
    """What the job would have taken on its equal part of the cluster."""
    asked = job.gpu_milli / GPU_MILLI
    return max(1, job.run_ms) * max(1.0, asked * job.contention / gpus)


def slowdown(job: JobRecord) -> float:
    """Bounded slowdown of an ended job."""
    return max(1.0, job.jct_ms / max(job.run_ms, SLOWDOWN_FLOOR_MS))


def stats(values: Sequence[float]) -> Stats:
    """Mean, median and tail; percentiles are values that somebody really had."""
    if not len(values):
        return Stats()
    array: Floats = np.asarray(values, dtype=np.float64)
    median, p90, p99 = (float(value) for value in np.percentile(array, [50, 90, 99], method="higher"))
    return Stats(mean=float(array.mean()), median=median, p90=p90, p99=p99)


def size_class(job: JobRecord) -> str:
    """The job's class of size."""
    gpus = -(-job.gpu_milli // GPU_MILLI)
    return next((name for most, name in SIZES if gpus <= most), LARGEST)


def _misses(job: JobRecord) -> bool:
    """Who had not succeeded by then missed it."""
    return job.state != JobState.SUCCEEDED or not 0 <= job.ended_ms <= job.deadline_ms


def _fairness(use: Sequence[Use]) -> float:
    """Mean fairness over the times in which jobs waited, pools by their GPU-time."""
    contended = [one for one in use if one.contended_ms and one.there]
    there = sum(one.there for one in contended)
    return sum(one.fairness / one.contended_ms * one.there for one in contended) / there if there else 1.0


def _use_of(jobs: Sequence[JobRecord], gpus: int, span: int) -> Use:
    """The use that jobs' records show, of runs that kept no sums."""
    held = sum(job.useful_gpu_ms + job.overhead_gpu_ms for job in jobs)
    return Use(held=held, there=gpus * GPU_MILLI * max(1, span), scattered=0, contended_ms=0, fairness=0.0)


def _parts(
    jobs: Sequence[JobRecord], gpus: int, key: Callable[[JobRecord], str], order: Sequence[str]
) -> dict[str, PartMetrics]:
    by_key: dict[str, list[JobRecord]] = {}
    for job in jobs:
        by_key.setdefault(key(job), []).append(job)
    return {name: _part_metrics(by_key[name], gpus) for name in order if name in by_key}


def _part_metrics(jobs: Sequence[JobRecord], gpus: int) -> PartMetrics:
    ended = [job for job in jobs if job.ended_ms >= 0]
    rho = rhos(ended, gpus)
    return PartMetrics(
        jobs=len(jobs),
        ended=len(ended),
        jct_s=stats([job.jct_ms / 1000 for job in ended]),
        wait_s=stats([job.waited_ms / 1000 for job in jobs]),
        slowdown=stats([slowdown(job) for job in ended]),
        gpu_hours=sum(job.useful_gpu_ms + job.overhead_gpu_ms for job in jobs) / HOUR_GPU_MS,
        worst_rho=max(rho, default=0.0),
        unfair=_part(rho),
        preemptions=sum(job.preemptions for job in jobs),
    )


def _part(rho: Sequence[float]) -> float:
    return sum(value > UNFAIR_RHO for value in rho) / len(rho) if len(rho) else 0.0

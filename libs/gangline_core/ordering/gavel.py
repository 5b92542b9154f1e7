"""Gavel (OSDI 2020): a linear program says what part of its time each job should have; who lags behind it goes first.

A job's speed on a GPU model is its attribute `speed_<model>`, 1 where it says nothing and 0 where it does not accept
the model. priority = allocated part / part of its time received so far (section 5); a job that has received nothing has
the most. The order is all this decides; on which of its models a gang lands is the placer's choice.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

import numpy as np
from msgspec import Struct
from msgspec.structs import astuple

from gangline_core.foresight.affinity import SPEED_PREFIX
from gangline_core.foresight.predict import UNKNOWN_RUN_S, predicted_seconds
from gangline_core.ids import JobId
from gangline_core.job import Job
from gangline_core.limits.budgets import price_of
from gangline_core.limits.shares import capacity_of
from gangline_core.ordering import gavel_lp
from gangline_core.ordering.gavel_lp import Floats, Problem
from gangline_core.ordering.scored import Scored, bands
from gangline_core.scoring import columns as c
from gangline_core.scoring.attained import service_milli
from gangline_core.scoring.formula import quantised
from gangline_core.scoring.waiting import Waiting
from gangline_core.spec import GPU_MILLI, JobSpec
from gangline_core.state import State

OBJECTIVES: dict[str, Callable[[Problem], Floats]] = {
    "max_min": gavel_lp.max_min,
    "max_min_only": gavel_lp.max_min_only,
    "makespan": gavel_lp.makespan,
    "finish_time": gavel_lp.finish_time,
    "fifo": gavel_lp.fifo,
    "cost": gavel_lp.cost,
    "throughput": gavel_lp.throughput,
    "equal_time": gavel_lp.equal_time,
}
"""Name of a policy's objective -> the program that gives the allocation."""
PRIORITY_MAX = 1_000.0
"""Priority of a job that has received nothing."""
TimesByModel = Mapping[JobId, Mapping[str, int]]
"""Per job the ms that it ran on each GPU model."""
JOBS_MAX = 2_000
"""Jobs of one program, the oldest; later ones have no part yet."""


class Row(Struct, frozen=True):
    """What makes jobs equal for the program."""

    speeds: tuple[float, ...]
    gpus: float
    weight: float
    steps: float = 0.0
    elapsed: float = 0.0
    rank: float = 0.0
    done: float = 0.0


def gavel(waiting: Waiting, first: int) -> Scored:
    """The score is the queue level, plus the allocated part over the part received, plus the allocated part."""
    names = ("level", "part_over_received", "part")
    if not len(waiting):
        return Scored(names=names, columns=[np.zeros(0, dtype=np.int64)] * 3)
    parts = allocated_parts(waiting)
    age_s = np.maximum(waiting.now - waiting.field(c.SUBMITTED), 1) / 1000
    rate = np.maximum(1, waiting.per(c.ASK, lambda job: service_milli(job.spec)))
    received = np.minimum(1.0, waiting.field(c.ATTAINED) / rate / 1000 / age_s)
    over = np.minimum(PRIORITY_MAX, parts / np.maximum(received, 1 / PRIORITY_MAX))
    return Scored(names=names, columns=[quantised(bands(waiting)), quantised(over), quantised(parts)])


def allocated_parts(waiting: Waiting) -> Floats:
    """Per waiting job the part of its time that it should run, over all models; what runs takes its part, too."""
    models = models_of(waiting.state, waiting.pool.pool.name)
    if not models:
        return np.where(waiting.field(c.GPU_MILLI) > 0, 0.0, 1.0)
    return np.where(waiting.field(c.GPU_MILLI) > 0, parts_by_model(waiting, models).sum(axis=1), 1.0)


def models_of(state: State, pool: str) -> list[str]:
    """The GPU models of a pool, in lower case."""
    total = capacity_of(state, pool)
    return sorted(name.partition(":")[2] for name in total if name.startswith("gpu_milli:"))


def parts_by_model(waiting: Waiting, models: Sequence[str], ran_on: TimesByModel | None = None) -> Floats:
    """Per job (some may run already) and model the part of its time that it should have.

    `ran_on` says how long jobs ran on each model, where that is known: an hour on a slow one is less work done.
    """
    total = capacity_of(waiting.state, waiting.pool.pool.name)
    found = np.zeros((len(waiting), len(models)))
    oldest = [row for row in waiting.by_age.tolist() if waiting.field(c.GPU_MILLI)[row] > 0][:JOBS_MAX]
    if not oldest:
        return found
    present = set(waiting.ids.tolist())
    others = sorted(set(waiting.state.live.get(waiting.pool.pool.name, {})) - present)
    live = [waiting.state.kept.jobs[job] for job in others]
    rows = _rows(waiting, oldest, [job for job in live if gpus_of(job.spec)], models, ran_on=ran_on or {})
    kinds = sorted(set(rows), key=astuple)
    counts = [0] * len(kinds)
    number = {kind: k for k, kind in enumerate(kinds)}
    for row in rows:
        counts[number[row]] += 1
    capacity = tuple(total[f"gpu_milli:{model}"] / GPU_MILLI for model in models)
    prices = tuple(float(price_of(waiting.state.kept.prices, model)) for model in models)
    parts = solve(waiting.policy.objective, tuple(kinds), tuple(counts), capacity, prices)
    found[oldest] = [parts[number[row]] for row in rows[: len(oldest)]]
    return found


@lru_cache(maxsize=16)
def solve(
    objective: str,
    kinds: tuple[Row, ...],
    counts: tuple[int, ...],
    capacity: tuple[float, ...],
    prices: tuple[float, ...],
) -> tuple[tuple[float, ...], ...]:
    """Per kind of job and model the part of its time it should run; remembered, as rounds ask what the last one did."""
    problem = Problem(
        speeds=np.array([row.speeds for row in kinds]),
        gpus=np.array([row.gpus for row in kinds]),
        counts=np.array(counts, dtype=np.float64),
        weights=np.array([row.weight for row in kinds]),
        steps=np.array([row.steps for row in kinds]),
        elapsed=np.array([row.elapsed for row in kinds]),
        ranks=np.array([row.rank for row in kinds]),
        capacity=np.array(capacity),
        prices=np.array(prices),
        done=np.array([row.done for row in kinds]),
    )
    allocation = OBJECTIVES[objective](problem)
    return tuple(tuple(round(part, 6) for part in row) for row in allocation.tolist())


def speeds_of(spec: JobSpec, models: Sequence[str]) -> tuple[float, ...]:
    """Speed per model, in the order given; 0 where the job does not accept one."""
    accepted = {model.lower() for role in spec.roles for model in role.resources.gpu_models}
    found = []
    for model in models:
        said = spec.attributes.get(f"{SPEED_PREFIX}{model}", 1.0)
        speed = 1.0 if isinstance(said, str) else max(0.0, float(said))
        found.append(speed if not accepted or model in accepted else 0.0)
    return tuple(found)


def gpus_of(spec: JobSpec) -> float:
    """GPUs the job asks for at start."""
    return sum(role.count * role.resources.gpu_milli for role in spec.roles) / GPU_MILLI


def _rows(
    waiting: Waiting, oldest: list[int], live: list[Job], models: Sequence[str], *, ran_on: TimesByModel
) -> list[Row]:
    """What the program sees of these waiting jobs and then of the live ones; only what its objective needs differs."""
    objective, groups = waiting.policy.objective, waiting.state.kept.groups
    needs_time = objective in ("makespan", "finish_time")
    predicted = predicted_seconds(waiting).tolist() if needs_time else []
    rows = []
    jobs = waiting.jobs
    for place, row in enumerate([*oldest, *(-1 - k for k in range(len(live)))]):
        job = jobs[row] if row >= 0 else live[-1 - row]
        speeds, gpus = speeds_of(job.spec, models), gpus_of(job.spec)
        group = groups.get(job.spec.group)
        run_s = (predicted[row] if row >= 0 else job.spec.estimate_s or job.spec.time_limit_s) if needs_time else 0
        done = _steps_done(job, dict(zip(models, speeds, strict=True)), ran_on)
        rows.append(
            Row(
                speeds=speeds,
                gpus=gpus,
                weight=float(max(1, group.weight if group is not None else 1)),
                steps=max(max(speeds), (run_s or UNKNOWN_RUN_S) * max(speeds) - done),
                elapsed=(waiting.now - job.submitted_ms) / 1000 if objective == "finish_time" else 0.0,
                rank=float(len(oldest) + len(live) - place) if objective == "fifo" else 0.0,
                done=done if objective == "finish_time" else 0.0,
            )
        )
    return rows


def _steps_done(job: Job, speeds: Mapping[str, float], ran_on: TimesByModel) -> float:
    """What is done, in units of speed times seconds; run times are those on the fastest model."""
    if job.id in ran_on:
        return sum(ms / 1000 * speeds.get(model, 0.0) for model, ms in sorted(ran_on[job.id].items()))
    return job.attained / max(1, service_milli(job.spec)) / 1000 * max(speeds.values())

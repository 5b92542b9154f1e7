"""What jobs say about their duration: the truth, nothing, or the truth with a random error of a known kind."""

from collections.abc import Mapping, Sequence
from math import exp
from random import Random

from msgspec.structs import replace

from gangline_core.cluster import Node
from gangline_core.spec import JobSpec, Resources
from gangline_lab.sim.conditions import Conditions
from gangline_lab.sim.courses import Courses
from gangline_lab.sim.present import first_told_s
from gangline_lab.sim.workload import (
    Arrival,
    Workload,
    as_elastic,
    as_opportunistic,
    as_single_gpus,
    fitted,
    with_checkpoints,
    with_memory_most,
)

PHILLY_ERRORS = ((0.10, 0.0, 0.10), (0.50, 0.10, 0.50), (0.70, 0.50, 1.0), (0.90, 1.0, 10.0), (1.0, 10.0, 100.0))
"""(part of all jobs up to here, least and largest relative error): the error model that "Characterization and
Prediction of Deep Learning Workloads in Large-Scale GPU Datacenters" (SC 2021) used for the Philly trace."""
LIMIT_FACTOR = 2


def prepared(
    trace: Workload, conditions: Conditions, courses: Courses | None, seed: int, *, nodes: Sequence[Node] = ()
) -> Workload:
    """The trace with the run times, estimates, limits and shapes that courses, conditions and machines give.

    Of jobs whose tasks the nodes could not hold, tasks are made that they can.
    """
    if nodes:
        trace = fitted(trace, nodes)
    if courses is not None:
        trace = replace(trace, arrivals=tuple(_timed(one, courses) for one in trace.arrivals))
        if conditions.tells_speeds:
            trace = replace(trace, arrivals=tuple(_told(one, courses) for one in trace.arrivals))
    if conditions.memory_most_mib:
        trace = with_memory_most(trace, conditions.memory_most_mib)
    if conditions.tells_checkpoints:
        trace = with_checkpoints(trace)
    if conditions.opportunistic:
        trace = as_opportunistic(trace)
    if conditions.single_gpus:
        trace = as_single_gpus(trace)
    if conditions.elastic.least < 1 or conditions.elastic.most > 1:
        trace = as_elastic(trace, least=conditions.elastic.least, most=conditions.elastic.most)
    if conditions.estimates == "given" and not conditions.limits:
        return trace
    random = Random(f"estimates-{seed}")
    known = courses if conditions.estimates == "present" else None
    return replace(trace, arrivals=tuple(_estimated(one, conditions, random, known) for one in trace.arrivals))


def _timed(one: Arrival, courses: Courses) -> Arrival:
    work = replace(one.work, run_ms=courses.alone_ms(one.spec, one.work))
    return replace(one, spec=_able(one.spec, tuple(sorted(courses.speeds(one.spec, one.work)))), work=work)


def _able(spec: JobSpec, models: tuple[str, ...]) -> JobSpec:
    """The job accepts the models on which its table gives it any speed; all where no table says it."""
    if not models or any(role.resources.gpu_models for role in spec.roles):
        return spec
    roles = (replace(role, resources=replace(role.resources, gpu_models=models)) for role in spec.roles)
    return replace(spec, roles=tuple(roles))


def _told(one: Arrival, courses: Courses) -> Arrival:
    """It also names the models that it accepts in the order of these speeds."""
    speeds = courses.speeds(one.spec, one.work)
    told = {f"speed_{model}": speed for model, speed in sorted(speeds.items())}
    roles = (replace(role, resources=_fastest_first(role.resources, speeds)) for role in one.spec.roles)
    return replace(one, spec=replace(one.spec, roles=tuple(roles), attributes={**one.spec.attributes, **told}))


def _fastest_first(resources: Resources, speeds: Mapping[str, float]) -> Resources:
    models = sorted(resources.gpu_models, key=lambda model: -speeds.get(model.lower(), 0.0))
    return replace(resources, gpu_models=tuple(models))


def _estimated(one: Arrival, conditions: Conditions, random: Random, courses: Courses | None) -> Arrival:
    spec = one.spec
    true_s = max(1, -(-one.work.run_ms // 1000))
    if courses is not None:
        spec = replace(spec, estimate_s=first_told_s(courses.course(spec, one.work)) or true_s)
    elif conditions.estimates != "given":
        spec = replace(spec, estimate_s=_estimate_s(true_s, conditions, random))
    return replace(one, spec=_limited(spec, true_s) if conditions.limits else spec)


def _estimate_s(true_s: int, conditions: Conditions, random: Random) -> int:
    match conditions.estimates:
        case "none":
            return 0
        case "philly":
            return max(1, round(true_s * philly_factor(random)))
        case "lognormal":
            return max(1, round(true_s * exp(random.gauss(0.0, conditions.estimate_sigma))))
        case _:
            return true_s


def philly_factor(random: Random) -> float:
    """Estimate over truth: too long or too short with equal chance, never shorter than the hundredth part."""
    chance = random.random()
    _, least, most = next(row for row in PHILLY_ERRORS if chance <= row[0])
    error = random.uniform(least, most)
    return 1 + error if random.random() < 0.5 else 1 / (1 + error)


def _limited(spec: JobSpec, true_s: int) -> JobSpec:
    # Nobody sets a limit that kills the job in the trace: it ran to its end there.
    return replace(spec, time_limit_s=max(true_s + 60, LIMIT_FACTOR * spec.estimate_s))

"""The queue: time to open a round, linear programs, and Kueue's own shapes, through the pure core and the services."""

import time
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
from msgspec.structs import replace

from bench.decisions import BEGIN_MS, Log, machine
from bench.queue_eta import eta_score
from bench.queue_services import service_rows
from bench.queue_shapes import DEFAULT, LARGE, TOPOLOGY, Shape, arrivals, run_shape
from bench.rows import Baseline, Measured
from gangline_core.cluster import Policy
from gangline_core.cycle import decide_round, open_round
from gangline_core.facts import GroupSet, JobAdmitted, NodeSeen, PolicySet, TaskStarted
from gangline_core.groups import Group
from gangline_core.ids import JobId
from gangline_core.job import JobState
from gangline_core.ordering import gavel_lp
from gangline_core.spec import JobSpec, Resources, Role

POOL = "default"
ORDERINGS = ("weighted", "fair_share", "dominant_resource")
RUNNING, GROUPS = 1_000, 100
WAITING, WAITING_MANY = 10_000, 100_000
AMPLE_MILLI, FULL_MILLI = 200_000, 10_000
"""Limits of the groups: more than the pool has for each, and what each of them uses."""
ROUNDS = 9
LP_JOBS, LP_MODELS = 1_000, 3
SHAPES = (DEFAULT, TOPOLOGY, LARGE)
TENTHS = {
    DEFAULT.name: replace(DEFAULT, name="default_tenth", part=DEFAULT.part / 10),
    TOPOLOGY.name: replace(TOPOLOGY, name="topology_tenth", part=TOPOLOGY.part / 10),
    LARGE.name: replace(LARGE, name="large_scale_tenth", cohorts=LARGE.cohorts // 10),
}
"""A tenth of each shape's workloads: as many queues with a tenth each, or one cohort of ten, since queues have few."""
PHILLY = Path(__file__).parent / "data" / "philly" / "philly.csv.gz"
KUEUE_WALL_S = {"default": 351.0, "large_scale": 1_179.0, "topology": 401.0}
"""Mean wall time of Kueue's own runs of these shapes."""


QUICK = ("rounds", "programs", "kueue.default", "services.default_tenth")
"""Parts of the run that everybody waits for; the others are for `--full` and `--only`."""


async def measure() -> AsyncIterator[Measured]:
    """What fits into a few minutes."""
    async for row in measure_only(QUICK):
        yield row


async def measure_full() -> AsyncIterator[Measured]:
    """All of it: the other shapes, each through the services too, and the expected starts."""
    async for row in measure_only(tuple(PARTS)):
        yield row


async def measure_only(names: Sequence[str]) -> AsyncIterator[Measured]:
    """These parts alone, such as `kueue.topology` or `services.large_scale`."""
    for name in names:
        async for row in PARTS[name]():
            yield row


async def _rounds() -> AsyncIterator[Measured]:
    medians: dict[str, float] = {}
    for row in round_times(WAITING):
        medians[row.name] = row.value
        yield row
    for row in round_times(WAITING_MANY):
        few = medians[row.name.replace(str(WAITING_MANY), str(WAITING))]
        yield Measured(
            name=row.name,
            value=row.value,
            unit=row.unit,
            better="lower",
            baseline=Baseline(name=f"the same with {WAITING:,}", value=few),
        )
    for row in round_times(WAITING, limit_milli=FULL_MILLI):
        yield row


async def _core(shape: Shape) -> AsyncIterator[Measured]:
    for row in shape_rows(shape):
        yield row


def _services(shape: Shape, whole: Shape) -> AsyncIterator[Measured]:
    return service_rows(shape, KUEUE_WALL_S[whole.name] * len(arrivals(shape)) / len(arrivals(whole)))


async def _at_once(rows: Callable[[], list[Measured]]) -> AsyncIterator[Measured]:
    for row in rows():
        yield row


def eta_rows() -> list[Measured]:
    """How good the expected starts are on the last month of the Philly trace; a quarter of an hour."""
    score = eta_score(PHILLY)
    by_limits = Baseline(name="by time limits alone", value=score.by_limits_s)
    # One row per edge of the bar, since a stated 80 % should hold neither much less nor much more often.
    return [
        Measured(name="eta.covered", value=100 * score.covered, unit="%"),
        Measured(name="eta.not_too_wide", value=100 * score.covered, unit="%", better="lower"),
        Measured(name="eta.error", value=score.error_s, unit="s", better="lower", baseline=by_limits),
    ]


def round_times(waiting: int, *, limit_milli: int = AMPLE_MILLI) -> list[Measured]:
    """Median process time in ms to open a round, by ordering, with 1,000 running in 100 groups of such a limit."""
    log = busy_pool(waiting, limit_milli=limit_milli)
    name = "round.at_limits" if limit_milli == FULL_MILLI else "round"
    rows = []
    for ordering in ORDERINGS:
        log.append("admission", PolicySet(pool=POOL, policy=Policy(ordering=ordering), by="bench"))
        took = []
        for _ in range(ROUNDS):
            begun = time.process_time()
            opened = open_round(log.state, POOL, BEGIN_MS + log.seq)
            took.append((time.process_time() - begun) * 1000)
            assert opened is not None, "somebody waits"
        rows.append(Measured(name=f"{name}.{ordering}.{waiting}", value=median(took), unit="ms", better="lower"))
    return rows


def busy_pool(waiting: int, *, limit_milli: int = AMPLE_MILLI) -> Log:
    """A full pool of 1,000 GPUs in 100 groups of seven users, and so many jobs of many shapes waiting."""
    log = Log()
    groups = [Group(path=f"g{k}", weight=1 + k % 4, limit={"gpu_milli": limit_milli}) for k in range(GROUPS)]
    log.append("admission", *(GroupSet(group=group, by="bench") for group in groups))
    for index in range(RUNNING // 8):
        log.append("agent.bench", NodeSeen(node=machine(index)))
    log.append("admission", *(_admitted(JobId(k + 1), gpus=1) for k in range(RUNNING)))
    while (opened := open_round(log.state, POOL, BEGIN_MS + log.seq)) is not None:
        log.append(f"queue.{POOL}", opened)
        decided = decide_round(log.state, POOL, BEGIN_MS + log.seq)
        log.append(f"placement.{POOL}", decided)
        if not decided.placements:
            break
    starting = [job for job in log.state.kept.jobs.values() if job.state == JobState.STARTING]
    log.append("agent.bench", *(TaskStarted(task=task) for job in starting for task in job.tasks))
    for first in range(0, waiting, 1_000):
        numbers = range(RUNNING + first, RUNNING + min(waiting, first + 1_000))
        log.append("admission", *(_admitted(JobId(k + 1), gpus=1 + k % 8) for k in numbers))
    return log


def programs() -> list[Measured]:
    """Seconds for Gavel's program with 1,000 jobs that are all different on three models, and after a small change.

    The first program of a process also loads the solver library, which is not counted.
    """
    random = np.random.default_rng(1)
    speeds = random.uniform(0.2, 1.0, (LP_JOBS + 1, LP_MODELS))
    gpus = random.choice([1.0, 2.0, 4.0, 8.0], LP_JOBS + 1)
    kinds = speeds[:40], gpus[:40], np.full(40, LP_JOBS / 40)
    gavel_lp.max_min(_program(*kinds))
    rows = []
    for objective in (gavel_lp.max_min, gavel_lp.makespan, gavel_lp.finish_time, gavel_lp.fifo, gavel_lp.cost):
        problem = _program(speeds[:LP_JOBS], gpus[:LP_JOBS])
        rows.append(_timed(f"lp.{objective.__name__}", objective, problem))
    rows.append(_timed("lp.max_min.one_more", gavel_lp.max_min, _program(speeds, gpus)))
    rows.append(_timed("lp.max_min.40_kinds", gavel_lp.max_min, _program(*kinds)))
    return rows


def _timed(name: str, objective: Callable[[gavel_lp.Problem], gavel_lp.Floats], problem: gavel_lp.Problem) -> Measured:
    begun = time.process_time()
    objective(problem)
    return Measured(name=name, value=time.process_time() - begun, unit="s", better="lower")


def shape_rows(shape: Shape) -> list[Measured]:
    """One of Kueue's shapes: wall time, use, and mean waits by class."""
    outcome = run_shape(shape)
    name, kueue = f"kueue.{shape.name}", Baseline(name="Kueue's mean wall time", value=KUEUE_WALL_S[shape.name])
    rows = [
        Measured(name=f"{name}.wall", value=outcome.wall_s, unit="s", better="lower", baseline=kueue),
        Measured(name=f"{name}.use", value=100 * outcome.use, unit="%"),
    ]
    rows += [
        Measured(name=f"{name}.wait.{of}", value=wait_s, unit="s", better="lower")
        for of, wait_s in outcome.waits_s.items()
    ]
    return rows


PARTS: dict[str, Callable[[], AsyncIterator[Measured]]] = {
    "rounds": _rounds,
    "programs": partial(_at_once, programs),
    **{f"kueue.{shape.name}": partial(_core, shape) for shape in SHAPES},
    **{f"services.{TENTHS[shape.name].name}": partial(_services, TENTHS[shape.name], shape) for shape in SHAPES},
    **{f"services.{shape.name}": partial(_services, shape, shape) for shape in SHAPES},
    "eta": partial(_at_once, eta_rows),
}
"""What can be measured alone, by name; a row's name begins with its part's, but for `rounds` and `programs`."""


def _program(speeds: gavel_lp.Floats, gpus: gavel_lp.Floats, counts: gavel_lp.Floats | None = None) -> gavel_lp.Problem:
    rows = len(speeds)
    ones = np.ones(rows)
    return gavel_lp.Problem(
        speeds=speeds,
        gpus=gpus,
        counts=ones if counts is None else counts,
        weights=ones,
        steps=np.linspace(600.0, 36_000.0, rows),
        elapsed=np.linspace(0.0, 7_200.0, rows),
        ranks=np.arange(rows, 0, -1).astype(np.float64),
        capacity=np.full(speeds.shape[1], 200.0),
        prices=np.array([4.0, 2.0, 1.0]),
        done=np.linspace(0.0, 3_600.0, rows),
    )


def _admitted(job: JobId, *, gpus: int) -> JobAdmitted:
    k = int(job)
    need = Resources(gpu_milli=gpus * 1000, cpu_milli=gpus * 4000, memory_mib=gpus * 32_768)
    role = Role(name="main", count=1, min_count=1, max_count=1, resources=need, command=("true",))
    spec = JobSpec(
        name=f"job-{k}",
        group=f"g{k * 7 % GROUPS}",
        user=f"u{k % 7}",
        roles=(role,),
        priority=k % 3,
        time_limit_s=600 * (1 + k % 40),
        estimate_s=300 * (1 + k % 11),
    )
    return JobAdmitted(job=job, spec=spec, submit_id=f"s{k}", by="bench")

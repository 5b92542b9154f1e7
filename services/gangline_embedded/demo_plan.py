"""What the demo will do, computed before anything runs: machines, groups with limits, and who submits what when."""

from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b

from msgspec import Struct

from gangline_core.groups import Group, User
from gangline_core.spec import GPU_MILLI
from gangline_lab.openb import Machine
from gangline_lab.philly import TraceJob

SPEED = 2400.0
"""Arrivals are this much faster than in the trace: forty minutes of it pass each second."""
STRETCH = 40.0
"""Run times are shortened this much less than the time between arrivals; at equal speed the cluster would be idle."""
RUN_S_LEAST = 1.0
RUN_S_MOST = 20.0
"""Bounds of a job's run time in the demo."""
LIMIT_SHARE = 0.25
"""Most of the cluster's GPUs that one group may hold."""
EIGHTS_SHARE, FOURS_SHARE = 0.1, 0.1
"""Machines with eight and with four GPUs, of all; the rest has one or two: the smaller the cluster, the more waits."""
NODE_GPUS_MOST = 8
GANG_TASK_GPUS = 2
"""A job of more than NODE_GPUS_MOST GPUs is a gang of tasks of this size."""
PERCENT_WITH_MODEL = 33
"""Jobs that accept only some GPU models. The trace names none; a third is the share in openb's gpuspec33 list."""
PERCENT_HIGH = 5
"""Jobs on queue level "high"."""
ELASTIC_GPUS = (2, 4)
PERCENT_ELASTIC = 40
"""Jobs of these sizes that may run with half and up to twice the GPUs; one GPU is one task then."""
PARENT = "philly"
USERS_PER_GROUP = 2
CPUS_PER_GPU = 2
MEMORY_GIB_PER_GPU = 8

WISHES = (("T4",), ("P100",), ("T4", "P100"), ("V100M32", "V100M16"), ("G2", "G3"))
"""Sets of models that jobs ask for, best first."""


class Submission(Struct, frozen=True):
    """One job file, who sends it, and when."""

    number: int
    after_s: float
    group: str
    user: str
    document: dict[str, object]


class DemoPlan(Struct, frozen=True):
    """Everything that is decided before the demo starts."""

    machines: tuple[Machine, ...]
    groups: tuple[Group, ...]
    """Parents before children."""
    users: tuple[User, ...]
    submissions: tuple[Submission, ...]
    """By time."""
    left_out: int
    """Jobs of the trace that want more than this cluster has."""
    speed: float
    run_speed: float
    span_s: float
    """Seconds from the first to the last submission."""

    @property
    def gpus(self) -> int:
        """GPUs of all machines."""
        return sum(machine.gpus for machine in self.machines)


def make_plan(
    trace: Sequence[TraceJob], machines: Sequence[Machine], *, jobs: int, nodes: int, speed: float, seed: int
) -> DemoPlan:
    """The plan of the first `jobs` of the trace on `nodes` of the machines; equal arguments give an equal plan."""
    cluster = small_cluster(machines, nodes)
    wanted = trace[:jobs]
    fitting = [job for job in wanted if fits(job.gpus, cluster)]
    clusters = sorted({job.cluster for job in fitting})
    largest = Counter[str]()
    for job in fitting:
        largest[job.cluster] = max(largest[job.cluster], job.gpus)
    total = sum(machine.gpus for machine in cluster)
    limits = {name: max(largest[name], int(LIMIT_SHARE * total)) * GPU_MILLI for name in clusters}
    draw = _Draw(seed)
    run_speed = speed / STRETCH
    submissions = tuple(_submission(job, cluster, draw, speed=speed, run_speed=run_speed) for job in fitting)
    return DemoPlan(
        machines=cluster,
        groups=(
            Group(path=PARENT),
            *(Group(path=f"{PARENT}/{name}", limit={"gpu_milli": limits[name]}) for name in clusters),
        ),
        users=tuple(
            User(name=_user(name, index), group=f"{PARENT}/{name}")
            for name in clusters
            for index in range(USERS_PER_GROUP)
        ),
        submissions=submissions,
        left_out=len(wanted) - len(fitting),
        speed=speed,
        run_speed=run_speed,
        span_s=submissions[-1].after_s if submissions else 0.0,
    )


def small_cluster(machines: Sequence[Machine], nodes: int) -> tuple[Machine, ...]:
    """So many machines of the list, in its order, mostly small ones but some of each size."""
    eights, fours = max(1, round(EIGHTS_SHARE * nodes)), max(1, round(FOURS_SHARE * nodes))
    kinds = (
        _spread([machine for machine in machines if machine.gpus == NODE_GPUS_MOST], eights),
        _spread([machine for machine in machines if machine.gpus == NODE_GPUS_MOST // 2], fours),
        _spread([machine for machine in machines if machine.gpus <= GANG_TASK_GPUS], max(0, nodes - eights - fours)),
    )
    chosen = {machine.name for kind in kinds for machine in kind}
    return tuple(machine for machine in machines if machine.name in chosen)


def _spread(machines: Sequence[Machine], count: int) -> list[Machine]:
    """So many machines in turn from every model, in list order within a model."""
    by_model: dict[str, list[Machine]] = {}
    for machine in machines:
        by_model.setdefault(machine.model, []).append(machine)
    chosen: list[Machine] = []
    turn = 0
    while len(chosen) < min(count, len(machines)):
        chosen += [of_model[turn] for _, of_model in sorted(by_model.items()) if turn < len(of_model)]
        turn += 1
    return chosen[:count]


def fits(gpus: int, cluster: Sequence[Machine], models: Sequence[str] = ()) -> bool:
    """True when an empty cluster could run a job of this many GPUs (of these models)."""
    per_task = task_gpus(gpus)
    good = [machine for machine in cluster if not models or machine.model in models]
    return sum(machine.gpus // per_task for machine in good) * per_task >= gpus


def task_gpus(gpus: int) -> int:
    """GPUs of each task of a job of this many GPUs."""
    return gpus if gpus <= NODE_GPUS_MOST else GANG_TASK_GPUS


def _submission(
    job: TraceJob, cluster: Sequence[Machine], draw: "_Draw", *, speed: float, run_speed: float
) -> Submission:
    group, user = f"{PARENT}/{job.cluster}", _user(job.cluster, draw.below(USERS_PER_GROUP, job.number, "user"))
    run_s = min(max(job.run_s / run_speed, RUN_S_LEAST), RUN_S_MOST)
    per_task = task_gpus(job.gpus)
    document: dict[str, object] = {
        "name": f"philly-{job.number:04d}",
        "group": group,
        "tasks": -(-job.gpus // per_task),
        **_needs(per_task),
        "command": ["python", "train.py"],
        # Users guess high: the limit is a round number well above the run time.
        "time_limit": f"{int(RUN_S_MOST * 2)}s",
        "estimate": f"{max(1, round(run_s * (1 + draw.below(3, job.number, 'estimate'))))}s",
        "grace": "2s",
        "labels": {"trace": "philly", "cluster": job.cluster},
        "attributes": {"run_time_s": round(run_s, 3), "trace_run_s": job.run_s},
    }
    if job.gpus in ELASTIC_GPUS and draw.below(100, job.number, "elastic") < PERCENT_ELASTIC:
        document |= {"tasks": job.gpus, "min": job.gpus // 2, "max": 2 * job.gpus, **_needs(1)}
    if job.gpus > NODE_GPUS_MOST:
        document["topology"] = {"preferred": "rack"}
    wish = WISHES[draw.below(len(WISHES), job.number, "model")]
    if draw.below(100, job.number, "wish") < PERCENT_WITH_MODEL and fits(job.gpus, cluster, wish):
        document["gpu_models"] = [model for model in wish if any(machine.model == model for machine in cluster)]
    if draw.below(100, job.number, "level") < PERCENT_HIGH:
        document["level"] = "high"
    return Submission(number=job.number, after_s=job.arrival_s / speed, group=group, user=user, document=document)


def _needs(gpus: int) -> dict[str, object]:
    """What one task of so many GPUs asks for."""
    return {"gpus": gpus, "cpus": CPUS_PER_GPU * gpus, "memory": f"{MEMORY_GIB_PER_GPU * gpus}Gi"}


def _user(cluster: str, index: int) -> str:
    return f"{cluster}-{'ab'[index]}"


class _Draw:
    """Choices that look random and are the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def below(self, limit: int, number: int, what: str) -> int:
        """A number from 0 to limit - 1 for this job and question."""
        digest = blake2b(f"{self._seed}/{number}/{what}".encode(), digest_size=8).digest()
        return int.from_bytes(digest) % limit

"""A trace as the simulator takes it: which jobs arrive when, and what each of them truly has to do."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from gangline_core.cluster import Node
from gangline_core.facts import Fact
from gangline_core.groups import Group
from gangline_core.spec import GPU_MILLI, JobSpec, Resources, Role, ServiceClass, gpu_milli_wanted

UNKNOWN_MS = 1
"""Run time of a job that only a table of speeds or profiles can tell."""


class Work(Struct, frozen=True, omit_defaults=True, gc=False):
    """What a job truly needs; no decision may look at it, only the simulated machines do."""

    run_ms: int
    """Run time when it runs undisturbed at the size it asks for, on the machines of its trace."""
    row: str = ""
    """Its row in a throughput table or its application in a profile; empty for a plain run time."""
    steps: int = 0
    """Work of a job whose speed comes from a table, in steps."""
    batch_size: int = 0
    mode: str = ""
    """How its batch size changes on the way: empty (not at all), "accordion" or "gns"."""
    exit_code: int = 0
    deadline_ms: int = 0
    """Time after its arrival by which it should have ended; 0 when there is none."""
    cancel_ms: int = 0
    """Time after its arrival at which its user takes it back if it still waits; 0 when never."""


class Input(Struct, frozen=True):
    """Something beside jobs that came from outside at this time, told on this kind of lane."""

    at_ms: int
    """After the beginning of the trace."""
    kind: str
    fact: Fact
    """A fact about a job names it by the number that its log gave it (`Arrival.job`)."""


class Arrival(Struct, frozen=True, gc=False):
    """One job of a trace."""

    at_ms: int
    """Time after the beginning of the trace."""
    spec: JobSpec
    work: Work
    job: int = 0
    """The number that its log gave it, by which dependencies and inputs name it; 0 where there is none."""


class Workload(Struct, frozen=True):
    """A whole trace, in order of arrival, and the groups it speaks of."""

    name: str
    arrivals: tuple[Arrival, ...]
    groups: tuple[Group, ...] = ()
    left_out: dict[str, int] = {}
    """What its reader could not make a job of: why, how often."""
    part: str = ""
    """Which jobs of its file these are, where they are not all: `cut` says it."""


def workload(name: str, arrivals: Iterable[Arrival], *, left_out: Mapping[str, int] | None = None) -> Workload:
    """A workload in order of arrival (equal times keep their order), with a group for every path that is used."""
    ordered = tuple(sorted(arrivals, key=lambda arrival: arrival.at_ms))
    known: dict[str, Group] = {}
    for arrival in ordered:
        path = arrival.spec.group
        while path and path not in known:
            known[path] = Group(path=path)
            path = path.rpartition("/")[0]
    return Workload(
        name=name, arrivals=ordered, groups=tuple(known[path] for path in sorted(known)), left_out=dict(left_out or {})
    )


def lacks_run_times(trace: Workload) -> bool:
    """True when some jobs are only work in steps or samples, which a table or profiles turn into time."""
    return any(one.work.run_ms == UNKNOWN_MS and (one.work.steps or one.work.batch_size) for one in trace.arrivals)


def fitted(trace: Workload, nodes: Sequence[Node]) -> Workload:
    """Whole-GPU jobs whose tasks the nodes could not hold, as tasks that fit: traces tell only how many GPUs."""
    room = Room(nodes)
    return replace(trace, arrivals=tuple(replace(one, spec=_fitted(one, room)) for one in trace.arrivals))


class Room:
    """How many GPUs the nodes of a pool have that a job accepts, looked up once for each kind of job."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        """Nobody has asked yet."""
        self._nodes = nodes
        self._known: dict[tuple[str, frozenset[str]], list[int]] = {}

    def sizes(self, spec: JobSpec) -> list[int]:
        """Of each node on which the job may be."""
        models = frozenset(model.lower() for role in spec.roles for model in role.resources.gpu_models)
        key = (spec.pool, models)
        if key not in self._known:
            own = [node for node in self._nodes if node.pool == spec.pool]
            found = [sum(not models or gpu.model.lower() in models for gpu in node.gpus) for node in own]
            self._known[key] = [size for size in found if size]
        return self._known[key]


def _fitted(one: Arrival, room: Room) -> JobSpec:
    spec, role = one.spec, one.spec.roles[0]
    each = role.resources.whole_gpus
    is_rigid = len(spec.roles) == 1 and role.min_count == role.count == role.max_count and not role.sizes
    if one.job or not is_rigid or each < 1:
        return spec
    sizes = room.sizes(spec)
    if not sizes or sum(size // each for size in sizes) >= role.count:
        return spec
    total = each * role.count
    tasks = next((count for count in _divisors(total) if sum(size // (total // count) for size in sizes) >= count), 0)
    if not tasks and each <= max(sizes):
        return spec
    tasks = tasks or split(total, max(sizes))
    resources = replace(
        role.resources,
        gpu_milli=total // tasks * GPU_MILLI,
        cpu_milli=role.resources.cpu_milli * role.count // tasks,
        memory_mib=role.resources.memory_mib * role.count // tasks,
    )
    return replace(spec, roles=(replace(role, count=tasks, min_count=tasks, max_count=tasks, resources=resources),))


def _divisors(total: int) -> list[int]:
    return [count for count in range(1, total + 1) if total % count == 0]


def gpu_job(
    name: str,
    *,
    gpus: int,
    run_s: float,
    group: str = "all",
    user: str = "trace",
    per_node: int = 8,
    gpu_models: tuple[str, ...] = (),
    attributes: dict[str, str | int | float | bool] | None = None,
) -> JobSpec:
    """The usual job of a trace: so many whole GPUs, in as few equal tasks as nodes of `per_node` GPUs allow."""
    tasks = split(gpus, per_node)
    resources = Resources(gpu_milli=gpus // tasks * GPU_MILLI, gpu_models=gpu_models)
    return JobSpec(
        name=name,
        group=group,
        user=user,
        roles=(Role(name="worker", count=tasks, min_count=tasks, max_count=tasks, resources=resources),),
        estimate_s=max(1, round(run_s)),
        attributes=attributes or {},
    )


def split(gpus: int, per_node: int) -> int:
    """The fewest equal tasks of at most `per_node` GPUs each."""
    return next((tasks for tasks in range(1, gpus + 1) if gpus % tasks == 0 and gpus // tasks <= per_node), 1)


def with_checkpoints(trace: Workload) -> Workload:
    """The same jobs, which say that they go on where they stopped."""
    said = (replace(one, spec=replace(one.spec, checkpoints=True)) for one in trace.arrivals)
    return replace(trace, arrivals=tuple(said))


def with_memory_most(trace: Workload, memory_mib: int) -> Workload:
    """The same jobs; those of whole GPUs say that they use no more of the memory of each, unless they said before."""
    return replace(trace, arrivals=tuple(replace(one, spec=_bounded(one.spec, memory_mib)) for one in trace.arrivals))


def _bounded(spec: JobSpec, memory_mib: int) -> JobSpec:
    roles = []
    for role in spec.roles:
        needs = role.resources
        if needs.whole_gpus and not needs.gpu_memory_most_mib:
            needs = replace(needs, gpu_memory_most_mib=max(memory_mib, needs.gpu_memory_mib))
        roles.append(replace(role, resources=needs))
    return replace(spec, roles=tuple(roles))


def as_opportunistic(trace: Workload) -> Workload:
    """The same jobs; those whose trace calls them opportunistic are."""
    low = ServiceClass.OPPORTUNISTIC
    arrivals = (
        replace(one, spec=replace(one.spec, service_class=low)) if one.spec.attributes.get("opportunistic") else one
        for one in trace.arrivals
    )
    return replace(trace, arrivals=tuple(arrivals))


def as_single_gpus(trace: Workload) -> Workload:
    """Every whole-GPU job as a gang of one-GPU tasks, which may stand anywhere: GPUs are only counted."""
    return replace(trace, arrivals=tuple(replace(one, spec=_singles(one.spec)) for one in trace.arrivals))


def as_elastic(trace: Workload, *, least: float, most: float) -> Workload:
    """Every rigid job of whole GPUs as one-GPU tasks of which it may have fewer or more than it asks for."""
    return replace(trace, arrivals=tuple(replace(one, spec=_elastic(one, least, most)) for one in trace.arrivals))


def _elastic(one: Arrival, least: float, most: float) -> JobSpec:
    spec = _singles(one.spec)
    role = spec.roles[0]
    is_rigid = len(spec.roles) == 1 and role.min_count == role.count == role.max_count and not role.sizes
    if one.job or not is_rigid or role.resources.whole_gpus != 1:
        return one.spec
    sizes = {"min_count": max(1, round(role.count * least)), "max_count": max(role.count, round(role.count * most))}
    return replace(spec, roles=(replace(role, **sizes),))


def _singles(spec: JobSpec) -> JobSpec:
    return replace(spec, roles=tuple(_single(role) for role in spec.roles))


def _single(role: Role) -> Role:
    each = role.resources.whole_gpus
    if each <= 1:
        return role
    return replace(
        role,
        count=role.count * each,
        min_count=role.min_count * each,
        max_count=role.max_count * each,
        sizes=tuple(size * each for size in role.sizes),
        resources=replace(
            role.resources,
            gpu_milli=GPU_MILLI,
            cpu_milli=role.resources.cpu_milli // each,
            memory_mib=role.resources.memory_mib // each,
        ),
    )


def cut(trace: Workload, *, first: int = 0, jobs: int | None = None) -> Workload:
    """Some consecutive jobs of a trace; the first of them arrives at time 0."""
    chosen = trace.arrivals[first : None if jobs is None else first + jobs]
    begin = chosen[0].at_ms if chosen else 0
    part = f"jobs {first + 1} to {first + len(chosen)}" if len(chosen) < len(trace.arrivals) else trace.part
    return replace(trace, arrivals=tuple(replace(one, at_ms=one.at_ms - begin) for one in chosen), part=part)


def gpu_hours(trace: Workload) -> float:
    """GPU-hours of work in the trace, at the sizes asked for."""
    return sum(gpu_milli_wanted(one.spec) * one.work.run_ms for one in trace.arrivals) / (GPU_MILLI * 3_600_000)

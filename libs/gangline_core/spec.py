"""What a user asks for: a job with its roles, resources and terms, already parsed and normal.

Quantities are integers: gpu_milli (1000 = one GPU), MiB, cpu_milli, seconds. Text such as "16Gi" or "500m" is
read at the door (`gangline_wire.jobfile`), never here.
"""

from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

GPU_MILLI = 1000
"""One whole GPU."""
MOMENT_MS_MAX = 253_402_300_799_000
"""The last second of the year 9999; no calendar that a client may have knows a later one."""
CPUS_PER_GPU = 64
"""Where use of GPUs and CPUs must be one number, so many CPUs count as one GPU."""


class ServiceClass(StrEnum):
    """How safe a job is from being pushed away."""

    GUARANTEED = "guaranteed"
    """Never a victim of preemption inside its group's guarantee; counts against the guarantee first."""
    BURSTABLE = "burstable"
    """The default: may be preempted by higher priority or by a group that reclaims its guarantee."""
    OPPORTUNISTIC = "opportunistic"
    """Runs on what nobody needs; first victim, never evicts anybody, ignored by guarantees."""


PODS = "gangline.dev/pods"
"""Label of a job that is pods which somebody else made: gone, they do not come again, and what comes is another job."""


class ResizeKind(StrEnum):
    """What a resize is for a job: how its members are told, and what becomes of those that stay."""

    TASKS = "tasks"
    """Independent workers: more are started, some are stopped, the others notice nothing."""
    TORCHRUN = "torchrun"
    """`torchrun` meets anew: members join the rendezvous, leaving ones get a notice first, rank 0 stays."""
    SIGNAL = "signal"
    """The job adapts by itself: every member gets SIGUSR1 and reads the size file."""
    RESTART = "restart"
    """The whole gang saves and stops, and starts again at the new size on room that is kept for it."""


class Elastic(Struct, frozen=True, omit_defaults=True, gc=False):
    """The job's side of the contract in docs/elastic.md."""

    kind: ResizeKind = ResizeKind.TASKS
    notice_s: int = 0
    """A leaving member is told so long before its stop signal, unless it answers "safe" earlier."""
    confirm_s: int = 0
    """After a change the gang confirms its new size within this time, or it is restarted whole; 0 asks for no word."""
    start_s: int = 0
    """New members that did not start within this time are given back; 0 waits for ever."""
    cooldown_s: int = 0
    """The job is left alone for so long after a change, unless somebody needs its room."""
    cost_s: int = 0
    """What one change costs in work time; 0 takes what the job's own changes took."""


class Pausing(Struct, frozen=True, omit_defaults=True, gc=False):
    """That a job with GPUs may be paused: stopped where it is, with what then stays in the memory of its GPUs."""

    gpu_memory_mib: int = 0
    """What stays in the memory of each of its GPUs while it is paused; 0 when it moves all of it to the host."""
    notice_s: int = 0
    """It is told so long before it is stopped, unless it answers "safe" earlier."""


class Resources(Struct, frozen=True, omit_defaults=True, gc=False):
    """What one task of a role needs on one node.

    `gpu_milli` is a multiple of 1000 (whole GPUs) or 1..999 (a share of one GPU). With `gpu_milli` 0 and
    `gpu_memory_mib` > 0 the task asks for a share by memory alone (gpushare form). With whole GPUs
    `gpu_memory_mib` is the least memory each GPU must have.
    """

    gpu_milli: int = 0
    gpu_memory_mib: int = 0
    gpu_models: tuple[str, ...] = ()
    """Acceptable models, best first, matched exactly (case-insensitive); empty accepts any."""
    cpu_milli: int = 0
    memory_mib: int = 0
    devices: dict[str, int] = {}
    """Other countable devices by name."""
    exclude_models: tuple[str, ...] = ()
    """Models that will not do, matched like `gpu_models`."""
    near_nic: bool = False
    """Only GPUs that share a PCIe switch with a network card."""
    mig: str = ""
    """A slice of a card cut by MIG, such as "3g.20gb"; `gpu_milli` is then its part of the card's compute slices."""
    beside: bool = False
    """It takes no GPU time of its own, only memory: it works beside others in what they leave, within its limit."""
    gpu_memory_most_mib: int = 0
    """Of each whole GPU no more memory than this is used, and the rest may stay with paused jobs; 0 is all of it."""

    @property
    def whole_gpus(self) -> int:
        """Number of whole GPUs, 0 for a share or a slice."""
        return 0 if self.mig else self.gpu_milli // GPU_MILLI

    @property
    def is_gpu_share(self) -> bool:
        """True when the task takes a part of one GPU, a slice included."""
        return bool(self.mig) or 0 < self.gpu_milli < GPU_MILLI or (self.gpu_milli == 0 and self.gpu_memory_mib > 0)

    @property
    def wants_gpu(self) -> bool:
        """True when any GPU, whole or shared, is asked for."""
        return self.gpu_milli > 0 or self.gpu_memory_mib > 0

    @property
    def service_milli(self) -> int:
        """What a millisecond of one task counts as service: its GPU thousandths, or CPUs where 64 are a GPU."""
        return self.gpu_milli or max(1, self.cpu_milli // CPUS_PER_GPU)


class Toleration(Struct, frozen=True, omit_defaults=True, gc=False):
    """A taint the job accepts: the same key, unless the key is empty, and the same value unless that is empty."""

    key: str
    value: str = ""
    effect: str = ""
    """Only taints with this effect; empty accepts all."""
    is_exact: bool = False
    """An empty value accepts only an empty one."""


class Role(Struct, frozen=True, omit_defaults=True, gc=False):
    """A set of equal tasks: `count` wanted at start, at least `min_count`, at most `max_count` when elastic."""

    name: str
    count: int
    min_count: int
    max_count: int
    resources: Resources
    command: tuple[str, ...] = ()
    environment: dict[str, str] = {}
    image: str = ""
    sizes: tuple[int, ...] = ()
    """Allowed sizes, ascending; empty allows every size from min_count to max_count."""
    serves: str = ""
    """The role whose tasks use its GPUs over the network; it runs until those have ended (see room.remote)."""
    node_selector: dict[str, str] | None = None
    """Labels of its nodes, instead of the job's; None takes the job's."""
    tolerations: tuple[Toleration, ...] | None = None
    """Taints that it accepts, instead of the job's; None takes the job's."""

    @property
    def is_elastic(self) -> bool:
        """True when the scheduler may change the size while the job runs."""
        return self.min_count < self.max_count

    def allows(self, size: int) -> bool:
        """True when the role may have this size."""
        return self.min_count <= size <= self.max_count and (not self.sizes or size in self.sizes)


class TopologyWish(Struct, frozen=True, omit_defaults=True, gc=False):
    """How close together the gang must and should be: names of levels, such as "nvlink", "node" or "rack"."""

    required: str = ""
    preferred: str = ""
    slice_tasks: int = 0
    """So many tasks with neighbouring ranks stand inside one domain of `slice_level`; 0 asks for no slices."""
    slice_level: str = ""
    spread_level: str = ""
    """At most `spread_most` tasks stand in one domain of this level; empty asks for no spread."""
    spread_most: int = 1


class DependencyKind(StrEnum):
    """How the other job must have ended."""

    OK = "ok"
    """It succeeded (afterok)."""
    ANY = "any"
    """It ended, however (afterany)."""
    NOT_OK = "notok"
    """It ended, but did not succeed (afternotok)."""


class Dependency(Struct, frozen=True, omit_defaults=True, gc=False):
    """Another job that must have ended first, in the way that its kind says; `any_outcome` is an old word for ANY."""

    job: int
    any_outcome: bool = False
    kind: DependencyKind = DependencyKind.OK
    index: int = -1
    """Element of the array `job` as it was asked for; the door replaces both by the element's own number."""
    entry: int = -1
    """Place of the other job among those asked for together, where it has no number yet; the door puts it in."""

    @property
    def wants(self) -> DependencyKind:
        """How the other job must have ended."""
        return DependencyKind.ANY if self.any_outcome else self.kind


class ArraySpec(Struct, frozen=True, omit_defaults=True, gc=False):
    """Equal jobs kept as one record, one per index; each starts, ends and is charged alone."""

    ranges: tuple[tuple[int, int, int], ...]
    """(first, last, step), ascending and without common indexes."""
    at_most: int = 0
    """Elements that may be unfinished in the queue or running at once; 0 means no cap."""


class JobSpec(Struct, frozen=True, omit_defaults=True, gc=False):
    """One job as asked for; all of its roles start together (a gang) or none does."""

    name: str
    group: str
    """Path in the group tree, such as "research/vision"."""
    user: str
    roles: tuple[Role, ...]
    pool: str = "default"
    level: str = "normal"
    """The queue level: a named band of priority inside the pool's queue."""
    priority: int = 0
    service_class: ServiceClass = ServiceClass.BURSTABLE
    labels: dict[str, str] = {}
    attributes: dict[str, str | int | float | bool] = {}
    """Anything the administrator's formula may use, such as kind, field, model, parameters."""
    topology: TopologyWish = TopologyWish()
    node_selector: dict[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()
    estimate_s: int = 0
    """The user's estimate of the run time; 0 when not given."""
    time_limit_s: int = 0
    """The job is stopped after this; 0 means no limit."""
    protected_s: int = 0
    """The job is never preempted in the first seconds of a run; -1 protects all of it."""
    grace_s: int = 30
    """Time between the stop signal and the kill."""
    stop_signal: str = "SIGTERM"
    retries: int = 0
    """Further attempts after a failure of the job itself; node loss and preemption do not consume it."""
    preemptible: bool = True
    after: tuple[Dependency, ...] = ()
    not_before_ms: int = 0
    hold: bool = False
    secrets: tuple[str, ...] = ()
    """Names of sealed values that the placeholders in commands and environments stand for."""
    elastic: Elastic = Elastic()
    """How the job's elastic roles are resized."""
    exclude_nodes: tuple[str, ...] = ()
    """Nodes on which no task may be."""
    same_model: bool = False
    """All GPUs of the gang are of one model; without it, only where that is possible. Those of a task always are."""
    start_limit_s: int = 0
    """A gang that was given room but has not started wholly by then gives it back; 0 leaves it to the pool."""
    array: ArraySpec | None = None
    """Set when the job is an array: its elements run, each as a job of its own, and the array itself never does."""
    deadline_ms: int = 0
    """The job is of no use after this moment and ends then; 0 means none."""
    singleton: bool = False
    """Only one job of this name and user runs at a time."""
    pausing: Pausing | None = None
    """Set when the job may be paused although it has GPUs; one without any always may."""
    pinned_cell: str = ""
    """A named cell of the pool that is kept for the job's group; the job goes there and nowhere else."""
    lazy_preemption: bool = False
    """When a job of its group needs its cells, it runs on where it is as an opportunistic one, if that will do."""
    repair_s: int = 0
    """A lost member is placed again alone within this time, while the others run on; 0 starts the gang anew."""
    protected_below: int | None = None
    """Protected time holds only against lower priorities than this; None holds against all."""
    retry_from: int = 0
    """Only failures with an exit code from this one on are worth another attempt: 128 are ends by a signal."""
    preempts: bool = True
    """Others may have to make way for it; without that it only goes before them in the queue."""
    stays: int = 0
    """So many of its tasks stay whatever others need or a policy wants; its owner may still make it smaller."""
    checkpoints: bool = False
    """Told to stop, it saves its work within its grace, and goes on from there when it starts again."""


def selector_of(spec: JobSpec, role: Role) -> dict[str, str]:
    """Labels that the nodes of a role's tasks have."""
    return spec.node_selector if role.node_selector is None else role.node_selector


def tolerations_of(spec: JobSpec, role: Role) -> tuple[Toleration, ...]:
    """Taints that a role's tasks accept."""
    return spec.tolerations if role.tolerations is None else role.tolerations


def common_selector(spec: JobSpec) -> dict[str, str]:
    """Labels that the nodes of all tasks have, whatever their role."""
    first, *others = [selector_of(spec, role) for role in spec.roles] or [spec.node_selector]
    return {key: value for key, value in first.items() if all(one.get(key) == value for one in others)}


def whole_slices(role: Role, unit: int) -> Role:
    """The role with those of its sizes alone that are whole slices; as it is without slices, or where none will do."""
    if not unit or not role.is_elastic:
        return role
    sizes = [size for size in role.sizes or range(role.min_count, role.max_count + 1) if size and size % unit == 0]
    if not sizes:
        return role
    least = 0 if role.min_count == 0 else sizes[0]
    return replace(role, min_count=least, max_count=sizes[-1], sizes=tuple(sizes))


def smallest_size(role: Role) -> int:
    """The fewest tasks the role may have."""
    if not role.sizes:
        return role.min_count
    return min((size for size in role.sizes if role.allows(size)), default=role.min_count)


def is_beside(spec: JobSpec) -> bool:
    """True when the job works in the GPU time that others leave."""
    return any(role.resources.beside for role in spec.roles)


def costs_gpu_time(spec: JobSpec) -> bool:
    """True when running costs GPU time, which is what budgets are of; who works beside others takes none of its own."""
    return any(role.resources.wants_gpu and not role.resources.beside for role in spec.roles)


def may_pause(spec: JobSpec) -> bool:
    """True when the job's processes may be stopped where they are: it said so, or it has no GPU."""
    return spec.pausing is not None or not any(role.resources.wants_gpu for role in spec.roles)


def starts_again(spec: JobSpec) -> bool:
    """True when the job goes on where it stopped once it starts anew: it said so, or its sizes change that way."""
    return (spec.checkpoints and PODS not in spec.labels) or spec.elastic.kind == ResizeKind.RESTART


def may_take(spec: JobSpec) -> bool:
    """True when others may have to go, or become smaller, for the job at all."""
    return spec.preempts and spec.service_class != ServiceClass.OPPORTUNISTIC


def has_terms(spec: JobSpec) -> bool:
    """True when anything of its own could keep the job from starting."""
    return bool(spec.after or spec.not_before_ms or spec.deadline_ms or spec.singleton)


def least_size(spec: JobSpec, role: Role, *, size: int, tasks: int) -> int:
    """How small others, or a policy, may make a role that has this size while the job has so many tasks."""
    return max(smallest_size(role), size - max(0, tasks - spec.stays))


def task_count(spec: JobSpec) -> int:
    """Tasks wanted at start over all roles."""
    return sum(role.count for role in spec.roles)


def gpu_milli_wanted(spec: JobSpec) -> int:
    """GPU thousandths wanted at start over all roles (shares by memory alone count as 0)."""
    total = 0
    for role in spec.roles:
        total += role.count * role.resources.gpu_milli
    return total


def is_elastic(spec: JobSpec) -> bool:
    """True when any role may change its size while the job runs."""
    return any([role.min_count < role.max_count for role in spec.roles])

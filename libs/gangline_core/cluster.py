"""The machines: nodes with their GPUs, what is in use on them, and the pools they belong to."""

from msgspec import Struct, field

from gangline_core.ids import NodeId, TaskId
from gangline_core.job import Task
from gangline_core.spec import GPU_MILLI

LEVELS_INSIDE_NODE = ("nvlink", "switch", "socket", "node")
"""Topology levels that end at the node, closest first; levels above come from the pool."""


class MigSlice(Struct, frozen=True, omit_defaults=True, gc=False):
    """A slice that a card is cut into already, as its driver tells: the GPU instance, and the device inside it.

    Where a card has `slices`, they are all it has: tasks may take exactly the slots of one of them (see `mask`) and
    only for its profile; where it has none but a geometry (simulated nodes), it is cut as tasks come. A slice without
    `uuid` has no device, or several, inside it: no task can be told to use it, so none is put there.
    """

    profile: str
    """Such as "3g.20gb"; a name in the card's geometry."""
    start: int
    """First memory slot, counted from 0."""
    size: int
    """Memory slots it covers."""
    uuid: str = ""
    """By which a program is given it: "MIG-...", as CUDA_VISIBLE_DEVICES takes it."""

    @property
    def mask(self) -> int:
        """The slots as in GpuShare.slots."""
        return ((1 << self.size) - 1) << self.start


class Gpu(Struct, frozen=True, omit_defaults=True, gc=False):
    """One GPU of a node."""

    index: int
    model: str
    memory_mib: int
    uuid: str = ""
    socket: int = 0
    """CPU socket (NUMA node) it hangs on."""
    island: int = 0
    """NVLink island inside the node; GPUs of one island reach each other without PCIe."""
    healthy: bool = True
    problem: str = ""
    suspect: str = ""
    """What telemetry holds against a GPU that may still be used, such as rising error counts; empty when nothing."""
    switch: int = -1
    """PCIe switch of the socket; what hangs on one switch reaches each other without the CPU; -1 when not known."""
    mig: str = ""
    """A name in gangline_core.room.mig.GEOMETRIES when the card is cut into slices, which is then all it takes."""
    slices: tuple[MigSlice, ...] = ()
    """The slices it is cut into, when an agent read them off a real card, lowest slot first: the only ones to take."""
    paths: tuple[str, ...] = ()
    """How it reaches the node's GPUs, by index, in the words of `nvidia-smi topo`: NV4 is four NVLinks, PIX, PXB, PHB,
    NODE and SYS are ever longer ways over PCIe, X is itself; empty where the driver does not tell."""
    nvlink_mib_s: int = 0
    """What one of its NVLinks carries in one direction; 0 where that is not known."""
    pcie_mib_s: int = 0
    """What its PCIe slot carries in one direction; 0 where that is not known."""
    device: str = ""
    """Pool and name by which a cluster's driver publishes it; its index stays with it for as long as the log has it."""
    driver_problem: str = ""
    """Why its driver wants nothing new put there: ends when the driver no longer says so, and moves nothing."""

    @property
    def is_failed(self) -> bool:
        """True when telemetry found it failed, whatever its driver says."""
        return not self.healthy and not (self.driver_problem and self.problem == self.driver_problem)

    @property
    def cut(self) -> str:
        """How it is cut, as `room.mig.geometry` reads it: by any slices of a geometry, or into fixed ones."""
        if not self.mig or not self.slices:
            return self.mig
        return f"{self.mig}:" + ",".join(f"{one.profile}@{one.start}" for one in self.slices if one.uuid)


class Nic(Struct, frozen=True, omit_defaults=True, gc=False):
    """A network card that gangs talk over."""

    name: str
    socket: int = 0
    switch: int = -1


class Taint(Struct, frozen=True, omit_defaults=True, gc=False):
    """A mark that keeps jobs away which do not tolerate it."""

    key: str
    value: str = ""
    effect: str = ""
    """How strongly, where that makes a difference to who tolerates it; empty is any way."""


class Elsewhere(Struct, frozen=True, omit_defaults=True, gc=False):
    """What work that is not Gangline's has of a machine now, beside what its description counts."""

    cpu_milli: int = 0
    memory_mib: int = 0
    devices: dict[str, int] = {}
    gpus: tuple[Gpu, ...] = ()
    tasks: int = 0


class Node(Struct, frozen=True, omit_defaults=True, gc=False):
    """One machine as its agent described it, with what administrators and telemetry added."""

    id: NodeId
    agent: str
    """Name of the agent that carries the node; facts about it come on lane agent.<agent>."""
    cpu_milli: int
    memory_mib: int
    gpus: tuple[Gpu, ...] = ()
    pool: str = "default"
    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    devices: dict[str, int] = {}
    address: str = "127.0.0.1"
    """Where the node's processes are reached by the gang."""
    drained: bool = False
    drain_why: str = ""
    lost: bool = False
    seen_ms: int = 0
    problem: str = ""
    """Why the node takes no GPU work although it is there, such as a failing NVML; empty when all is well."""
    quarantine: str = ""
    """Why telemetry keeps new work away for a while, such as starts that fail at once; empty when it does not."""
    nics: tuple[Nic, ...] = ()
    """Network cards by which a GPU's switch is known to have one."""
    is_watched: bool = False
    """True when its carrier says itself when it is lost (Kubernetes), so that silence of samples proves nothing."""
    tasks_max: int | None = None
    """Most tasks that its carrier takes at once, such as a kubelet's pods; None where only the policy bounds them."""
    home: str = ""
    """The pool that its agent names, while an administrator has assigned it to another; empty otherwise."""
    quarantined_ms: int = 0
    """Since when new work is kept away; 0 when it is not."""
    elsewhere: Elsewhere | None = None
    """What others have of it, which the numbers above leave out; it may come back any time."""
    twin: str = ""
    """The node that has one of its cards and is there: one machine under two names takes new work under one of them."""
    ends_alone_ms: int = 28_000
    """Cut off for so long, its agent has ended by itself what runs there; before that it must not count as lost."""

    @property
    def takes_work(self) -> bool:
        """True when new tasks may be placed here."""
        return not (self.drained or self.lost or self.problem or self.quarantine or self.twin)


def free_gpu_milli(node: Node, use: "NodeUse") -> dict[int, int]:
    """Thousandths of each healthy GPU that new tasks may have, by index; nothing of a node that takes no work.

    Whoever shows free GPUs asks this; those of a node with taints are free for jobs that tolerate them only.
    """
    if not node.takes_work:
        return {}
    taken = use.gpu_milli
    return {
        gpu.index: max(0, GPU_MILLI - (taken[gpu.index] if gpu.index < len(taken) else 0))
        for gpu in node.gpus
        if gpu.healthy
    }


def tasks_most(node: Node, policy_most: int) -> int:
    """Most tasks on a node: what its carrier takes, and no more than the policy allows."""
    return policy_most if node.tasks_max is None else min(node.tasks_max, policy_most)


def model_of(node: Node, index: int) -> str:
    """Model of the GPU with this index; empty when the node does not report it (indexes may have gaps)."""
    gpus = node.gpus
    if index < len(gpus) and gpus[index].index == index:
        return gpus[index].model
    return next((gpu.model for gpu in gpus if gpu.index == index), "")


def gpu_span(node: Node) -> int:
    """How long a list by GPU index must be to hold every GPU the node reports."""
    return max((gpu.index for gpu in node.gpus), default=-1) + 1


class Load(Struct, frozen=True, omit_defaults=True, gc=False):
    """How busy a node was in its last summary, in percent; -1 is "not known", which is never the same as idle.

    A reader compares `at` with its `now`: a load older than LOAD_STALE_MS says nothing any more.
    """

    at: int
    gpu_mean: int = -1
    gpu_deviation: int = -1
    cpu_mean: int = -1
    cpu_deviation: int = -1
    memory_mean: int = -1
    memory_deviation: int = -1
    samples: int = 0


LOAD_STALE_MS = 300_000
"""A load summary older than this is treated as missing."""


class PinnedCell(Struct, frozen=True, omit_defaults=True, gc=False):
    """One part of the topology that is a group's by name: only jobs that ask for it by that name are placed there."""

    group: str
    level: str
    cell: str
    """The domain of a level above the node, else the node or "node/number" for a part of one."""


class Pool(Struct, frozen=True, omit_defaults=True, gc=False):
    """A logical domain of nodes with its own queue and placement leader."""

    name: str
    levels: dict[str, int] = field(default_factory=lambda: {"high": 1000, "normal": 0, "low": -1000})
    """Queue levels and the priority band each adds to its jobs."""
    topology: dict[str, str] = field(
        default_factory=lambda: {"rack": "topology.gangline.dev/rack", "block": "topology.gangline.dev/block"}
    )
    """Administrator-named topology levels above the node, smallest first: level -> node label that names the domain."""
    cells: dict[str, dict[str, int]] = {}
    """Guarantees of shape: group -> level -> so many parts of the topology; kept by the placement `cells`.

    "node@V100" asks for parts with this GPU model only, "node@zone=east" for parts of nodes with this label.
    """
    pinned: dict[str, PinnedCell] = {}
    """Cells that a group has by name, beside those it is owed."""
    version: int = 0
    grows: bool = False
    """Machines come when they are asked for, as with an autoscaler: no job is refused because today's are too few."""


class LevelRule(Struct, frozen=True, omit_defaults=True, gc=False):
    """How one queue level is served, and when jobs leave it for another."""

    strict: bool = False
    """Nobody starts before the one in front of it; otherwise whoever fits may."""
    head_wait_s: int = 0
    """One that stands in front, blocked, for so long loses its place to those behind it; 0 never does."""
    to: str = ""
    """The level that jobs move to; empty when they stay."""
    after_gpu_s: int = 0
    """A job moves when its earlier runs had so many GPU-seconds; 0 is no reason to."""
    after_wait_s: int = 0
    """A job moves when it has waited so long; 0 is no reason to."""


class Policy(Struct, frozen=True, omit_defaults=True, gc=False):
    """How one pool orders, places and preempts; everything here may be changed while jobs run."""

    ordering: str = "weighted"
    """A name in gangline_core.ordering.ORDERINGS."""
    formula: str = "level + 1000 * priority + 10 * age_hours - 10 * share_over_weight"
    """The weighted ordering's expression over named factors (see docs)."""
    placement: str = "default"
    """A name in gangline_core.placement.PLACERS."""
    preemption: bool = True
    shrink: bool = True
    backfill: bool = True
    elastic_growth: bool = True
    starvation_s: int = 3600
    """After this wait a job goes before everything younger, whatever the formula says."""
    starvation_percent: int = 25
    """But while those that went first for it hold so much of the pool, the ordering says who goes next; 100: never."""
    candidates_max: int = 1000
    """Most jobs one round looks at."""
    candidates_per_shape: int = 256
    """Most jobs of one shape in one round; of further ones only the shortest could fare better, and are looked at."""
    version: int = 0
    elastic: str = "adaptive"
    """A name in gangline_core.elasticity.POLICIES: who decides how big elastic jobs are."""
    elastic_interval_s: int = 60
    """Policies that weigh all jobs at once do so at most this often."""
    min_utilisation_percent: int = 0
    """A job whose GPUs are used less than this is warned, then gives them back; 0 leaves everybody alone."""
    min_utilisation_s: int = 3600
    """Over this window; the warning comes after half of it."""
    stop_trespassers: bool = False
    """Jobs whose processes are on a GPU that they do not hold end; otherwise that is only told."""
    start_limit_s: int = 3600
    """A gang that was given room but has not started wholly by then gives it back; 0 waits for ever."""
    hang_s: int = 0
    """A job that has reported steps and then none for so long is restarted whole; 0 never."""
    half_life_s: int = 604_800
    """Past use of groups and users is worth half as much after this time; 0 never forgets."""
    service_thresholds: tuple[int, ...] = (3_250, 7_200, 18_000)
    """GPU-seconds of service at which a job moves down one queue of the least_attained ordering."""
    promote_after: int = 0
    """A job that waits so many times as long as it ran is back in the first of these queues; 0 never promotes."""
    objective: str = "max_min"
    """What the gavel ordering optimises: a name in gangline_core.ordering.gavel.OBJECTIVES."""
    levels: dict[str, LevelRule] = {}
    """Rules of queue levels; the bands and names of levels are the pool's."""
    backfill_depth: int = 1
    """Blocked jobs that compete for the same room and have a date each: 1 is EASY, more is conservative backfill, and
    with 0 nobody has a date and whoever fits passes."""
    unlimited_run_percent: int = 150
    """A job without time limit is taken to run this part of what was predicted, where a date depends on its end."""
    oldest_preempts: bool = False
    """Where attained service orders: inside one queue the older may take the room of younger ones that passed it."""
    postpone_percent: int = 0
    """With the placement `bisection`: a task waits while its best place has less utility than this; 0 never waits."""
    node_tasks_max: int = 512
    """Most tasks on one node, whatever they ask for, so that a crowd of tiny ones cannot stall the node's agent."""
    time_slice_s: int = 0
    """A job that worked for so long makes way for others that could work on its GPUs, and they for it; 0 never."""
    packing: bool = False
    """A paused job goes on beside the one on its GPUs where both get further so than by turns."""
    migration: bool = False
    """Gangs that start again for a change of size also do so when they can stand closer together."""
    predictor: str = "rolling"
    """Where run times come from, a name in foresight.predict.PREDICTORS: jobs like it, or what the job says."""
    model_affinity: bool = True
    """Who names no GPU model goes to those on which jobs like it were faster; who can start again moves there later."""
    model: str = ""
    """What the predictor `learnt` was taught by `gangline lab train`, as one text."""
    lease_s: int = 0
    """Room is lent for so long; then whoever goes first in the order has it, running or waiting. 0: to the end."""
    schedulers: int = 1
    """How many placement schedulers decide each round side by side, before the leader decides the rest."""
    scheduler_preference: str = "adaptive"
    """What they look at first: "quality-first", "latency-first", or "adaptive", which turns when jobs wait."""
    scheduler_sync: str = "partitioned"
    """What they synchronise: one partition of the nodes with each round ("partitioned"), or all at once ("full")."""
    scheduler_partitions: int = 8
    """Partitions of the nodes; a scheduler has seen everything anew after so many rounds."""
    scheduler_delay_s: int = 10
    """Adaptive schedulers look at freshness first while the jobs that they place waited longer than this."""
    newcomers_wait: bool = False
    """With leases under the gavel ordering: who came since parts of time were last worked out starts only when they
    are worked out again, as in the published simulators; otherwise it has what others leave until then."""
    returned_last: bool = False
    """Where attained service orders: inside one queue who was stopped stands behind those that waited before it;
    otherwise whoever has waited longest in all goes first."""
    sharing: str = ""
    """Which jobs share GPUs: a name in gangline_core.sharing.rules.RULES; empty has nobody do so."""
    yield_after_gpu_s: int = 57_600
    """A job that checkpoints and had so many GPU-seconds makes way for those that do and need less still; 0 never."""
    yield_run_s: int = 600
    """But no run of it that has not lasted so long."""
    yield_wait_s: int = 86_400
    """And not once it has waited so long in all: then it keeps its room, and goes before everything younger."""
    sinks_last: bool = False
    """Where attained service orders, as in Tiresias' simulator: who sinks goes behind those that wait in its new queue,
    and they may take its room in the next round; who is stopped later, for queues above, stands in front of them, the
    last stopped first. Otherwise whoever has waited longest in all goes first, and only queues above take room."""


class NodeUse:
    """What is taken on one node; changed only by the fold, by whole tasks."""

    __slots__ = ("cpu_milli", "devices", "gpu_memory_mib", "gpu_milli", "gpu_slots", "memory_mib", "tasks")

    def __init__(self, gpu_count: int) -> None:
        """Empty use of a node with `gpu_count` GPUs."""
        self.cpu_milli = 0
        self.memory_mib = 0
        self.gpu_milli = [0] * gpu_count
        self.gpu_memory_mib = [0] * gpu_count
        self.gpu_slots = [0] * gpu_count
        """MIG slots taken, as a mask."""
        self.devices: dict[str, int] = {}
        self.tasks: dict[TaskId, None] = {}

    def add(self, task: Task, sign: int) -> None:
        """Take (`sign` 1) or give back (`sign` -1) a task's room."""
        self.cpu_milli += sign * task.cpu_milli
        self.memory_mib += sign * task.memory_mib
        for share in task.gpus:
            self.reach(share.index + 1)
            self.gpu_milli[share.index] += sign * share.milli
            self.gpu_memory_mib[share.index] += sign * share.memory_mib
            self.gpu_slots[share.index] += sign * share.slots
        for device, count in task.devices.items():
            self.devices[device] = self.devices.get(device, 0) + sign * count
        if sign > 0:
            self.tasks[task.id] = None
        else:
            self.tasks.pop(task.id, None)

    def is_otherwise_cut(self, index: int, *, mig: str) -> bool:
        """True when tasks hold the card in a form that it no longer has: slices of a whole one, or a part of a cut one.

        Until they are gone nothing can be put beside them: what they hold lies nowhere on the card as it now is.
        """
        return bool(self.gpu_milli[index]) and bool(self.gpu_slots[index]) != bool(mig)

    def reach(self, gpu_count: int) -> None:
        """Make the lists long enough; they never get shorter, since a task may hold a GPU no longer reported."""
        missing = gpu_count - len(self.gpu_milli)
        if missing > 0:
            self.gpu_milli.extend([0] * missing)
            self.gpu_memory_mib.extend([0] * missing)
            self.gpu_slots.extend([0] * missing)

"""Everything Gangline knows: the fold of the log, with the indexes that make decisions fast.

`State` is changed only by `gangline_core.fold.apply`. Its values are frozen; decisions read it synchronously, so it
stands still while they run. `Kept` is the part a snapshot holds; everything else is derived from it.
"""

import msgspec
from msgspec import Struct

from gangline_core.cluster import Node, NodeUse, Policy, Pool
from gangline_core.facts import Claim, Reservation, ResizeProposed, RoundOpened, UsageCharged
from gangline_core.groups import ROOT, Group, Token, User, ancestors, user_key
from gangline_core.ids import JobId, NodeId, TaskId
from gangline_core.job import ENDS, LIVE, Job, JobState, Task, TaskState
from gangline_core.spec import Resources

ENDED_JOBS_KEPT = 20_000
"""Ended jobs the fold remembers; older ones are found in the archive."""
SUBMITS_KEPT = 100_000
"""Idempotency keys the fold remembers."""


class OpenRound(Struct, frozen=True):
    """A round that waits for its decision: at which sequence and time it was opened."""

    opened: RoundOpened
    seq: int
    at: int


class PoolState(Struct):
    """What the fold knows of one pool's scheduling."""

    pool: Pool
    policy: Policy
    rounds: int = 0
    """Number of the last opened round."""
    open_round: OpenRound | None = None
    decided_seq: int = 0
    decided_at: int = 0
    reservations: tuple[Reservation, ...] = ()
    proposals: dict[JobId, ResizeProposed] = {}


class Kept(Struct):
    """All that a snapshot must hold; plain dictionaries of frozen values."""

    seq: int = 0
    """Log sequence of the last applied message."""
    digest: str = ""
    """Head of the hash chain of all applied messages."""
    at: int = 0
    """Latest time seen in the log, in ms."""
    next_job: int = 1
    jobs: dict[JobId, Job] = {}
    tasks: dict[TaskId, Task] = {}
    nodes: dict[NodeId, Node] = {}
    pools: dict[str, PoolState] = {}
    groups: dict[str, Group] = {}
    users: dict[str, User] = {}
    """By user_key."""
    tokens: dict[str, Token] = {}
    claims: dict[JobId, Claim] = {}
    submits: dict[str, tuple[JobId, ...]] = {}
    ended: dict[JobId, None] = {}
    """Ended jobs in the order they ended, oldest first."""
    epochs: dict[str, int] = {}
    """Highest epoch seen per lane."""
    lane_seqs: dict[str, int] = {}
    """Log sequence of the last message of each lane: the writer's expected sequence."""
    uncharged: dict[TaskId, UsageCharged] = {}
    charged: dict[str, int] = {}
    """gpu_milli_ms charged per group path and user_key, ancestors included."""
    exhausted: dict[str, None] = {}
    """Groups whose budget is used up."""
    recent_submits: dict[str, tuple[int, ...]] = {}
    """Admission times of the last minute per group and user_key, for submit rates."""
    utilisation: dict[NodeId, tuple[int, int]] = {}
    """Last summary per node: mean GPU percent (-1 when absent) and its time."""


class State:
    """The fold's memory: `kept` plus what is derived from it."""

    def __init__(self, kept: Kept | None = None) -> None:
        """An empty state, or the one a snapshot holds."""
        self.kept = kept or fresh()
        self.use: dict[NodeId, NodeUse] = {}
        """What live tasks take on each node."""
        self.node_tasks: dict[NodeId, dict[TaskId, None]] = {}
        self.usage: dict[str, dict[str, int]] = {}
        """Live use per group path (ancestors included) and user_key, by dimension; no zero entries."""
        self.unfinished: dict[str, int] = {}
        """Unfinished jobs per group path (ancestors included) and user_key."""
        self.waiting: dict[str, dict[JobId, None]] = {}
        """Jobs in state waiting, per pool, by id."""
        self.names: dict[tuple[str, str], JobId] = {}
        """Unfinished job by (user_key, name)."""
        self.shapes: dict[JobId, int] = {}
        """Shape number of every waiting job: equal numbers ask for exactly the same."""
        self._shape_numbers: dict[bytes, int] = {}
        self.stopping_tasks: dict[TaskId, None] = {}
        """Live tasks that were told to stop."""
        self._derive()

    def _derive(self) -> None:
        for node in self.kept.nodes.values():
            self.use[node.id] = NodeUse(len(node.gpus))
            self.node_tasks.setdefault(node.id, {})
        for task in self.kept.tasks.values():
            self.index_task(task)
        for job in self.kept.jobs.values():
            self.index_job(job)

    # --- reading ----------------------------------------------------------------------------------------

    def job(self, job: JobId) -> Job | None:
        """The job, if it is known and not long ended."""
        return self.kept.jobs.get(job)

    def pool_of(self, job: Job) -> PoolState:
        """The scheduling state of the job's pool."""
        return self.kept.pools[job.spec.pool]

    def tasks_of(self, job: Job) -> list[Task]:
        """The job's live tasks in rank order."""
        return [self.kept.tasks[task] for task in job.tasks]

    def nodes_of(self, pool: str) -> list[Node]:
        """Nodes of the pool in id order."""
        return sorted((node for node in self.kept.nodes.values() if node.pool == pool), key=lambda node: node.id)

    def live_jobs(self) -> list[Job]:
        """Jobs that may hold resources, by id."""
        return [job for _, job in sorted(self.kept.jobs.items()) if job.state in LIVE]

    # --- indexes: called by the fold only ----------------------------------------------------------------

    def index_job(self, job: Job) -> None:
        """Enter a job into the derived indexes."""
        if job.id in self.kept.ended:
            return
        if job.state == JobState.WAITING:
            self.waiting.setdefault(job.spec.pool, {})[job.id] = None
            self.shapes[job.id] = self._shape(job)
        holder = user_key(job.spec.group, job.spec.user)
        self.names[holder, job.spec.name] = job.id
        for path in (*ancestors(job.spec.group), holder):
            self.unfinished[path] = self.unfinished.get(path, 0) + 1

    def drop_job(self, job: Job) -> None:
        """Take a job out of the derived indexes (before it changes or ends)."""
        self.waiting.get(job.spec.pool, {}).pop(job.id, None)
        self.shapes.pop(job.id, None)
        holder = user_key(job.spec.group, job.spec.user)
        if self.names.get((holder, job.spec.name)) == job.id:
            del self.names[holder, job.spec.name]
        for path in (*ancestors(job.spec.group), holder):
            count(self.unfinished, path, -1)

    def index_task(self, task: Task) -> None:
        """Book a task's room on its node and in its group's usage."""
        use = self.use.get(task.node)
        if use is None:
            use = self.use[task.node] = NodeUse(0)
        use.add(task, 1)
        self.node_tasks.setdefault(task.node, {})[task.id] = None
        if task.stop:
            self.stopping_tasks[task.id] = None
        if task.state != TaskState.LOST:
            self._charge(task, 1)

    def drop_task(self, task: Task) -> None:
        """Give a task's room back."""
        self.use[task.node].add(task, -1)
        self.node_tasks[task.node].pop(task.id, None)
        self.stopping_tasks.pop(task.id, None)
        if task.state != TaskState.LOST:
            self._charge(task, -1)

    def put_node(self, node: Node) -> None:
        """Enter a node, new or changed."""
        if node.id not in self.use:
            self.use[node.id] = NodeUse(len(node.gpus))
            self.node_tasks.setdefault(node.id, {})
        self.kept.nodes[node.id] = node

    def put_task(self, task: Task) -> None:
        """Enter a task, new or changed."""
        known = self.kept.tasks.get(task.id)
        if known is not None:
            self.drop_task(known)
        self.kept.tasks[task.id] = task
        self.index_task(task)

    def remove_task(self, task: Task) -> None:
        """Forget a task and give its room back."""
        self.drop_task(task)
        del self.kept.tasks[task.id]

    def put_job(self, job: Job) -> None:
        """Enter a job, new or changed."""
        known = self.kept.jobs.get(job.id)
        if known is not None and known.id not in self.kept.ended:
            self.drop_job(known)
        if job.state in ENDS:
            self.kept.ended[job.id] = None
        self.kept.jobs[job.id] = job
        self.index_job(job)

    def put_claim(self, claim: Claim) -> None:
        """Keep room for a job whose victims are stopping."""
        self.kept.claims[claim.job] = claim

    def drop_claim(self, job: JobId) -> None:
        """The job no longer needs the room kept for it."""
        self.kept.claims.pop(job, None)

    def lost_tasks(self, node: NodeId) -> list[TaskId]:
        """Tasks that held room on the node when it was lost."""
        return [task for task in self.node_tasks.get(node, {}) if self.kept.tasks[task].state == TaskState.LOST]

    def _charge(self, task: Task, sign: int) -> None:
        amounts = task_amounts(task)
        for path in (*ancestors(task.group), user_key(task.group, task.user)):
            usage = self.usage.setdefault(path, {})
            for dimension, amount in amounts.items():
                count(usage, dimension, sign * amount)

    def _shape(self, job: Job) -> int:
        """Number of what the job asks for; equal asks share one."""
        key = shape_key(job)
        return self._shape_numbers.setdefault(key, len(self._shape_numbers))


def count(counts: dict[str, int], key: str, by: int) -> None:
    """Add to a counter and drop it at zero, so that equal counts are equal dictionaries."""
    value = counts.get(key, 0) + by
    if value:
        counts[key] = value
    else:
        counts.pop(key, None)


def task_amounts(task: Task) -> dict[str, int]:
    """What one live task counts against quotas, by dimension, zeros left out."""
    amounts = {
        "gpu_milli": task.gpu_milli,
        f"gpu_milli:{task.gpu_model}": task.gpu_milli if task.gpu_model else 0,
        "cpu_milli": task.cpu_milli,
        "memory_mib": task.memory_mib,
    }
    return {dimension: amount for dimension, amount in amounts.items() if amount}


def request_amounts(resources: Resources) -> dict[str, int]:
    """What one task of these resources asks for, by dimension, as far as known before it is placed."""
    amounts = {
        "gpu_milli": resources.gpu_milli,
        "cpu_milli": resources.cpu_milli,
        "memory_mib": resources.memory_mib,
    }
    return {dimension: amount for dimension, amount in amounts.items() if amount}


def shape_key(job: Job) -> bytes:
    """Bytes that are equal exactly for jobs that no placement, quota or order-free rule can tell apart."""
    spec = job.spec
    roles = [(r.name, r.count, r.min_count, r.max_count, r.sizes, r.resources) for r in spec.roles]
    return msgspec.json.encode(
        (
            spec.group,
            spec.user,
            spec.pool,
            spec.service_class,
            spec.priority,
            spec.preemptible,
            spec.topology,
            spec.node_selector,
            spec.tolerations,
            spec.time_limit_s,
            roles,
        ),
        order="deterministic",
    )


def fresh() -> Kept:
    """The state before the first fact: one pool with the default policy, one group that holds everything."""
    return Kept(
        pools={"default": PoolState(pool=Pool(name="default"), policy=Policy())},
        groups={ROOT: Group(path=ROOT)},
    )


def encode_snapshot(state: State) -> bytes:
    """The state as canonical bytes: equal states give equal bytes."""
    return msgspec.json.encode(state.kept, order="deterministic")


def decode_snapshot(data: bytes) -> State:
    """The state a snapshot holds.

    Raises:
        msgspec.DecodeError: the bytes are no snapshot of this version.
    """
    return State(msgspec.json.decode(data, type=Kept))

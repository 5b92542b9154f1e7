"""Builders for tests: only what a test cares about is named, everything else is sensible.

`job(...)` and `spec(...)` make what a user asks for, `node(...)` a machine, and `World` is a state that changes only
through the fold, one message at a time: `World(node("n1")).submit(spec(gpus=2))`, then `place`, `start`, `finish`.
`state_with(...)` is a World's state when nothing has to happen to it any more.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from gangline_core import cycle
from gangline_core import facts as f
from gangline_core.cluster import Gpu, Node, Policy, Pool, Taint
from gangline_core.fold import Message, apply
from gangline_core.groups import ROOT, Group, User
from gangline_core.ids import JobId, NodeId, TaskId
from gangline_core.job import GpuShare, Job, JobState, Task, TaskState
from gangline_core.reasons import Reason, ReasonCode
from gangline_core.spec import GPU_MILLI, Dependency, JobSpec, Resources, Role, TopologyWish
from gangline_core.state import State
from gangline_core.step import Step

T0 = 1_700_000_000_000
"""The moment every test world begins, in ms."""
SECOND = 1_000
HOUR = 3_600_000


def resources(
    *,
    gpus: float = 1,
    gpu_models: Sequence[str] = (),
    gpu_memory_mib: int = 0,
    cpus: float = 1,
    memory_mib: int = 1024,
    devices: Mapping[str, int] | None = None,
) -> Resources:
    """What one task needs; `gpus=0.5` is half of one GPU."""
    return Resources(
        gpu_milli=round(gpus * GPU_MILLI),
        gpu_memory_mib=gpu_memory_mib,
        gpu_models=tuple(gpu_models),
        cpu_milli=round(cpus * 1000),
        memory_mib=memory_mib,
        devices=dict(devices or {}),
    )


def role(
    name: str = "worker",
    *,
    tasks: int = 1,
    minimum: int | None = None,
    maximum: int | None = None,
    sizes: Sequence[int] = (),
    **needs: Any,
) -> Role:
    """A set of equal tasks; `needs` are the arguments of `resources`."""
    return Role(
        name=name,
        count=tasks,
        min_count=tasks if minimum is None else minimum,
        max_count=tasks if maximum is None else maximum,
        sizes=tuple(sizes),
        resources=resources(**needs),
        command=("true",),
    )


_ROLE_FIELDS = ("tasks", "minimum", "maximum", "sizes", "gpus", "gpu_models", "gpu_memory_mib", "cpus", "memory_mib")


def spec(
    name: str = "",
    *,
    roles: Iterable[Role] | None = None,
    group: str = "",
    user: str = "ada",
    after: Iterable[Dependency | int] = (),
    topology: str | TopologyWish = "",
    **fields: Any,
) -> JobSpec:
    """A job as asked for. Fields of one role (`gpus`, `tasks`, ...) or `roles`; the rest are fields of JobSpec.

    `topology="rack"` requires that level.
    """
    of_role = {key: fields.pop(key) for key in (*_ROLE_FIELDS, "devices") if key in fields}
    return JobSpec(
        name=name,
        group=group,
        user=user,
        roles=(role(**of_role),) if roles is None else tuple(roles),
        after=tuple(d if isinstance(d, Dependency) else Dependency(job=d) for d in after),
        topology=topology if isinstance(topology, TopologyWish) else TopologyWish(required=topology),
        **fields,
    )


def job(
    id: int = 1,
    *,
    state: JobState = JobState.WAITING,
    queued_ms: int = T0,
    submitted_ms: int | None = None,
    reason: Reason | None = None,
    **fields: Any,
) -> Job:
    """A job value outside of any state; `fields` are the arguments of `spec`."""
    asked = fields.pop("asked", None) or spec(**{"name": f"job-{id}", **fields})
    return Job(
        id=JobId(id),
        spec=asked,
        state=state,
        submitted_ms=queued_ms if submitted_ms is None else submitted_ms,
        queued_ms=queued_ms,
        reason=reason,
    )


def node(
    id: str = "n1",
    *,
    gpus: int = 8,
    model: str = "A100",
    gpu_memory_mib: int = 40_960,
    cpus: int = 64,
    memory_mib: int = 524_288,
    islands: Sequence[int] = (),
    sockets: Sequence[int] = (),
    taints: Iterable[str] = (),
    agent: str = "sim",
    **fields: Any,
) -> Node:
    """A machine with equal GPUs; `islands` and `sockets` give one number per GPU."""
    return Node(
        id=NodeId(id),
        agent=agent,
        cpu_milli=cpus * 1000,
        memory_mib=memory_mib,
        gpus=tuple(
            Gpu(
                index=k,
                model=model,
                memory_mib=gpu_memory_mib,
                uuid=f"GPU-{id}-{k}",
                island=islands[k] if islands else 0,
                socket=sockets[k] if sockets else 0,
            )
            for k in range(gpus)
        ),
        taints=tuple(Taint(key=key) for key in taints),
        **fields,
    )


class World:
    """A state and the log that made it; every change goes through the fold, strictly."""

    def __init__(self, *nodes: Node, groups: Iterable[Group] = (), users: Iterable[User] = (), at: int = T0) -> None:
        """A cluster of these nodes; pools named by them are made."""
        self.state = State()
        self.at = at
        self.log: list[Message] = []
        for name in sorted({node.pool for node in nodes} - {"default"}):
            self.tell("admission", f.PoolSet(pool=Pool(name=name), by="admin"))
        if settings := [
            *(f.GroupSet(group=g, by="admin") for g in groups),
            *(f.UserSet(user=u, by="admin") for u in users),
        ]:
            self.tell("admission", *settings)
        for machine in nodes:
            self.see(machine)

    def tell(self, lane: str, *facts: f.Fact, at: int | None = None, seen: int = -1) -> Step:
        """Fold one message of these facts, at the world's time and with all of the log read unless told otherwise."""
        self.at = self.at if at is None else at
        seq = self.state.kept.seq + 1
        raw = msgspec.json.encode((lane, self.at, facts))
        message = Message(seq=seq, lane=lane, epoch=1, at=self.at, facts=facts, raw=raw, seen=seen)
        self.log.append(message)
        return apply(self.state, message, strict=True)

    def wait(self, seconds: float) -> "World":
        """Let time pass."""
        self.at += round(seconds * SECOND)
        return self

    def see(self, *nodes: Node) -> "World":
        """Nodes join or change."""
        for machine in nodes:
            self.tell(f"agent.{machine.agent}", f.NodeSeen(node=machine))
        return self

    def set_policy(self, pool: str = "default", **fields: Any) -> "World":
        """Change fields of the pool's policy."""
        policy: Policy = replace(self.state.kept.pools[pool].policy, **fields)
        self.tell("admission", f.PolicySet(pool=pool, policy=policy, by="admin"))
        return self

    def submit(self, *specs: JobSpec, at: int | None = None, **fields: Any) -> JobId:
        """Admit jobs without judging them; the id of the last one. With `fields`, a `spec` of them."""
        asked, first = specs or (spec(**fields),), self.state.kept.next_job
        facts = [
            f.JobAdmitted(
                job=JobId(first + k),
                spec=one if one.name else replace(one, name=f"job-{first + k}"),
                submit_id=f"submit-{first + k}",
                by=one.user,
            )
            for k, one in enumerate(asked)
        ]
        self.tell("admission", *facts, at=at)
        return facts[-1].job

    def place(
        self, job: JobId, *where: str | tuple[str, Sequence[int]], sizes: Mapping[str, int] | None = None
    ) -> None:
        """Book a waiting job: one entry per task in role order, a node or (node, GPU indexes); one entry serves all.

        Without indexes the task takes the first free GPUs (a share takes the first GPU that holds it).
        """
        tasks = self.task_places(job, *where, sizes=sizes)
        pool = self.job(job).spec.pool
        put = f.Placement(job=job, attempt=self.job(job).attempt + 1, tasks=tasks, port=29_500)
        # Nobody opened a round for this one; no two of them have one number.
        known = self.state.kept.pools[pool]
        number = known.rounds if known.open_round is not None else -len(self.log)
        step = self.tell(f"placement.{pool}", f.RoundDecided(pool=pool, round=number, placements=(put,)))
        assert not step.voided, self.job(job).reason

    def task_places(
        self, job: JobId, *where: str | tuple[str, Sequence[int]], sizes: Mapping[str, int] | None = None
    ) -> tuple[f.TaskPlacement, ...]:
        """The places of all the job's tasks, as `place` would book them."""
        asked = self.job(job).spec
        members = [(r, k) for r in asked.roles for k in range((sizes or {}).get(r.name, r.count))]
        spots = list(where) * len(members) if len(where) == 1 else list(where)
        assert len(spots) == len(members), "one place per task"
        taken: dict[tuple[str, int], int] = {}
        return tuple(self._spot(r, k, spot, taken) for (r, k), spot in zip(members, spots, strict=True))

    def _spot(
        self, wanted: Role, index: int, spot: str | tuple[str, Sequence[int]], taken: dict[tuple[str, int], int]
    ) -> f.TaskPlacement:
        name, indexes = spot if isinstance(spot, tuple) else (spot, None)
        need = wanted.resources
        if indexes is None:
            indexes = self._free_gpus(name, need, taken)
        machine = self.state.kept.nodes[NodeId(name)]
        milli = GPU_MILLI if need.whole_gpus else need.gpu_milli
        shares = tuple(
            GpuShare(
                index=k,
                milli=milli or -(-need.gpu_memory_mib * GPU_MILLI // machine.gpus[k].memory_mib),
                memory_mib=machine.gpus[k].memory_mib if need.whole_gpus else need.gpu_memory_mib,
            )
            for k in indexes
        )
        for share in shares:
            taken[name, share.index] = taken.get((name, share.index), 0) + share.milli
        return f.TaskPlacement(
            role=wanted.name,
            index=index,
            node=NodeId(name),
            gpus=shares,
            cpu_milli=need.cpu_milli,
            memory_mib=need.memory_mib,
            devices=need.devices,
        )

    def _free_gpus(self, name: str, need: Resources, taken: dict[tuple[str, int], int]) -> list[int]:
        if not need.wants_gpu:
            return []
        machine, use = self.state.kept.nodes[NodeId(name)], self.state.use[NodeId(name)]
        want = need.whole_gpus or 1
        milli = GPU_MILLI if need.whole_gpus else need.gpu_milli
        free = [
            gpu.index
            for gpu in machine.gpus
            if use.gpu_milli[gpu.index] + taken.get((name, gpu.index), 0) + milli <= GPU_MILLI
        ]
        assert len(free) >= want, f"{name} has no room for this test's task"
        return free[:want]

    def round(self, pool: str = "default") -> f.RoundDecided | None:
        """Open and decide one round of the pool, now; None when there is nothing to decide."""
        opened = cycle.open_round(self.state, pool, self.at)
        if opened is None:
            return None
        self.tell(f"queue.{pool}", opened)
        decided = cycle.decide_round(self.state, pool, self.at)
        self.tell(f"placement.{pool}", decided)
        return decided

    def settle(self, pool: str = "default", *, starts: bool = True, stops: bool = True, rounds: int = 50) -> int:
        """Hold rounds until nothing calls for another one, starting and stopping at once what was decided; how many."""
        for number in range(rounds):
            if stops:
                self.stop_all()
            if starts:
                self.start(*self.in_state(JobState.STARTING), *self.in_state(JobState.RESIZING))
            if not cycle.round_due(self.state, pool) or self.round(pool) is None:
                return number
        raise AssertionError(f"still not at rest after {rounds} rounds")

    def in_state(self, state: JobState) -> list[JobId]:
        """Jobs in this state, by id."""
        return [job.id for _, job in sorted(self.state.kept.jobs.items()) if job.state == state]

    def start(self, *jobs: JobId) -> "World":
        """All tasks of these jobs start."""
        for one in jobs:
            for task in self.tasks(one):
                if task.state == TaskState.PLACED:
                    self.tell(self._agent(task), f.TaskStarted(task=task.id))
        return self

    def run(self, job: JobId, *where: str | tuple[str, Sequence[int]]) -> JobId:
        """Place and start a waiting job."""
        self.place(job, *where)
        self.start(job)
        return job

    def submit_running(self, asked: JobSpec, *where: str | tuple[str, Sequence[int]]) -> JobId:
        """Admit, place and start one job."""
        return self.run(self.submit(asked), *where)

    def exit(self, *tasks: TaskId, code: int = 0, cause: f.ExitCause = f.ExitCause.EXITED) -> "World":
        """These tasks' processes end; their room is still held."""
        for name in tasks:
            task = self.state.kept.tasks[name]
            self.tell(self._agent(task), f.TaskExited(task=name, cause=cause, exit_code=code))
        return self

    def empty(self, *tasks: TaskId) -> "World":
        """The agent sees nothing left of these tasks."""
        for name in tasks:
            self.tell(self._agent(self.state.kept.tasks[name]), f.GpusEmpty(tasks=(name,)))
        return self

    def finish(self, *jobs: JobId, code: int = 0) -> "World":
        """All tasks of these jobs exit and are seen empty."""
        for one in jobs:
            names = [task.id for task in self.tasks(one)]
            self.exit(*names, code=code).empty(*names)
        return self

    def stop_all(self) -> "World":
        """Every task that was told to stop does so and is seen empty."""
        names = sorted(self.state.stopping_tasks)
        self.exit(*names, code=143, cause=f.ExitCause.STOPPED)
        return self.empty(*names)

    def cancel(self, job: JobId) -> "World":
        """Cancel a job."""
        self.tell("admission", f.CancelRequested(job=job, by="ada"))
        return self

    def job(self, job: JobId | int) -> Job:
        """The job as it now is."""
        return self.state.kept.jobs[JobId(job)]

    def tasks(self, job: JobId) -> list[Task]:
        """The job's live tasks in rank order."""
        return self.state.tasks_of(self.job(job))

    def reason(self, job: JobId) -> ReasonCode | None:
        """The code of why the job waits or ended."""
        reason = self.job(job).reason
        return reason.code if reason else None

    def waiting(self, pool: str = "default") -> list[Job]:
        """Waiting jobs of the pool by id."""
        return [self.job(one) for one in sorted(self.state.waiting.get(pool, {}))]

    def _agent(self, task: Task) -> str:
        return f"agent.{self.state.kept.nodes[task.node].agent}"


def group(path: str = ROOT, **fields: Any) -> Group:
    """A group; `limit={"gpu_milli": 4000}` and the like."""
    return Group(path=path, **fields)


def gpu_amount(gpus: float, model: str = "") -> dict[str, int]:
    """So many GPUs as a limit or guarantee, of one model if named."""
    return {f"gpu_milli:{model}" if model else "gpu_milli": round(gpus * GPU_MILLI)}


def state_with(
    *nodes: Node, groups: Iterable[Group] = (), users: Iterable[User] = (), jobs: Iterable[JobSpec] = (), at: int = T0
) -> State:
    """A state with these nodes, groups and users, and these jobs waiting."""
    world, asked = World(*nodes, groups=groups, users=users, at=at), tuple(jobs)
    if asked:
        world.submit(*asked)
    return world.state

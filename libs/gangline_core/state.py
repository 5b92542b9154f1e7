"""Everything Gangline knows: the fold of the log, with the indexes that make decisions fast.

`State` is changed only by `gangline_core.fold.apply`. Its values are frozen; decisions read it synchronously, so it
stands still while they run. `Kept` is the part a snapshot holds; everything else is derived from it.
"""

import msgspec
from msgspec.structs import replace

from gangline_core.cluster import Node, NodeUse, gpu_span
from gangline_core.door.array_record import ArrayBook, ArrayRecord
from gangline_core.door.asked import Asked
from gangline_core.door.index import DoorIndex
from gangline_core.facts import Claim
from gangline_core.foresight.history import SERVICES_KEPT, Held, InOrder, note_end
from gangline_core.groups import Group, User, holders, user_key, with_class
from gangline_core.ids import JobId, NodeId, TaskId
from gangline_core.job import ENDS, LIVE, Job, JobState, Task, TaskState
from gangline_core.kept import ENDED_JOBS_KEPT, SUBMITS_KEPT, Kept, Made, OpenRound, PoolState, Snapshot, fresh, shape
from gangline_core.limits.amounts import count, holds_the_same, is_counted, request_amounts, task_amounts
from gangline_core.limits.budget_periods import next_renewal_ms
from gangline_core.limits.gate_memo import GateMemo
from gangline_core.limits.usage_book import UsageBook
from gangline_core.making_room.live_index import LiveIndex
from gangline_core.reasons import Reason
from gangline_core.room.capacity import Room
from gangline_core.room.inventory import Inventory
from gangline_core.room.ports import Ports
from gangline_core.room.rooms import Rooms
from gangline_core.room.twins import Twins
from gangline_core.scoring.columns import Columns
from gangline_core.shapes import Numbers, ask_key, shape_key
from gangline_core.told import Told

__all__ = [
    "ENDED_JOBS_KEPT",
    "SUBMITS_KEPT",
    "Held",
    "OpenRound",
    "PoolState",
    "State",
    "count",
    "decode_snapshot",
    "encode_snapshot",
    "request_amounts",
    "task_amounts",
]


class State:
    """The fold's memory: `kept` plus what is derived from it."""

    def __init__(self, kept: Kept | None = None) -> None:
        """An empty state, or the one a snapshot holds."""
        self.kept = kept or fresh()
        self.use: dict[NodeId, NodeUse] = {}
        """What live tasks take on each node."""
        self.node_tasks: dict[NodeId, dict[TaskId, None]] = {}
        self.live_index = LiveIndex()
        self.live_sorts = self.live_index.sorts
        self.gate_memos: dict[str, GateMemo] = {}
        """What each pool's gates remember."""
        self._book = UsageBook(self.kept, self.live_index)
        self.usage, self.rates = self._book.usage, self._book.rates
        self.unfinished: dict[str, int] = {}
        """Unfinished jobs per group path (ancestors included) and user_key."""
        self.waiting: dict[str, dict[JobId, None]] = {}
        """Jobs in state waiting, per pool."""
        self.starting: dict[str, dict[JobId, None]] = {}
        """Jobs that have room but have not started wholly, per pool."""
        self.paused: dict[str, dict[JobId, None]] = {}
        """Jobs that are paused, per pool."""
        self.live: dict[str, dict[JobId, None]] = {}
        """Jobs that may hold resources, per pool."""
        self.running: dict[str, int] = {}
        """Live jobs per group path (ancestors included) and user_key."""
        self.ports = Ports(self.kept.foreign_ports)
        """Ports on which live gangs meet, per address."""
        self.door, self.arrays, self.asked = DoorIndex(), ArrayBook(), Asked()
        self.shapes: dict[JobId, int] = {}
        """Shape number of every waiting job: equal numbers ask for exactly the same."""
        self.asks: dict[JobId, int] = {}
        """The same for what every waiting job asks of room alone."""
        self.columns: dict[str, Columns] = {}
        """The waiting jobs of each pool as numbers."""
        self.run_times = InOrder(self.kept.history)
        """How long ended jobs ran, shortest first."""
        self.held: dict[JobId, Held] = {}
        """What live jobs give back when they end, as far as `forecast` looked at it."""
        self._shape_numbers, self._ask_numbers = Numbers(), Numbers()
        self._rooms, self.told, self.twins = Rooms(self.kept, self.use), Told(), Twins(self.kept.nodes)
        self.stopping_tasks = self.told.stopping
        self._derive()
        self._book.is_restored = self._rooms.is_restored = True

    def _derive(self) -> None:
        for node in self.kept.nodes.values():
            self.use[node.id], self.node_tasks[node.id] = NodeUse(gpu_span(node)), {}
        for task in self.kept.tasks.values():
            self.index_task(task)
        for group in self.kept.groups.values():
            self.door.put_group(group)
        for user in self.kept.users.values():
            self.door.put_user(user)
        self.door.next_renewal_ms = next_renewal_ms(self.kept.groups.values(), self.kept.renewed)
        for array in self.kept.arrays.values():
            self.arrays.enter(array.id)
            self._index_array(array, 1)
        for job in self.kept.jobs.values():
            self.index_job(job)
            self.asked.enter(job)

    # --- reading ----------------------------------------------------------------------------------------

    def job(self, job: JobId) -> Job | None:
        """The job, if it is known and not long ended."""
        return self.kept.jobs.get(job)

    def user(self, holder: str) -> User | None:
        """A member by user_key, with the settings of the class where the own ones are silent."""
        known = self.kept.users.get(holder)
        return None if known is None else with_class(known, self.kept.classes.get(known.of_class))

    def pool_of(self, job: Job) -> PoolState:
        """The scheduling state of the job's pool."""
        return self.kept.pools[job.spec.pool]

    def tasks_of(self, job: Job) -> list[Task]:
        """The job's live tasks in rank order."""
        return [self.kept.tasks[task] for task in job.tasks]

    def nodes_of(self, pool: str) -> list[Node]:
        """Nodes of the pool in id order."""
        return self._rooms.nodes_of(pool)

    def room(self, pool: str) -> Room:
        """What is free on the pool's nodes now; read it, and copy it before changing it."""
        return self._rooms.room(pool)

    def inventory(self, pool: str) -> Inventory:
        """What the pool's machines could hold if they were empty and well."""
        return self._rooms.inventory(pool)

    def live_jobs(self) -> list[Job]:
        """Jobs that may hold resources, by id."""
        return [self.kept.jobs[job] for job in sorted(job for jobs in self.live.values() for job in jobs)]

    # --- indexes: called by the fold only ----------------------------------------------------------------

    def index_job(self, job: Job) -> None:
        """Enter a job into the derived indexes."""
        if job.id in self.kept.ended:
            return
        if job.state == JobState.WAITING:
            self.waiting.setdefault(job.spec.pool, {})[job.id] = None
            self.door.put_first(job, waits=True)
            ask = self.asks[job.id] = self._ask_numbers.enter(ask_key(job.spec))
            shape = self.shapes[job.id] = self._shape_numbers.enter(shape_key(job.spec, ask))
            self.columns.setdefault(job.spec.pool, Columns()).enter(job, shape, ask)
        elif job.state in LIVE:
            if job.state == JobState.STARTING:
                self.starting.setdefault(job.spec.pool, {})[job.id] = None
            elif job.state == JobState.PAUSED:
                self.paused.setdefault(job.spec.pool, {})[job.id] = None
            self.live.setdefault(job.spec.pool, {})[job.id] = None
            self.live_index.enter(job)
        if job.array:
            self.arrays.open.setdefault(JobId(job.array), {})[job.id] = None
        else:
            self.door.name(job.id, job.spec, is_unfinished=True)
        for path in holders(job.spec.group, job.spec.user):
            count(self.unfinished, path, 1)
            count(self.running, path, 1 if job.state in LIVE else 0)

    def drop_job(self, job: Job) -> None:
        """Take a job out of the derived indexes (before it changes or ends)."""
        self._leave_queue(job)
        if job.state in LIVE:
            if job.state == JobState.STARTING:
                del self.starting[job.spec.pool][job.id]
            elif job.state == JobState.PAUSED:
                del self.paused[job.spec.pool][job.id]
            del self.live[job.spec.pool][job.id]
            self.live_index.leave(job)
        if job.array:
            self.arrays.open[JobId(job.array)].pop(job.id, None)
        else:
            self.door.name(job.id, job.spec, is_unfinished=False)
        for path in holders(job.spec.group, job.spec.user):
            count(self.unfinished, path, -1)
            count(self.running, path, -1 if job.state in LIVE else 0)

    def _leave_queue(self, job: Job) -> None:
        """The job does not wait any more, if it did."""
        self.waiting.get(job.spec.pool, {}).pop(job.id, None)
        self.door.put_first(job, waits=False)
        if (shape := self.shapes.pop(job.id, None)) is not None:
            self.columns[job.spec.pool].leave(job.id)
            self._shape_numbers.leave(shape)
            self._ask_numbers.leave(self.asks.pop(job.id))

    def index_task(self, task: Task) -> None:
        """Book a task's room on its node and in its group's usage."""
        use = self.use.get(task.node)
        if use is None:
            use = self.use[task.node] = NodeUse(0)
        self._rooms.touch(task.node)
        use.add(task, 1)
        self.node_tasks.setdefault(task.node, {})[task.id] = None
        self.told.enter(task)
        self.live_index.hold(task, 1)
        if task.rank == 0:
            self.ports.take(task.endpoint)
        if task.state != TaskState.LOST:
            self._book.charge(task, 1)

    def drop_task(self, task: Task) -> None:
        """Give a task's room back."""
        self._rooms.touch(task.node)
        self.use[task.node].add(task, -1)
        self.node_tasks[task.node].pop(task.id, None)
        self.told.leave(task.id)
        self.live_index.hold(task, -1)
        if task.rank == 0:
            self.ports.give(task.endpoint)
        if task.state != TaskState.LOST:
            self._book.charge(task, -1)

    def put_node(self, node: Node) -> None:
        """Enter a node, new or changed."""
        if node.id not in self.use:
            self.use[node.id] = NodeUse(0)
            self.node_tasks.setdefault(node.id, {})
        self.use[node.id].reach(gpu_span(node))
        self._rooms.see(self.kept.nodes.get(node.id), node)
        self.kept.nodes[node.id] = node

    def forget_node(self, node: NodeId) -> None:
        """A node without tasks is no more."""
        self._rooms.let_go(node)

    def forget_room(self, pool: str) -> None:
        """What bounds the pool's nodes has changed: their room is worked out anew."""
        self._rooms.forget(pool)

    def put_task(self, task: Task) -> None:
        """Enter a task, new or changed."""
        known = self.kept.tasks.get(task.id)
        if known is not None and holds_the_same(known, task):
            self.kept.tasks[task.id] = task
            self.told.enter(task)
            self.live_index.touch(task.job)
            self._rooms.retell(task.node)
            return
        if known is not None:
            # What it holds of the pool mostly stays; then no use begins or ends here.
            self._book.holds_on = known.service_milli == task.service_milli and is_counted(known) == is_counted(task)
            self.drop_task(known)
            self.held.pop(task.job, None)
        self.kept.tasks[task.id] = task
        self.index_task(task)
        self._book.holds_on = False

    def remove_task(self, task: Task) -> None:
        """Forget a task and give its room back."""
        self.drop_task(task)
        del self.kept.tasks[task.id]

    def put_job(self, job: Job) -> None:
        """Enter a job, new or changed."""
        known = self.kept.jobs.get(job.id)
        is_live = known is not None and known.state in LIVE and job.state in LIVE
        if known is not None and is_live and (known.spec is job.spec, known.lowered_for) == (True, job.lowered_for):
            self._go_on(known, job)
            return
        begins = known is not None and (known.state, job.state) == (JobState.WAITING, JobState.STARTING)
        if known is not None and begins and known.spec is job.spec:
            self._begin(known, job)
            return
        if known is not None and known.id not in self.kept.ended:
            self.drop_job(known)
        for name in self.kept.tasks.keys() & job.tasks if is_live else ():
            self._rooms.retell(self.kept.tasks[name].node)
        if job.state != JobState.WAITING:
            self.kept.pools[job.spec.pool].forget_forecast(job.id)
        if job.state in ENDS:
            self.kept.ended[job.id] = None
            if known is not None and known.state in LIVE:
                note_end(self.kept.history, job)
                pool = self.kept.pools[job.spec.pool]
                pool.services = (*pool.services[1 - SERVICES_KEPT :], job.attained)
            self.kept.let_go(job)
            self.held.pop(job.id, None)
        self.kept.jobs[job.id] = job
        self.asked.put(known, job)
        self.index_job(job)

    def _begin(self, known: Job, job: Job) -> None:
        """A waiting job has its room: it leaves those that wait, and its name and its place among the others stay."""
        pool = job.spec.pool
        self._leave_queue(known)
        self.kept.pools[pool].forget_forecast(job.id)
        self.kept.jobs[job.id] = job
        self.starting.setdefault(pool, {})[job.id] = None
        self.live.setdefault(pool, {})[job.id] = None
        self.live_index.enter(job)
        for path in holders(job.spec.group, job.spec.user):
            self.running[path] = self.running.get(path, 0) + 1

    def _go_on(self, known: Job, job: Job) -> None:
        """A live job stays live, so that most indexes stay as they are."""
        self.kept.jobs[job.id] = job
        self.live_index.stir(job)
        if known.state == job.state:
            return
        for state, index in ((JobState.STARTING, self.starting), (JobState.PAUSED, self.paused)):
            if known.state == state:
                del index[job.spec.pool][job.id]
            elif job.state == state:
                index.setdefault(job.spec.pool, {})[job.id] = None

    def put_group(self, group: Group) -> None:
        """Enter a group, new or changed."""
        self.kept.groups[group.path] = group
        self.door.put_group(group)

    def forget_group(self, path: str) -> None:
        """A group is no more; what it used stays in the accounts."""
        del self.kept.groups[path]
        self.door.put_group(Group(path=path))

    def put_user(self, user: User) -> None:
        """Enter a member, new or changed."""
        self.kept.users[user_key(user.group, user.name)] = user
        self.door.put_user(user)

    def forget_user(self, holder: str) -> None:
        """A member is none any more."""
        user = self.kept.users.pop(holder)
        self.door.put_user(User(name=user.name, group=user.group))

    def put_array(self, array: ArrayRecord) -> None:
        """Enter an array, new or changed."""
        known = self.kept.arrays.get(array.id)
        if known is None:
            self.arrays.enter(array.id)
        else:
            self._index_array(known, -1)
        self.kept.arrays[array.id] = array
        self._index_array(array, 1)

    def forget_array(self, array: ArrayRecord) -> None:
        """Forget an array that ended long ago."""
        self._index_array(array, -1)
        self.arrays.leave(array.id)
        del self.kept.arrays[array.id]

    def _index_array(self, array: ArrayRecord, sign: int) -> None:
        """Elements that are no jobs yet are unfinished jobs all the same, and the array has its name until it ends."""
        if not array.ended_ms:
            self.door.name(array.id, array.spec, is_unfinished=sign > 0)
        for path in holders(array.spec.group, array.spec.user):
            count(self.unfinished, path, sign * array.pending)

    def put_reason(self, job: Job, reason: Reason | None) -> None:
        """A waiting job waits for this reason, on which no other index depends; None when none is known by now."""
        self.kept.jobs[job.id] = replace(job, reason=reason)
        self.columns[job.spec.pool].note_reason(job.id, reason)

    def put_claim(self, claim: Claim) -> None:
        """Keep room for a job whose victims are stopping."""
        self.kept.claims[claim.job] = claim
        self.live_index.stir_claim(claim, self.kept.tasks)

    def drop_claim(self, job: JobId) -> None:
        """The job no longer needs the room kept for it."""
        self.live_index.stir_claim(self.kept.claims.pop(job, None), self.kept.tasks)

    def lost_tasks(self, node: NodeId) -> list[TaskId]:
        """Tasks that held room on the node when it was lost, by name."""
        return [task for task in sorted(self.node_tasks.get(node, {})) if self.kept.tasks[task].state == TaskState.LOST]


def encode_snapshot(state: State) -> bytes:
    """The state as bytes: states that folded the same log give equal bytes, restored on the way or not.

    Dictionaries keep the order of the fold, which is remembered, too: it says which ended job is forgotten first.
    """
    return msgspec.json.encode(Snapshot(shape=shape(), kept=state.kept))


def decode_snapshot(data: bytes) -> State:
    """The state a snapshot holds.

    Raises:
        msgspec.DecodeError: the bytes are no snapshot of this version.
    """
    if msgspec.json.decode(data, type=Made).shape != shape():
        raise msgspec.DecodeError("the snapshot is of another version")
    return State(msgspec.json.decode(data, type=Snapshot).kept)

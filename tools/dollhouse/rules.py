"""Whether the rules are kept, told by what can be seen from outside: who stands where, who goes when, how jobs end.

Nothing here asks the code that decides: each rule is said a second time, in a few plain words, of the facts and of the
state before and after them. So a rule that the core forgets is noticed by every run in which it matters; `met` counts
how often each of them did.
"""

from collections import Counter
from collections.abc import Iterator

from msgspec import Struct

from dollhouse.by_age import ByAge
from dollhouse.ended_in_a_row import EndedInARow
from dollhouse.left_to_work import LeftToWork
from dollhouse.on_terms import OnTerms
from dollhouse.told_true import ToldTrue
from gangline_core import facts as f
from gangline_core.cluster import LEVELS_INSIDE_NODE, Node
from gangline_core.facts import Claim
from gangline_core.fold import Message
from gangline_core.groups import ancestors, user_key
from gangline_core.ids import JobId, NodeId, TaskId
from gangline_core.job import ENDS, LIVE, Job, JobState, Task, TaskState
from gangline_core.spec import DependencyKind
from gangline_core.state import State
from gangline_core.step import Step
from gangline_wire.lanes import kind_of


class Exits(Struct):
    """How the members of one attempt ended."""

    failed: int = 0
    """Members that nobody had told to stop."""
    late: int = 0
    """Members that ran into the time limit."""


class Rules:
    """Looks on at one run, message by message."""

    def __init__(self) -> None:
        """Nothing was seen yet."""
        self.met: Counter[str] = Counter()
        """Rule -> how often it had something to say."""
        self.used: Counter[str] = Counter()
        """GPU thousandths times ms of ended tasks, by group and user, by our own count."""
        self._jobs: dict[JobId, Job] = {}
        self._tasks: dict[TaskId, Task] = {}
        self._nodes: dict[NodeId, Node] = {}
        self._exits: dict[tuple[JobId, int], Exits] = {}
        self._failures: dict[JobId, set[int]] = {}
        """Attempts that failed by themselves."""
        self._cancelled: dict[JobId, JobState] = {}
        """Jobs that somebody cancelled, and what they were then."""
        self._failed: set[tuple[NodeId, int]] = set()
        """GPUs of which it was said that they failed, and not yet that they are well."""
        self.own_exits = 0
        """Processes that ended without being told to: something happened outside."""
        self._spent: dict[str, None] = {}
        """Groups whose budget is used up, as accounting told."""
        self._left = LeftToWork()
        self._ended = EndedInARow()
        self._by_age = ByAge()
        self._told, self._terms = ToldTrue(), OnTerms()
        self._claims: dict[JobId, Claim] = {}
        self._at: list[int] = [0]
        """The latest time in the log after each message."""

    def faults(self, state: State, message: Message, step: Step) -> Iterator[str]:
        """What this message broke; `state` is what it is now."""
        yield from self._time(state, message)
        yield from self._note_exits(state, message)
        self._note_budgets(message)
        yield from self._stand_where_they_may(state, step)
        yield from self._go_when_they_may(state, message)
        yield from self._left.faults(state, message, step, self._jobs)
        self.met["is left to work"] = self._left.met
        self.met["begins anew after a lease"] = self._left.leases_met
        yield from self._ended.faults(state, message, step, self._jobs, self._tasks)
        self.met["is held for ends of supervisors"] = self._ended.met
        yield from self._by_age.faults(state, message, self._claims)
        self.met["goes first for its age"] = self._by_age.met
        yield from self._told.faults(state, message, step)
        yield from self._terms.faults(state, message, step, self._jobs)
        for met in (self._told.met, self._terms.met):
            self.met.update(met)
            met.clear()
        yield from self._obey(state, message)
        for moved in step.moves:
            job = state.kept.jobs.get(moved.job)
            if job is not None:
                yield from self._starts(state, job, moved.after)
                yield from self._starts_in_time(state, message, job, moved.after)
                yield from self._ends(job, moved.after)
        yield from self._grow_no_further(state, step)
        yield from self._hold_nothing_in_vain(state, step)
        self._count_used(state, message)
        self._jobs, self._tasks = dict(state.kept.jobs), dict(state.kept.tasks)
        self._nodes, self._claims = dict(state.kept.nodes), dict(state.kept.claims)

    # --- time -----------------------------------------------------------------------------------------------

    def _time(self, state: State, message: Message) -> Iterator[str]:
        """Nobody writes a time before what it had read; rounds are decided at the time at which they were opened."""
        is_round = kind_of(message.lane) in ("placement", "scheduler")
        seen = message.seq - 1 if message.seen < 0 else message.seen
        is_its_own = not (message.note or is_round)
        if is_its_own and 0 <= seen < len(self._at) and message.at < self._at[seen]:
            yield f"its time {message.at} is before {self._at[seen]}, which its writer had read"
        while len(self._at) < message.seq:
            self._at.append(self._at[-1])
        self._at.append(state.kept.at)

    # --- where ----------------------------------------------------------------------------------------------

    def _stand_where_they_may(self, state: State, step: Step) -> Iterator[str]:
        """Whoever is placed gets GPUs that are well, on a node that takes work, inside the domain it must have."""
        for name in step.tasks:
            task = state.kept.tasks.get(name)
            if task is None or name in self._tasks or task.state != TaskState.PLACED:
                continue
            node = state.kept.nodes.get(task.node)
            if node is None:
                yield f"task {name} is placed on {task.node}, which nobody knows"
                continue
            self.met["stands where it may"] += 1
            if node.lost or node.drained or node.problem or node.quarantine:
                yield f"task {name} is placed on {node.id}, which takes no work"
            bad = [share.index for share in task.gpus if (node.id, share.index) in self._failed]
            if bad:
                yield f"task {name} is placed on GPUs {bad} of {node.id}, which failed"
            job = state.kept.jobs.get(task.job)
            if job is not None:
                yield from self._together(state, job)

    def _together(self, state: State, job: Job) -> Iterator[str]:
        level = job.spec.topology.required
        tasks = [task for name in job.tasks if (task := state.kept.tasks.get(name)) and not task.stop]
        if not level or len(tasks) < 2:
            return
        self.met["stands together"] += 1
        label = state.kept.pools[job.spec.pool].pool.topology.get(level, "")
        nodes = [state.kept.nodes[task.node] for task in tasks]
        if level in LEVELS_INSIDE_NODE:
            domains = {node.id for node in nodes}
        else:
            domains = {NodeId(node.labels.get(label, "")) for node in nodes}
        if len(domains) > 1 or "" in domains:
            yield f"job {job.id} must stand in one {level} and stands in {', '.join(sorted(domains))}"

    # --- who goes -------------------------------------------------------------------------------------------

    def _go_when_they_may(self, state: State, message: Message) -> Iterator[str]:
        """Nobody is sent away inside its protected time, and whoever is on a GPU that failed does not stay."""
        for fact in message.facts:
            if isinstance(fact, f.RoundDecided):
                for eviction in fact.evictions:
                    job = self._jobs.get(eviction.job)
                    if job is None or not job.started_ms or not job.spec.protected_s:
                        continue
                    self.met["is protected"] += 1
                    ran_ms = message.at - job.started_ms
                    if ran_ms < job.spec.protected_s * 1000:
                        yield f"job {job.id} is evicted after {ran_ms} ms, {job.spec.protected_s} s are protected"
            elif isinstance(fact, f.GpuHealthy):
                self._failed.discard((fact.node, fact.gpu))
            elif isinstance(fact, f.GpuFailed):
                self._failed.add((fact.node, fact.gpu))
                for task in state.kept.tasks.values():
                    holds = task.node == fact.node and any(share.index == fact.gpu for share in task.gpus)
                    if holds and task.state not in (TaskState.LOST, TaskState.EXITED):
                        self.met["leaves what failed"] += 1
                        if not task.stop:
                            yield f"task {task.id} stays on GPU {fact.gpu} of {fact.node}, which failed"

    def _note_budgets(self, message: Message) -> None:
        for fact in message.facts:
            if isinstance(fact, f.BudgetExhausted):
                self.met["a budget is used up" if fact.exhausted else "there is a budget again"] += 1
                if fact.exhausted:
                    self._spent[fact.group] = None
                else:
                    self._spent.pop(fact.group, None)

    # --- what people want -----------------------------------------------------------------------------------

    def _obey(self, state: State, message: Message) -> Iterator[str]:
        """A job that waits and is held is held; what is cancelled is remembered."""
        for fact in message.facts:
            if isinstance(fact, f.HoldSet) and fact.held:
                before, now = self._jobs.get(fact.job), state.kept.jobs.get(fact.job)
                if before is not None and before.state == JobState.WAITING and now is not None:
                    self.met["is held"] += 1
                    if now.state != JobState.HELD:
                        yield f"job {fact.job} waited, was held, and is {now.state}"
            elif isinstance(fact, f.CancelRequested):
                before = self._jobs.get(fact.job)
                if before is not None and before.state not in ENDS:
                    self._cancelled.setdefault(fact.job, before.state)

    def _starts(self, state: State, job: Job, after: JobState) -> Iterator[str]:
        """Nobody starts before those whom it waits for have ended as it wants, nor when it was cancelled."""
        if after != JobState.STARTING:
            return
        if job.id in self._cancelled:
            yield f"job {job.id} starts although it was cancelled"
        for other in job.spec.after:
            ended = _ended_well(state, JobId(other.job))
            if ended is None:
                continue
            self.met["waits for others"] += 1
            has_ended, is_well = ended
            wanted = {DependencyKind.OK: is_well, DependencyKind.NOT_OK: not is_well, DependencyKind.ANY: True}
            if not has_ended or not wanted[other.wants]:
                yield f"job {job.id} starts, and job {other.job} has not ended as it should: {other.wants}"

    def _starts_in_time(self, state: State, message: Message, job: Job, after: JobState) -> Iterator[str]:
        """Nobody starts past its deadline or on a budget that is used up, nor more of an array than may at once."""
        if after != JobState.STARTING:
            return
        if job.spec.deadline_ms:
            self.met["starts before its deadline"] += 1
            if message.at > job.spec.deadline_ms:
                yield f"job {job.id} starts {message.at - job.spec.deadline_ms} ms after its deadline"
        uses_gpus = any(role.resources.gpu_milli for role in job.spec.roles)
        spent = [path for path in ancestors(job.spec.group) if path in self._spent]
        if spent and uses_gpus:
            yield f"job {job.id} starts although the budget of {spent[0]} is used up"
        array = state.kept.arrays.get(JobId(job.array)) if job.array else None
        if array is not None and array.spec.array is not None and array.spec.array.at_most:
            self.met["few of an array at once"] += 1
            numbers = range(array.id + 1, array.id + 1 + len(array.marks))
            live = [number for number in numbers if (one := state.kept.jobs.get(JobId(number))) and one.state in LIVE]
            if len(live) > array.spec.array.at_most:
                yield f"{len(live)} elements of array {array.id} live, {array.spec.array.at_most} may"

    def _hold_nothing_in_vain(self, state: State, step: Step) -> Iterator[str]:
        """Whoever got room by a decision that did not hold any more holds none of it."""
        new = {task.job for name, task in state.kept.tasks.items() if name not in self._tasks}
        for job in step.voided:
            self.met["a decision is overtaken"] += 1
            if job in new:
                yield f"job {job} got room by a decision that does not hold"

    # --- how it ends ----------------------------------------------------------------------------------------

    def _note_exits(self, state: State, message: Message) -> Iterator[str]:
        """Nobody is tried more often than it may be; of elastic roles members may be lost while the others go on."""
        for fact in message.facts:
            if not isinstance(fact, f.TaskExited):
                continue
            task = self._tasks.get(fact.task)
            if task is None or task.state in (TaskState.LOST, TaskState.EXITED):
                continue
            self.own_exits += not task.stop
            job = state.kept.jobs.get(task.job)
            if job is None:
                continue
            exits = self._exits.setdefault((task.job, task.attempt), Exits())
            # Also of those that were told to stop: their time, or their deadline, may be over before they have.
            exits.late += fact.cause == f.ExitCause.TIME_LIMIT
            if not task.stop and not any(role.name == task.role and role.is_elastic for role in job.spec.roles):
                exits.failed += fact.cause != f.ExitCause.EXITED or fact.exit_code != 0
                yield from self._is_tried_again(job, task, fact)

    def _is_tried_again(self, job: Job, task: Task, exited: f.TaskExited) -> Iterator[str]:
        """Each attempt that a member's own failure ends is a retry, except the first."""
        before = self._jobs.get(job.id)
        is_its_own = exited.cause == f.ExitCause.EXITED and exited.exit_code != 0
        if not is_its_own or before is None or before.state not in (JobState.STARTING, JobState.RUNNING):
            return
        self.met["is tried again"] += 1
        tried = self._failures.setdefault(job.id, set())
        tried.add(task.attempt)
        if len(tried) > job.spec.retries + 1:
            yield f"job {job.id} failed {len(tried)} times and may be tried again {job.spec.retries} times"

    def _ends(self, job: Job, after: JobState) -> Iterator[str]:
        """An end follows from how the members ended, and a job that was cancelled before ends cancelled."""
        if after not in ENDS:
            return
        exits = self._exits.get((job.id, job.attempt), Exits())
        self.met[f"ends {after}"] += 1
        if after == JobState.SUCCEEDED and exits.failed:
            yield f"job {job.id} succeeded although {exits.failed} members did not end well"
        if after == JobState.TIMED_OUT and not exits.late:
            yield f"job {job.id} timed out although no member ran into its limit"
        was = self._cancelled.get(job.id)
        if (
            was in (JobState.WAITING, JobState.HELD, JobState.STARTING, JobState.RUNNING)
            and after != JobState.CANCELLED
        ):
            yield f"job {job.id} was cancelled while {was} and is {after}"
        before = self._jobs.get(job.id)
        if before is not None and job.retries_used > job.spec.retries:
            yield f"job {job.id} used {job.retries_used} of {job.spec.retries} retries"

    # --- how much -------------------------------------------------------------------------------------------

    @staticmethod
    def _grow_no_further(state: State, step: Step) -> Iterator[str]:
        """No role has more members than it may have."""
        for job in (state.kept.jobs.get(moved.job) for moved in step.moves):
            if job is None or job.state in ENDS:
                continue
            tasks = [task for name in job.tasks if (task := state.kept.tasks.get(name)) and not task.stop]
            there = Counter(task.role for task in tasks)
            for role in job.spec.roles:
                if there[role.name] > role.max_count:
                    yield f"job {job.id} has {there[role.name]} of at most {role.max_count} {role.name}"

    def _count_used(self, state: State, message: Message) -> None:
        for name, task in self._tasks.items():
            if name in state.kept.tasks:
                continue
            end = task.stop_ms if task.state == TaskState.LOST else message.at
            for path in (*ancestors(task.group), user_key(task.group, task.user)):
                self.used[path] += task.used_until(end)


def _ended_well(state: State, number: JobId) -> tuple[bool, bool] | None:
    """Whether a job, or an array as a whole, has ended, and whether well; None when nobody knows it."""
    job = state.kept.jobs.get(number)
    if job is not None:
        return job.state in ENDS, job.state == JobState.SUCCEEDED
    array = state.kept.arrays.get(number)
    return None if array is None else (bool(array.ended_ms), set(array.marks) == {"s"})

"""How pools were used while a simulation ran: exact sums over time, and points that are means of their time.

Between two messages nothing changes, so value times length of each such time, added up, is the integral itself. What is
there are GPUs of nodes that are not lost, if they are well or somebody holds a part of them.
"""

from collections.abc import Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from gangline_core import facts as f
from gangline_core.cluster import free_gpu_milli
from gangline_core.ids import JobId, NodeId, TaskId
from gangline_core.job import LIVE, Job, JobState
from gangline_core.spec import GPU_MILLI, gpu_milli_wanted
from gangline_core.state import State
from gangline_core.step import Step
from gangline_lab.stretches import Stretches


class Use(Struct, frozen=True):
    """A pool from the first arrival to the end: GPU thousandths times ms, and times in ms."""

    held: int
    """What tasks held, from their placement until they were gone; no GPU counts more than once."""
    there: int
    scattered: int
    """Free on nodes that somebody held a part of."""
    contended_ms: int
    """Time in which jobs waited."""
    fairness: float
    """Jain's index over groups times ms, over that time."""


class Point(Struct, frozen=True, array_like=True, gc=False):
    """A pool from this time until the next point: means over that time."""

    at: int
    held_milli: int
    there_milli: int
    scattered_milli: int
    """Free GPU thousandths on nodes that somebody holds a part of."""
    running: float
    waiting: float
    waiting_milli: int
    """GPU thousandths that waiting jobs ask for."""
    fairness: float
    """Jain's index over groups that want anything: what each holds over what equal shares would give it."""
    used_milli: int = -1
    """What is held and works, neither starting, stopping nor at work that was lost; -1 where an older run said none."""


class _Pool:
    """One pool: values as they are now, their sums up to now, and those of the point under way."""

    def __init__(self) -> None:
        self.held = self.there = self.scattered = 0
        self.running = self.waiting = self.waiting_milli = 0
        self.by_group: dict[str, int] = {}
        self.wanted: dict[str, int] = {}
        self._fairness: float | None = None
        self.sums = [0.0] * 7
        self.begun = [0.0] * 7
        self.begun_ms = 0
        self.held_sum = self.there_sum = self.scattered_sum = 0
        self.contended_ms = 0
        self.fair_sum = 0.0
        self.points: list[Point] = []
        self.used = Stretches()

    def count(self, sums: dict[str, int], group: str, amount: int) -> None:
        """A group holds or wants more, or less."""
        if amount:
            sums[group] = sums.get(group, 0) + amount
            self._fairness = None

    def fairness(self) -> float:
        if self._fairness is None:
            self._fairness = equal_share_fairness(self.by_group, self.wanted, self.there)
        return self._fairness

    def see(self, there: int) -> None:
        """So much more is there."""
        self.there += there
        if there:
            self._fairness = None

    def pass_time(self, at: int, length: int, least_ms: int) -> None:
        """So much time passed from `at` on with everything as it is."""
        if length >= least_ms and at > self.begun_ms:
            self.close(at)
        self.held_sum += self.held * length
        self.there_sum += self.there * length
        self.scattered_sum += self.scattered * length
        # Where nobody waits everybody has what he wants.
        fairness = self.fairness() if self.waiting else 1.0
        if self.waiting:
            self.contended_ms += length
            self.fair_sum += fairness * length
        values = (self.held, self.there, self.scattered, self.running, self.waiting, self.waiting_milli, fairness)
        for place, value in enumerate(values):
            self.sums[place] += value * length
        if at + length - self.begun_ms >= least_ms:
            self.close(at + length)

    def close(self, now: int) -> None:
        """The point under way ends now."""
        length = now - self.begun_ms
        if length > 0:
            held, there, scattered, running, waiting, milli, fairness = (value / length for value in self.sums)
            self.points.append(
                Point(
                    self.begun_ms, round(held), round(there), round(scattered), running, waiting, round(milli), fairness
                )
            )
        self.sums = [0.0] * 7
        self.begun_ms = now

    def finished(self, now: int) -> Iterator[Point]:
        """The points up to now, with what was used in each."""
        means = self.used.means([*(point.at for point in self.points), now])
        for point, used in zip(self.points, means, strict=True):
            yield replace(point, used_milli=round(used))

    def use(self) -> Use:
        return Use(self.held_sum, self.there_sum, self.scattered_sum, self.contended_ms, self.fair_sum)


class Usage:
    """Watches a state that is being folded. Times are told after `begin_ms`."""

    def __init__(self, state: State, begin_ms: int, least_ms: int) -> None:
        """Nothing is known; a point lasts `least_ms` or longer."""
        self._state = state
        self._begin = begin_ms
        self._least_ms = least_ms
        self._at = begin_ms
        self._counts_since = -1
        """When the first job arrived; sums begin there."""
        self._pools: dict[str, _Pool] = {}
        self._nodes: dict[NodeId, tuple[str, int, int, int]] = {}
        self._tasks: dict[TaskId, tuple[NodeId, JobId, str, str, int, int]] = {}
        """Node, job, pool, group, GPU thousandths, since when."""
        self._held_by: dict[JobId, int] = {}
        self._waiting: dict[JobId, tuple[str, str, int]] = {}

    def begin(self, now: int) -> None:
        """The first job arrives now, if none came before."""
        self.move_on(now)
        if self._counts_since < 0:
            self._counts_since = self._at
            for pool in self._pools.values():
                pool.begun_ms = self._at - self._begin

    def move_on(self, now: int) -> None:
        """Everything stayed as it is until now."""
        length = now - self._at
        if length <= 0:
            return
        if self._counts_since >= 0:
            for pool in self._pools.values():
                pool.pass_time(self._at - self._begin, length, self._least_ms)
        self._at = now

    def note(self, facts: tuple[f.Fact, ...], step: Step) -> None:
        """Take in what one message changed."""
        self.move_on(step.at)
        nodes = dict.fromkeys(step.nodes)
        # A task of a lost node holds nothing that is there, and does again when the node is back before it ended.
        use = (self._state.use[node] for node in nodes if node in self._state.use)
        names = dict.fromkeys((*step.tasks, *(name for own in use for name in own.tasks)))
        for name in names:
            nodes.update(dict.fromkeys(self._note_task(name)))
        for node in nodes:
            self._note_node(node)
        for moved in step.moves:
            job = self._state.kept.jobs[moved.job]
            self._pool(job.spec.pool).running += (moved.after in LIVE) - (moved.before in LIVE)
            self._note_wait(job)
        for fact in facts:
            if isinstance(fact, f.JobEdited) and (edited := self._state.job(fact.job)) is not None:
                self._note_wait(edited)

    def _pool(self, name: str) -> _Pool:
        pool = self._pools.get(name)
        if pool is None:
            pool = self._pools[name] = _Pool()
            pool.begun_ms = self._at - self._begin
        return pool

    def _note_task(self, name: TaskId) -> list[NodeId]:
        """A task came, changed or went; the nodes to look at."""
        touched = []
        known = self._tasks.pop(name, None)
        if known is not None:
            node, job, pool, group, milli, since = known
            self._pool(pool).count(self._pool(pool).by_group, group, -milli)
            self._held_by[job] = self._held_by.get(job, 0) + milli * (self._at - since)
            touched.append(node)
        task = self._state.kept.tasks.get(name)
        if task is not None:
            on = self._state.kept.nodes[task.node]
            milli = 0 if on.lost else task.gpu_milli
            self._tasks[name] = (task.node, task.job, on.pool, task.group, milli, self._at)
            self._pool(on.pool).count(self._pool(on.pool).by_group, task.group, milli)
            touched.append(task.node)
        return touched

    def _note_node(self, name: NodeId) -> None:
        pool, held, there, scattered = self._nodes.pop(name, ("", 0, 0, 0))
        if pool:
            self._change(pool, -held, -there, -scattered)
        node = self._state.kept.nodes.get(name)
        if node is None:
            return
        use = self._state.use[name]
        taken = [min(GPU_MILLI, use.gpu_milli[gpu.index]) if gpu.index < len(use.gpu_milli) else 0 for gpu in node.gpus]
        if node.lost:
            held = there = scattered = 0
        else:
            held = sum(taken)
            there = GPU_MILLI * sum(gpu.healthy or part > 0 for gpu, part in zip(node.gpus, taken, strict=True))
            scattered = sum(free_gpu_milli(node, use).values()) if held else 0
        self._nodes[name] = (node.pool, held, there, scattered)
        self._change(node.pool, held, there, scattered)

    def _change(self, name: str, held: int, there: int, scattered: int) -> None:
        pool = self._pool(name)
        pool.held += held
        pool.scattered += scattered
        pool.see(there)

    def _note_wait(self, job: Job) -> None:
        name, group, milli = self._waiting.pop(job.id, ("", "", 0))
        if name:
            self._wait(name, group, -milli, -1)
        if job.state == JobState.WAITING:
            wanted = (job.spec.pool, job.spec.group, gpu_milli_wanted(job.spec))
            self._waiting[job.id] = wanted
            self._wait(*wanted, 1)

    def _wait(self, name: str, group: str, milli: int, jobs: int) -> None:
        pool = self._pool(name)
        pool.waiting += jobs
        pool.waiting_milli += milli
        pool.count(pool.wanted, group, milli)

    def held_by(self, job: Job) -> int:
        """GPU thousandths times ms that a job has held up to now."""
        open_tasks = (self._tasks[name] for name in job.tasks if name in self._tasks)
        return self._held_by.get(job.id, 0) + sum(task[4] * (self._at - task[5]) for task in open_tasks)

    def work(self, pool: str, stretches: Iterable[tuple[int, int, int]]) -> None:
        """A job's work went on in these times, with so many GPU thousandths."""
        used = self._pool(pool).used
        for begin, end, milli in stretches:
            used.add(begin - self._begin, end - self._begin, milli)

    def uses(self) -> dict[str, Use]:
        """The sums of every pool up to now."""
        return {name: pool.use() for name, pool in sorted(self._pools.items())}

    def points(self) -> dict[str, tuple[Point, ...]]:
        """The points of every pool; the one under way ends now."""
        now = self._at - self._begin
        for pool in self._pools.values():
            pool.close(now)
        return {name: tuple(pool.finished(now)) for name, pool in sorted(self._pools.items()) if pool.points}


def equal_share_fairness(held: dict[str, int], wanted: dict[str, int], there: int) -> float:
    """Jain's index over the groups that hold or want anything: what each holds, over its part in a fair division.

    The fair division fills all groups evenly up to what each asks for (max-min). 1 is perfectly fair.
    """
    groups = sorted(held.keys() | wanted.keys())
    asked = {group: amount for group in groups if (amount := held.get(group, 0) + wanted.get(group, 0))}
    if len(asked) < 2 or not there:
        return 1.0
    fair = max_min(asked, there)
    return jain([held.get(group, 0) / fair[group] for group in asked if fair[group]])


def max_min(asked: dict[str, int], there: int) -> dict[str, float]:
    """The even division of what is there, none getting more than asked."""
    left, fair = float(there), dict[str, float]()
    order = sorted((amount, group) for group, amount in asked.items())
    for place, (amount, group) in enumerate(order):
        fair[group] = min(float(amount), left / (len(order) - place))
        left -= fair[group]
    return fair


def jain(values: list[float]) -> float:
    """Jain's fairness index: 1 when all are equal, 1/n when one has everything; 1 of nothing."""
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 1.0

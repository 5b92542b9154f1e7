"""Runs tasks that only take time: one heap of end times for any number of nodes, nothing per task.

A task's run time comes from its job's attributes: `run_time_s` (60 when absent) and `exit_code` (0); `stop_time_s` is
how long it takes to stop (0; at most its grace; one with a negative time can not even be killed). A member that leaves
is safe after `safe_time_s` (0), a gang meets at a new size within `join_time_s` (0; never when negative). All of these
pass `speed` times faster; time limit and deadline are by the clock, as the platform counts and foretells them.
Everything a restarted agent needs is in the log.
"""

import asyncio
import heapq
from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from gangline_agent.judge import BUS_LOST_GRACE_S_MAX
from gangline_agent.runner import Local, Order, Phase
from gangline_core.facts import ExitCause
from gangline_core.ids import TaskId
from gangline_core.job import Job, ResizeStage, Task, TaskState
from gangline_core.room.remote import slowdown_milli
from gangline_kit.clock import Clock
from gangline_kit.tasks import Tasks
from gangline_wire.contract import Sizing

RUN_TIME = "run_time_s"
EXIT_CODE = "exit_code"
STOP_TIME = "stop_time_s"
RUN_TIME_S = 60.0
SERVES_S = 1e9
SAFE_TIME, JOIN_TIME = "safe_time_s", "join_time_s"
STOPPED_CODE = 143
ENDS, LEAVES, MEETS, PAUSES, DEADLINE = "ends", "leaves", "meets", "pauses", "deadline"
NAP_S_MIN = 0.001


class Script(Struct, frozen=True):
    """How a task's run goes when nobody stops it."""

    lasts_s: float
    cause: ExitCause
    exit_code: int
    stops_s: float = 0.0
    """How long it takes to stop when it is told to; never when negative."""
    safe_s: float = 0.0
    """How long it takes to save after it was told that it leaves."""
    joins_s: float = 0.0
    """How long the gang takes to meet at a new size; never when negative."""


def worked_ms(task: Task, now_ms: int) -> int:
    """How long a task has worked since it started, pauses left out."""
    until_ms = task.span_ms if task.working is not None else now_ms
    return max(0, until_ms - task.started_ms - task.paused_ms)


def script(job: Job, *, speed: float, placed_ms: int = 0, serves: bool = False) -> Script:
    """The run that the job's attributes describe."""
    wanted = job.spec.attributes.get(RUN_TIME, RUN_TIME_S)
    run_s = max(0.0, float(wanted)) if isinstance(wanted, int | float) else RUN_TIME_S
    # Work on GPUs of other machines takes longer by its calls and copies; their servers work until it is over.
    run_s = SERVES_S if serves else run_s * slowdown_milli(job.spec) / 1000
    run_s, stops_s, limit_s = run_s / speed, _stops_s(job) / speed, float(job.spec.time_limit_s)
    if job.spec.deadline_ms:
        left_s = max(1.0, (job.spec.deadline_ms - placed_ms) / 1000)
        limit_s = min(limit_s or left_s, left_s)
    words_s = (_number(job, SAFE_TIME) / speed, _number(job, JOIN_TIME) / speed)
    if limit_s and run_s > limit_s:
        return Script(limit_s, ExitCause.TIME_LIMIT, STOPPED_CODE, stops_s, *words_s)
    code = job.spec.attributes.get(EXIT_CODE, 0)
    return Script(run_s, ExitCause.EXITED, code if isinstance(code, int) else 0, stops_s, *words_s)


def _script_of(order: Order, *, speed: float) -> Script:
    serves = any(role.serves for role in order.job.spec.roles if role.name == order.task.role)
    return script(order.job, speed=speed, placed_ms=order.task.placed_ms, serves=serves)


def _number(job: Job, name: str) -> float:
    value = job.spec.attributes.get(name, 0)
    return float(value) if isinstance(value, int | float) else 0.0


def _stops_s(job: Job) -> float:
    """A task that dawdles is killed after its grace; one that cannot even be killed has a negative time."""
    wanted = job.spec.attributes.get(STOP_TIME, 0)
    return min(float(wanted), job.spec.grace_s) if isinstance(wanted, int | float) else 0.0


class Running(Struct, frozen=True, order=True):
    """An entry of the heap."""

    ends_s: float
    number: int
    """Order of starting: ties end in it."""
    task: TaskId
    kind: str = ENDS
    """What happens then: the task ends, a leaving one had its time, or the gang has met at its new size."""


class SimulatedRunner:
    """See runner.Runner."""

    def __init__(
        self,
        clock: Clock,
        changed: Callable[[TaskId], None],
        *,
        speed: float = 1.0,
        confirm: Callable[[Sizing], None] = lambda sizing: None,
    ) -> None:
        """`changed` is called whenever `known` shows something new about a task, `confirm` for a gang that met."""
        self.clock = clock
        self.changed = changed
        self.speed = speed
        self._known: dict[TaskId, Local] = {}
        self._scripts: dict[TaskId, Script] = {}
        self._stopping: dict[TaskId, None] = {}
        self._leaving: dict[TaskId, bool] = {}
        """Tasks that had a notice, and whether they will say that they are safe."""
        self._meeting: dict[TaskId, Sizing] = {}
        """The last new size that a rank 0 was told of."""
        self._confirm = confirm
        self._ends_s: dict[TaskId, float] = {}
        """When each task that works ends if nobody stops it."""
        self._left_s: dict[TaskId, float] = {}
        """How much longer each task that stands still has to work."""
        self._deadlines: dict[TaskId, float] = {}
        self._heap: list[Running] = []
        self._number = 0
        self._woken = asyncio.Event()
        """Set when the next end may have come, or another one comes first."""

    @property
    def known(self) -> Mapping[TaskId, Local]:
        """See Runner."""
        return self._known

    async def recover(self, orders: Iterable[Order]) -> None:
        """Tasks that had started run on as if nobody had been away; see Runner."""
        now_ms = self.clock.now_ms()
        for order in orders:
            if order.task.state == TaskState.STARTED and order.task.id not in self._known:
                self._begin(order, gone_s=worked_ms(order.task, now_ms) / 1000)

    def start(self, order: Order) -> None:
        """See Runner."""
        self._begin(order, gone_s=0)

    def _begin(self, order: Order, *, gone_s: float) -> None:
        task, course = order.task, _script_of(order, speed=self.speed)
        self._number += 1
        # Kept, as a deadline takes a number of its own; by this one the end of its work is known.
        number = self._number
        self._end_at(task.id, self.clock.monotonic_s() + course.lasts_s - gone_s)
        self._scripts[task.id] = course
        self._mind_deadline(task.id, order.job)
        self._known[task.id] = Local(
            task=task.id,
            placed_ms=task.placed_ms,
            phase=Phase.RUNNING,
            pid=number,
            started=True,
            silent=True,
        )
        if task.working is not None:
            self.pause(task.id, 0)
        self.changed(task.id)

    def _mind_deadline(self, task: TaskId, job: Job) -> None:
        """The deadline comes whether the task works or stands still, and at the same moment at any speed."""
        self._deadlines.pop(task, None)
        if job.spec.deadline_ms:
            at_s = self.clock.monotonic_s() + max(0.0, (job.spec.deadline_ms - self.clock.now_ms()) / 1000)
            self._deadlines[task] = at_s
            self._push(task, at_s, DEADLINE)

    def _end_at(self, task: TaskId, ends_s: float) -> None:
        self._ends_s[task] = ends_s
        if not self._heap or ends_s < self._heap[0].ends_s:
            self._woken.set()
        heapq.heappush(self._heap, Running(ends_s=ends_s, number=self._number, task=task))

    def stop(self, task: TaskId, cause: ExitCause) -> None:
        """Stop it, at once or as its script says; see Runner."""
        course = self._scripts.get(task)
        if course is None or task in self._stopping:
            return
        self._left_s.pop(task, None)
        if course.stops_s == 0:
            self._end(task, cause, STOPPED_CODE)
            return
        self._stopping[task] = None
        self._scripts[task] = replace(course, cause=cause, exit_code=STOPPED_CODE)
        # A new number, so that the end it was to have does not come any more.
        self._number += 1
        self._known[task] = replace(self._known[task], pid=self._number)
        if course.stops_s > 0:
            most_s = BUS_LOST_GRACE_S_MAX if cause == ExitCause.BUS_LOST else course.stops_s
            self._end_at(task, self.clock.monotonic_s() + min(course.stops_s, most_s))

    def leave(self, task: TaskId, notice_s: float) -> None:
        """It is safe after its job's `safe_time_s`, at the latest when its notice is over; see Runner."""
        course = self._scripts.get(task)
        if course is None or task in self._stopping or task in self._leaving:
            return
        saves_s = min(course.safe_s, notice_s / self.speed)
        self._leaving[task] = course.safe_s <= notice_s / self.speed
        if saves_s <= 0:
            self._safe(task)
        else:
            self._push(task, self.clock.monotonic_s() + saves_s, LEAVES)

    def pause(self, task: TaskId, notice_s: float) -> None:
        """It stands still after its job's `safe_time_s`, at the latest when its notice is over; see Runner."""
        course = self._scripts.get(task)
        if course is None or task in self._stopping or self._known[task].pausing:
            return
        self._known[task] = replace(self._known[task], pausing=True)
        saves_s = min(course.safe_s, notice_s / self.speed)
        if saves_s <= 0:
            self._stand_still(task)
        else:
            self._push(task, self.clock.monotonic_s() + saves_s, PAUSES)

    def _stand_still(self, task: TaskId) -> None:
        known = self._known.get(task)
        if known is None or task not in self._scripts or not known.pausing or known.still or task in self._stopping:
            return
        self._left_s[task] = max(0.0, self._ends_s[task] - self.clock.monotonic_s())
        # A new number, so that the end it was to have does not come any more.
        self._number += 1
        self._known[task] = replace(known, still=True, pid=self._number)
        self.changed(task)

    def go_on(self, task: TaskId) -> None:
        """What was left of its work begins again; see Runner."""
        known = self._known.get(task)
        if known is None or not known.pausing:
            return
        self._known[task] = replace(known, pausing=False, still=False)
        if task in self._left_s:
            self._number += 1
            self._known[task] = replace(self._known[task], pid=self._number)
            self._end_at(task, self.clock.monotonic_s() + self._left_s.pop(task))
        self.changed(task)

    def retime(self, task: Task, job: Job) -> None:
        """Its end comes as much earlier or later as the new script is shorter or longer; see Runner."""
        before = self._scripts.get(task.id)
        serves = any(role.serves for role in job.spec.roles if role.name == task.role)
        after = script(job, speed=self.speed, placed_ms=task.placed_ms, serves=serves)
        self._mind_deadline(task.id, job)
        if before is None or task.id in self._stopping or before.lasts_s == after.lasts_s:
            return
        self._scripts[task.id] = after
        more_s = after.lasts_s - before.lasts_s
        if task.id in self._left_s:
            self._left_s[task.id] = max(0.0, self._left_s[task.id] + more_s)
            return
        # A new number, so that the end it was to have does not come any more.
        self._number += 1
        self._known[task.id] = replace(self._known[task.id], pid=self._number)
        self._end_at(task.id, self._ends_s[task.id] + more_s)

    def _safe(self, task: TaskId) -> None:
        """A leaving task's time is over: it said so, or it had to."""
        if task in self._known and self._leaving.get(task):
            self._known[task] = replace(self._known[task], safe=True)
            self.changed(task)
        self.stop(task, ExitCause.STOPPED)

    def inform(self, sizing: Sizing) -> None:
        """Rank 0 confirms a new size after its job's `join_time_s`, never when that is negative; see Runner."""
        task = TaskId(sizing.task)
        course, last = self._scripts.get(task), self._meeting.get(task)
        if course is None or sizing.rank or sizing.stage != ResizeStage.CONFIRMING or course.joins_s < 0:
            return
        if last is None or last.resize != sizing.resize:
            self._meeting[task] = sizing
            self._push(task, self.clock.monotonic_s() + course.joins_s, MEETS)

    def _push(self, task: TaskId, at_s: float, kind: str) -> None:
        self._number += 1
        if not self._heap or at_s < self._heap[0].ends_s:
            self._woken.set()
        heapq.heappush(self._heap, Running(ends_s=at_s, number=self._number, task=task, kind=kind))

    def forget(self, task: TaskId) -> None:
        """See Runner."""
        self._known.pop(task, None)

    async def run(self) -> None:
        """See Runner."""
        alarms = Tasks()
        try:
            while True:
                self._woken.clear()
                now_s = self.clock.monotonic_s()
                self.end_due(now_s)
                if self._heap:
                    alarms.spawn(self._alarm(max(NAP_S_MIN, self._heap[0].ends_s - now_s)), name="next end")
                await self._woken.wait()
                await alarms.close()
        finally:
            await alarms.close()

    async def _alarm(self, seconds: float) -> None:
        await self.clock.sleep(seconds)
        self._woken.set()

    def end_due(self, now_s: float) -> None:
        """End every task whose time has come."""
        while self._heap and self._heap[0].ends_s <= now_s:
            due = heapq.heappop(self._heap)
            if due.kind == LEAVES:
                self._safe(due.task)
                continue
            if due.kind == PAUSES:
                self._stand_still(due.task)
                continue
            if due.kind == DEADLINE:
                if self._deadlines.get(due.task) == due.ends_s:
                    self.stop(due.task, ExitCause.TIME_LIMIT)
                continue
            if due.kind == MEETS:
                self._confirm(self._meeting[due.task])
                continue
            course = self._scripts.get(due.task)
            local = self._known.get(due.task)
            if course is not None and local is not None and local.pid == due.number:
                self._end(due.task, course.cause, course.exit_code)

    def _end(self, task: TaskId, cause: ExitCause, exit_code: int) -> None:
        del self._scripts[task]
        self._stopping.pop(task, None)
        self._leaving.pop(task, None)
        self._ends_s.pop(task, None)
        self._left_s.pop(task, None)
        self._deadlines.pop(task, None)
        self._known[task] = replace(self._known[task], phase=Phase.EMPTY, cause=cause, exit_code=exit_code)
        self.changed(task)

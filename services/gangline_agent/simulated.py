"""Runs tasks that only take time: one heap of end times for any number of nodes, nothing per task.

A task's run time comes from its job's attributes: `run_time_s` (60 when absent) and `exit_code` (0); `stop_time_s` is
how long it takes to stop (0; at most its grace; one with a negative time can not even be killed). All times of the
job, its time limit too, pass `speed` times faster. Everything a restarted agent needs is in the log.
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
from gangline_core.job import Job, TaskState
from gangline_kit.clock import Clock
from gangline_kit.tasks import Tasks

RUN_TIME = "run_time_s"
EXIT_CODE = "exit_code"
STOP_TIME = "stop_time_s"
RUN_TIME_S = 60.0
STOPPED_CODE = 143
NAP_S_MIN = 0.001


class Script(Struct, frozen=True):
    """How a task's run goes when nobody stops it."""

    lasts_s: float
    cause: ExitCause
    exit_code: int
    stops_s: float = 0.0
    """How long it takes to stop when it is told to; never when negative."""


def script(job: Job, *, speed: float, placed_ms: int = 0) -> Script:
    """The run that the job's attributes describe."""
    wanted = job.spec.attributes.get(RUN_TIME, RUN_TIME_S)
    run_s = max(0.0, float(wanted)) if isinstance(wanted, int | float) else RUN_TIME_S
    limit_s, stops_s = float(job.spec.time_limit_s), _stops_s(job) / speed
    if job.spec.deadline_ms:
        left_s = max(1.0, (job.spec.deadline_ms - placed_ms) / 1000) * speed
        limit_s = min(limit_s or left_s, left_s)
    if limit_s and run_s > limit_s:
        return Script(limit_s / speed, ExitCause.TIME_LIMIT, STOPPED_CODE, stops_s)
    code = job.spec.attributes.get(EXIT_CODE, 0)
    return Script(run_s / speed, ExitCause.EXITED, code if isinstance(code, int) else 0, stops_s)


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


class SimulatedRunner:
    """See runner.Runner."""

    def __init__(self, clock: Clock, changed: Callable[[TaskId], None], *, speed: float = 1.0) -> None:
        """`changed` is called whenever `known` shows something new about a task."""
        self.clock = clock
        self.changed = changed
        self.speed = speed
        self._known: dict[TaskId, Local] = {}
        self._scripts: dict[TaskId, Script] = {}
        self._stopping: dict[TaskId, None] = {}
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
                self._begin(order, gone_s=max(0, now_ms - order.task.started_ms) / 1000)

    def start(self, order: Order) -> None:
        """See Runner."""
        self._begin(order, gone_s=0)

    def _begin(self, order: Order, *, gone_s: float) -> None:
        task, course = order.task, script(order.job, speed=self.speed, placed_ms=order.task.placed_ms)
        self._number += 1
        self._end_at(task.id, self.clock.monotonic_s() + course.lasts_s - gone_s)
        self._scripts[task.id] = course
        self._known[task.id] = Local(
            task=task.id,
            placed_ms=task.placed_ms,
            phase=Phase.RUNNING,
            pid=self._number,
            started=True,
            silent=True,
        )
        self.changed(task.id)

    def _end_at(self, task: TaskId, ends_s: float) -> None:
        if not self._heap or ends_s < self._heap[0].ends_s:
            self._woken.set()
        heapq.heappush(self._heap, Running(ends_s=ends_s, number=self._number, task=task))

    def stop(self, task: TaskId, cause: ExitCause) -> None:
        """Stop it, at once or as its script says; see Runner."""
        course = self._scripts.get(task)
        if course is None or task in self._stopping:
            return
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
            course = self._scripts.get(due.task)
            local = self._known.get(due.task)
            if course is not None and local is not None and local.pid == due.number:
                self._end(due.task, course.cause, course.exit_code)

    def _end(self, task: TaskId, cause: ExitCause, exit_code: int) -> None:
        del self._scripts[task]
        self._stopping.pop(task, None)
        self._known[task] = replace(self._known[task], phase=Phase.EMPTY, cause=cause, exit_code=exit_code)
        self.changed(task)

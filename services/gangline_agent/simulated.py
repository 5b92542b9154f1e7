"""Runs tasks that only take time: one heap of end times for any number of nodes, nothing per task.

A task's run time comes from its job's attributes: `run_time_s` (60 when absent) and `exit_code` (0). All times of the
job, its time limit too, pass `speed` times faster. Everything a restarted agent needs is in the log.
"""

import asyncio
import heapq
from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from gangline_agent.runner import Local, Order, Phase
from gangline_core.facts import ExitCause
from gangline_core.ids import TaskId
from gangline_core.job import Job, TaskState
from gangline_kit.clock import Clock
from gangline_kit.tasks import Tasks

RUN_TIME = "run_time_s"
EXIT_CODE = "exit_code"
RUN_TIME_S = 60.0
STOPPED_CODE = 143
NAP_S_MIN = 0.001


class Script(Struct, frozen=True):
    """How a task's run goes when nobody stops it."""

    lasts_s: float
    cause: ExitCause
    exit_code: int


def script(job: Job, *, speed: float) -> Script:
    """The run that the job's attributes describe."""
    wanted = job.spec.attributes.get(RUN_TIME, RUN_TIME_S)
    run_s = max(0.0, float(wanted)) if isinstance(wanted, int | float) else RUN_TIME_S
    limit_s = job.spec.time_limit_s
    if limit_s and run_s > limit_s:
        return Script(lasts_s=limit_s / speed, cause=ExitCause.TIME_LIMIT, exit_code=STOPPED_CODE)
    code = job.spec.attributes.get(EXIT_CODE, 0)
    return Script(lasts_s=run_s / speed, cause=ExitCause.EXITED, exit_code=code if isinstance(code, int) else 0)


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
        task, course = order.task, script(order.job, speed=self.speed)
        self._number += 1
        ends_s = self.clock.monotonic_s() + course.lasts_s - gone_s
        if not self._heap or ends_s < self._heap[0].ends_s:
            self._woken.set()
        heapq.heappush(self._heap, Running(ends_s=ends_s, number=self._number, task=task.id))
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

    def stop(self, task: TaskId, cause: ExitCause) -> None:
        """Simulated tasks stop at once; see Runner."""
        if task in self._scripts:
            self._end(task, cause, STOPPED_CODE)

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
        self._known[task] = replace(self._known[task], phase=Phase.EMPTY, cause=cause, exit_code=exit_code)
        self.changed(task)

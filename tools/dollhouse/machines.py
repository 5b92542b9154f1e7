"""The machines themselves: what runs there runs on whatever becomes of the agent, and uses real GPUs meanwhile.

This is the truth that the log can only report. A `Ledger` watches all machines at once: no GPU may ever carry more than
it has, and no job may live twice, whatever the log, the agents and the rest of the house believe.
"""

import asyncio
from collections.abc import Callable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from dollhouse.asks import STAGE_NAMES
from dollhouse.courses import course_of, seconds_in
from dollhouse.telling import STEP_TIME
from gangline_agent.judge import BUS_LOST_GRACE_S_MAX
from gangline_agent.runner import Local, Order, Phase
from gangline_agent.simulated import STOPPED_CODE, Script
from gangline_core.facts import ExitCause
from gangline_core.ids import JobId, TaskId
from gangline_core.job import Job, ResizeStage, Task
from gangline_wire.contract import Sizing

STUCK_TIME = "stuck_time_s"
"""Attribute of a job whose processes withstand even the kill for so long, as in a hanging driver."""
START_TIME = "start_time_s"
"""Attribute of a job whose processes take so long to start."""
WATCH_S = 1.0
GPU_MILLI, PACKED, INTERLEAVE = 1000, 2, 4
SAVES_S = 2.0
"""A member that leaves has saved what it must after so long."""
JOINS_S = 1.0
"""A gang has met at a new size after so long."""


class Ledger:
    """Everything that lives on any machine now; `fault` is told what cannot be."""

    def __init__(self, fault: Callable[[str], None]) -> None:
        """Nothing lives."""
        self.tasks: dict[TaskId, Task] = {}
        self.resting: dict[TaskId, None] = {}
        """Those that stand still: what they gave up may be others'."""
        self.undead: dict[TaskId, None] = {}
        """Killed, and still there: their GPU is theirs, but their job may live elsewhere."""
        self.bounded: dict[TaskId, None] = {}
        """Those that said how much of their GPUs' memory they use."""
        self.outlived = 0
        """How often processes withstood their kill."""
        self.most = PACKED
        """So many of them may work on the same GPUs."""
        self.saves = False
        """Jobs that say so save their work when they are told to stop, and go on there."""
        self.done_s: dict[JobId, float] = {}
        """How much work jobs have saved."""
        self._fault = fault

    def enter(self, task: Task, *, bounded: bool = False) -> None:
        """A task's processes begin to use its GPUs; some that are bounded in memory may work on the same ones."""
        for other in self.tasks.values():
            if other.job == task.job and other.attempt != task.attempt and other.id not in self.undead:
                self._fault(f"job {task.job} lives twice: {other.id} on {other.node} and {task.id} on {task.node}")
        if task.id in self.tasks:
            self._fault(f"task {task.id} is started twice")
        self.tasks[task.id] = task
        if bounded:
            self.bounded[task.id] = None
        self._look(task)

    def rest(self, task: TaskId) -> None:
        """Its processes stand still."""
        self.resting[task] = None

    def work(self, task: TaskId) -> None:
        """They work again, on their own GPUs."""
        if self.resting.pop(task, self) is None and task in self.tasks:
            self._look(self.tasks[task])

    def _look(self, task: Task) -> None:
        """No GPU of the node is used by more than fit on it."""
        used: dict[int, int] = {}
        slots: dict[int, int] = {}
        packed: dict[int, int] = {}
        users: dict[int, int] = {}
        for each in self.tasks.values():
            if each.node == task.node and each.id not in self.resting:
                for share in each.gpus:
                    used[share.index] = used.get(share.index, 0) + share.milli
                    users[share.index] = users.get(share.index, 0) + 1
                    packed[share.index] = packed.get(share.index, 0) + (each.id in self.bounded)
                    if slots.get(share.index, 0) & share.slots:
                        self._fault(f"a slice of GPU {share.index} of {task.node} is used by two")
                    slots[share.index] = slots.get(share.index, 0) | share.slots
        for index, milli in used.items():
            if milli > GPU_MILLI and not PACKED <= packed[index] == users[index] <= self.most:
                names = sorted(each.id for each in self.tasks.values() if each.node == task.node)
                self._fault(f"GPU {index} of {task.node} carries {milli} thousandths: {', '.join(names)}")

    def killed(self, task: TaskId) -> None:
        """It got its kill and does not go."""
        self.undead[task] = None

    def leave(self, task: TaskId) -> None:
        """Nothing is left of it."""
        self.tasks.pop(task, None)
        self.resting.pop(task, None)
        self.undead.pop(task, None)
        self.bounded.pop(task, None)


class Program(Struct):
    """One task's processes."""

    order: Order
    course: Script
    stuck_s: float
    timer: asyncio.TimerHandle
    """What it will do next: begin, end, or be gone; cancelled while it stands still."""
    ends_s: float = 0.0
    """When its work is done, once it has begun."""
    left_s: float = 0.0
    """How much work is left of one that stands still."""
    stop: ExitCause | None = None
    kill_at_s: float = 0.0
    is_leaving: bool = False
    met: int = 0
    """The last change of size at which its gang met."""
    done_s: float = 0.0
    """How much of its work earlier runs have saved."""
    agent: int = 0
    """Which agent of these machines started it."""


class Machines:
    """All machines of one agent: programs, and the supervisors that end them when no agent has come for too long."""

    def __init__(self, ledger: Ledger, *, orphan_s: float) -> None:
        """Empty machines under power."""
        self.known: dict[TaskId, Local] = {}
        self.news: dict[TaskId, None] = {}
        self.meetings: list[Sizing] = []
        """Sizes at which gangs met, not told yet."""
        self.told = asyncio.Event()
        self.ledger = ledger
        self.orphan_s = orphan_s
        self.agents = 0
        """So many agents have come so far, one after the other."""
        self._programs: dict[TaskId, Program] = {}
        self._renewed_s = self._now_s()

    @staticmethod
    def _now_s() -> float:
        return asyncio.get_running_loop().time()

    def at_work(self) -> Iterator[Order]:
        """What runs and does not stand still."""
        for name, program in self._programs.items():
            known = self.known[name]
            if known.phase == Phase.RUNNING and not known.still and program.stop is None:
                yield program.order

    async def watch(self) -> None:
        """Supervisors look for their agent, for ever."""
        while True:
            await asyncio.sleep(WATCH_S)
            if self._now_s() - self._renewed_s > self.orphan_s:
                for task in list(self._programs):
                    self.stop(task, ExitCause.BUS_LOST)

    def renew(self) -> None:
        """The agent is there and has the bus."""
        self._renewed_s = self._now_s()

    def start(self, order: Order) -> None:
        """Begin to start a task."""
        task, attributes = order.task, order.job.spec.attributes
        late_s = seconds_in(attributes.get(START_TIME))
        timer = asyncio.get_running_loop().call_later(late_s, self._begin, task.id)
        done_s = self.ledger.done_s.get(task.job, 0.0)
        self._programs[task.id] = Program(
            order=order,
            course=course_of(order.job, task, done_s=done_s),
            stuck_s=seconds_in(attributes.get(STUCK_TIME)),
            timer=timer,
            done_s=done_s,
            agent=self.agents,
        )
        self._say(Local(task=task.id, placed_ms=task.placed_ms, phase=Phase.STARTING, silent=True))
        self.ledger.enter(task, bounded=bool(attributes.get(STEP_TIME) or attributes.get(STAGE_NAMES[0])))

    def _begin(self, task: TaskId) -> None:
        self._work_on(task, self._programs[task].course.lasts_s)
        self._say(replace(self.known[task], phase=Phase.RUNNING, started=True, pid=1))
        if self.known[task].pausing:
            self._stand_still(task)

    def _work_on(self, task: TaskId, seconds: float) -> None:
        """So much work, and it ends by itself."""
        program = self._programs[task]
        course = program.course
        program.ends_s = self._now_s() + seconds
        program.timer.cancel()
        program.timer = asyncio.get_running_loop().call_later(
            seconds, self._main_ended, task, course.cause, course.exit_code
        )

    def stop(self, task: TaskId, cause: ExitCause) -> None:
        """Ask it to stop; it takes its time, and is killed after its grace."""
        program = self._programs.get(task)
        if program is None or self.known[task].phase not in (Phase.STARTING, Phase.RUNNING):
            return
        now_s = self._now_s()
        wanted_s = program.course.stops_s if program.course.stops_s >= 0 else program.order.job.spec.grace_s
        if cause == ExitCause.BUS_LOST:
            wanted_s = min(wanted_s, BUS_LOST_GRACE_S_MAX)
        if program.stop is not None and program.kill_at_s <= now_s + wanted_s:
            return
        if program.stop is None:
            self._save(task, program)
        program.stop, program.kill_at_s = program.stop or cause, now_s + wanted_s
        program.timer.cancel()
        program.timer = asyncio.get_running_loop().call_later(
            wanted_s, self._main_ended, task, program.stop, STOPPED_CODE
        )

    def _save(self, task: TaskId, program: Program) -> None:
        """What it has done so far, where it says that it saves."""
        known, job = self.known[task], program.order.job
        if self.ledger.saves and job.spec.checkpoints and known.phase == Phase.RUNNING:
            left_s = program.left_s if known.still else program.ends_s - self._now_s()
            done_s = program.done_s + program.course.lasts_s - max(0.0, left_s)
            self.ledger.done_s[job.id] = max(done_s, self.ledger.done_s.get(job.id, 0.0))

    def leave(self, task: TaskId, notice_s: float) -> None:
        """Tell it that it leaves: it saves what it must within its notice, says so, and is stopped."""
        program = self._programs.get(task)
        if program is not None and not program.is_leaving and program.stop is None:
            program.is_leaving = True
            asyncio.get_running_loop().call_later(min(SAVES_S, notice_s), self._safe, task)

    def _safe(self, task: TaskId) -> None:
        if task in self._programs and self.known[task].phase in (Phase.STARTING, Phase.RUNNING):
            self._say(replace(self.known[task], safe=True))
            self.stop(task, ExitCause.STOPPED)

    def pause(self, task: TaskId, notice_s: float) -> None:
        """Tell it to stand still when it is ready or its notice is over."""
        program = self._programs.get(task)
        if program is not None and program.stop is None and not self.known[task].pausing:
            self._say(replace(self.known[task], pausing=True))
            asyncio.get_running_loop().call_later(min(SAVES_S, notice_s), self._stand_still, task)

    def _stand_still(self, task: TaskId) -> None:
        program, known = self._programs.get(task), self.known.get(task)
        if program is None or known is None or program.stop is not None:
            return
        if known.phase == Phase.RUNNING and known.pausing and not known.still:
            program.left_s = max(0.0, program.ends_s - self._now_s())
            program.timer.cancel()
            self._say(replace(known, still=True))
            self.ledger.rest(task)

    def go_on(self, task: TaskId) -> None:
        """What was left of its work begins again."""
        program, known = self._programs.get(task), self.known.get(task)
        if program is None or known is None or not known.pausing:
            return
        self._say(replace(known, pausing=False, still=False))
        if known.still and program.stop is None:
            self.ledger.work(task)
            self._work_on(task, program.left_s)

    def retime(self, task: Task, job: Job) -> None:
        """Its end comes as much earlier or later as its new script is shorter or longer."""
        program, known = self._programs.get(task.id), self.known.get(task.id)
        if program is None or known is None or program.stop is not None:
            return
        after = course_of(job, task, done_s=program.done_s)
        if after.lasts_s == program.course.lasts_s:
            return
        more_s, program.course = after.lasts_s - program.course.lasts_s, after
        if known.still:
            program.left_s = max(0.0, program.left_s + more_s)
        elif known.phase == Phase.RUNNING:
            self._work_on(task.id, max(0.0, program.ends_s + more_s - self._now_s()))

    def inform(self, sizing: Sizing) -> None:
        """Rank 0 of a gang meets the others at its new size, and says so."""
        program = self._programs.get(TaskId(sizing.task))
        if program is None or sizing.rank or sizing.stage != ResizeStage.CONFIRMING or program.met == sizing.resize:
            return
        program.met = sizing.resize
        asyncio.get_running_loop().call_later(JOINS_S, self._met, sizing)

    def _met(self, sizing: Sizing) -> None:
        if sizing.task in self._programs:
            self.meetings.append(sizing)
            self.told.set()

    def reap(self) -> int:
        """Something ends the supervisors of all programs, and these with them; how many that were.

        The agent that started one saw it go; another one cannot tell that from a machine that began anew.
        """
        running = [name for name, program in self._programs.items() if self._runs(name, program)]
        for name in running:
            program = self._programs[name]
            program.timer.cancel()
            self.known[name] = replace(self.known[name], witnessed=program.agent == self.agents)
            self._main_ended(name, ExitCause.PROCESS_LOST, None)
        return len(running)

    def _runs(self, task: TaskId, program: Program) -> bool:
        return program.stop is None and self.known[task].phase == Phase.RUNNING

    def _main_ended(self, task: TaskId, cause: ExitCause, code: int | None) -> None:
        program = self._programs[task]
        self._say(replace(self.known[task], phase=Phase.EXITED, cause=cause, exit_code=code))
        self.ledger.killed(task)
        self.ledger.outlived += program.stuck_s > 0
        program.timer = asyncio.get_running_loop().call_later(program.stuck_s, self._gone, task)

    def _gone(self, task: TaskId) -> None:
        del self._programs[task]
        self.ledger.leave(task)
        self._say(replace(self.known[task], phase=Phase.EMPTY))

    def forget(self, task: TaskId) -> None:
        """The log knows its end."""
        if task not in self._programs:
            self.known.pop(task, None)

    def power_off(self) -> None:
        """Everything on the machines is gone at once, without a word."""
        for task, program in self._programs.items():
            program.timer.cancel()
            self.ledger.leave(task)
        self._programs.clear()
        self.known.clear()

    def _say(self, local: Local) -> None:
        self.known[local.task] = local
        self.news[local.task] = None
        self.told.set()

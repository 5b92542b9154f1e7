"""Runs tasks as real processes, each beside its own supervisor, and finds them again after a restart of the agent."""

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from gangline_agent import blame, environment, judge, launch, left_behind, meeting, proc, supervise
from gangline_agent.cgroups import Cgroups
from gangline_agent.group import TASK_MARK, Group
from gangline_agent.journal import SIZE, Folder, Intent, Journal, Life, write_whole
from gangline_agent.judge import Due
from gangline_agent.lives import Live, Surroundings
from gangline_agent.nursery import Nursery
from gangline_agent.output import Caps
from gangline_agent.runner import Local, Order, Phase
from gangline_agent.teller import Telling, tell
from gangline_core.door.terms import task_limit_s
from gangline_core.facts import ExitCause
from gangline_core.ids import JobId, TaskId
from gangline_core.job import Job, Task
from gangline_kit.errors import TemporaryError
from gangline_wire.codec import encode
from gangline_wire.contract import Sizing
from gangline_wire.seal import SecretMissingError, unseal_role

log = logging.getLogger(__name__)

LAUNCHERS = 4  # Tasks being launched at the same time.
TICK_S = 0.2
DEEP_LOOK_S = 1.0
"""Every task's files and supervisor are looked at this often, woken or not."""
CLAIM_S_MAX = 15.0
"""A supervisor that has not claimed its task by then is not coming."""
TELL_S = 0.1  # New output is told this often.
TELL_LATE_S_MAX = 5.0
"""An ended task's room is given back although its output could not be told for this long."""
SECRETS_TRIES = 5
ENDED_KEPT_S = 7 * 86_400
ENDED_KEPT = 2_000


class ProcessRunner:
    """See runner.Runner."""

    def __init__(
        self, journal: Journal, cgroups: Cgroups, around: Surroundings, *, caps: Caps, lease_s: float = 0.0
    ) -> None:
        """`lease_s` > 0 has supervisors stop their task when no agent has renewed the lease for so long."""
        self.journal = journal
        self.cgroups = cgroups
        self.around = around
        self.settings = launch.Settings(
            pipe=journal.root / "wake",
            lease_file=journal.root / "lease",
            lease_s=lease_s,
            caps=caps,
        )
        self.nursery = Nursery(journal.root / "supervisors.log")
        self.lives: dict[TaskId, Live] = {}
        self._known: dict[TaskId, Local] = {}
        self._by_folder: dict[str, TaskId] = {}
        self._launches: asyncio.Queue[Order] = asyncio.Queue()
        self._output_waits = asyncio.Event()
        self._is_recovered = False
        self._boot = supervise.boot_id().decode()
        self.group = Group(cgroups, self._boot)

    @property
    def known(self) -> Mapping[TaskId, Local]:
        """See Runner."""
        return self._known

    # --- orders -------------------------------------------------------------------------------------------

    async def recover(self, orders: Iterable[Order]) -> None:
        """Read the journal, once; see Runner."""
        if self._is_recovered:
            return
        self._is_recovered = True
        left_behind.put_back(self.journal, orders, boot=self._boot, clock=self.around.clock)
        for folder in self.journal.found():
            intent = folder.intent()
            if intent is None or ((life := folder.life()).pid == 0 and not life.is_over and folder.call_off()):
                self.journal.drop(folder)
            else:
                live = self._add(folder, intent)
                # The agent may have ended between writing something down and doing it: news may be heard twice.
                live.owes_news = live.sizing is not None and live.sizing.signals
                self._look(live)
                if intent.still_s and live.supervisor_lives:
                    self.group.stand_still(live)
        log.info("found %d tasks of an earlier agent", len(self.lives))

    def start(self, order: Order) -> None:
        """See Runner."""
        intent, folder = launch.intent(order, self.around.clock), self.journal.folder(order.task.id)
        if folder.path.exists():
            # A namesake of another life of the cluster, whose last output nobody took.
            self.journal.archive(folder, intent.placed_ms)
        self._add(folder, intent)
        self._launches.put_nowait(order)

    def stop(self, task: TaskId, cause: ExitCause) -> None:
        """See Runner."""
        live = self.lives.get(task)
        if live is None or live.local.phase not in (Phase.STARTING, Phase.RUNNING):
            return
        if live.intent.stop_cause is None:
            live.write(replace(live.intent, stop_cause=cause))
        elif cause == ExitCause.BUS_LOST and live.intent.kill_at_s:
            soon_s = self.around.clock.monotonic_s() + judge.BUS_LOST_GRACE_S_MAX
            live.write(replace(live.intent, kill_at_s=min(live.intent.kill_at_s, soon_s)))
        self._act(live)

    def leave(self, task: TaskId, notice_s: float) -> None:
        """The notice is written down first, so that a restarted agent goes on counting; see Runner."""
        live = self.lives.get(task)
        if live is None or live.intent.leave_at_s or live.local.phase not in (Phase.STARTING, Phase.RUNNING):
            return
        leave_at_s = self.around.clock.monotonic_s() + notice_s
        live.write(replace(live.intent, leave_at_s=leave_at_s))
        self._act(live)

    def safe(self, task: TaskId) -> bool:
        """A member that leaves or is paused says that it is safe; False when it was told neither."""
        live = self.lives.get(task)
        if live is None or not (live.intent.leave_at_s or live.intent.pause):
            return False
        live.be_safe(self.around.clock.monotonic_s())
        self._act(live)
        return True

    def pause(self, task: TaskId, notice_s: float) -> None:
        """By SIGSTOP to all of its processes, after its notice; see Runner."""
        live = self.lives.get(task)
        if live is None or live.intent.pause or live.local.phase != Phase.RUNNING:
            return
        live.write(replace(live.intent, pause=True, pause_at_s=self.around.clock.monotonic_s() + notice_s))
        self._act(live)

    def go_on(self, task: TaskId) -> None:
        """By SIGCONT to all of its processes; see Runner."""
        live = self.lives.get(task)
        if live is None or not live.intent.pause:
            return
        # Woken before that is written down: an agent that ends in between has them stand still, and wakes them again.
        self.group.tell(live, signal.SIGCONT)
        live.work_on(self.around.clock.monotonic_s())
        self._act(live)

    def retime(self, task: Task, job: Job) -> None:
        """By writing down another limit; see Runner."""
        live, limit_s = self.lives.get(task.id), task_limit_s(job, task.placed_ms)
        if live is not None and live.intent.limit_s != limit_s:
            live.write(replace(live.intent, limit_s=limit_s, ends_at_s=launch.ends_at_s(job, self.around.clock)))
            self._act(live)

    def inform(self, sizing: Sizing) -> None:
        """By the size file, and by a signal when the job wants one; see Runner."""
        live = self.lives.get(TaskId(sizing.task))
        if live is None or live.local.phase not in (Phase.STARTING, Phase.RUNNING) or live.sizing == sizing:
            return
        before = live.sizing or live.folder.sizing()
        live.sizing = sizing
        if before == sizing:
            return
        with contextlib.suppress(OSError):
            live.folder.put(SIZE, encode(sizing))
        is_news = before is not None and before.turns != sizing.turns
        if is_news and sizing.signals:
            live.owes_news = True
            self._nudge(live)

    def _nudge(self, live: Live) -> None:
        """Tell the program of news by SIGUSR1, as soon as it listens."""
        if live.owes_news and live.life.main and live.supervisor_lives:
            live.owes_news = not self.group.nudge(live, signal.SIGUSR1, self.around.clock.monotonic_s())

    def forget(self, task: TaskId) -> None:
        """See Runner."""
        self._known.pop(task, None)
        live = self.lives.get(task)
        if live is not None:
            live.is_forgotten = True
            self._put_aside(live)

    def owner_of(self, pid: int) -> str:
        """The task whose program started this process, at whatever remove; empty when it is none of ours."""
        mark = proc.mark_of(pid, TASK_MARK)
        return mark if TaskId(mark) in self.lives else ""

    def renew_lease(self) -> None:
        """The agent is there and has the bus: supervisors may go on."""
        with contextlib.suppress(OSError):
            write_whole(self.settings.lease_file, str(self.around.clock.monotonic_s()).encode())

    async def run(self) -> None:
        """See Runner."""
        await asyncio.to_thread(self.nursery.warm)
        wake = self._open_pipe()
        loop = asyncio.get_running_loop()
        loop.add_reader(wake, self._woken, wake)
        try:
            async with asyncio.TaskGroup() as group:
                for number in range(LAUNCHERS):
                    group.create_task(self._launch_for_ever(), name=f"launcher {number}")
                group.create_task(self._tell_for_ever(), name="output")
                group.create_task(self._watch_for_ever(), name="watch processes")
        finally:
            loop.remove_reader(wake)
            os.close(wake)
            self.nursery.close()
            self.cgroups.close()

    # --- starting -----------------------------------------------------------------------------------------

    def _add(self, folder: Folder, intent: Intent) -> Live:
        local = Local(task=intent.task, placed_ms=intent.placed_ms, phase=Phase.STARTING)
        telling = Telling(job=intent.job, task=intent.task, placed_ms=intent.placed_ms, position=folder.told())
        live = Live(folder=folder, intent=intent, local=local, telling=telling, sizing=folder.sizing())
        self.lives[intent.task] = live
        self._known[intent.task] = local
        self._by_folder[folder.path.name] = intent.task
        return live

    async def _launch_for_ever(self) -> None:
        while True:
            order = await self._launches.get()
            live = self.lives[order.task.id]
            try:
                await self._launch(order, live)
            except (launch.LaunchError, SecretMissingError, TemporaryError, OSError) as error:
                live.intent = blame.refused(live.intent, error)
                if blame.is_machines(error):
                    self.around.unable(str(error))
                    await self.around.clock.sleep(blame.TOLD_S)
                await asyncio.to_thread(self._fail, live, str(error))
            except Exception as error:
                # One task's trouble must not take the node with it, again after each restart.
                log.exception("task %s could not be launched", order.task.id)
                await asyncio.to_thread(self._fail, live, f"{type(error).__name__} in the agent")
            self._look(live)

    async def _launch(self, order: Order, live: Live) -> None:
        role = environment.role_of(order)
        if order.job.spec.secrets:
            role = unseal_role(role, await self._secrets(JobId(order.job.array or order.task.job)))
        meeting.check(order, self.around.taken)
        await asyncio.to_thread(live.folder.make, live.intent)
        if live.sizing is not None:
            live.folder.put(SIZE, encode(live.sizing))
        ready = launch.plan(order, role, live.folder, self.around.devices(order), self.around.desk(order.task.id))
        cgroup = self.cgroups.make(order.task.id)
        if live.intent.stop_cause is not None:
            raise launch.LaunchError("it was stopped before it was started")
        home = {"cgroup": str(cgroup), "cgroup_home": str(self.cgroups.home)} if cgroup else {}
        data = launch.order_bytes(self.settings, ready, live.intent, live.folder, home)
        live.sent_s = self.around.clock.monotonic_s()
        await asyncio.to_thread(self.nursery.send, data)

    async def _secrets(self, job: JobId) -> Mapping[str, str]:
        """The job's sealed values; tried for a moment, as they are stored just before the job is."""
        for attempt in range(SECRETS_TRIES):
            try:
                return await self.around.secrets(job)
            except TemporaryError as error:
                if attempt + 1 == SECRETS_TRIES:
                    raise
                await self.around.clock.sleep(min(error.retry_after_s, 1.0))
        raise AssertionError("unreachable")

    def _fail(self, live: Live, error: str) -> None:
        try:
            live.folder.make(live.intent)
            live.folder.put("output.0", f"[gangline: could not start: {error}]\n".encode())
            live.folder.fail(error)
        except OSError as fault:
            live.life = Life(failed=f"{error} ({fault})", empty=True)

    # --- watching -----------------------------------------------------------------------------------------

    def _open_pipe(self) -> int:
        if not self.settings.pipe.exists():
            os.mkfifo(self.settings.pipe, 0o600)
        # Open for both, so that the pipe never reports an end when the last supervisor has closed it.
        return os.open(self.settings.pipe, os.O_RDWR | os.O_NONBLOCK)

    def _woken(self, wake: int) -> None:
        """Supervisors wrote the names of their folders."""
        try:
            names = os.read(wake, 1 << 16).decode(errors="replace").split()
        except BlockingIOError:
            return
        for name in dict.fromkeys(names):
            live = self.lives.get(self._by_folder.get(name, TaskId("")))
            if live is not None:
                self._look(live)

    async def _watch_for_ever(self) -> None:
        deep_at_s = clean_at_s = 0.0
        while True:
            now_s = self.around.clock.monotonic_s()
            is_deep = now_s >= deep_at_s
            if is_deep:
                deep_at_s = now_s + DEEP_LOOK_S
            for live in list(self.lives.values()):
                if is_deep:
                    self._look(live)
                else:
                    self._act(live)
            if now_s >= clean_at_s:
                clean_at_s = now_s + 3600
                older_than_ms = self.around.clock.now_ms() - ENDED_KEPT_S * 1000
                await asyncio.to_thread(self.journal.clean, older_than_ms=older_than_ms, most=ENDED_KEPT)
            await self.around.clock.sleep(TICK_S)

    def _look(self, live: Live) -> None:
        """Read what the supervisor wrote, see whether it lives, and do what is due."""
        live.life = live.story(self._boot)
        if live.sent_s and not live.life.pid and self.around.clock.monotonic_s() - live.sent_s > CLAIM_S_MAX:
            live.sent_s, why = 0, "its supervisor did not start"
            live.intent = blame.refused(live.intent, TemporaryError(why))
            self.around.unable(why)
            self._fail(live, why)
            live.life = live.story(self._boot)
        same_boot = live.life.boot == self._boot
        live.supervisor_lives = same_boot and proc.is_alive(live.life.pid, live.life.start_ticks)
        self._act(live)
        self._nudge(live)

    def _act(self, live: Live) -> None:
        """Judge the task on what is known of it, tell what is new, and do what is due."""
        if live.local.phase == Phase.EMPTY:
            return
        now_s = self.around.clock.monotonic_s()
        left = self.group.left(live) if live.life.pid and (live.life.empty or not live.supervisor_lives) else []
        is_over = live.life.empty or (live.life.pid > 0 and not live.supervisor_lives and not left)
        if is_over and not live.over_s:
            live.over_s = now_s
            self._output_waits.set()
        is_late = is_over and now_s - live.over_s > TELL_LATE_S_MAX
        local = judge.local(live.intent, live.life, live.found(is_left=bool(left), is_late=is_late))
        if local != live.local:
            live.local = local
            if not live.is_forgotten:
                self._known[local.task] = local
                self.around.changed(local.task)
        since_s = live.life.main_ticks / proc.TICKS_PER_S
        due, intent = judge.due(live.intent, live.life, local, now_s=now_s, running_since_s=since_s, is_left=bool(left))
        live.write(intent)
        if due == Due.STILL and self.group.stand_still(live):
            self._act(live)
        elif due == Due.STILL:  # Nothing of it is free before it was seen to stand still: the next look tries again.
            live.write(replace(live.intent, still_s=0))
        elif due != Due.NOTHING:
            self.group.end(live, signal.SIGKILL if due == Due.KILL else live.intent.stop_signal)

    # --- ending -------------------------------------------------------------------------------------------

    def _put_aside(self, live: Live) -> None:
        """The log knows the task's end and its output is told: nothing more has to be remembered."""
        if live.is_forgotten and live.telling.is_done:
            del self.lives[live.intent.task]
            del self._by_folder[live.folder.path.name]
            self.cgroups.remove(live.intent.task)
            self.journal.archive(live.folder, live.intent.placed_ms)

    # --- output -------------------------------------------------------------------------------------------

    async def _tell_for_ever(self) -> None:
        while True:
            self._output_waits.clear()
            for live in list(self.lives.values()):
                if not live.telling.is_done and (live.life.main or live.over_s):
                    await self._tell(live)
            try:
                async with asyncio.timeout(TELL_S):
                    await self._output_waits.wait()
            except TimeoutError:
                continue

    async def _tell(self, live: Live) -> None:
        running_s = self.around.clock.monotonic_s() - live.life.main_ticks / proc.TICKS_PER_S
        end = "" if not live.over_s else "-" if live.life.exit_code is None else str(live.life.exit_code)
        try:
            await tell(
                live.telling, live.folder, self.around.append, caps=self.settings.caps, running_s=running_s, end=end
            )
        except TemporaryError as error:
            log.warning("output of task %s waits: %s", live.intent.task, error)
            await self.around.clock.sleep(min(error.retry_after_s, 1.0))
        if live.telling.is_done:
            self._act(live)
            self._put_aside(live)

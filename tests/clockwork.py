"""A world in which time passes by itself: jobs arrive, run as long as they say, and take their time to stop.

`Clockwork(nodes, policy fields)` with `arrive(at_s, spec, runs_s=...)`, then `run(until_s)`. After every event rounds
are held until none is due, as the services would do it. Times are seconds from the start of the world.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

from tests.make import SECOND, T0
from tests.watched import Watched

from gangline_core import cycle, elasticity, parsync
from gangline_core import facts as f
from gangline_core.cluster import Node
from gangline_core.groups import Group
from gangline_core.ids import JobId, TaskId
from gangline_core.job import JobState, TaskState
from gangline_core.spec import JobSpec
from gangline_core.wake import next_wake_ms

ROUNDS_MAX = 50


class Clockwork:
    """Drives a World by events in time."""

    def __init__(self, *nodes: Node, groups: tuple[Group, ...] = (), elastic: bool = False, **policy: Any) -> None:
        """A cluster; `policy` are fields of the pool's policy (ordering is by age unless told otherwise)."""
        self.world = Watched(*nodes, groups=groups)
        self.world.set_policy(**{"ordering": "fifo", "starvation_s": 0, **policy})
        self.elastic = elastic
        self.runs_s: dict[JobId, float] = {}
        self.stops_s: dict[JobId, float] = {}
        self.starts_s: dict[JobId, float] = {}
        """How long a job's tasks take to start; 0 unless told."""
        self.done_s: dict[JobId, float] = {}
        """What jobs that checkpoint did in earlier runs; others begin again."""
        self.started: dict[JobId, list[float]] = {}
        self.ended: dict[JobId, float] = {}
        self.evictions: list[f.Eviction] = []
        self.rounds: list[f.RoundDecided] = []
        self.shared = 0
        """Gangs that schedulers placed in their shares of rounds."""
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._known: set[tuple[TaskId, str]] = set()

    @property
    def now(self) -> float:
        """Seconds since the start."""
        return (self.world.at - T0) / SECOND

    def at(self, second: float, act: Callable[[], Any]) -> None:
        """Let something happen at a time."""
        self._count += 1
        heappush(self._events, (second, self._count, lambda: act() and None))

    def arrive(
        self, second: float, asked: JobSpec, *, runs_s: float = 1e9, stops_s: float = 0, starts_s: float = 0
    ) -> None:
        """A job is submitted at a time; it runs so long, and takes so long to stop when told to."""

        def submit() -> None:
            job = self.world.submit(asked)
            self.runs_s[job], self.stops_s[job], self.starts_s[job] = runs_s, stops_s, starts_s

        self.at(second, submit)

    def run(self, until: float) -> "Clockwork":
        """Let time pass up to a second."""
        while self._events and self._events[0][0] <= until:
            second = self._events[0][0]
            self.world.at = T0 + round(second * SECOND)
            while self._events and self._events[0][0] == second:
                heappop(self._events)[2]()
            self._decide()
        self.world.at = T0 + round(until * SECOND)
        return self

    def first_start(self, job: int) -> float | None:
        """When a job first ran."""
        return self.started.get(JobId(job), [None])[0]

    def _decide(self) -> None:
        for _ in range(ROUNDS_MAX):
            self._follow()
            if self.elastic:
                proposals = elasticity.propose(self.world.state, "default", self.world.at)
                if proposals:
                    self.world.tell("elastic.default", *proposals)
            due = next_wake_ms(self.world.state, "default", self.world.state.kept.pools["default"].decided_at)
            if not cycle.round_due(self.world.state, "default") and (due is None or due > self.world.at):
                break
            decided = self._round()
            if decided is None:
                break
            self.rounds.append(decided)
            self.evictions.extend(decided.evictions)
        else:
            raise AssertionError("rounds without end")
        due = next_wake_ms(self.world.state, "default", self.world.at)
        if due is not None:
            self.at((due - T0) / SECOND, lambda: None)

    def _round(self) -> f.RoundDecided | None:
        """One round; where the pool has several schedulers, all of them decide their shares of it at the same time."""
        world, pool = self.world, "default"
        if not parsync.schedulers_of(world.state.kept.pools[pool].policy):
            return world.round()
        # A share is told when others were told, so it is not decided on the state before it.
        world.invented.add("scheduler")
        opened = cycle.open_round(world.state, pool, world.at)
        if opened is None:
            return None
        world.tell(f"queue.{pool}", opened)
        numbers = sorted(parsync.asked(world.state, pool))
        for number, share in [(number, parsync.decide_share(world.state, pool, number)) for number in numbers]:
            if share is not None:
                world.tell(f"scheduler.{pool}.{number}", share)
                self.shared += len(share.placements)
        decided = cycle.decide_round(world.state, pool, world.at)
        world.tell(f"placement.{pool}", decided)
        return decided

    def _follow(self) -> None:
        """Plan what agents will do about tasks that are new, run, or have to stop."""
        for name, task in sorted(self.world.state.kept.tasks.items()):
            job = task.job
            if task.state == TaskState.PLACED and not task.stop and self._once(name, "start"):
                self._later(self.starts_s.get(job, 0), lambda name=name: self._start(name))
            if task.state == TaskState.STARTED and not task.stop and self._once(name, "run"):
                self._later(self._left_s(job), lambda name=name: self._finish(name, code=0))
            if task.stop and self._once(name, "stop"):
                self._save(job)
                self._later(self.stops_s.get(job, 0), lambda name=name: self._finish(name, code=143))

    def _left_s(self, job: JobId) -> float:
        return self.runs_s.get(job, 1e9) - self.done_s.get(job, 0)

    def _save(self, name: JobId) -> None:
        job = self.world.job(name)
        if job.spec.checkpoints and job.started_ms:
            self.done_s[name] = self.done_s.get(name, 0) + (self.world.at - job.started_ms) / SECOND

    def _once(self, task: TaskId, what: str) -> bool:
        is_new = (task, what) not in self._known
        self._known.add((task, what))
        return is_new

    def _later(self, seconds: float, act: Callable[[], None]) -> None:
        if seconds <= 0:
            act()
        elif seconds < 1e8:
            self.at(self.now + seconds, act)

    def _start(self, name: TaskId) -> None:
        task = self.world.state.kept.tasks.get(name)
        if task is None or task.stop:
            return
        self.world.tell("agent.sim", f.TaskStarted(task=name))
        if self.world.job(task.job).state == JobState.RUNNING and task.attempt > len(self.started.get(task.job, [])):
            self.started.setdefault(task.job, []).append(self.now)
        self._follow()

    def _finish(self, name: TaskId, *, code: int) -> None:
        task = self.world.state.kept.tasks.get(name)
        if task is None or (code == 0 and task.stop):
            return
        if task.state != TaskState.EXITED:
            cause = f.ExitCause.EXITED if code == 0 else f.ExitCause.STOPPED
            self.world.tell("agent.sim", f.TaskExited(task=name, cause=cause, exit_code=code))
        self.world.tell("agent.sim", f.GpusEmpty(tasks=(name,)))
        if not self.world.job(task.job).tasks:
            self.ended[task.job] = self.now
        self._follow()

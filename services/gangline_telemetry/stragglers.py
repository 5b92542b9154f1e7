"""Stragglers: members of a gang that need longer for a step than the others, by their own reports or heartbeats. Pure.

Where all members wait for each other in every step, a member must report the time of its own part of the step (before
the collective operation) to be told apart; the time of the whole step is the same for all.
"""

from collections import deque
from statistics import median

from msgspec import Struct

from gangline_core.facts import Fact, StragglersSeen
from gangline_core.ids import JobId, TaskId
from gangline_core.job import Job, JobState
from gangline_core.state import State
from gangline_telemetry.config import Config
from gangline_wire.samples import Samples

LOOK_S = 30.0
"""A job is looked at this often."""
STEPS_KEPT = 16
"""Last step times of each member."""
STEPS_LEAST = 3
"""A member with fewer says nothing yet."""
MEMBERS_LEAST = 3
"""Of two members nobody can say which one is slow."""
LOOKS = 2
"""So many looks in a row find a member slow before it is told."""


class Pace(Struct):
    """What one attempt of a job showed of its steps."""

    attempt: int
    steps_us: dict[TaskId, deque[int]]
    looked_s: float
    slow: dict[TaskId, int]
    """Looks in a row that found a member slow."""


class Stragglers:
    """All gangs whose members report or beat."""

    def __init__(self, config: Config) -> None:
        """Nobody has said anything."""
        self.config = config
        self.paces: dict[JobId, Pace] = {}
        self._beats: dict[TaskId, int] = {}

    def hear(self, samples: Samples, state: State, now_s: float) -> None:
        """Take in an agent's reports and heartbeats."""
        for report in samples.reports:
            if report.progress.points:
                self._step(
                    JobId(report.job), report.attempt, TaskId(report.task), report.progress.points[-1].step_us, now_s
                )
        for name, beat_ms in samples.beats.items():
            task = state.kept.tasks.get(TaskId(name))
            before = self._beats.get(TaskId(name))
            self._beats[TaskId(name)] = beat_ms
            if task is not None and before is not None and beat_ms > before:
                self._step(task.job, task.attempt, task.id, (beat_ms - before) * 1000, now_s)

    def _step(self, job: JobId, attempt: int, task: TaskId, step_us: int, now_s: float) -> None:
        pace = self.paces.get(job)
        if pace is None or pace.attempt != attempt:
            pace = self.paces[job] = Pace(attempt=attempt, steps_us={}, looked_s=now_s, slow={})
        steps = pace.steps_us.get(task)
        if steps is None:
            steps = pace.steps_us[task] = deque(maxlen=STEPS_KEPT)
        if step_us > 0:
            steps.append(step_us)

    def judge(self, state: State, now_s: float) -> tuple[Fact, ...]:
        """Gangs of which other members are slow than the log knows."""
        facts: list[Fact] = []
        for job_id, pace in sorted(self.paces.items()):
            job = state.job(job_id)
            if job is None or job.ended_ms or job.attempt > pace.attempt:
                del self.paces[job_id]
            elif job.state == JobState.RUNNING and now_s - pace.looked_s >= LOOK_S:
                pace.looked_s = now_s
                facts += self._look(state, job, pace)
        self._beats = {name: at for name, at in self._beats.items() if name in state.kept.tasks}
        return tuple(facts)

    def _look(self, state: State, job: Job, pace: Pace) -> list[Fact]:
        by_role: dict[str, dict[TaskId, float]] = {}
        for task in state.tasks_of(job):
            steps = pace.steps_us.get(task.id, ())
            if len(steps) >= STEPS_LEAST and not task.stop:
                by_role.setdefault(task.role, {})[task.id] = median(steps)
        found = {name: percent for times in by_role.values() for name, percent in self._slow(times).items()}
        pace.slow = {name: pace.slow.get(name, 0) + 1 for name in found}
        told = {name: percent for name, percent in sorted(found.items()) if pace.slow[name] >= LOOKS}
        known = state.kept.stragglers.get(job.id)
        before = known.slow if known is not None and known.attempt == job.attempt else {}
        if told.keys() == before.keys():
            return []
        return [StragglersSeen(job=job.id, attempt=job.attempt, slow=told)]

    def _slow(self, times: dict[TaskId, float]) -> dict[TaskId, int]:
        """Percent of the median of those that are well beyond it."""
        if len(times) < MEMBERS_LEAST:
            return {}
        usual = median(times.values())
        return {
            name: int(100 * t / usual) for name, t in times.items() if 100 * t >= self.config.straggler_percent * usual
        }

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
from gangline_core.sizes.resizing import is_active
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


Steps = dict[TaskId, deque[int]]


class Pace(Struct):
    """What one attempt of a job showed of its steps."""

    attempt: int
    looked_s: float
    reported_us: Steps = {}
    """Step times as members reported them."""
    beaten_us: Steps = {}
    """Times between heartbeats. Who waits for the others in each step beats as they do, whatever its own part takes:
    they are no measure beside reports, and never mixed with them."""
    slow: dict[TaskId, int] = {}
    """Looks in a row that found a member slow."""
    change: tuple[int, bool] = (0, False)
    """The change of size in which the steps were made: its number, and whether it was under way."""


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
            pace = self._pace(state, JobId(report.job), report.attempt, now_s) if report.progress.points else None
            if pace is not None:
                _note(pace.reported_us, TaskId(report.task), report.progress.points[-1].step_us)
        for name, beat_ms in samples.beats.items():
            task = state.kept.tasks.get(TaskId(name))
            before = self._beats.get(TaskId(name))
            self._beats[TaskId(name)] = beat_ms
            if task is not None and before is not None and beat_ms > before:
                pace = self._pace(state, task.job, task.attempt, now_s)
                if pace is not None:
                    _note(pace.beaten_us, task.id, (beat_ms - before) * 1000)

    def _pace(self, state: State, job_id: JobId, attempt: int, now_s: float) -> Pace | None:
        """The pace of this attempt; None when a later one goes on already."""
        pace, job = self.paces.get(job_id), state.job(job_id)
        if attempt < max(pace.attempt if pace is not None else 0, job.attempt if job is not None else 0):
            return None
        if pace is None or pace.attempt != attempt:
            told = _told(state, job_id, attempt)
            pace = self.paces[job_id] = Pace(attempt=attempt, looked_s=now_s, slow=dict.fromkeys(told, LOOKS))
        if (change := _change(job)) != pace.change:
            # What a step takes depends on the size: old steps are no measure of members that make none but new ones.
            pace.change, pace.reported_us, pace.beaten_us = change, {}, {}
        return pace

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
        found: dict[TaskId, int] = {}
        measured: set[TaskId] = set()
        members: dict[str, list[TaskId]] = {}
        for task in state.tasks_of(job):
            if not task.stop:
                members.setdefault(task.role, []).append(task.id)
        for names in members.values():
            beat = any(name not in pace.reported_us for name in names)
            for steps in (pace.beaten_us, pace.reported_us) if beat else (pace.reported_us,):
                times = _times(steps, names)
                measured |= times.keys() if len(times) >= MEMBERS_LEAST else set()
                found |= self._slow(times)
        before = _told(state, job.id, job.attempt)
        # Whom a leader before us found slow is so until it showed us enough.
        found |= {name: percent for name, percent in before.items() if name in job.tasks and name not in measured}
        pace.slow = {name: pace.slow.get(name, 0) + 1 for name in found}
        told = {name: percent for name, percent in sorted(found.items()) if pace.slow[name] >= LOOKS}
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


def _change(job: Job | None) -> tuple[int, bool]:
    """The number of the job's last change of size, and whether it is under way."""
    if job is None or job.resize is None:
        return 0, False
    return job.resize.number, is_active(job)


def _told(state: State, job: JobId, attempt: int) -> dict[TaskId, int]:
    """Members that the log knows to be slow."""
    known = state.kept.stragglers.get(job)
    return known.slow if known is not None and known.attempt == attempt else {}


def _note(steps: Steps, task: TaskId, step_us: int) -> None:
    if step_us > 0:
        steps.setdefault(task, deque(maxlen=STEPS_KEPT)).append(step_us)


def _times(steps: Steps, names: list[TaskId]) -> dict[TaskId, float]:
    """What a step usually takes those of them that showed enough."""
    return {name: median(shown) for name in names if len(shown := steps.get(name, ())) >= STEPS_LEAST}

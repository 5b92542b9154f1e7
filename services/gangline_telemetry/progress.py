"""What jobs say of their progress, gathered for the log, and which of them have stopped making any. Pure.

A gang hangs when a member that reported steps or beat stops doing so; when its library gave a collective operation up
(see `stuck` of Samples); or when the GPUs of one member stand still while those of its like work on. All of it only
where the pool's policy sets `hang_s`.
"""

from msgspec import Struct, field
from msgspec.structs import replace

from gangline_core.facts import Fact, GangHung, GangMoved, ProgressReported
from gangline_core.ids import JobId, TaskId
from gangline_core.job import Job, JobState, Task
from gangline_core.pauses.packing import is_packed
from gangline_core.room.company import guests
from gangline_core.sizes.progress import Progress, merged
from gangline_core.state import State
from gangline_telemetry.busy import Busy
from gangline_telemetry.steps import Steps, shape_of
from gangline_wire.samples import Samples

STEPS_LEAST = 2
"""So many signs of progress, and a gang is expected to show more: one may come from its start."""
EVERY_S = 30.0
"""What one job says reaches the log at most this often; a step time of a new shape at once."""
OTHERS_BUSY_PERCENT = 50
"""GPUs of a member stand still by comparison only while those of its like are busier than this."""
IDLE, COLLECTIVE = "idle", "collective"
GIVEN_UP_S = 60.0
"""A program that still stands so long after its collective library gave up will not end by itself."""


class Story(Struct):
    """What one attempt of a job said and showed."""

    attempt: int
    waiting: Progress | None = None
    """Not in the log yet."""
    said: Steps = field(default_factory=Steps)
    """Step times as its members said them."""
    told_s: float = -EVERY_S
    shapes: frozenset[tuple[int, int, int, int]] = frozenset()
    steps: int = 0
    """How often a new step was reported."""
    last_step: dict[TaskId, int] = {}
    moved_s: dict[TaskId, float] = {}
    """When each member last showed that it makes progress."""
    worked: set[TaskId] = set()
    """Members whose GPUs were seen to work."""
    still_s: dict[TaskId, float] = {}
    """Since when the GPUs of a member stand still while the others work."""
    noted_s: float = -EVERY_S
    noted: set[TaskId] = set()
    noted_worked: set[TaskId] = set()
    """Members that the log knows to have moved, and those whose GPUs it knows to have worked, and since when."""
    stuck: dict[TaskId, float] = {}
    """Members whose library gave a collective operation up, and when that was heard."""


class Stories:
    """All jobs that report, beat, or work on GPUs."""

    def __init__(self, state: State | None = None, now_s: float = 0.0) -> None:
        """Nobody has said anything yet; whom the log knows to have moved is missed from now on."""
        self.jobs: dict[JobId, Story] = {}
        self._beats: dict[TaskId, int] = {}
        for job_id, known in () if state is None else state.kept.movers.items():
            story = self.jobs[job_id] = Story(attempt=known.attempt, noted=set(known.moved), worked=set(known.worked))
            story.noted_worked, story.moved_s = set(known.worked), dict.fromkeys(known.moved, now_s)
            story.steps = STEPS_LEAST if known.moved else 0

    def hear(self, samples: Samples, state: State, now_s: float) -> None:
        """Take in an agent's reports, heartbeats and signs of trouble."""
        for report in samples.reports:
            story, task_id = self._story(state, JobId(report.job), report.attempt), TaskId(report.task)
            if story is None:
                continue
            story.waiting = merged(story.waiting, report.progress)
            story.said.hear(report.progress.points)
            if report.progress.step > story.last_step.get(task_id, -1):
                story.steps, story.last_step[task_id] = story.steps + 1, report.progress.step
                story.moved_s[task_id] = now_s
        for name, beat_ms in samples.beats.items():
            task = state.kept.tasks.get(TaskId(name))
            if task is not None and self._beats.get(task.id) != beat_ms:
                self._beats[task.id] = beat_ms
                if (story := self._story(state, task.job, task.attempt)) is not None:
                    story.steps += 1
                    story.moved_s[task.id] = now_s
        for name in samples.stuck:
            task = state.kept.tasks.get(TaskId(name))
            if task is not None and (story := self._story(state, task.job, task.attempt)) is not None:
                story.stuck.setdefault(task.id, now_s)

    def _story(self, state: State, job_id: JobId, attempt: int) -> Story | None:
        """The story of this attempt; None when a later one goes on already, whose story a late word must not end."""
        story, job = self.jobs.get(job_id), state.job(job_id)
        if attempt < max(story.attempt if story is not None else 0, job.attempt if job is not None else 0):
            return None
        if story is None or story.attempt != attempt:
            story = self.jobs[job_id] = Story(attempt=attempt)
        return story

    def compare(self, state: State, busy: Busy, now_s: float) -> None:
        """At the end of a window: whose GPUs stand still while those of its like work."""
        for job in state.live_jobs():
            if job.state != JobState.RUNNING or not state.kept.pools[job.spec.pool].policy.hang_s:
                continue
            means = {task.id: (task.role, _mean(state, busy, task)) for task in state.tasks_of(job) if task.gpus}
            if len(means) < 2:
                continue
            story = self._story(state, job.id, job.attempt)
            if story is None:
                continue
            for name, (role, percent) in means.items():
                others = [p for other, (r, p) in means.items() if other != name and r == role and p is not None]
                if percent:
                    story.worked.add(name)
                is_still = percent == 0 and name in story.worked and bool(others) and min(others) >= OTHERS_BUSY_PERCENT
                if not is_still:
                    story.still_s.pop(name, None)
                else:
                    # It has stood still for the whole window that ends now.
                    story.still_s.setdefault(name, now_s - busy.config.summary_s)

    def judge(self, state: State, now_s: float) -> tuple[Fact, ...]:
        """Progress that the log should know, and gangs that hang."""
        facts: list[Fact] = []
        for job_id, story in sorted(self.jobs.items()):
            job = state.job(job_id)
            if job is None or job.ended_ms or job.attempt > story.attempt:
                del self.jobs[job_id]
                continue
            facts += self._progress(state, job, story, now_s)
            if state.kept.pools[job.spec.pool].policy.hang_s and job.attempt == story.attempt:
                facts += self._movers(job, story, now_s)
            if job.state != JobState.RUNNING:
                # It stands still because it was told to, or meets anew; when it goes on, its time begins anew.
                story.moved_s, story.still_s, story.stuck = dict.fromkeys(story.moved_s, now_s), {}, {}
            hung = _hung(state, job, story, now_s) if job.state == JobState.RUNNING else None
            if hung is not None:
                facts.append(hung)
                story.moved_s, story.still_s, story.stuck = {}, {}, {}
        self._beats = {name: at for name, at in self._beats.items() if name in state.kept.tasks}
        return tuple(facts)

    @staticmethod
    def _movers(job: Job, story: Story, now_s: float) -> list[Fact]:
        """Members that moved or worked and of whom the log does not know it yet."""
        moved = {name for name in story.moved_s if name in job.tasks} if story.steps >= STEPS_LEAST else set()
        worked = {name for name in story.worked if name in job.tasks}
        moved, worked = moved - story.noted, worked - story.noted_worked
        if not (moved or worked) or now_s - story.noted_s < EVERY_S:
            return []
        story.noted_s = now_s
        story.noted |= moved
        story.noted_worked |= worked
        return [GangMoved(job=job.id, attempt=job.attempt, moved=tuple(sorted(moved)), worked=tuple(sorted(worked)))]

    @staticmethod
    def _progress(state: State, job: Job, story: Story, now_s: float) -> list[Fact]:
        if story.waiting is None:
            return []
        shapes = story.shapes | {shape_of(point) for point in story.waiting.points}
        if now_s - story.told_s < EVERY_S and shapes == story.shapes:
            return []
        points = story.said.tell(story.waiting.points, only_new=is_packed(state, job.id) or bool(guests(state, job)))
        told = ProgressReported(job=job.id, progress=replace(story.waiting, points=points))
        story.waiting, story.told_s, story.shapes = None, now_s, shapes
        return [told]


def _hung(state: State, job: Job, story: Story, now_s: float) -> GangHung | None:
    """The first sign that the gang hangs, the surest before the others; None while there is none."""
    hang_s = state.kept.pools[job.spec.pool].policy.hang_s
    if not hang_s:
        return None
    stuck = {name: at for name, at in story.stuck.items() if name in job.tasks and now_s - at > GIVEN_UP_S}
    if stuck:
        name, at_s = min(stuck.items(), key=lambda item: (item[1], item[0]))
        return GangHung(job=job.id, attempt=story.attempt, task=name, silent_s=int(now_s - at_s), sign=COLLECTIVE)
    signs = [("", story.moved_s)] if story.steps >= STEPS_LEAST else []
    for sign, since in (*signs, (IDLE, story.still_s)):
        here = {name: at for name, at in since.items() if name in job.tasks}
        if here:
            name, at_s = min(here.items(), key=lambda item: (item[1], item[0]))
            if now_s - at_s > hang_s:
                return GangHung(job=job.id, attempt=story.attempt, task=name, silent_s=int(now_s - at_s), sign=sign)
    return None


def _mean(state: State, busy: Busy, task: Task) -> int | None:
    """How busy a task's GPUs were; None when one of them was not measured."""
    means = [part.busy.mean for part in busy.parts_of(state, task)]
    known = [mean for mean in means if mean is not None]
    return max(known) if known and len(known) == len(task.gpus) else None

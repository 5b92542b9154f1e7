"""What jobs say of their progress, gathered for the log, and which of them have stopped making any. Pure."""

from msgspec import Struct

from gangline_core.facts import Fact, GangHung, ProgressReported
from gangline_core.ids import JobId, TaskId
from gangline_core.job import JobState
from gangline_core.progress import Progress, merged
from gangline_core.state import State
from gangline_wire.samples import Samples

EVERY_S = 30.0
"""What one job says reaches the log at most this often; a step time of a new shape at once."""


class Story(Struct):
    """What one attempt of a job said."""

    attempt: int
    waiting: Progress | None = None
    """Not in the log yet."""
    told_s: float = -EVERY_S
    shapes: frozenset[tuple[int, int, int, int]] = frozenset()
    steps: int = 0
    """How often a new step was reported."""
    last_step: int = -1
    moved_s: dict[TaskId, float] = {}
    """When each member last showed that it makes progress."""


class Stories:
    """All jobs that report or beat."""

    def __init__(self) -> None:
        """Nobody has said anything."""
        self.jobs: dict[JobId, Story] = {}
        self._beats: dict[TaskId, int] = {}

    def hear(self, samples: Samples, state: State, now_s: float) -> None:
        """Take in an agent's reports and heartbeats."""
        for report in samples.reports:
            story = self._story(JobId(report.job), report.attempt)
            story.waiting = merged(story.waiting, report.progress)
            if report.progress.step > story.last_step:
                story.steps, story.last_step = story.steps + 1, report.progress.step
                story.moved_s[TaskId(report.task)] = now_s
        for name, beat_ms in samples.beats.items():
            task = state.kept.tasks.get(TaskId(name))
            if task is not None and self._beats.get(task.id) != beat_ms:
                self._beats[task.id] = beat_ms
                story = self._story(task.job, task.attempt)
                story.steps += 1
                story.moved_s[task.id] = now_s

    def _story(self, job: JobId, attempt: int) -> Story:
        story = self.jobs.get(job)
        if story is None or story.attempt != attempt:
            story = self.jobs[job] = Story(attempt=attempt)
        return story

    def judge(self, state: State, now_s: float) -> tuple[Fact, ...]:
        """Progress that the log should know, and gangs that hang."""
        facts: list[Fact] = []
        for job_id, story in sorted(self.jobs.items()):
            job = state.job(job_id)
            if job is None or job.ended_ms or job.attempt > story.attempt:
                del self.jobs[job_id]
                continue
            facts += self._progress(job_id, story, now_s)
            if job.state == JobState.PAUSED:
                # It stands still because it was told to; when it goes on, its time begins anew.
                story.moved_s = {}
            hang_s = state.kept.pools[job.spec.pool].policy.hang_s
            if job.state == JobState.RUNNING and hang_s and story.steps >= 2 and story.moved_s:
                task, moved_s = min(story.moved_s.items(), key=lambda item: (item[1], item[0]))
                if task in job.tasks and now_s - moved_s > hang_s:
                    silent_s = int(now_s - moved_s)
                    facts.append(GangHung(job=job_id, attempt=story.attempt, task=task, silent_s=silent_s))
                    story.moved_s = {}
        self._beats = {name: at for name, at in self._beats.items() if name in state.kept.tasks}
        return tuple(facts)

    @staticmethod
    def _progress(job: JobId, story: Story, now_s: float) -> list[Fact]:
        if story.waiting is None:
            return []
        shapes = story.shapes | {(p.nodes, p.members, p.batch, p.gathered) for p in story.waiting.points}
        if now_s - story.told_s < EVERY_S and shapes == story.shapes:
            return []
        told = ProgressReported(job=job, progress=story.waiting)
        story.waiting, story.told_s, story.shapes = None, now_s, shapes
        return [told]

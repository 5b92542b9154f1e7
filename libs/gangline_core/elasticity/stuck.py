"""Changes of size that take too long: new members that do not start, gangs that do not say that they met."""

from collections.abc import Iterator

from gangline_core.facts import ResizeFailed
from gangline_core.job import Job, JobState, ResizeStage, TaskState
from gangline_core.sizes import resizing
from gangline_core.state import State


def stuck(state: State, pool: str, now: int) -> tuple[ResizeFailed, ...]:
    """What has to be taken back now, by job id."""
    return tuple(
        ResizeFailed(job=job.id, number=job.resize.number, stage=job.resize.stage)
        for job, due_ms in _deadlines(state, pool)
        if due_ms <= now and job.resize is not None
    )


def next_deadline_ms(state: State, pool: str) -> int | None:
    """When the first change of the pool will have taken too long."""
    return min((due_ms for _, due_ms in _deadlines(state, pool)), default=None)


def _deadlines(state: State, pool: str) -> Iterator[tuple[Job, int]]:
    if not any(sort.elastic for sort in state.live_sorts.get(pool, {})):
        return
    for job_id in sorted(state.live.get(pool, {})):
        job = state.kept.jobs[job_id]
        due_ms = deadline_ms(state, job)
        if due_ms is not None:
            yield job, due_ms


def deadline_ms(state: State, job: Job) -> int | None:
    """When the present stage of the job's change will have taken too long; None when it may take for ever.

    Notice and grace need no deadline here: the agent, which stands beside the process, ends them.
    """
    resize, elastic = job.resize, job.spec.elastic
    if resize is None or not resizing.is_active(job):
        return None
    if resize.stage == ResizeStage.CONFIRMING:
        return resize.stage_ms + elastic.confirm_s * 1000 if elastic.confirm_s else None
    waits = job.state == JobState.RESIZING and any(task.state == TaskState.PLACED for task in state.tasks_of(job))
    return resize.began_ms + elastic.start_s * 1000 if waits and elastic.start_s else None

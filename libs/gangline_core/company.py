"""Who works on the same GPUs: jobs that own their time, and jobs beside them that take what these leave.

Xiao et al., "AntMan: Dynamic Scaling on GPU Clusters for Deep Learning", OSDI 2020: what a guaranteed job needs for a
step alone is the measure; whoever works beside it is held back as far as that step takes longer.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from gangline_core.facts_size import LimitSet
from gangline_core.job import Job, JobState, Task
from gangline_core.progress import Point, Progress, merged
from gangline_core.spec import is_beside
from gangline_core.state import State
from gangline_core.step import Step


def owners(state: State, job: Job) -> list[Job]:
    """Jobs that own time of the GPUs on which this one works beside them, by id."""
    found = {task.job for task in _neighbours(state, job) if any(share.milli for share in task.gpus)}
    return [state.kept.jobs[one] for one in sorted(found)]


def has_company(state: State, job: Job) -> bool:
    """True when another job works beside this one on any of its GPUs."""
    return any(task.gpus and not any(share.milli for share in task.gpus) for task in _neighbours(state, job))


def _neighbours(state: State, job: Job) -> Iterator[Task]:
    """Tasks of other jobs on the same GPUs that are not paused."""
    for task in state.tasks_of(job):
        mine = {share.index for share in task.gpus}
        for name in state.node_tasks.get(task.node, {}) if mine else ():
            other = state.kept.tasks[name]
            if other.job != job.id and not other.pause and any(share.index in mine for share in other.gpus):
                yield other


def note_steps(state: State, job: Job, said: Progress, at: int) -> None:
    """Remember when the job reported step times, and those it needed alone."""
    state.kept.reported[job.id] = at
    if not has_company(state, job):
        state.kept.alone[job.id] = merged(Progress(points=state.kept.alone.get(job.id, ())), said).points


def slower_percent(state: State, job: Job) -> int | None:
    """How long a step takes the job now, in percent of what it takes alone; None when nobody can say."""
    alone = {_shape(point): point.step_us for point in state.kept.alone.get(job.id, ())}
    progress = state.kept.progress.get(job.id)
    last = progress.points[-1] if progress is not None and progress.points else None
    if last is None or _shape(last) not in alone:
        return None
    return 100 * last.step_us // max(1, alone[_shape(last)])


def limit_set(state: State, fact: LimitSet, step: Step) -> None:
    """The members are told how much they may take from now on."""
    job = state.job(fact.job)
    if job is not None and job.ended_ms == 0:
        state.put_job(replace(job, limit_percent=fact.percent, limited_ms=step.at))
        step.sized.append(job.id)


def works_beside(job: Job) -> bool:
    """True for a running job in the GPU time of others."""
    return job.state == JobState.RUNNING and is_beside(job.spec)


def _shape(point: Point) -> tuple[int, int, int, int]:
    return point.nodes, point.members, point.batch, point.gathered

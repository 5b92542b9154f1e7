"""Who works on the same GPUs: jobs that own their time, and jobs beside them that take what these leave.

Xiao et al., "AntMan: Dynamic Scaling on GPU Clusters for Deep Learning", OSDI 2020: what a guaranteed job needs for a
step alone is the measure; whoever works beside it is held back as far as that step takes longer.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from gangline_core.facts.size import LimitSet
from gangline_core.ids import JobId
from gangline_core.job import Job, JobState, Task
from gangline_core.sizes.progress import Point, Progress, merged
from gangline_core.spec import is_beside
from gangline_core.state import State
from gangline_core.step import Step

START_PERCENT = 10
"""What a job may take at first of the time of a GPU beside somebody."""
ALL_PERCENT = 100
QUIET_MS, QUIET_STEPS = 5_000, 2
"""Time, and steps of the owner, until who was told to take nothing has let go of the GPU for a whole step."""


def owners(state: State, job: Job) -> dict[JobId, int]:
    """Jobs that own time of the GPUs on which this one works beside them, by id, with when they last met there, in ms.

    They meet when either is placed on the GPU, grows onto it, or goes on there after a pause.
    """
    found: dict[JobId, int] = {}
    for own, other in _neighbours(state, job):
        if any(share.milli for share in other.gpus):
            met_ms = max(own.placed_ms, own.span_ms, other.placed_ms, other.span_ms)
            found[other.job] = max(met_ms, found.get(other.job, 0))
    return dict(sorted(found.items()))


def guests(state: State, job: Job) -> list[Job]:
    """Jobs that work beside this one on any of its GPUs, by id."""
    beside = (other for _, other in _neighbours(state, job) if not any(share.milli for share in other.gpus))
    return [state.kept.jobs[one] for one in sorted({task.job for task in beside})]


def shared_cards(state: State, task: Task) -> set[int]:
    """GPUs of the task on which tasks of other jobs work, too."""
    mine = {share.index for share in task.gpus}
    found: set[int] = set()
    for name in state.node_tasks.get(task.node, {}) if mine else ():
        other = state.kept.tasks[name]
        if other.job != task.job and not other.pause:
            found |= {share.index for share in other.gpus if not share.slots and share.index in mine}
    return found


def is_as_alone(state: State, job: Job, said: Progress, at: int) -> bool:
    """True when the step that the job tells of was made while nobody beside it was allowed anything."""
    if any(not pack.is_guest for name, pack in state.kept.packs.items() if job.id in (name, pack.host)):
        return False
    step_ms = max((point.step_us for point in said.points), default=0) // 1000
    quiet_ms = QUIET_MS + QUIET_STEPS * step_ms
    return all(one.limit_percent == 0 and at - one.limited_ms >= quiet_ms for one in guests(state, job))


def _neighbours(state: State, job: Job) -> Iterator[tuple[Task, Task]]:
    """Tasks of other jobs on the same GPUs that are not paused, each with the job's own task there."""
    for task in state.tasks_of(job):
        mine = {share.index for share in task.gpus}
        for name in state.node_tasks.get(task.node, {}) if mine else ():
            other = state.kept.tasks[name]
            if other.job != job.id and not other.pause and any(share.index in mine for share in other.gpus):
                yield task, other


def note_steps(state: State, job: Job, said: Progress, at: int) -> None:
    """Remember when the job reported step times, and those it needed alone."""
    state.kept.reported[job.id] = at
    if is_as_alone(state, job, said, at):
        state.kept.alone[job.id] = merged(Progress(points=state.kept.alone.get(job.id, ())), said).points


def is_unknown_alone(state: State, job: Job) -> bool:
    """True when the job told of its steps, and nobody knows what they take it alone."""
    progress = state.kept.progress.get(job.id)
    return progress is not None and bool(progress.points) and slower_percent(state, job) is None


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


def works_beside(state: State, job: Job) -> bool:
    """True for a running job in the GPU time of others, and for one that was a guest there and is told to hold back."""
    own = state.kept.packs.get(job.id)
    is_guest = (own is not None and own.is_guest) or 0 <= job.limit_percent < ALL_PERCENT
    return job.state == JobState.RUNNING and (is_beside(job.spec) or is_guest)


def _shape(point: Point) -> tuple[int, int, int, int]:
    return point.nodes, point.members, point.batch, point.gathered

"""Which of a group's jobs its guarantee shelters: those that fit it whole, counted in the order in which they started.

A job that fits only in part is lent room as a whole: else one guaranteed GPU would shelter a job of eight for ever.
"""

from collections.abc import Iterator, Mapping

from gangline_core.job import Job, JobState, TaskState
from gangline_core.spec import ServiceClass
from gangline_core.state import State, count, task_amounts

_JOBS = "jobs"
"""The dimension in which a job itself counts."""
_LAST_MS = 1 << 62
"""Who has not started yet comes after everybody who has."""


def sheltered_use(state: State, path: str, promised: Mapping[str, int]) -> dict[str, int]:
    """How much of each promised dimension the jobs below a group use that its guarantee shelters."""
    left = dict(promised)
    for job in sorted(
        _jobs_below(state, path, is_counted=_JOBS in promised), key=lambda job: (job.started_ms or _LAST_MS, job.id)
    ):
        amounts = _used_by(state, job)
        if all(amounts.get(dimension, 0) <= amount for dimension, amount in left.items()):
            left = {dimension: amount - amounts.get(dimension, 0) for dimension, amount in left.items()}
    return {dimension: amount - left[dimension] for dimension, amount in promised.items()}


def _used_by(state: State, job: Job) -> dict[str, int]:
    """What a job counts, as usage does."""
    amounts = {_JOBS: 1}
    for task in state.tasks_of(job):
        if task.state != TaskState.LOST:
            for dimension, amount in task_amounts(task).items():
                count(amounts, dimension.lower(), amount)
    return amounts


def _jobs_below(state: State, path: str, *, is_counted: bool) -> Iterator[Job]:
    """Live jobs of all pools that count for guarantees, without those that stop already.

    Those that hold nothing are among them only where jobs themselves are counted.
    """
    index = state.live_index
    for pool, groups in index.groups.items():
        for group in index.groups_below(pool, path):
            for name in groups.get(group, ()) if is_counted else index.who_hold(pool, group):
                job = state.kept.jobs[name]
                if job.state != JobState.STOPPING and job.service_class != ServiceClass.OPPORTUNISTIC:
                    yield job

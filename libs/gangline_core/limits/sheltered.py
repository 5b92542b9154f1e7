"""Which of a group's jobs its guarantee shelters: those that fit it whole, counted in the order in which they started.

A job that fits only in part is lent room as a whole: else one guaranteed GPU would shelter a job of eight for ever.
"""

from collections.abc import Iterator, Mapping
from itertools import takewhile

from gangline_core.groups import ancestors, meeting
from gangline_core.job import Job, JobState, TaskState
from gangline_core.limits.amounts import amount_of
from gangline_core.limits.rungs import folded
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


def is_lent_whole(state: State, job: Job, amounts: Mapping[str, int], *, beneficiary: str) -> bool:
    """True for a job about to begin that fits what its group's guarantee shelters only in part, or not at all.

    So for all groups above it, but not above the beneficiary, that are guaranteed anything: once it works it may go.
    """
    common = meeting(job.spec.group, beneficiary)
    for path in takewhile(lambda path: path != common, ancestors(job.spec.group)):
        group = state.kept.groups.get(path)
        promised = folded(group.guaranteed) if group is not None else {}
        if promised:
            used = sheltered_use(state, path, promised)
            if all(amount_of(amounts, dimension) + used[dimension] <= most for dimension, most in promised.items()):
                return False
    return True


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

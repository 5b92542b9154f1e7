"""Which sizes a job may have with the members that are left, and who is one too many. Pure."""

from collections import Counter
from collections.abc import Iterable

from gangline_core.job import Job, Task
from gangline_core.spec import Role


def targets_with(job: Job, members: list[Task]) -> dict[str, int] | None:
    """The largest size that each role may have with these members; None when one can have none, or nobody is left."""
    have = sizes(in_whole_slices(job, members))
    targets: dict[str, int] = {}
    for role in job.spec.roles:
        size = _largest(role, have.get(role.name, 0))
        if size is None:
            return None
        targets[role.name] = size
    return targets if any(targets.values()) else None


def too_many(job: Job, members: list[Task], targets: dict[str, int]) -> list[Task]:
    """Those of highest rank in each role that are more than it may have."""
    leaving: list[Task] = []
    for role in job.spec.roles:
        own = sorted((task for task in members if task.role == role.name), key=lambda task: task.rank)
        whole = in_whole_slices(job, own)
        leaving += [*(task for task in own if task not in whole), *whole[targets[role.name] :]]
    return leaving


def in_whole_slices(job: Job, members: list[Task]) -> list[Task]:
    """Those whose slice is complete; all of them where the job has no slices.

    Ranks that follow each other make a slice, and every size of every role is made of whole ones, so that a slice
    keeps its ranks through all changes of size.
    """
    unit = job.spec.topology.slice_tasks
    if not unit:
        return members
    slices = Counter((task.role, task.rank // unit) for task in members)
    return [task for task in members if slices[task.role, task.rank // unit] == unit]


def sizes(tasks: Iterable[Task]) -> dict[str, int]:
    """Tasks per role."""
    count: dict[str, int] = {}
    for task in tasks:
        count[task.role] = count.get(task.role, 0) + 1
    return count


def _largest(role: Role, have: int) -> int | None:
    """The largest size the role may have with so many members; None when there is none."""
    able = (size for size in range(have, -1, -1) if role.allows(size) or (size == 0 and role.min_count == 0))
    return next(able, None)

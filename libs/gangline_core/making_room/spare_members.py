"""Which members of an elastic job may go, and which of its sizes are left."""

from collections.abc import Sequence

from gangline_core.job import Job, Task, TaskState
from gangline_core.seating import allowed_sizes
from gangline_core.sizes.allowed import in_whole_slices
from gangline_core.spec import Role, least_size


def spare_members(job: Job, role: Role, members: list[Task], *, of: int) -> Sequence[tuple[Task, ...]]:
    """Members that may go: those still starting first, then the highest ranks; rank 0 and the smallest size stay.

    The job has `of` tasks. Of a gang in slices whole ones go, those of the highest ranks first.
    """
    least = least_size(job.spec, role, size=len(members), tasks=of)
    unit = job.spec.topology.slice_tasks
    if unit:
        slices: dict[int, list[Task]] = {}
        for task in in_whole_slices(job, sorted(members, key=lambda task: -task.rank)):
            slices.setdefault(task.rank // unit, []).append(task)
        return [tuple(own) for number, own in slices.items() if number][: max(0, len(members) - least) // unit]
    order = sorted((one for one in members if one.rank), key=lambda one: (one.state != TaskState.PLACED, -one.rank))
    return [(task,) for task in order][: max(0, len(members) - least)]


def sizes_below(role: Role, size: int) -> list[int]:
    """Allowed sizes up to this one, descending."""
    return [allowed for allowed in reversed(allowed_sizes(role)) if allowed <= size]

"""Which members of a gang leave first when it becomes smaller. Pure."""

from collections.abc import Callable

from gangline_core.job import Job, Task, TaskState


def leaving_order(job: Job) -> Callable[[Task], tuple[bool, int]]:
    """Members that have not started go first, then the last to come; rank 0 stays to the end.

    Of a gang in slices the last to come go first: whole slices do, since its sizes are made of them.
    """
    if job.spec.topology.slice_tasks:
        return lambda task: (True, -task.rank)
    return lambda task: (task.state != TaskState.PLACED, -task.rank)

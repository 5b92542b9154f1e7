"""Which sizes a job may have with the members that are left, and who is one too many. Pure."""

from gangline_core.fold_life import sizes
from gangline_core.job import Job, Task
from gangline_core.spec import Role


def targets_with(job: Job, members: list[Task]) -> dict[str, int] | None:
    """The largest size that each role may have with these members; None when one can have none, or nobody is left."""
    have = sizes(members)
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
        leaving += own[targets[role.name] :]
    return leaving


def _largest(role: Role, have: int) -> int | None:
    """The largest size the role may have with so many members; None when there is none."""
    able = (size for size in range(have, -1, -1) if role.allows(size) or (size == 0 and role.min_count == 0))
    return next(able, None)

"""Sizes somebody asked for: proposed until the job has them, whatever the pool's policy thinks."""

from collections.abc import Iterator

from gangline_core.elasticity.view import Target
from gangline_core.facts.size import BY_HAND
from gangline_core.job import Job, JobState
from gangline_core.seating import allowed_sizes
from gangline_core.sizes import resizing
from gangline_core.sizes.causes import is_new
from gangline_core.spec import Role
from gangline_core.state import State


def by_hand(state: State, pool: str) -> list[Target]:
    """Targets of running jobs at rest whose size is not the one that was asked for, by job id."""
    found: list[Target] = []
    sorts = state.live_sorts.get(pool, {})
    for job_id in sorted(job for sort, alike in sorts.items() if sort.elastic for job in alike):
        job = state.kept.jobs[job_id]
        rests = job.state == JobState.RUNNING and not job.winding_down and not resizing.is_active(job)
        if job.asked and rests and is_new(state, job.id):
            found.extend(_targets(job))
    return found


def _targets(job: Job) -> Iterator[Target]:
    for role in job.spec.roles:
        asked = job.asked.get(role.name)
        size = job.sizes.get(role.name, 0)
        if asked is not None and asked != size and nearest(role, asked) != size:
            yield Target(job=job, role=role.name, size=nearest(role, asked), why=BY_HAND)
            return  # One role at a time: a proposal is of one role.


def nearest(role: Role, asked: int) -> int:
    """The largest allowed size that is not above the asked one, or the smallest."""
    sizes = allowed_sizes(role)
    return max((size for size in sizes if size <= asked), default=sizes[0])

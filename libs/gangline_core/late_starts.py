"""Gangs that were given room but do not come up: after their start limit they give it back, by their retry rule.

The limit counts from the moment the room was committed, never from the submit, so waiting in a long queue is held
against nobody. It is the job's own, else the pool's; without either a gang may take for ever.
"""

from collections.abc import Iterator

from gangline_core.ids import JobId
from gangline_core.job import Job
from gangline_core.state import State


def late_starts(state: State, pool: str, now: int) -> list[JobId]:
    """Jobs of the pool whose start limit is over while members have not started, by id."""
    return sorted([job.id for job, ends_ms in _starting(state, pool) if ends_ms <= now])


def start_limits_end(state: State, pool: str) -> list[int]:
    """When the start limits of the gangs that are coming up end, in ms."""
    return [ends_ms for _, ends_ms in _starting(state, pool)]


def _starting(state: State, pool: str) -> Iterator[tuple[Job, int]]:
    """Gangs that are coming up within a limit, and when it ends."""
    jobs, tasks = state.kept.jobs, state.kept.tasks
    usual_s = state.kept.pools[pool].policy.start_limit_s
    for job_id in state.starting.get(pool, ()):
        job = jobs[job_id]
        limit_s = job.spec.start_limit_s or usual_s
        if limit_s:
            names = job.tasks
            if len(names) == 1:
                placed_ms = tasks[names[0]].placed_ms
            else:
                placed_ms = max([tasks[name].placed_ms for name in names], default=0)
            yield job, placed_ms + limit_s * 1000

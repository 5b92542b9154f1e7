"""Lost members of gangs that run on are placed again before anybody who waits: a started gang is older.

Only room that is free is taken, near the other members and inside the domain they share. What is not found within the
job's repair time is given up: then the job goes on smaller, if it may, or starts anew as a whole.
"""

from gangline_core.elasticity.room import more
from gangline_core.job import Job, JobState
from gangline_core.room.holds import placed_amounts
from gangline_core.state import State
from gangline_core.table import Table


def repair(table: Table) -> None:
    """Place as many missing members as there is room for, and give up those that are late."""
    for job in with_missing(table.state, table.pool.pool.name):
        if job.state not in (JobState.RUNNING, JobState.RESIZING):
            continue
        if repair_ends_ms(job) <= table.now:
            table.late_repairs.append(job.id)
            continue
        for role in job.spec.roles:
            for count in range(job.missing.get(role.name, 0), 0, -1):
                tasks = more(table, table.room, job, role, count=count)
                if tasks is not None:
                    table.grow(job, tasks, placed_amounts(table.state, tasks))
                    break


def with_missing(state: State, pool: str) -> list[Job]:
    """Jobs of the pool that miss members, those that have for longest first."""
    sorts = state.live_sorts.get(pool, {})
    jobs = [state.kept.jobs[job] for sort, alike in sorts.items() if sort.repairable for job in alike]
    return sorted((job for job in jobs if job.missing), key=lambda job: (job.missing_ms, job.id))


def repair_ends_ms(job: Job) -> int:
    """When the missing members are no longer waited for."""
    return job.missing_ms + job.spec.repair_s * 1000


def repairs_end(state: State, pool: str) -> list[int]:
    """When missing members of the pool's jobs are no longer waited for, in ms."""
    return [repair_ends_ms(job) for job in with_missing(state, pool)]


def misses_members(state: State, pool: str) -> bool:
    """True when any job of the pool waits for a member."""
    return bool(with_missing(state, pool))

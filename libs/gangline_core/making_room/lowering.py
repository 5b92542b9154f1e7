"""Jobs that give up their cells and run on: how a group's more important job gets a cell without a run being lost.

A job that allows it (`JobSpec.lazy_preemption`) loses only the promise: it stays where it is as an opportunistic job,
the cell is free to be another part of the topology, and whoever needed it starts there. Where that part is busy with
opportunistic jobs, those make room. What is gained is tried in thought first, and nobody is lowered without need.

Source: Zhao et al., "HiveD", OSDI 2020, and its scheduler's lazy preemption, in which the victim says whether it may.
"""

from collections.abc import Callable, Collection
from typing import TypeVar

from gangline_core.ids import JobId
from gangline_core.job import Job, JobState
from gangline_core.making_room.losses import effective_priority, is_shielded, live_job
from gangline_core.room.capacity import Room
from gangline_core.room.cells import owner_of
from gangline_core.seating import Found, find_seats
from gangline_core.spec import may_take
from gangline_core.table import Table

Gained = TypeVar("Gained")

LOWERED_MAX = 16
"""Jobs that are lowered for one job at most."""
LOWERABLE = frozenset({JobState.STARTING, JobState.RUNNING, JobState.RESIZING})


def lower_in_place(table: Table, job: Job, room: Room) -> Found | None:
    """Seats for a job when others of its group give up their cells, which they then do; None when that is no help."""

    def attempt() -> Found | None:
        found = find_seats(table.seating, job, room)
        return found if isinstance(found, Found) else None

    return with_lowered(table, job, attempt)


def _nobody(gained: object) -> Collection[JobId]:
    return ()


def with_lowered(
    table: Table,
    job: Job,
    attempt: Callable[[], Gained | None],
    evicted: Callable[[Gained], Collection[JobId]] = _nobody,
) -> Gained | None:
    """What the attempt gains when others give up their cells.

    Only those stay lowered without whom it gains nothing, or would have `evicted` them.
    """
    able = lazy_victims(table, job)
    if not able:
        return None
    for victim in able:
        table.lowered[victim.id] = job.id
    gained = attempt()
    while gained is not None and (torn := [victim for victim in able if victim.id in evicted(gained)]):
        # Whoever would have to go all the same is not lowered for it.
        able = [victim for victim in able if victim not in torn]
        for victim in torn:
            del table.lowered[victim.id]
        gained = attempt() if able else None
    if gained is None:
        for victim in able:
            del table.lowered[victim.id]
        return None
    for victim in reversed(able):
        del table.lowered[victim.id]
        still = attempt()
        if still is None or victim.id in evicted(still):
            table.lowered[victim.id] = job.id
        else:
            gained = still
    return gained


def lazy_victims(table: Table, job: Job) -> list[Job]:
    """Less important jobs of the same owner of cells that would give theirs up, those that lose least first."""
    pool = table.pool.pool
    owner = owner_of(pool.cells, job.spec.group) if pool.cells else None
    if owner is None or job.spec.pinned_cell or not table.policy.preemption:
        return []
    if not may_take(job.spec):
        return []
    mine = effective_priority(pool, job.spec)
    able = [
        other
        for other in (table.state.kept.jobs[name] for name in sorted(table.state.live.get(pool.name, {})))
        if other.spec.lazy_preemption
        and other.spec.preemptible
        and other.state in LOWERABLE
        and other.id not in table.lowered
        and effective_priority(pool, other.spec) < mine
        and not is_shielded(other, table.now)
        and owner_of(pool.cells, other.spec.group) == owner
        and any(task.cells for task in table.state.tasks_of(other))
    ]
    return sorted(able, key=lambda other: live_job(table, other).cost)[:LOWERED_MAX]

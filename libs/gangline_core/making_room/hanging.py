"""Who made way for a job that still waits begins again only when the others that did are gone, if that is soon.

A claim is given up when its victims hang, and those that are gone could have their room back meanwhile. They would be
sent away once more as soon as the last process is gone, and where each of them hangs as well, and its node takes no
work for as long, the job for which they go would never find all of it free.
"""

from collections.abc import Mapping

from msgspec import Struct

from gangline_core.ids import JobId
from gangline_core.job import Job, JobState, Task, TaskState
from gangline_core.making_room.claims import gives_up_ms, overdue_ms
from gangline_core.pauses.pausing import is_gone
from gangline_core.reasons import Reason, ReasonCode
from gangline_core.state import State
from gangline_core.table import Table

HANGS_MS_MAX = 600_000
"""Whoever hangs for longer after it should have been gone may do so for ever: nobody waits for it any more."""


class Hanging(Struct, frozen=True):
    """Tasks that were told to go for a job and have not."""

    tasks: int
    until_ms: int
    """When nobody waits for them any more."""


def hanging(table: Table) -> Mapping[JobId, Hanging]:
    """For whom some hang, among those that wait and whose claim was given up for that, not taken over."""
    kept, found = table.state.kept, dict[JobId, Hanging]()
    held = {job for job, claim in kept.claims.items() if table.now < gives_up_ms(table.state, claim)}
    held.update(placement.job for placement in table.placements)
    for name in sorted(table.state.stopping_tasks):
        task = kept.tasks[name]
        if task.state == TaskState.LOST or is_gone(table.state, name) or table.now >= hangs_until_ms(table.state, task):
            continue
        for other in kept.jobs[task.job].yielded_to:
            job = table.state.job(other)
            if job is None or job.state != JobState.WAITING or other in held or task.stop_ms < job.queued_ms:
                continue
            before = found.get(other, Hanging(0, 0))
            found[other] = Hanging(before.tasks + 1, max(before.until_ms, hangs_until_ms(table.state, task)))
    return found


def hangs_until_ms(state: State, task: Task) -> int:
    """When nobody waits for a task that was told to stop any more."""
    return overdue_ms(state, task) + HANGS_MS_MAX


def waits_for_hanging(table: Table, job: Job, some: Mapping[JobId, Hanging]) -> Reason | None:
    """Why a job that made way does not begin again yet; who is owed its guarantee by now does."""
    for other in job.yielded_to if some and not table.is_owed(job) else ():
        if other in some and went_for(job, table.state.kept.jobs[other]):
            numbers: dict[str, int | str] = {"job": other, "tasks": some[other].tasks, "from_ms": some[other].until_ms}
            return Reason(ReasonCode.OTHERS_HANG, numbers)
    return None


def went_for(job: Job, other: Job) -> bool:
    """True when the job was sent away for the other one, which did not start since; who moves goes for itself."""
    return other.id in job.yielded_to and other.id != job.id and job.queued_ms >= other.queued_ms

"""Cheap looks whether those who are about to go on or start could be in the way of a job that found no room.

Nearly all looks are in vain, and what they are about is the same for many jobs of a round: it is summed up once.
"""

from collections.abc import Iterable

from msgspec import Struct

from gangline_core.groups import holders
from gangline_core.ids import JobId
from gangline_core.job import Job, Task
from gangline_core.limits.amounts import add_all, amount_of
from gangline_core.making_room.losses import effective_priority
from gangline_core.making_room.trial import missing
from gangline_core.pauses.resuming import taken_up_by
from gangline_core.spec import ServiceClass, may_pause
from gangline_core.table import Table


class Still(Struct, frozen=True):
    """What a job that stands still takes when it goes on."""

    job: Job
    parts: list[Task]
    amounts: dict[str, int]


class Lowest:
    """The least important of some jobs, remembered for as long as they are the same."""

    def __init__(self) -> None:
        """Nobody yet."""
        self._seen: list[JobId] = []
        self._is_any_loose = False
        self._would_all_pause = True
        self._priority = 0

    def is_below(self, table: Table, job: Job, names: list[JobId]) -> bool:
        """A cheap look whether class, priority or a guarantee might let any of these be sent away for this job."""
        if not names:
            return False
        if self._seen != names:
            jobs = [table.state.kept.jobs[name] for name in names]
            self._seen = names.copy()
            self._is_any_loose = any(one.service_class == ServiceClass.OPPORTUNISTIC for one in jobs)
            self._would_all_pause = all(may_pause(one.spec) for one in jobs)
            self._priority = min(effective_priority(table.pool.pool, one.spec) for one in jobs)
        is_lower = self._is_any_loose or self._priority < effective_priority(table.pool.pool, job.spec)
        return is_lower or (not self._would_all_pause and table.is_owed(job))


class Sums:
    """What some paused jobs take below each holder when they go on, kept up as they change."""

    def __init__(self, table: Table) -> None:
        """Nobody yet."""
        self._table = table
        self._seen = frozenset[JobId]()
        self._below: dict[str, dict[str, int]] = {}
        self._stills: dict[JobId, Still] = {}

    def still(self, name: JobId) -> Still:
        """What one of them takes."""
        known = self._stills.get(name)
        if known is None:
            known = self._stills[name] = still_of(self._table, self._table.state.kept.jobs[name])
        return known

    def are_enough(self, job: Job, names: list[JobId]) -> bool:
        """A cheap look whether this job would be below its limits if none of these went on."""
        lacking = list(missing(self._table, job))
        if not lacking:
            return True
        now = frozenset(names)
        for some, sign in ((now - self._seen, 1), (self._seen - now, -1)):
            for one in map(self.still, some):
                for holder in holders(one.job.spec.group, one.job.spec.user):
                    add_all(self._below.setdefault(holder, {}), ((key, sign * by) for key, by in one.amounts.items()))
        self._seen = now
        return all(lacks <= amount_of(self._below.get(holder, {}), name) for holder, name, lacks in lacking)


def still_of(table: Table, job: Job) -> Still:
    return Still(job, *taken_up_by(table.state.tasks_of(job)))


def give_enough(table: Table, job: Job, going: Iterable[Still]) -> bool:
    """A cheap look whether the job would be below its limits without what these take."""
    some = list(going)
    return all(
        lacks
        <= sum(
            amount_of(one.amounts, dimension)
            for one in some
            if holder in holders(one.job.spec.group, one.job.spec.user)
        )
        for holder, dimension, lacks in missing(table, job)
    )

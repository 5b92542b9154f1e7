"""Cheap looks whether those who are about to go on or start could be in the way of a job that found no room.

Nearly all looks are in vain, and what they are about is the same for many jobs of a round: it is summed up once.
"""

from collections import Counter
from collections.abc import Callable, Iterable

from msgspec import Struct

from gangline_core.groups import holders
from gangline_core.ids import JobId
from gangline_core.job import Job, Task
from gangline_core.limits.amounts import add_all, amount_of, count
from gangline_core.making_room.losses import effective_priority
from gangline_core.making_room.sent_at_once import only_pauses
from gangline_core.making_room.service_order import orders_by_service, own_place, place_at_work
from gangline_core.making_room.trial import missing
from gangline_core.pauses.resuming import taken_up_by
from gangline_core.spec import ServiceClass
from gangline_core.table import Table

Freed = Callable[[str, str], int]
"""An upper bound of what all who could go would give back of a dimension that a holder counts."""
FIRST = (-1, 0)
"""Before everybody by service."""


class Still(Struct, frozen=True):
    """What a job that stands still takes when it goes on."""

    job: Job
    parts: list[Task]
    amounts: dict[str, int]


class Lowest:
    """The least important of some jobs, kept up as they change."""

    def __init__(self) -> None:
        """Nobody yet."""
        self._seen: list[JobId] = []
        self._among = frozenset[JobId]()
        self._sorts = Counter[tuple[bool, bool, int]]()
        """How many there are of each sort: opportunistic, to be paused, how important."""
        self._last = FIRST
        """Where the last of them by service would be, where service orders."""

    def is_below(self, table: Table, job: Job, names: list[JobId]) -> bool:
        """A cheap look whether anything might let one of these be sent away for this job."""
        if not names:
            return False
        if self._seen != names:
            self._keep_up(table, names)
        mine = effective_priority(table.pool.pool, job.spec)
        if any(is_loose or priority < mine for is_loose, _, priority in self._sorts):
            return True
        if orders_by_service(table.policy) and self._last > own_place(table, job):
            return True
        return not all(would_pause for _, would_pause, _ in self._sorts) and table.is_owed(job)

    def _keep_up(self, table: Table, names: list[JobId]) -> None:
        jobs, now = table.state.kept.jobs, frozenset(names)
        for some, sign in ((now - self._among, 1), (self._among - now, -1)):
            for one in map(jobs.__getitem__, some):
                is_loose = one.service_class == ServiceClass.OPPORTUNISTIC
                sort = (is_loose, only_pauses(one.spec), effective_priority(table.pool.pool, one.spec))
                count(self._sorts, sort, sign)
        if orders_by_service(table.policy):
            if not now.issuperset(self._among):
                self._among, self._last = frozenset(), FIRST
            self._last = max((self._last, *(place_at_work(table, jobs[one]) for one in now - self._among)))
        self._seen, self._among = names.copy(), now


class Sums:
    """What some paused jobs take below each holder when they go on, kept up as they change."""

    def __init__(self, table: Table) -> None:
        """Nobody yet."""
        self._table = table
        self._seen: list[JobId] = []
        self._among = frozenset[JobId]()
        self._below: dict[str, dict[str, int]] = {}
        self._names: dict[str, set[JobId]] = {}
        """Who is below each holder."""
        self._stills: dict[JobId, Still] = {}

    def still(self, name: JobId) -> Still:
        """What one of them takes."""
        known = self._stills.get(name)
        if known is None:
            known = self._stills[name] = still_of(self._table, self._table.state.kept.jobs[name])
        return known

    def are_enough(self, job: Job, names: list[JobId], more: Freed) -> bool:
        """A cheap look whether this job would be below its limits if none of these went on, and others went."""
        lacking = list(missing(self._table, job))
        if not lacking:
            return True
        self._keep_up(names)
        return all(
            (short := lacks - amount_of(self._below.get(holder, {}), name)) <= 0 or short <= more(holder, name)
            for holder, name, lacks in lacking
        )

    def in_the_way(self, job: Job, names: list[JobId]) -> list[JobId]:
        """Those of these that count for a limit which keeps the job out, in order; all of them where none does."""
        full = {rung.holder for rung, *_ in self._table.ledger.broken(job, self._table.seating.least(job).amounts)}
        if not full:
            return names
        self._keep_up(names)
        below = frozenset[JobId]().union(*(self._names.get(holder, ()) for holder in full))
        return [name for name in names if name in below]

    def _keep_up(self, names: list[JobId]) -> None:
        if self._seen == names:
            return
        now = frozenset(names)
        for some, sign in ((now - self._among, 1), (self._among - now, -1)):
            for one in map(self.still, some):
                for holder in holders(one.job.spec.group, one.job.spec.user):
                    add_all(self._below.setdefault(holder, {}), ((key, sign * by) for key, by in one.amounts.items()))
                    among = self._names.setdefault(holder, set())
                    among.add(one.job.id) if sign > 0 else among.discard(one.job.id)
        self._seen, self._among = names.copy(), now


def still_of(table: Table, job: Job) -> Still:
    return Still(job, *taken_up_by(table.state.tasks_of(job)))


def give_enough(table: Table, job: Job, going: Iterable[Still], more: Freed) -> bool:
    """A cheap look whether the job would be below its limits without what these take, and if others went."""
    some = list(going)
    for holder, dimension, lacks in missing(table, job):
        below = (one for one in some if holder in holders(one.job.spec.group, one.job.spec.user))
        short = lacks - sum(amount_of(one.amounts, dimension) for one in below)
        if short > 0 and short > more(holder, dimension):
            return False
    return True

"""Live jobs of a pool that could go at all, read once in a round: in which order they are asked, and who are alike.

Many waiting jobs ask after the same live ones, so what is equal for whole kinds of them has a number: whose job it is
and how important (`kind`), and what it holds (`size`).
"""

from collections.abc import Iterator

from msgspec import Struct

from gangline_core.forecast import held_by
from gangline_core.groups import ancestors, holders
from gangline_core.ids import JobId
from gangline_core.job import Job, JobState
from gangline_core.losses import LiveJob, is_sealed, live_job
from gangline_core.quota import JOBS, Ledger, amount_of
from gangline_core.spec import ServiceClass
from gangline_core.table import Table

LAST_MS = 1 << 62
"""More important than this nobody is."""
JUST_LIVE = {JOBS}
"""What a job counts that holds nothing."""
Cost = tuple[int, int, int, int, int]


class Standing(Struct):
    """A live job, and what it holds as soon as somebody asked."""

    job: Job
    is_firm: bool
    """It is not opportunistic."""
    priority: int
    kind: int
    """Equal for jobs of one user that are equally important."""
    victim: LiveJob | None = None
    size: int = -1
    """Equal for jobs that hold the same amounts."""
    cost: Cost = (0, 0, 0, 0, 0)
    place: int = -1
    """Where it is in the order in which they are asked."""
    is_bare: bool = False
    """It stands on no GPU and in no cell."""


class CouldGo:
    """Everybody who could go, least important first and newest first."""

    def __init__(self, table: Table) -> None:
        """Live jobs of the table's pool."""
        self._table = table
        self._kinds: dict[tuple[object, ...], int] = {}
        self._sizes: dict[tuple[tuple[str, int], ...], int] = {}
        self._by_job: dict[JobId, Standing] = {}
        self._order: list[Standing] | None = None
        self._by_kind: dict[int, list[Standing]] = {}
        self._by_group: dict[tuple[str, bool], tuple[list[Standing], dict[str, int]]] | None = None
        self._sums: dict[str, dict[int, int]] = {}
        self._freed: dict[tuple[str, int], dict[str, dict[str, int]]] = {}
        self.gone: set[JobId] = set()
        """Jobs that go in this round."""

    @property
    def order(self) -> list[Standing]:
        """All of them."""
        if self._order is None:
            self._order = list(self._listed())
        return self._order

    def live_job(self, job: Job) -> LiveJob:
        """What any live job holds, and what it is worth."""
        one = self._by_job.get(job.id)
        if one is None:
            one = self._by_job[job.id] = Standing(job=job, is_firm=True, priority=0, kind=-1)
        return self.victim(one)

    def victim(self, one: Standing) -> LiveJob:
        """The same of somebody who could go."""
        known = one.victim
        if known is None:
            known = one.victim = live_job(self._table, one.job)
            one.cost = known.cost
            one.is_bare = not any(task.gpus or task.cells for task in known.tasks)
            one.size = self._sizes.setdefault(tuple(known.amounts.items()), len(self._sizes))
        return known

    def go(self, job: JobId) -> None:
        """This job goes, so that nobody else can have it go."""
        one = self._by_job.get(job)
        if job in self.gone:
            return
        self.gone.add(job)
        if one is not None and one.kind >= 0:
            for dimension, sums in self._sums.items():
                if amount := amount_of(self._amounts(one), dimension):
                    sums[one.kind] -= amount
            for (dimension, below), freed in self._freed.items():
                if not one.is_firm or one.priority < below:
                    _free(freed, one.job, -amount_of(self._amounts(one), dimension))

    def most_freed(self, holder: str, dimension: str, *, below: int) -> dict[str, int]:
        """By group, what all less important than `below` could give back of a dimension that a holder counts."""
        freed = self._freed.get((dimension, below))
        if freed is None:
            freed = self._freed[dimension, below] = {}
            for kind, amount in self._of_kinds(dimension).items():
                one = self._by_kind[kind][0]
                if not one.is_firm or one.priority < below:
                    _free(freed, one.job, amount)
        return freed.get(holder, {})

    def may_give(self, ledger: Ledger, beneficiary: str) -> list[Standing]:
        """Those who hold something, but not firm ones of groups that may lose less for this one than each holds."""
        shared = ancestors(beneficiary)
        found: list[Standing] = []
        for (group, is_loose), (members, least) in self._members().items():
            own = () if is_loose or group in shared else ledger.beyond(group)
            if any(0 < least.get(name, 0) > spare for name, spare in own):
                continue
            if ledger.over_guarantee(members[0].job, least, beneficiary=beneficiary):
                found.extend(members)
        found.sort(key=_place)
        return found

    def _members(self) -> dict[tuple[str, bool], tuple[list[Standing], dict[str, int]]]:
        """By group, and whether opportunistic: who holds something, and the least that each holds of what all hold."""
        if self._by_group is None:
            self._by_group = {}
            for one in self.order:
                amounts = self._amounts(one)
                if amounts.keys() == JUST_LIVE:
                    self.victim(one)
                    if one.is_bare:
                        continue
                key = (one.job.spec.group, one.job.service_class == ServiceClass.OPPORTUNISTIC)
                known = self._by_group.get(key)
                if known is None:
                    least = {name: amount for name, amount in amounts.items() if name != JOBS}
                    self._by_group[key] = ([one], least)
                    continue
                known[0].append(one)
                for name, lowest in list(known[1].items()):
                    amount = amounts.get(name, 0)
                    if not amount:
                        del known[1][name]
                    elif amount < lowest:
                        known[1][name] = amount
        return self._by_group

    def _amounts(self, one: Standing) -> dict[str, int]:
        return held_by(self._table.state, one.job).used

    def _of_kinds(self, dimension: str) -> dict[int, int]:
        """What each kind could give back of a dimension."""
        known = self._sums.get(dimension)
        if known is None:
            known = self._sums[dimension] = {}
            for one in self.order:
                if one.job.id not in self.gone:
                    amount = amount_of(self._amounts(one), dimension)
                    if amount:
                        known[one.kind] = known.get(one.kind, 0) + amount
        return known

    def _listed(self) -> Iterator[Standing]:
        table, kept = self._table, self._table.state.kept
        bands = table.pool.pool.levels
        sorts = table.state.live_sorts.get(table.pool.pool.name, {})
        cheapest: dict[tuple[bool, int], list[JobId]] = {}
        place = 0
        for sort, jobs in sorts.items():
            if sort.preemptible:
                rank = (sort.service_class != ServiceClass.OPPORTUNISTIC, bands.get(sort.level, 0) + sort.priority)
                cheapest.setdefault(rank, []).extend(jobs)
        for is_firm, priority in sorted(cheapest):
            for job_id in sorted(cheapest[is_firm, priority], reverse=True):
                job = kept.jobs[job_id]
                if job.state != JobState.STOPPING and not is_sealed(job, table.now):
                    kind = self._kind(job, priority)
                    one = self._by_job[job_id] = Standing(job, is_firm, priority, kind, place=place)
                    place += 1
                    self._by_kind.setdefault(kind, []).append(one)
                    yield one

    def _kind(self, job: Job, priority: int) -> int:
        spec = job.spec
        key = (spec.group, spec.user, priority, spec.service_class, job.service_class)
        return self._kinds.setdefault(key, len(self._kinds))


def _place(one: Standing) -> int:
    return one.place


def _free(freed: dict[str, dict[str, int]], job: Job, amount: int) -> None:
    """The job's holders could get back so much more, or less."""
    for above in holders(job.spec.group, job.spec.user):
        by_group = freed.get(above)
        if by_group is None:
            by_group = freed[above] = {}
        by_group[job.spec.group] = by_group.get(job.spec.group, 0) + amount

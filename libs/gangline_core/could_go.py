"""Live jobs of a pool that could go at all, read once in a round: in which order they are asked, and who are alike.

Many waiting jobs ask after the same live ones, so what is equal for whole kinds of them has a number: whose job it is
and how important (`kind`), and what it holds (`size`).
"""

from collections.abc import Iterator

from msgspec import Struct

from gangline_core.groups import holders
from gangline_core.ids import JobId
from gangline_core.job import Job, JobState
from gangline_core.losses import LiveJob, is_sealed, live_job
from gangline_core.quota import amount_of
from gangline_core.spec import ServiceClass
from gangline_core.table import Table

LAST_MS = 1 << 62
"""More important than this nobody is."""
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
            for (dimension, below), freed in self._freed.items():
                if not one.is_firm or one.priority < below:
                    self._free(freed, one, dimension, -1)

    def most_freed(self, holder: str, dimension: str, *, below: int) -> dict[str, int]:
        """By group, what all less important than `below` could give back of a dimension that a holder counts."""
        freed = self._freed.get((dimension, below))
        if freed is None:
            freed = self._freed[dimension, below] = {}
            for one in self.order:
                if (not one.is_firm or one.priority < below) and one.job.id not in self.gone:
                    self._free(freed, one, dimension, 1)
        return freed.get(holder, {})

    def _free(self, freed: dict[str, dict[str, int]], one: Standing, dimension: str, sign: int) -> None:
        spec, amount = one.job.spec, sign * amount_of(self.victim(one).amounts, dimension)
        if not amount:
            return
        for above in holders(spec.group, spec.user):
            by_group = freed.get(above)
            if by_group is None:
                by_group = freed[above] = {}
            by_group[spec.group] = by_group.get(spec.group, 0) + amount

    def _listed(self) -> Iterator[Standing]:
        table, kept = self._table, self._table.state.kept
        bands = table.pool.pool.levels
        sorts = table.state.live_sorts.get(table.pool.pool.name, {})
        cheapest: dict[tuple[bool, int], list[JobId]] = {}
        for sort, jobs in sorts.items():
            if sort.preemptible:
                rank = (sort.service_class != ServiceClass.OPPORTUNISTIC, bands.get(sort.level, 0) + sort.priority)
                cheapest.setdefault(rank, []).extend(jobs)
        for is_firm, priority in sorted(cheapest):
            for job_id in sorted(cheapest[is_firm, priority], reverse=True):
                job = kept.jobs[job_id]
                if job.state != JobState.STOPPING and not is_sealed(job, table.now):
                    one = self._by_job[job_id] = Standing(job, is_firm, priority, self._kind(job, priority))
                    yield one

    def _kind(self, job: Job, priority: int) -> int:
        spec = job.spec
        key = (spec.group, spec.user, priority, spec.service_class, job.service_class)
        return self._kinds.setdefault(key, len(self._kinds))

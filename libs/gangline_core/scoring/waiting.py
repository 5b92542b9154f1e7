"""The waiting jobs of a round as an ordering sees them: the state, the time, and one column per thing worth knowing."""

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gangline_core.ids import JobId
from gangline_core.job import Job
from gangline_core.scoring import columns as c
from gangline_core.scoring.ageing import may_go_first, since_ms, wait_since_ms
from gangline_core.scoring.attained import service_milli
from gangline_core.scoring.columns import Columns, Ints
from gangline_core.scoring.levels import level_after
from gangline_core.scoring.yield_queue import has_yielding, patience_ms, share, yield_queues
from gangline_core.state import PoolState, State

Column = NDArray[np.float64]


class Waiting:
    """Jobs as rows, in the order in which they were given."""

    def __init__(self, state: State, pool: PoolState, rows: tuple[Columns, Ints], *, now: int) -> None:
        """These rows of these columns, at time `now`."""
        self.state = state
        self.pool = pool
        self.policy = pool.policy
        self.now = now
        self.columns, self._slots = rows
        self._fields: dict[int, Ints] = {}

    @classmethod
    def of(cls, state: State, pool: PoolState, jobs: Sequence[Job], *, now: int) -> "Waiting":
        """The same for any jobs, whether they wait in the pool or are only thought of."""
        columns = state.columns.get(pool.pool.name)
        slots = columns.slots_of(jobs) if columns is not None else None
        if columns is None or slots is None:
            columns = Columns((job, state.shapes.get(job.id, -job.id), state.asks.get(job.id, -job.id)) for job in jobs)
            slots = columns.slots_of(jobs)
            assert slots is not None, "every job was entered"
        found = cls(state, pool, (columns, slots), now=now)
        found.__dict__["jobs"] = list(jobs)
        return found

    def __len__(self) -> int:
        """How many jobs there are."""
        return len(self._slots)

    @cached_property
    def jobs(self) -> list[Job]:
        """The jobs themselves; columns are cheaper."""
        kept = self.state.kept.jobs
        return [kept[JobId(job)] for job in self.ids.tolist()]

    @property
    def ids(self) -> Ints:
        """Job ids."""
        return self.field(c.ID)

    def field(self, field: int) -> Ints:
        """A column of `gangline_core.scoring.columns`."""
        found = self._fields.get(field)
        if found is None:
            found = self._fields[field] = self.columns.field(self._slots, field)
        return found

    @cached_property
    def since(self) -> Ints:
        """Per job the moment that makes its age, in ms."""
        since = self.field(c.SINCE).copy()
        for row in np.flatnonzero(self.field(c.HAS_TERMS)).tolist():
            since[row] = since_ms(self.state, self.jobs[row])
        return since

    @cached_property
    def yield_queue(self) -> Ints:
        """Each stands behind those in lower queues; all are in queue 0 but who checkpoints and had its share."""
        found = np.zeros(len(self), dtype=np.int64)
        if not has_yielding(self.policy):
            return found
        had, policy = self.field(c.ATTAINED), self.policy
        rows = np.flatnonzero((self.field(c.CHECKPOINTS) > 0) & (had >= share(policy)))
        if len(rows):
            had = had[rows]
            rate = 1000 * self.per(c.ASK, lambda job: service_milli(job.spec))[rows].astype(np.int64)
            told, limited = (self.field(field)[rows] * rate for field in (c.ESTIMATE_S, c.LIMIT_S))
            found[rows] = yield_queues(told - had, limited, had, policy)
        return found

    @cached_property
    def starving(self) -> NDArray[np.bool_]:
        """Who has waited so long that it goes before everything younger; nobody when the policy says 0.

        Nor while those that went first for that hold their part of the pool (see `first_by_age`).
        """
        wait_ms = self.policy.starvation_s * 1000
        if wait_ms <= 0 or not may_go_first(self.state, self.pool.pool.name, self.policy):
            return np.zeros(len(self), dtype=np.bool_)
        if self.yield_queue.any():
            return self.since <= self.now - np.where(self.yield_queue > 0, patience_ms(self.policy), wait_ms)
        return self.since <= self.now - wait_ms

    @cached_property
    def _waits_since(self) -> Ints:
        """Per job since when it would have waited, had it waited without a break."""
        since = self.field(c.WAITS_SINCE).copy()
        for row in np.flatnonzero(self.field(c.HAS_TERMS)).tolist():
            since[row] = wait_since_ms(self.state, self.jobs[row])
        return since

    @cached_property
    def by_age(self) -> Ints:
        """The rows, oldest first, equally old ones by id."""
        return np.lexsort((self.ids, self.since))

    # --- columns by what jobs share ---------------------------------------------------------------------

    def per_level(self, value: Callable[[str], float]) -> Column:
        """One number per queue level, spread over the jobs; rules of levels may have moved a job to another one."""
        column = self._spread(c.LEVEL, [value(name) for name in self.columns.levels.names])
        if not any(rule.to for rule in self.policy.levels.values()):
            return column
        names, waited = self.columns.levels.names, np.maximum(self.now - self._waits_since, 0)
        moving = [names.index(level) for level, rule in self.policy.levels.items() if rule.to and level in names]
        levels, attained = self.field(c.LEVEL), self.field(c.ATTAINED)
        for row in np.flatnonzero(np.isin(levels, moving)).tolist():
            level = level_after(
                names[int(levels[row])], self.policy, attained=int(attained[row]), waited_ms=int(waited[row])
            )
            column[row] = value(level)
        return column

    def per_group(self, value: Callable[[str], float]) -> Column:
        """One number per group, spread over the jobs."""
        return self._spread(c.GROUP, [value(name) for name in self.columns.groups.names])

    def per_member(self, value: Callable[[str, str], float]) -> Column:
        """One number per group and user, spread over the jobs."""
        return self._spread(c.HOLDER, [value(group, user) for group, user in self.columns.members])

    def per(self, field: int, value: Callable[[Job], float]) -> Column:
        """One number for all jobs that are equal in a field, taken from one of them."""
        _, first, which = np.unique(self.field(field), return_index=True, return_inverse=True)
        kept = self.state.kept.jobs
        stand_ins = [kept.get(JobId(job)) for job in self.ids[first].tolist()]
        jobs = (job or self.jobs[row] for job, row in zip(stand_ins, first.tolist(), strict=True))
        values = np.fromiter((value(job) for job in jobs), dtype=np.float64, count=len(first))
        return values[which]

    def each(self, value: Callable[[Job], float]) -> Column:
        """One number per job; slow where many jobs wait."""
        return np.fromiter((value(job) for job in self.jobs), dtype=np.float64, count=len(self))

    def _spread(self, field: int, values: Sequence[float]) -> Column:
        return np.array(values, dtype=np.float64)[self.field(field)] if len(self) else np.zeros(0)

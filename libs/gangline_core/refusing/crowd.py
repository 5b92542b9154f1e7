"""Who is refused at a look: whoever asks for what others asked for in vain, where nobody makes room for it.

Of the many that wait most ask for the same few things: they differ by their time limits, or by whose they are. Where
nobody is evicted, shrunk or joined for a job it starts in what is free or it does not start, and what is free only gets
less in a round. So each further job needs but a few looks: might anybody go for it, may it pass the round's date, and
was what it asks for sought in vain there? Where service alone says who may go, the first look is whether anybody has
sunk below it, or will have who starts.
"""

from collections.abc import Collection, Iterable, Iterator

from gangline_core.batch import FLOW
from gangline_core.ids import JobId
from gangline_core.job import Job
from gangline_core.making_room.cheap_looks import Lowest
from gangline_core.making_room.preemption import Preemptor
from gangline_core.making_room.service_order import anybody_sank_below, orders_by_service
from gangline_core.making_room.short import goes_by_service_alone
from gangline_core.making_room.victims import may_shrink_somebody
from gangline_core.reasons import Reason
from gangline_core.refusing.refusals import Refuser
from gangline_core.reserving.reserve import Reserver
from gangline_core.scoring import columns as c
from gangline_core.scoring.columns import Columns
from gangline_core.scoring.yield_queue import has_yielding
from gangline_core.spec import ServiceClass
from gangline_core.table import Table


class Crowd:
    """The candidates of one round for whom room alone counts."""

    def __init__(self, table: Table, refuser: Refuser, reserver: Reserver, preemptor: Preemptor) -> None:
        """Of this round; nobody was refused yet."""
        self._table, self._refuser, self._reserver, self._preemptor = table, refuser, reserver, preemptor
        self._is_plain = is_plain(table)
        self._by_service = table.policy.preemption and _goes_by_service_alone(table)
        self._goes_by_rank = table.policy.preemption and not self._by_service
        self._yields = has_yielding(table.policy)
        columns = table.state.columns.get(table.pool.pool.name)
        self._shapes, self._kind_of = table.state.shapes, (columns or Columns()).kind_of
        jobs, pools = table.state.kept.jobs, table.state.kept.pools.values()
        self._are_limits_dated = any(pool.limit_dates for pool in pools)
        self._claiming = [name for name in table.state.kept.claims if jobs[name].spec.pool == table.pool.pool.name]
        """For whom room is being cleared, or was."""
        self._lowest = Lowest()
        self._passing: dict[int, Reason] = {}
        """By what is asked, why it was sought in vain by those who may pass the date."""
        self._others: dict[int, Reason] = {}
        """By those who may not."""
        self._alike: dict[tuple[object, ...], Reason] = {}
        """By shape, and how long they are expected to run, why jobs were refused that tell of all others like them."""
        self._before_somebody: dict[tuple[str, int], bool] = {}
        """By level and priority, whether anybody might make way for such a job, but for what checkpoints."""
        self._came = (0, 0, 0)
        """How many had taken room, gone on and had dates when these were told."""

    def left(self, waiting: Iterable[tuple[int, Job]], apart: Collection[JobId]) -> Iterator[tuple[int, Job]]:
        """Those who have to be looked at, each with how many come before it; the others are refused in passing.

        Nothing is said of those `apart`.
        """
        refused, is_open = self._table.refused, False
        for seen, job in waiting:
            reason = self._reason(job) if is_open and job.id not in apart else None
            if reason is None:
                yield seen, job
                is_open = self._is_open()
            else:
                refused.append((job, reason))

    def _is_open(self) -> bool:
        """True once nobody gets a further date, until somebody is kept out by a limit, or the round is full."""
        table = self._table
        if self._came != (came := (len(table.taken), len(table.resumes), len(table.reservations))):
            self._came = came
            for told in (self._passing, self._others, self._alike, self._before_somebody):
                told.clear()
        self._are_limits_dated |= bool(table.limit_dates)
        is_over = self._is_plain and (self._by_service or self._reserver.is_over)
        return is_over and not (self._refuser.knows_limits or table.is_full)

    def _reason(self, job: Job) -> Reason | None:
        """Why the job finds no room; None when it has to be looked at."""
        spec = job.spec
        if spec.service_class is ServiceClass.OPPORTUNISTIC:
            return None
        if job.yielded_to or spec.deadline_ms or (self._yields and spec.checkpoints):
            return self._of(job)
        if self._are_limits_dated and not spec.time_limit_s:
            return self._of(job)
        # Those of one shape and kind are expected to end as soon as each other.
        key = (self._shapes[job.id], job.learnt_ms or self._kind_of(job.id))
        reason = self._alike.get(key)
        if reason is None:
            reason = self._of(job)
            if reason is not None:
                self._alike[key] = reason
        return reason

    def _is_passing(self, job: Job) -> bool:
        """True when the job may take what the round's date counts on, since it ends before."""
        table, limit_s = self._table, job.spec.time_limit_s
        if not table.reservations:
            return True
        if limit_s:
            return table.now + limit_s * 1000 <= table.first_reserved_ms
        return table.ends_before_reservations(job)

    def _of(self, job: Job) -> Reason | None:
        """The same of a job that nothing was told of."""
        if self._goes_by_rank and self._goes_before_somebody(job):
            return None
        known = self._refuser.known(job) if self._shapes[job.id] in self._refuser.shapes else None
        return known or self._of_room(job)

    def _of_room(self, job: Job) -> Reason | None:
        """The same of a job the like of which nobody refused."""
        table, ask, is_passing = self._table, self._table.state.asks[job.id], self._is_passing(job)
        in_vain = self._passing if is_passing else self._others
        reason = in_vain.get(ask)
        if reason is None:
            room = table.room if is_passing else table.guarded
            reason = None if room is None else self._refuser.no_room(job, room)
            if reason is None:
                return None
            in_vain[ask] = reason
        elif self._refuser.is_above_limits(job):
            return None
        if self._by_service:
            if not self._preemptor.is_through(job) and anybody_sank_below(table, job):
                return None
            if self._lowest.is_below(table, job, self._who_comes()):
                return None
            self._refuser.remember(job, reason)
        return reason

    def _goes_before_somebody(self, job: Job) -> bool:
        """A cheap look whether anybody might make way for the job, or whether it once did and waits for that one."""
        spec = job.spec
        if job.yielded_to or (self._yields and spec.checkpoints):
            return self._might_send(job)
        rank = spec.level, spec.priority
        before = self._before_somebody.get(rank)
        if before is None:
            before = self._before_somebody[rank] = self._might_send(job)
        return before

    def _might_send(self, job: Job) -> bool:
        if job.yielded_to or self._preemptor.might_send(job, is_owed=False):
            return True
        return self._lowest.is_below(self._table, job, self._who_comes())

    def _who_comes(self) -> list[JobId]:
        """Who starts or goes on in this round, and for whom room is being cleared."""
        table = self._table
        return [*self._claiming, *table.resumes, *(one.job for one in table.placements)]


def is_plain(table: Table) -> bool:
    """True when a job that finds no room starts beside nobody, and none stands in front of another's level."""
    policy, pool = table.policy, table.pool.pool
    if policy.sharing or policy.lease_s or policy.placement == FLOW or not policy.backfill:
        return False
    if table.has_guarantees or table.state.kept.windows or pool.cells or pool.pinned:
        return False
    if any(rule.strict for rule in policy.levels.values()) or (policy.preemption and policy.time_slice_s):
        return False
    return not (policy.shrink and may_shrink_somebody(table))


def _goes_by_service_alone(table: Table) -> bool:
    """True when nobody has a date or stands still, and all who wait or live are equally important, but for service."""
    policy, state, pool = table.policy, table.state, table.pool.pool
    columns = state.columns.get(pool.name)
    if not orders_by_service(policy) or policy.backfill_depth or state.paused.get(pool.name) or not columns:
        return False
    slots = columns.slots()
    told_apart = [columns.field(slots, field) for field in (c.PRIORITY, c.LEVEL, c.CLASS)]
    if any(bool((field != field[:1]).any()) for field in told_apart):
        return False
    first = columns.field(slots[:1], c.ID).item()
    return goes_by_service_alone(table, state.kept.jobs[JobId(first)])

"""Who is refused at a look: whoever asks for what others asked for in vain, where nobody makes room for it.

Of the many that wait most ask for the same few things: they differ by their time limits, or by whose they are. Where
nobody is evicted, shrunk or joined for a job it starts in what is free or it does not start, and what is free only gets
less in a round. So each further job needs but a few looks: may it pass the round's date, was what it asks for sought in
vain there, and where service alone says who may be evicted, has anybody sunk below it, or will have who starts?
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
from gangline_core.spec import ServiceClass
from gangline_core.table import Table


class Crowd:
    """The candidates of one round for whom room alone counts."""

    def __init__(self, table: Table, refuser: Refuser, reserver: Reserver, preemptor: Preemptor) -> None:
        """Of this round; nobody was refused yet."""
        self._table, self._refuser, self._reserver, self._preemptor = table, refuser, reserver, preemptor
        self._evicts = table.policy.preemption
        jobs = table.state.kept.jobs
        self._claiming = [name for name in table.state.kept.claims if jobs[name].spec.pool == table.pool.pool.name]
        """For whom room is being cleared, or was."""
        self._lowest = Lowest()
        self._is_plain = _is_plain(table) and (not self._evicts or _goes_by_service_alone(table))
        self._passing: dict[int, Reason] = {}
        """By what is asked, why it was sought in vain by those who may pass the date."""
        self._others: dict[int, Reason] = {}
        """By those who may not."""
        self._alike: dict[int, Reason] = {}
        """By shape, why jobs that yielded to nobody were refused, but those of which dates tell some from others."""
        self._are_dated = not self._evicts or any(pool.limit_dates for pool in table.state.kept.pools.values())

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
        is_over = self._is_plain and (self._evicts or self._reserver.is_over)
        return is_over and not (self._refuser.knows_limits or self._table.is_full)

    def _reason(self, job: Job) -> Reason | None:
        """Why the job finds no room; None when it has to be looked at."""
        spec = job.spec
        if spec.service_class is ServiceClass.OPPORTUNISTIC:
            return None
        shape = self._table.state.shapes[job.id]
        if shape not in self._refuser.shapes:
            return self._of_room(job)
        is_alike = not (job.yielded_to or spec.deadline_ms) and (spec.time_limit_s > 0 or not self._are_dated)
        reason = self._alike.get(shape) if is_alike else None
        if reason is None:
            reason = self._refuser.known(job) or self._of_room(job)
            if reason is not None and is_alike:
                self._alike[shape] = reason
        return reason

    def _of_room(self, job: Job) -> Reason | None:
        """The same of a job the like of which nobody refused."""
        table, spec, ask = self._table, job.spec, self._table.state.asks[job.id]
        if spec.time_limit_s:
            is_passing = table.now + spec.time_limit_s * 1000 <= table.first_reserved_ms
        else:
            is_passing = not table.reservations or table.ends_before_reservations(job)
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
        if self._evicts:
            if not self._preemptor.is_through(job) and anybody_sank_below(table, job):
                return None
            if self._lowest.is_below(table, job, [*self._claiming, *(one.job for one in table.placements)]):
                return None
            self._refuser.remember(job, reason)
        return reason


def _is_plain(table: Table) -> bool:
    """True when a job that finds no room starts beside nobody, and none stands in front of another's level."""
    policy, pool = table.policy, table.pool.pool
    if policy.sharing or policy.lease_s or policy.placement == FLOW or not policy.backfill:
        return False
    if table.has_guarantees or table.state.kept.windows or pool.cells or pool.pinned:
        return False
    if any(rule.strict for rule in policy.levels.values()):
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

"""Which live jobs may be evicted for one that waits, by which rule, and in which order they go.

A job may go that is opportunistic; whose priority is lower; whose group gives back what it borrowed to a group within
its guarantee; that checkpoints and had its share (see `yielding`); whose time slice is over; or, where the pool orders
by attained service, that has sunk below the beneficiary's queue.
"""

from collections.abc import Iterator
from operator import itemgetter

from gangline_core.groups import ancestors, holders
from gangline_core.ids import JobId
from gangline_core.job import Job, JobState
from gangline_core.limits.quota import JOBS
from gangline_core.making_room.could_go import Cost, CouldGo, Standing
from gangline_core.making_room.losses import (
    BY_CLASS,
    BY_GUARANTEE,
    BY_PRIORITY,
    BY_SERVICE,
    BY_SLICE,
    LiveJob,
    effective_priority,
    is_protected,
)
from gangline_core.making_room.service_order import anybody_sank_below, orders_by_service, sunk_below, would_be_below
from gangline_core.making_room.short import goes_by_service_alone
from gangline_core.pauses.packing import can_all_be_paused
from gangline_core.pauses.pausing import slice_ends_ms
from gangline_core.reserving.passing import promises
from gangline_core.scoring.yield_queue import BY_YIELD
from gangline_core.spec import ServiceClass
from gangline_core.table import Table

CONSIDERED_MAX = 2_000
"""Live jobs considered as victims at first: of the cheapest sorts, the newest. All others only if these do not do."""
Allowed = tuple[LiveJob, str]
"""A live job that may go, and the rule that allows it."""


class WhoMayGo:
    """The rules by which live jobs may go for one beneficiary, asked once for each kind of job."""

    def __init__(
        self, table: Table, could_go: CouldGo, yielding: frozenset[JobId], beneficiary: Job, *, is_owed: bool
    ) -> None:
        """`yielding` are those that had their share and make way; `is_owed` when its group is owed what it asks for."""
        self._table, self._could_go, self._beneficiary, self._yielding = table, could_go, beneficiary, yielding
        self._mine = effective_priority(table.pool.pool, beneficiary.spec)
        promised = promises(table, beneficiary) if is_owed else {}
        self._promisers = {path for path, _ in promised.values()}
        self._slices, self._by_service = bool(table.policy.time_slice_s), orders_by_service(table.policy)
        self._sunk = sunk_below(table, beneficiary) if self._by_service else frozenset[JobId]()
        self._asked = asked_of(table, beneficiary)
        self._keeps: dict[tuple[int, int], bool] = {}
        """By kind and size, whether a group keeps its guarantee without such a job."""

    def in_order(self, under: frozenset[str] | None, *, everybody: bool) -> list[Allowed]:
        """Live jobs that may go, and by which rule, in the order in which they go.

        Only those below the holders `under`, where that is said. Only the first CONSIDERED_MAX that are found, cheapest
        sorts and newest jobs first, unless `everybody`.
        """
        mine, gone, yielded_to = self._mine, self._could_go.gone, self._beneficiary.yielded_to
        by_rank = not (self._promisers or self._slices or self._table.lowered)
        each = self._slices or self._by_service or bool(self._table.lowered or self._yielding)
        # Where service alone may allow it, most are in no lower queue, and that is seen at once.
        only_sunk = self._by_service and by_rank
        found: list[tuple[Cost, Allowed]] = []
        rules: dict[int, str] = {}
        """By kind, the rule that allows it; empty when none does."""
        for one in self._live(under):
            job = one.job
            if not (self._promisers or each) and one.is_firm and one.priority >= mine:
                break
            if job.id in gone or (only_sunk and job.id not in self._sunk and one.is_firm and one.priority >= mine):
                continue
            rule = rules.get(one.kind)
            if rule is None or each or job.spec.protected_s or job.id in yielded_to:
                is_there = under is None or not under.isdisjoint(holders(job.spec.group, job.spec.user))
                rule = self._rule(one) if is_there else ""
                if not (job.spec.protected_s or job.id in yielded_to):
                    rules[one.kind] = rule
            if rule and (victim := self._victim(one)) is not None:
                found.append((one.cost, (victim, rule)))
                if len(found) >= CONSIDERED_MAX and not everybody:
                    break
        found.sort(key=itemgetter(0))
        return [entry for _, entry in found]

    def _live(self, under: frozenset[str] | None) -> list[Standing]:
        """Who holds something and is not of a group that would come below its guarantee without any of its jobs.

        Those that have sunk below it, where service alone says who goes; everybody where anything that is gone helps.
        """
        table, beneficiary = self._table, self._beneficiary
        if goes_by_service_alone(table, beneficiary):
            return self._could_go.these(self._sunk)
        if self._asked is None or not table.has_guarantees:
            return self._could_go.in_turn(under)
        whole = goes_whole(table, beneficiary)
        return self._could_go.may_give(table.after, beneficiary.spec.group, under, whole=whole)

    def _victim(self, one: Standing) -> LiveJob | None:
        """The job with what it holds; None where that is no help, or its group would not keep its guarantee."""
        victim = self._could_go.victim(one)
        if self._asked is not None and one.is_bare and self._asked.isdisjoint(victim.amounts):
            return None
        keeps = self._keeps.get((one.kind, one.size))
        if keeps is None:
            whole = goes_whole(self._table, self._beneficiary)
            keeps = keeps_guarantee(self._table, one.job, victim.amounts, self._beneficiary, whole=whole)
            keeps = keeps and not (whole and self._is_owed_to_others(one.job, victim.amounts))
            self._keeps[one.kind, one.size] = keeps
        return victim if keeps else None

    def _is_owed_to_others(self, job: Job, amounts: dict[str, int]) -> bool:
        """True when others that wait would be owed what the job's group then lacks, and so take over what is cleared.

        Not from a beneficiary that is owed it as well.
        """
        table, beneficiary = self._table, self._beneficiary
        if not table.has_guarantees or keeps_guarantee(table, job, amounts, beneficiary, whole=False):
            return False
        if table.is_owed(beneficiary):
            return False
        if self._could_go.asking is None:
            self._could_go.asking = list(_asking(table))
        promisers = {*ancestors(job.spec.group)}.difference(ancestors(beneficiary.spec.group))
        table.after.give(job, amounts)
        is_owed = any(
            table.after.within_guarantee(one, table.seating.least(one).amounts)
            for one in self._could_go.asking
            if one.id != beneficiary.id and not promisers.isdisjoint(ancestors(one.spec.group))
        )
        table.after.take(job, amounts)
        return is_owed

    def _rule(self, one: Standing) -> str:
        """Which rule lets this job be evicted for the beneficiary; empty when none does.

        What runs below the group that promised is no debt of others, so it is not reclaimed but only outranked. And who
        had the beneficiary evicted once is never evicted for it: priority and guarantee may point both ways, in turn.
        Whose time is over goes by its checkpoint; who saves nothing may at most be paused for that.
        """
        table, job = self._table, one.job
        if job.spec.protected_s and is_protected(job, table.now, against=self._mine):
            return ""
        if job.id in self._sunk:
            return "" if table.ledger.is_sheltered(job) else BY_SERVICE
        has_turned = self._slices and _had_its_slice(table, job, self._beneficiary)
        if has_turned and (job.spec.checkpoints or table.ledger.is_sheltered(job)):
            return "" if table.ledger.is_sheltered(job) else BY_SLICE
        rule = self._rule_of_rank(one)
        return BY_SLICE if has_turned and not rule and can_all_be_paused(table.state, job) else rule

    def _rule_of_rank(self, one: Standing) -> str:
        table, job, beneficiary = self._table, one.job, self._beneficiary
        if job.id in self._yielding:
            return "" if table.ledger.is_sheltered(job) else BY_YIELD
        if job.id in beneficiary.yielded_to:
            return ""
        if job.service_class == ServiceClass.OPPORTUNISTIC or job.id in table.lowered:
            return BY_CLASS
        is_lower = one.priority < self._mine and not would_be_below(table, beneficiary, job)
        if not is_lower and (not self._promisers or not self._promisers.isdisjoint(ancestors(job.spec.group))):
            return ""
        if table.ledger.is_sheltered(job):
            return ""
        return BY_PRIORITY if is_lower else BY_GUARANTEE


def may_evict_somebody(table: Table, job: Job, *, is_owed: bool) -> bool:
    """A cheap look whether any live job could be this job's victim at all."""
    if orders_by_service(table.policy) and anybody_sank_below(table, job):
        return True
    if table.policy.time_slice_s and any(_had_its_slice(table, other, job) for other in _running(table)):
        return True
    mine = effective_priority(table.pool.pool, job.spec)
    for sort in table.state.live_sorts.get(table.pool.pool.name, {}):
        if not sort.preemptible:
            continue
        theirs = table.pool.pool.levels.get(sort.level, 0) + sort.priority
        if is_owed or theirs < mine or sort.service_class == ServiceClass.OPPORTUNISTIC:
            return True
    return False


def _asking(table: Table) -> Iterator[Job]:
    """Of each shape that is in the round's view the first job that waits for room."""
    opened, kept, shapes = table.pool.open_round, table.state.kept, set[int]()
    for candidate in opened.opened.candidates if opened is not None else ():
        job = kept.jobs.get(candidate.job)
        if job is None or job.state != JobState.WAITING or job.id in kept.claims:
            continue
        shape = table.state.shapes[job.id]
        if shape not in shapes:
            shapes.add(shape)
            yield job


def _running(table: Table) -> Iterator[Job]:
    """Jobs of the pool that run."""
    live = (table.state.kept.jobs[name] for name in table.state.live.get(table.pool.pool.name, {}))
    return (job for job in live if job.state == JobState.RUNNING)


def _had_its_slice(table: Table, job: Job, beneficiary: Job) -> bool:
    """True where the pool slices time, and this job had its slice and ranks no higher."""
    if not table.policy.time_slice_s or job.state != JobState.RUNNING:
        return False
    ranks = effective_priority(table.pool.pool, job.spec) <= effective_priority(table.pool.pool, beneficiary.spec)
    return ranks and table.now >= slice_ends_ms(job, table.policy)


def asked_of(table: Table, beneficiary: Job) -> frozenset[str] | None:
    """What the job needs some of, so that whoever holds none of it is no help; None when that is not all.

    Where nodes have hardly a place for one more task, and where running jobs are limited, being gone helps, too.
    """
    if table.room.crowded or any(JOBS in rung.limit for rung in table.ledger.rungs(beneficiary)):
        return None
    return frozenset(dimension for dimension in table.seating.least(beneficiary).amounts if dimension != JOBS)


def goes_whole(table: Table, beneficiary: Job) -> bool:
    """True where a job that fits its group's guarantee only in part may go: what its group is then owed comes back.

    It is lent room that is left, or the beneficiary itself gives it back, unless that may not be evicted.
    """
    may_go = beneficiary.spec.preemptible and not beneficiary.spec.protected_s
    return may_go or table.is_owed(beneficiary)


def keeps_guarantee(table: Table, job: Job, amounts: dict[str, int], beneficiary: Job, *, whole: bool) -> bool:
    """True when the job's group keeps what it is guaranteed without so much of it, or of the job as a `whole`."""
    if not table.has_guarantees:
        return True
    return table.after.over_guarantee(job, amounts, beneficiary=beneficiary.spec.group, whole=whole)

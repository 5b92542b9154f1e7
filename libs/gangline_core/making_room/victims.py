"""Who could make room for a waiting job, in the order in which they would: waits, shrinks, evictions.

A wait costs nobody anything: the task is stopping already. A shrink takes members that an elastic job has beyond its
smallest size. An eviction takes a whole job, and is allowed by one of five rules: the victim is opportunistic, its
priority is lower, its group gives back what it borrowed to a group within its guarantee, it checkpoints and had its
share (see `yielding`), or, where the pool orders by attained service, it has sunk below the beneficiary's queue.
"""

from collections.abc import Iterable, Iterator
from operator import itemgetter

from msgspec.structs import replace

from gangline_core.elasticity.speed import part_lost_milli
from gangline_core.groups import ancestors, holders
from gangline_core.ids import JobId, TaskId
from gangline_core.job import Job, JobState, TaskState
from gangline_core.limits.amounts import add_all
from gangline_core.limits.quota import JOBS
from gangline_core.making_room.beginning_again import can_begin_again
from gangline_core.making_room.claims import is_overdue
from gangline_core.making_room.could_go import LAST_MS, Cost, CouldGo, Standing, WhoLives
from gangline_core.making_room.losses import (
    BY_CLASS,
    BY_GUARANTEE,
    BY_PRIORITY,
    BY_SERVICE,
    BY_SLICE,
    EVICT,
    PAUSE,
    SHRINK,
    WAIT,
    LiveJob,
    Loss,
    as_eviction,
    as_pause,
    effective_priority,
    is_protected,
)
from gangline_core.making_room.most_over import MostOver
from gangline_core.making_room.service_order import anybody_sank_below, orders_by_service, sunk_below, would_be_below
from gangline_core.making_room.short import goes_by_service_alone
from gangline_core.making_room.spare_members import spare_members
from gangline_core.making_room.yielding import Yielders
from gangline_core.pauses.packing import can_all_be_paused
from gangline_core.pauses.pausing import leaving_part, slice_ends_ms
from gangline_core.reserving.passing import promises
from gangline_core.scoring.yield_queue import BY_YIELD
from gangline_core.spec import ServiceClass
from gangline_core.state import task_amounts
from gangline_core.table import Table

CONSIDERED_MAX = 2_000
"""Live jobs considered as victims at first: of the cheapest sorts, the newest. All others only if these do not do."""
Allowed = tuple[LiveJob, str]
"""A live job that may go, and the rule that allows it."""


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


def may_shrink_somebody(table: Table) -> bool:
    """A cheap look whether any live job is elastic."""
    return any(sort.elastic for sort in table.state.live_sorts.get(table.pool.pool.name, {}))


class Victims:
    """Everybody who could make room in this round; read once, when first needed."""

    def __init__(self, table: Table, lives: WhoLives | None = None) -> None:
        """Live jobs of the pool that nobody has spoken for; `lives` is what tables of the same moment share."""
        self._table = table
        self.could_go = CouldGo(table, lives)
        self.yielders = Yielders(table)
        self.gone = self.could_go.gone
        self._slices, self._by_service = bool(table.policy.time_slice_s), orders_by_service(table.policy)
        self._pauses: dict[JobId, Loss | None] = {}
        """Per job its pause; None when it cannot be paused."""
        self._spare: list[tuple[tuple[bool, int, int, JobId, int], Loss]] | None = None
        self._most_over = MostOver(table)
        self.shrunk: set[TaskId] = {name for less in table.shrinks for name in less.tasks}
        """Members that this round takes away."""

    def waits(self) -> list[Loss]:
        """Tasks that are stopping in time and whose room no claim waits for, or not for all of it.

        What a claim waits for below a limit alone gives others its room, and nothing below limits: that is the claim's.
        """
        table, kept = self._table, self._table.state.kept
        found: list[Loss] = []
        for name in sorted(set(table.state.stopping_tasks) - table.leaving - table.leaving_elsewhere):
            task = leaving_part(table.state, kept.tasks[name])
            if task.state == TaskState.LOST or is_overdue(table.state, task, table.now):
                continue
            amounts = {} if name in table.ceded else task_amounts(task)
            found.append(Loss(kind=WAIT, job=kept.jobs[task.job], tasks=(task,), amounts=amounts))
        for rest in table.rests.all():
            part = rest.part
            if part.state != TaskState.LOST and not is_overdue(table.state, part, table.now):
                found.append(Loss(kind=WAIT, job=kept.jobs[part.job], tasks=(part,), amounts=rest.amounts))
        return found

    def shrinks(self, beneficiary: Job) -> list[Loss]:
        """Members beyond the smallest sizes of running elastic jobs, in the order in which they go.

        Those that have not started go first. Then, where groups have guarantees, those of the group that is most over
        its fair part, step by step. Of a group members of jobs that would be less slowed by it than by their share, as
        their own reports tell, least loss first; then from whoever is furthest beyond what it wanted. Of one job those
        of the highest ranks.
        """
        if self._spare is None:
            self._spare = sorted(self._spares(), key=lambda entry: entry[0])
        losses = [
            loss
            for _, loss in self._spare
            if loss.job.id not in self.gone
            and loss.tasks[0].id not in self.shrunk
            and self._keeps_guarantee(loss.job, loss.amounts, beneficiary, whole=False)
        ]
        if not self._table.has_guarantees:
            return losses
        fresh = [loss for loss in losses if loss.tasks[0].state == TaskState.PLACED]
        others = [loss for loss in losses if loss.tasks[0].state != TaskState.PLACED]
        return [*fresh, *self._most_over.first(others, of=lambda loss: (loss.job.spec.group, loss.amounts))]

    def allowed(
        self, beneficiary: Job, *, is_owed: bool, under: frozenset[str] | None = None, everybody: bool = False
    ) -> list[Allowed]:
        """Live jobs that may go for this one, and by which rule, in the order in which they go.

        Only those below the holders `under`, where that is said. Only the first CONSIDERED_MAX that are found, cheapest
        sorts and newest jobs first, unless `everybody`.
        """
        found: list[tuple[Cost, Allowed]] = []
        promised = promises(self._table, beneficiary) if is_owed else {}
        promisers = {path for path, _ in promised.values()}
        mine = effective_priority(self._table.pool.pool, beneficiary.spec)
        each = self._slices or self._by_service or bool(self._table.lowered or self.yielders.of(beneficiary))
        asked = self.asked(beneficiary)
        # Where service alone may allow it, most are in no lower queue, and that is seen at once.
        sunk = sunk_below(self._table, beneficiary) if self._by_service else frozenset[JobId]()
        others = bool(promisers or self._slices or self._table.lowered) or not self._by_service
        rules: dict[int, str] = {}
        """By kind, the rule that allows it; empty when none does."""
        keeps: dict[tuple[int, int], bool] = {}
        """Whether a group keeps its guarantee without so much."""
        alone = goes_by_service_alone(self._table, beneficiary)
        for one in self.could_go.these(sunk) if alone else self._may_give(beneficiary, under, asked):
            job, kind = one.job, one.kind
            if not (promisers or each) and one.is_firm and one.priority >= mine:
                break
            if job.id in self.gone or not (others or job.id in sunk or not one.is_firm or one.priority < mine):
                continue
            rule = rules.get(kind)
            if rule is None or each or job.spec.protected_s or job.id in beneficiary.yielded_to:
                rule = ""
                if under is None or not under.isdisjoint(holders(job.spec.group, job.spec.user)):
                    rule = self._rule(job, beneficiary, promisers, ranks=(one.priority, mine))
                if not (job.spec.protected_s or job.id in beneficiary.yielded_to):
                    rules[kind] = rule
            if rule:
                victim = self.could_go.victim(one)
                if asked is not None and one.is_bare and asked.isdisjoint(victim.amounts):
                    continue
                keep = keeps.get((kind, one.size))
                if keep is None:
                    whole = self.goes_whole(beneficiary)
                    keep = self._keeps_guarantee(job, victim.amounts, beneficiary, whole=whole)
                    keeps[kind, one.size] = keep
                if keep:
                    found.append((one.cost, (victim, rule)))
                    if len(found) >= CONSIDERED_MAX and not everybody:
                        break
        found.sort(key=itemgetter(0))
        return [entry for _, entry in found]

    def _may_give(self, beneficiary: Job, under: frozenset[str] | None, asked: frozenset[str] | None) -> list[Standing]:
        """Who holds something and is not of a group that would come below its guarantee without any of its jobs.

        Everybody where it is not told what is `asked`.
        """
        if asked is None or not self._table.has_guarantees:
            return self.could_go.in_turn(under)
        whole = self.goes_whole(beneficiary)
        return self.could_go.may_give(self._table.after, beneficiary.spec.group, under, whole=whole)

    def most_freed(self, beneficiary: Job, holder: str, dimension: str, *, is_owed: bool, kept: bool) -> int:
        """The most of a dimension that all who could go below a holder would give back; an upper bound.

        With `kept`, no group gives up more than what it uses beyond its guarantee.
        """
        table = self._table
        everybody = is_owed or bool(table.policy.time_slice_s or table.lowered or orders_by_service(table.policy))
        everybody = everybody or bool(self.yielders.of(beneficiary))
        what = (holder, dimension, LAST_MS if everybody else effective_priority(table.pool.pool, beneficiary.spec))
        if not kept:
            return sum(self.could_go.most_freed(*what).values())
        return self.could_go.most_given(table.after, beneficiary.spec.group, what, whole=self.goes_whole(beneficiary))

    def pauses(self, allowed: list[Allowed]) -> list[Loss]:
        """Those of them that may be paused instead, all of whose members are still to be had."""
        taken = self._table.leaving | self.shrunk
        found = ((self._pause(victim, rule), victim) for victim, rule in allowed)
        return [loss for loss, victim in found if loss is not None and taken.isdisjoint(victim.job.tasks)]

    def free_no_more(self, beneficiary: Job, allowed: list[Allowed], pauses: list[Loss]) -> bool:
        """True when evicting them all frees no more of what the job asks for than pausing them all."""
        asked = self.asked(beneficiary)
        return (
            asked is not None
            and len(pauses) == len(allowed)
            and all(
                pause.amounts.get(dimension, 0) == amount
                for pause, (victim, _) in zip(pauses, allowed, strict=True)
                for dimension, amount in victim.amounts.items()
                if dimension in asked or dimension.startswith("gpu")
            )
        )

    def evictions(self, allowed: list[Allowed], *, beside: list[Loss]) -> list[Loss]:
        """All of them, going for good; tasks `beside` are not counted twice."""
        # Members that stop already are somebody's room, or stand beside: evicting their job frees only the others.
        counted = self._table.leaving | {task.id for loss in beside for task in loss.tasks}
        go = [entry for entry in allowed if entry[1] != BY_SLICE or entry[0].job.spec.checkpoints]
        return [as_eviction(victim, rule, counted) for victim, rule in self._most_borrowed_first(go)]

    def losses_of(self, jobs: Iterable[Job], *, rule: str) -> list[Loss]:
        """These jobs as evictions by this rule, in this order, those that nobody has spoken for."""
        leaving = self._table.leaving
        return [as_eviction(self.could_go.live_job(job), rule, leaving) for job in jobs if job.id not in self.gone]

    def keep_guarantees(self, evictions: list[Loss], beneficiary: Job) -> list[Loss]:
        """Those of these evictions, in order, that may happen together without taking what a group is owed."""
        if not self._table.has_guarantees:
            return evictions
        after, goes_whole = self._table.after, self.goes_whole(beneficiary)
        together: list[Loss] = []
        for loss in evictions:
            whole = loss.kind != SHRINK and goes_whole
            if after.over_guarantee(loss.job, loss.amounts, beneficiary=beneficiary.spec.group, whole=whole):
                after.give(loss.job, loss.amounts)
                together.append(loss)
        for loss in together:
            after.take(loss.job, loss.amounts)
        return together

    def go(self, losses: list[Loss]) -> None:
        """These losses are decided."""
        for loss in losses:
            if loss.kind in (EVICT, PAUSE):
                self.could_go.go(loss.job.id)
            elif loss.kind == SHRINK:
                self.shrunk.update(task.id for task in loss.tasks)
            if loss.kind != WAIT and self._table.has_guarantees:
                self._table.after.give(loss.job, loss.amounts)

    def asked(self, beneficiary: Job) -> frozenset[str] | None:
        """What the job needs some of, so that whoever holds none of it is no help; None when that is not all.

        Where nodes have hardly a place for one more task, and where running jobs are limited, being gone helps, too.
        """
        table = self._table
        if table.room.crowded or any(JOBS in rung.limit for rung in table.ledger.rungs(beneficiary)):
            return None
        return frozenset(dimension for dimension in table.seating.least(beneficiary).amounts if dimension != JOBS)

    def goes_whole(self, beneficiary: Job) -> bool:
        """True where a job that fits its group's guarantee only in part may go: what its group is then owed comes back.

        It is lent room that is left, or the beneficiary itself gives it back, unless that may not be evicted.
        """
        may_go = beneficiary.spec.preemptible and not beneficiary.spec.protected_s
        return may_go or self._table.is_owed(beneficiary)

    # --- inside -----------------------------------------------------------------------------------------

    def _pause(self, victim: LiveJob, rule: str) -> Loss | None:
        job = victim.job.id
        if job not in self._pauses:
            able = can_all_be_paused(self._table.state, victim.job)
            self._pauses[job] = as_pause(victim, rule) if able else None
        known = self._pauses[job]
        return known if known is None or known.rule == rule else replace(known, rule=rule)

    def _spares(self) -> Iterator[tuple[tuple[bool, int, int, JobId, int], Loss]]:
        """Every member that may go, with what sorts it."""
        table, kept = self._table, self._table.state.kept
        sorts = table.state.live_sorts.get(table.pool.pool.name, {})
        for job_id in sorted(job for sort, alike in sorts.items() if sort.elastic for job in alike):
            job = kept.jobs[job_id]
            if job.state not in (JobState.RUNNING, JobState.RESIZING):
                continue
            members = [one for one in table.state.tasks_of(job) if not (one.stop or one.id in self.shrunk)]
            for role in job.spec.roles if can_begin_again(table, job, members) else ():
                own = [task for task in members if task.role == role.name and task.state != TaskState.EXITED]
                lost_milli = part_lost_milli(table.state, job, role)
                gone = 0
                for tasks in spare_members(job, role, own, of=len(members)):
                    beyond = (len(own) - gone - role.count) * max(1, role.resources.gpu_milli)
                    amounts: dict[str, int] = {}
                    for task in tasks:
                        add_all(amounts, task_amounts(task).items())
                    loss = Loss(kind=SHRINK, job=job, tasks=tasks, amounts=amounts)
                    yield (tasks[0].state != TaskState.PLACED, lost_milli, -beyond, job.id, gone), loss
                    gone += len(tasks)

    def _rule(self, job: Job, beneficiary: Job, promisers: set[str], *, ranks: tuple[int, int]) -> str:
        """Which rule lets this job be evicted for the beneficiary; empty when none does. `ranks` are both priorities.

        What runs below the group that promised is no debt of others, so it is not reclaimed but only outranked. And who
        had the beneficiary evicted once is never evicted for it: priority and guarantee may point both ways, in turn.
        Whose time is over goes by its checkpoint; who saves nothing may at most be paused for that.
        """
        if job.spec.protected_s and is_protected(job, self._table.now, against=ranks[1]):
            return ""
        if self._by_service and job.id in sunk_below(self._table, beneficiary):
            return "" if self._table.ledger.is_sheltered(job) else BY_SERVICE
        has_turned = self._slices and _had_its_slice(self._table, job, beneficiary)
        if has_turned and (job.spec.checkpoints or self._table.ledger.is_sheltered(job)):
            return "" if self._table.ledger.is_sheltered(job) else BY_SLICE
        rule = self._rule_of_rank(job, beneficiary, promisers, ranks=ranks)
        return BY_SLICE if has_turned and not rule and can_all_be_paused(self._table.state, job) else rule

    def _rule_of_rank(self, job: Job, beneficiary: Job, promisers: set[str], *, ranks: tuple[int, int]) -> str:
        theirs, mine = ranks
        if job.id in self.yielders.of(beneficiary):
            return "" if self._table.ledger.is_sheltered(job) else BY_YIELD
        if job.id in beneficiary.yielded_to:
            return ""
        if job.service_class == ServiceClass.OPPORTUNISTIC or job.id in self._table.lowered:
            return BY_CLASS
        is_lower = theirs < mine and not would_be_below(self._table, beneficiary, job)
        if not is_lower and (not promisers or not promisers.isdisjoint(ancestors(job.spec.group))):
            return ""
        if self._table.ledger.is_sheltered(job):
            return ""
        return BY_PRIORITY if is_lower else BY_GUARANTEE

    def _keeps_guarantee(self, job: Job, amounts: dict[str, int], beneficiary: Job, *, whole: bool) -> bool:
        if not self._table.has_guarantees:
            return True
        return self._table.after.over_guarantee(job, amounts, beneficiary=beneficiary.spec.group, whole=whole)

    def _most_borrowed_first(self, allowed: list[Allowed]) -> list[Allowed]:
        """Reclaimed jobs from the group that is most over its fair part, step by step; the order of others stays.

        Those of the lowest priority first, whoever's they are: for one of a higher priority that was evicted these
        would have to go next, and both had lost their work.
        """
        reclaimed = [entry for entry in allowed if entry[1] == BY_GUARANTEE]
        others = [entry for entry in allowed if entry[1] != BY_GUARANTEE]
        steps = self._most_over.first(
            reclaimed, of=lambda one: (one[0].job.spec.group, one[0].amounts), rank=lambda one: one[0].priority
        )
        return [*others, *steps]

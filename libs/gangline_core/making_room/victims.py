"""Who could make room for a waiting job, in the order in which they would: waits, shrinks, evictions.

A wait costs nobody anything: the task is stopping already. A shrink takes members that an elastic job has beyond its
smallest size. An eviction takes a whole job, where a rule allows it (see `who_may_go`).
"""

from collections.abc import Collection, Iterable, Iterator

from msgspec.structs import replace

from gangline_core.elasticity.speed import part_lost_milli
from gangline_core.ids import JobId, TaskId
from gangline_core.job import Job, JobState, TaskState
from gangline_core.limits.amounts import add_all
from gangline_core.making_room.beginning_again import can_begin_again
from gangline_core.making_room.claims import is_overdue
from gangline_core.making_room.could_go import LAST_MS, CouldGo, WhoLives
from gangline_core.making_room.losses import (
    BY_GUARANTEE,
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
)
from gangline_core.making_room.most_over import MostOver
from gangline_core.making_room.service_order import orders_by_service
from gangline_core.making_room.spare_members import spare_members
from gangline_core.making_room.who_may_go import Allowed, WhoMayGo, asked_of, goes_whole, keeps_guarantee
from gangline_core.making_room.yielding import Yielders
from gangline_core.pauses.packing import can_all_be_paused
from gangline_core.pauses.pausing import leaving_part
from gangline_core.state import task_amounts
from gangline_core.table import Table


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
            and keeps_guarantee(self._table, loss.job, loss.amounts, beneficiary, whole=False)
        ]
        if not self._table.has_guarantees:
            return losses
        fresh = [loss for loss in losses if loss.tasks[0].state == TaskState.PLACED]
        others = [loss for loss in losses if loss.tasks[0].state != TaskState.PLACED]
        return [*fresh, *self._most_over.first(others, of=lambda loss: (loss.job.spec.group, loss.amounts))]

    def allowed(
        self, beneficiary: Job, *, is_owed: bool, under: frozenset[str] | None = None, everybody: bool = False
    ) -> list[Allowed]:
        """Live jobs that may be evicted for this one; see `WhoMayGo`."""
        may_go = WhoMayGo(self._table, self.could_go, self.yielders.of(beneficiary), beneficiary, is_owed=is_owed)
        return may_go.in_order(under, everybody=everybody)

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
        return self.could_go.most_given(
            table.after, beneficiary.spec.group, what, whole=goes_whole(self._table, beneficiary)
        )

    def pauses(self, allowed: list[Allowed]) -> list[Loss]:
        """Those of them that may be paused instead, all of whose members are still to be had."""
        taken = self._table.leaving | self.shrunk
        found = ((self._pause(victim, rule), victim) for victim, rule in allowed)
        return [loss for loss, victim in found if loss is not None and taken.isdisjoint(victim.job.tasks)]

    def free_no_more(self, beneficiary: Job, allowed: list[Allowed], pauses: list[Loss]) -> bool:
        """True when evicting them all frees no more of what the job asks for than pausing them all."""
        asked = asked_of(self._table, beneficiary)
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
        after, may_go_whole = self._table.after, goes_whole(self._table, beneficiary)
        together: list[Loss] = []
        given: list[tuple[Job, dict[str, int]]] = []
        for loss in evictions:
            whole, amounts = loss.kind != SHRINK and may_go_whole, self._gives(loss, together)
            if after.over_guarantee(loss.job, amounts, beneficiary=beneficiary.spec.group, whole=whole):
                after.give(loss.job, amounts)
                given.append((loss.job, amounts))
                together.append(loss)
        for job, amounts in given:
            after.take(job, amounts)
        return together

    def go(self, losses: list[Loss]) -> None:
        """These losses are decided."""
        for loss in losses:
            if loss.kind in (EVICT, PAUSE):
                self.could_go.go(loss.job.id)
            elif loss.kind == SHRINK:
                self.shrunk.update(task.id for task in loss.tasks)
            if loss.kind != WAIT and self._table.has_guarantees:
                self._table.after.give(loss.job, self._gives(loss, losses))

    # --- inside -----------------------------------------------------------------------------------------

    def _gives(self, loss: Loss, others: Collection[Loss]) -> dict[str, int]:
        """What its group gives up: of an evicted job also those members that could have been shrunk away instead.

        Not those that stop already, or that are among these other losses.
        """
        if not loss.also:
            return loss.amounts
        shrunk = {task.id for other in others if other.kind == SHRINK for task in other.tasks}
        gone = self._table.leaving | self.shrunk | shrunk
        amounts = dict(loss.amounts)
        for task in loss.also:
            if task.job == loss.job.id and not task.stop and task.id not in gone:
                add_all(amounts, task_amounts(task).items())
        return amounts

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

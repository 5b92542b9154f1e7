"""Making room for one job: as few and as cheap losses as possible, and none at all unless the job then fits.

First everything that could go is taken away in thought. If the job fits then, as much as possible is put back, most
valuable first, and what is left is the plan: take any one of it away and the job would not fit. The same is tried in
the order of the cheapest places (see `cheapest`), and the plan that loses less is kept. Shrinking comes before
evicting; tasks that stop anyway are counted first. The room goes to the job as a claim in the same decision.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from gangline_core.facts import Claim, Eviction, JobPaused, Placement, Shrink
from gangline_core.ids import JobId, NodeId, TaskId
from gangline_core.job import Job
from gangline_core.limits.budgets import BUDGET
from gangline_core.limits.owed_models import narrowed, owed_models
from gangline_core.limits.rungs import MODEL_PREFIX
from gangline_core.making_room.cheaper import TRIES_OF_ROUND_MAX, Ground, cheaper
from gangline_core.making_room.cheapest import by_place, cheapest_alone, plan_cost
from gangline_core.making_room.could_go import WhoLives
from gangline_core.making_room.in_time import closed_then, in_time
from gangline_core.making_room.losses import EVICT, PAUSE, SHRINK, WAIT, Loss, shrunk_or_paused, thrown_away_ms
from gangline_core.making_room.lowering import with_lowered
from gangline_core.making_room.short import is_short
from gangline_core.making_room.trial import Plan, Trial, at_least, counts_for, freed_below, helpful, limited_above
from gangline_core.making_room.victim_sets import cheapest_set, first_of
from gangline_core.making_room.victims import Victims, may_shrink_somebody
from gangline_core.making_room.who_may_go import CONSIDERED_MAX, may_evict_somebody
from gangline_core.placement.gang import Seats
from gangline_core.placement.together import Work
from gangline_core.reserving.passing import holds_against, may_pass
from gangline_core.room.capacity import Room
from gangline_core.room.holdings import are_free
from gangline_core.seating import Found
from gangline_core.spec import may_take
from gangline_core.table import Table

PLANS_MAX = 64
"""Jobs of one round for which room-making is thought through; as many again of those that are owed their guarantee."""
IN_VAIN_MAX = 16
"""Of these so many of one group for whom there is no plan, so that no group's hopeless jobs stand before others'."""

RoomAsked = tuple[int, tuple[NodeId, ...], bool]
"""What a job asks for, nodes that are closed to it, and whether it may take what reservations count on."""


def _evicted(plan: Plan) -> set[JobId]:
    """Who would have to go."""
    return {loss.job.id for loss in plan.losses if loss.kind == EVICT}


class Preemptor:
    """Makes room in one round."""

    def __init__(self, table: Table, heirs: Collection[JobId] = (), lives: WhoLives | None = None) -> None:
        """Nobody has to go yet; `heirs` take over room that is being cleared already, and may claim that alone.

        `lives` is what those share that try something on several tables of one moment.
        """
        self._table = table
        self._heirs = heirs
        self._victims = Victims(table, lives)
        self._plans: Counter[bool] = Counter()
        """Jobs that were thought through, by whether they are owed their guarantee."""
        self._in_vain: Counter[tuple[str, bool]] = Counter()
        """Those for whom there was no plan, by group, too."""
        self._no_room: set[RoomAsked] = set()
        self._last_room: dict[RoomAsked, Seats] = {}
        """Where there was room for those who ask for the same, when it was looked for last."""
        self._tries = Work(TRIES_OF_ROUND_MAX)
        self._is_lost = False
        """Not even all losses together made room when it was tried last."""
        self._shut = frozenset[NodeId]()
        """Nodes on which the job that is looked at would start too late."""
        self._cheapest: Plan | None = None
        """The last plan, where no other set of losses can cost less."""
        self.is_above_limits = False
        """The last job for which there was no plan stays above its limits whoever goes, and wherever it would go."""

    def make_room(self, job: Job, *, sparing: bool = False) -> bool:
        """Clear room for a job that found none, if that is allowed and then suffices; True when it has a claim now.

        With `sparing` nothing is taken that reservations count on or that a run which is left to work has, though the
        job is owed its guarantee; where anybody is left to work that is tried first in any case.
        """
        plan = self.plan(job, sparing=sparing)
        if plan is not None:
            self.clear(job, plan)
        return plan is not None

    def plan(self, job: Job, *, sparing: bool = False) -> Plan | None:
        """How room would be cleared for it; None when it is not."""
        if sparing or (self._victims.could_go.anybody_is_left_to_work and self._table.is_owed(job)):
            self._victims.could_go.sparing = True
            plan = self._plan(job)
            self._victims.could_go.sparing = False
            if plan is not None or sparing:
                return plan
        plan = with_lowered(self._table, job, lambda: self._plan(job), evicted=_evicted) or self._plan(job)
        return plan or self._plan_on_owed(job)

    def make_room_of(self, job: Job, others: Sequence[Job], *, rule: str, room: Room) -> bool:
        """Clear room for a job by letting go as many of these as it needs, the first of them first; else of none."""
        losses = in_time(self._table, job, self._victims.losses_of(others, rule=rule)) if job.spec.preempts else []
        plan = Trial(self._table, job, room.copy(), losses).run() if losses else None
        if plan is None or closed_then(self._table, job, plan):
            return False
        self.clear(job, plan)
        return True

    def let_go(self, victim: Job, job: Job, *, rule: str) -> bool:
        """The victim stops for this job, which claims nothing; False when it goes already."""
        losses = self._victims.losses_of([victim], rule=rule)
        gone = (one.id for loss in losses for one in (loss.job, *loss.guests))
        self._table.evictions += [Eviction(job=one, beneficiary=job.id, rule=rule) for one in gone]
        self._victims.go(losses)
        return bool(losses)

    def clear(self, job: Job, plan: Plan) -> Found:
        """Book the claim, and tell the victims to go; where the job will be."""
        table = self._table
        shrunk: dict[JobId, list[TaskId]] = {}
        for loss in plan.losses:
            gone = (loss.job, *loss.guests)
            if loss.kind == EVICT:
                table.evictions += [
                    Eviction(one.id, beneficiary=job.id, rule=loss.rule, lost_ms=thrown_away_ms(one, table.now))
                    for one in gone
                ]
            elif loss.kind == PAUSE:
                table.pauses += [JobPaused(job=one.id, beneficiary=job.id, rule=loss.rule) for one in gone]
            elif loss.kind == SHRINK:
                shrunk.setdefault(loss.job.id, []).extend(task.id for task in loss.tasks)
        self._victims.go(plan.losses)
        for victim, names in sorted(shrunk.items()):
            table.shrinks.append(Shrink(job=victim, tasks=tuple(sorted(names)), beneficiary=job.id))
        seats = plan.found.seats
        port = table.port_for(seats.tasks)
        placed = Placement(job=job.id, attempt=job.attempt + 1, tasks=seats.tasks, port=port, level=seats.level)
        claim = Claim(job=job.id, placement=placed, victims=self._waited_for(job, plan), made_ms=table.now)
        table.claims.append(claim)
        table.hold(claim, claim.victims, plan.found.amounts)
        return plan.found

    def spare(self, job: JobId) -> None:
        """Nobody has this job go in this round."""
        self._victims.could_go.go(job)

    def most_freed(self, job: Job, holder: str, dimension: str) -> int:
        """An upper bound of what all who could go for a job would give back of what a holder counts."""
        return self._victims.most_freed(job, holder, dimension, is_owed=self._table.is_owed(job), kept=False)

    def is_through(self, job: Job) -> bool:
        """True when so much was thought through that nobody goes for this job, whether that would help or not."""
        is_owed = self._table.is_owed(job)
        return self._plans[is_owed] >= PLANS_MAX or self._in_vain[job.spec.group, is_owed] >= IN_VAIN_MAX

    def might_send(self, job: Job, *, is_owed: bool) -> bool:
        """A cheap look whether anybody who lives might be sent away for this job, and be no plan in vain."""
        table = self._table
        if not table.policy.preemption:
            return False
        return may_evict_somebody(table, job, is_owed=is_owed) or bool(self._victims.yielders.of(job))

    def _plan(self, job: Job) -> Plan | None:
        table, policy = self._table, self._table.policy
        self.is_above_limits = False
        is_owed = table.is_owed(job)
        own = (job.spec.group, is_owed)
        if self.is_through(job) or not may_take(job.spec):
            return None
        may_evict = self.might_send(job, is_owed=is_owed)
        shrinks = self._victims.shrinks(job) if policy.shrink and may_shrink_somebody(table) else []
        if not may_evict and job.id not in self._heirs and not self._could_do(job, shrinks):
            self.is_above_limits = next(table.ledger.broken(job, table.seating.least(job).amounts), None) is not None
            return None
        waits = self._victims.waits()
        others = [*waits, *shrinks]
        self.is_above_limits = not self._could_pass(job, others, is_owed=is_owed)
        if self.is_above_limits:
            return None
        self._plans[is_owed] += 1
        if table.has_guarantees and not self._could_pass(job, others, is_owed=is_owed, kept=True):
            self.is_above_limits = True
            self._in_vain[own] += 1
            return None
        if is_short(table, job, others):
            self._in_vain[own] += 1
            return None
        plan = self._within_guarantees(job, waits, shrinks, is_owed=is_owed)
        for under, everybody in self._circles(job, is_owed=is_owed) if plan is None and may_evict else ():
            allowed = self._victims.allowed(job, is_owed=is_owed, under=under, everybody=everybody)
            # First a plan in which nobody loses work: those that may be paused are, and go on later where they are.
            pauses = self._victims.pauses(allowed)
            for one in shrunk_or_paused(shrinks, pauses) if pauses else ():
                plan = plan or self._within_guarantees(job, waits, one, is_owed=is_owed)
            if (
                plan is None
                and allowed
                and not (self._is_lost and not shrinks and self._victims.free_no_more(job, allowed, pauses))
            ):
                evictions = self._victims.evictions(allowed, beside=others)
                plan = self._within_guarantees(job, waits, [*shrinks, *evictions], is_owed=is_owed)
            if plan is not None or (not everybody and len(allowed) < CONSIDERED_MAX):
                break
        self._in_vain[own] += plan is None
        return plan

    def _circles(self, job: Job, *, is_owed: bool) -> Iterator[tuple[frozenset[str] | None, bool]]:
        """Below which holders victims are looked for, one circle after the other, and whether all there are.

        Of very many live jobs those come first that count for a limit which is used up: without as much of theirs as
        the job asks for it cannot start, and mostly their room does, too.
        """
        under = self._in_the_way(job, is_owed=is_owed)
        is_many = len(self._table.state.live.get(self._table.pool.pool.name, {})) > CONSIDERED_MAX
        if under is None and is_many and (full := self._used_up(job)):
            yield full, True
        yield under, False
        yield under, True

    def _used_up(self, job: Job) -> frozenset[str]:
        """The holders above the job that may use none of what it asks for beyond what they use."""
        amounts = self._table.seating.least(job).amounts
        main = "gpu_milli" if amounts.get("gpu_milli") else "cpu_milli"
        return frozenset(
            rung.holder
            for rung, dimension, used, _ in self._table.ledger.broken(job, amounts)
            if dimension == main and not rung.owners and used >= rung.limit[dimension]
        )

    def _plan_on_owed(self, job: Job) -> Plan | None:
        """The same on a GPU model that the job does not ask for alone, but of which its group is owed some."""
        table = self._table
        if not table.has_guarantees or table.is_owed(job):
            return None
        for model in owed_models(table.state, table.ledger, job, table.seating.least(job).amounts):
            is_above = self.is_above_limits
            with table.seating.only(job, model):
                plan = self._plan(narrowed(job, model))
            self.is_above_limits &= is_above
            if plan is not None:
                return plan
        return None

    def _could_pass(self, job: Job, others: list[Loss], *, is_owed: bool, kept: bool = False) -> bool:
        """A cheap look whether all who could go would bring the job below its limits; a hopeless one is no plan.

        With `kept`, no group gives up more than what it uses beyond its guarantee.
        """
        for rung, dimension, used, needed in self._table.ledger.broken(job, self._table.seating.least(job).amounts):
            if dimension == BUDGET or rung.owners:
                continue
            missing = used + needed - rung.limit[dimension]
            missing -= sum(freed_below(loss, rung.holder, dimension) for loss in others)
            if missing > self._victims.most_freed(job, rung.holder, dimension, is_owed=is_owed, kept=kept):
                return False
        return True

    def _in_the_way(self, job: Job, *, is_owed: bool) -> frozenset[str] | None:
        """The holders of the limits that alone are in the job's way; None when it lacks room, too.

        There is room as things are: then only who counts for one of these limits could help. Limits by model are left
        out, since they are known only with the place.
        """
        rungs = self._table.ledger.rungs(job)
        if any(name.startswith(MODEL_PREFIX) for rung in rungs for name in rung.limit) or any(
            rung.reserves for rung in rungs
        ):
            return None
        ask = self._table.seating.least(job)
        broken = frozenset(rung.holder for rung, *_ in self._table.ledger.broken(job, ask.amounts))
        if not broken:
            return None
        return broken if self._has_room(job, is_owed=is_owed) else None

    def _has_room(self, job: Job, *, is_owed: bool) -> bool:
        """True when there is room for the job at its smallest; room only gets less while a round goes on."""
        seating = self._table.seating
        key = (seating.number(job), seating.closures.nodes(job.spec), is_owed and not self._victims.could_go.sparing)
        if key in self._no_room:
            return False
        room, last = self._room_for(is_owed=is_owed), self._last_room.get(key)
        if last is not None and are_free(room, last.tasks):
            return True
        seats = seating.placer(room, seating.least(job).gang)
        if seats is None:
            self._no_room.add(key)
            return False
        self._last_room[key] = seats
        return True

    def _could_do(self, job: Job, shrinks: list[Loss]) -> bool:
        """A cheap look whether shrinking could give as many GPUs as the job needs at its smallest."""
        if not shrinks:
            return False
        freed = sum(loss.amounts.get("gpu_milli", 0) for loss in shrinks)
        wanted = self._table.seating.least(job).amounts.get("gpu_milli", 0)
        return freed + int(self._table.room.milli.clip(0).sum()) >= wanted

    def _within_guarantees(self, job: Job, waits: list[Loss], losses: list[Loss], *, is_owed: bool) -> Plan | None:
        """A plan with these losses, in which the job goes where it may start once they are over."""
        losses = in_time(self._table, job, losses)
        while (plan := self._not_too_much(job, waits, losses, is_owed=is_owed)) is not None:
            if not (closed := closed_then(self._table, job, plan)):
                break
            self._shut |= closed
        self._shut = frozenset()
        return plan

    def _not_too_much(self, job: Job, waits: list[Loss], losses: list[Loss], *, is_owed: bool) -> Plan | None:
        """A plan with these losses; should it take too much from a group, one with only what may go together."""
        everything = [*waits, *losses]
        plan = self._with(job, everything, is_owed=is_owed) if losses or job.id in self._heirs else None
        self._is_lost = plan is None
        if plan is None:
            return None
        if not self._keeps(job, plan.losses):
            together = self._victims.keep_guarantees(losses, job)
            plan = self._with(job, [*waits, *together], is_owed=is_owed)
        elif plan is self._cheapest:
            return plan
        return self._cheaper(job, everything, plan, is_owed=is_owed) or plan

    def _keeps(self, job: Job, losses: Sequence[Loss]) -> bool:
        """True when these losses together leave every group what it is owed."""
        chosen = [loss for loss in losses if loss.kind != WAIT]
        return len(self._victims.keep_guarantees(chosen, job)) == len(chosen)

    def _cheaper(self, job: Job, losses: list[Loss], plan: Plan | None, *, is_owed: bool) -> Plan | None:
        """A cheaper set of victims than the plan's, or one where there is none; None when none was found."""
        if all(loss.kind != EVICT for loss in losses):
            return None
        ground = Ground(*self._ground(job, losses, is_owed=is_owed), self._tries)
        return cheaper(self._table, job, ground, plan, lambda losses: self._keeps(job, losses))

    def _with(self, job: Job, losses: list[Loss], *, is_owed: bool) -> Plan | None:
        if at_least(self._table, job, losses) is None:
            return None
        pool, gang = self._table.pool.pool, self._table.seating.least(job).gang
        room, kept, losses = self._ground(job, losses, is_owed=is_owed)
        alone = cheapest_alone(pool, losses)
        self._cheapest = Trial(self._table, job, room.copy(), alone, kept).run() if alone is not None else None
        if self._cheapest is not None:
            return self._cheapest
        best = Trial(self._table, job, room.copy(), losses, kept).run()
        if best is None:
            return None
        exact = cheapest_set(pool, room, gang, losses)
        orders = [by_place(pool, room, gang, losses), None if exact is None else first_of(exact, losses)]
        for order in orders:
            plan = Trial(self._table, job, room.copy(), order, kept).run() if order is not None else None
            if plan is not None and plan_cost(pool, plan.losses) < plan_cost(pool, best.losses):
                best = plan
        return best

    def _ground(self, job: Job, losses: list[Loss], *, is_owed: bool) -> tuple[Room, frozenset[TaskId], list[Loss]]:
        """The room in which the job may be seated, tasks whose room goes to others, and the losses that then help."""
        kept = frozenset[TaskId]() if is_owed and not self._victims.could_go.sparing else self._kept(job, losses)
        if self._shut:
            kept |= {task.id for loss in losses for task in loss.tasks if task.node in self._shut}
        return self._room_for(is_owed=is_owed), kept, helpful(self._table, job, losses, kept) if kept else losses

    def _kept(self, job: Job, losses: list[Loss]) -> frozenset[TaskId]:
        """Tasks whose room goes to a reserved job; none for who ends before it begins, or has a higher priority."""
        if self._victims.could_go.sparing:
            return self._table.promised.kept([(loss.job, loss.tasks) for loss in losses])
        jobs = self._table.state.kept.jobs
        reserved = (jobs[reservation.job] for reservation in self._table.reservations)
        if not any(holds_against(self._table, other, job) for other in reserved):
            return frozenset()
        grace_ms = max((loss.job.spec.grace_s for loss in losses), default=0) * 1000
        if may_pass(self._table, job, delay_ms=grace_ms):
            return frozenset()
        return self._table.promised.kept([(loss.job, loss.tasks) for loss in losses])

    def _room_for(self, *, is_owed: bool) -> Room:
        """A copy of what is free; only who is owed its guarantee may take room that a reservation counts on."""
        room = self._table.room.copy()
        if (not is_owed or self._victims.could_go.sparing) and self._table.guarded is not None:
            room.close(self._table.reserved_rows())
        if self._shut:
            room.close(room.layout.flags_of(self._shut))
        return room

    def _waited_for(self, job: Job, plan: Plan) -> tuple[TaskId, ...]:
        """Tasks that must be gone before the job starts: where it goes, or wherever a limit above it counts them."""
        nodes = {place.node for place in plan.found.seats.tasks}
        limited = limited_above(self._table, job)
        waited: set[TaskId] = set()
        for loss in plan.losses:
            counts = counts_for(limited, loss)
            waited |= {task.id for task in (*loss.tasks, *loss.also) if counts or task.node in nodes}
        return tuple(sorted(waited))

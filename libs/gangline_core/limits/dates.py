"""Dates below limits: what comes back there is kept for the first job that a limit keeps out, and who may pass it.

It is EASY backfill over quota. The gates let in, for each holder whose limit keeps jobs out, the foremost of them (see
`Sieve.foremost`), and a round may find further ones. Such a job has a date: when enough of what is used below all its
limits is expected to end. Whoever comes after it in the round's order and counts below one of these limits starts only
if it ends before that date, or if it leaves the job enough of the limit. Others' room is not touched. At its date the
job has its turn for the pool's room, and if it must wait for that, its reservation there keeps its limits as well.
A job that waits for room alone keeps nothing below its limits.

Not bound are: who is owed its guarantee, while the dated job is not and is of another promise; whom the dated job may
push away when its time comes; and, where the dated job is opportunistic, everybody who is not. A limit holds over all
pools, so the dates of other pools bind those who are younger and of no higher priority.
"""

from collections.abc import Collection, Iterator, Mapping

from msgspec import Struct

from gangline_core.facts import Reservation
from gangline_core.facts.queue import LimitDate
from gangline_core.groups import ancestors, holders
from gangline_core.ids import JobId
from gangline_core.job import Job, JobState
from gangline_core.limits.budgets import BUDGET
from gangline_core.limits.ends import Bound, LimitEnds, left_now
from gangline_core.limits.least_counted import least_counted, limited
from gangline_core.limits.quota import JOBS
from gangline_core.limits.rungs import MODEL_PREFIX, kept_idle, lowered
from gangline_core.making_room.losses import effective_priority
from gangline_core.reasons import Reason, ReasonCode
from gangline_core.reserving.passing import may_push_away, passes_as_owed
from gangline_core.reserving.releases import UNKNOWN_MS, expected_end_ms
from gangline_core.reserving.reserve import OVERDUE_MS, UNKNOWN_RUN_MS
from gangline_core.room.cards import least_milli
from gangline_core.room.holds import placed_amounts
from gangline_core.scoring.ageing import is_starving, since_ms
from gangline_core.spec import ServiceClass, smallest_size
from gangline_core.state import PoolState
from gangline_core.table import Table

DATES_MAX = 256
"""Dates on limits that one round gives."""


Unlent = tuple[tuple[str, int], ...]
"""Groups that keep something to themselves, and how much (see `Reserve`)."""


class Kept(Struct):
    """What is kept for one job below its limits."""

    job: Job
    start_ms: int
    spare: dict[str, dict[str, int]]
    """By holder and dimension: what others may still have beyond the date."""
    unlent: dict[tuple[str, str], Unlent]
    """By the same: who keeps something of it to himself."""
    names: dict[str, str]
    """What each holder is called."""
    is_owed: bool = False
    """It was within its guarantee when it was dated, before anybody's going was thought through."""
    bound: bool = True
    """It binds everybody after it in the order; else, as a date of another pool, only the younger ones."""


class Plan(Struct, frozen=True):
    """A job's limits, and from when on all of them have room for it."""

    due_ms: int
    """When that is by what is expected to end; before now where it is late."""
    start_ms: int
    bounds: list[Bound]
    places: list[int]
    """Per bound, the place in its headroom from which on it holds."""
    broken: tuple[str, ...]
    """Holders whose limits have no room now."""


def dates_pass(pool: PoolState, now: int) -> bool:
    """True when dates of the pool's last round hold no longer, though nobody of it may start: they bind others, too."""
    return any(date.start_ms <= now or pool.policy.backfill_depth == 0 for date in pool.limit_dates)


class LimitDates:
    """The dates of one round; made before its first candidate is looked at."""

    def __init__(self, table: Table, *, remembered: Collection[JobId] = ()) -> None:
        """The dates of other pools hold; of this pool's last round those of the `remembered` jobs do, too."""
        self._table = table
        self._by_holder: dict[str, list[Kept]] = {}
        self._fronts: set[tuple[str, bool]] = set()
        self._ends: LimitEnds | None = None
        self._counted: list[tuple[Job, dict[str, int]]] = []
        """What the round gave, as far as it was counted here."""
        self._dated_before = {date.job for date in table.pool.limit_dates}
        for name, pool in sorted(table.state.kept.pools.items()):
            is_own = name == table.pool.pool.name
            for date in pool.limit_dates:
                if is_own and date.job not in remembered:
                    continue
                job = table.state.job(date.job)
                if job is not None and job.state == JobState.WAITING:
                    self._keep(job, self._plan(job, self._least(job)), date.start_ms, bound=is_own)
        table.ledger.doubt = self.fault

    def consider(self, job: Job) -> None:
        """Give a refused job a date if a limit keeps it out, unless others stand before it below each such limit."""
        table = self._table
        if table.policy.backfill_depth == 0 or len(table.limit_dates) >= DATES_MAX or not table.ledger.rungs(job):
            return
        is_loose = job.spec.service_class == ServiceClass.OPPORTUNISTIC
        wishes = list(self._wishes(job))
        if all((holder, is_loose) in self._fronts for wish in wishes for holder in self._broken(job, wish)):
            return
        plans = [plan for amounts in wishes if (plan := self._plan(job, amounts)) is not None]
        plan = min(plans, key=lambda plan: plan.start_ms, default=None)
        if plan is None or all((holder, is_loose) in self._fronts for holder in plan.broken):
            return
        self._fronts.update((holder, is_loose) for holder in plan.broken)
        self._keep(job, plan, self._dated(job, plan.due_ms))

    def keep_for(self, job: Job, reservation: Reservation | None) -> None:
        """A job that had a date below its limits and now waits for room of the pool keeps the limits until then.

        Who waits for room alone keeps nothing below its limits: what of them is free would idle for room that others
        have. If they are full when its time comes it has a date there, and then keeps them.
        """
        if reservation is None or job.id not in self._dated_before or not self._table.ledger.rungs(job):
            return
        amounts = lowered({**placed_amounts(self._table.state, reservation.tasks), JOBS: 1})
        self._keep(job, self._plan(job, amounts), reservation.start_ms)

    def fault(self, job: Job, amounts: Mapping[str, int]) -> Reason | None:
        """For whom what the job asks for is kept; None when it may have it."""
        if not self._by_holder:
            return None
        self._catch_up()
        wanted = lowered(amounts)
        for holder in holders(job.spec.group, job.spec.user):
            for kept in self._by_holder.get(holder, ()):
                over = [name for name, left in kept.spare[holder].items() if wanted.get(name, 0) > max(0, left)]
                own = (self._is_its_own(job, kept.unlent.get((holder, name), ()), name, wanted[name]) for name in over)
                if over and not all(own) and not self._may_pass(job, kept):
                    return self._reason(holder, kept)
        return None

    # --- who may pass -----------------------------------------------------------------------------------

    def _may_pass(self, job: Job, kept: Kept) -> bool:
        table, other = self._table, kept.job
        if job.id == other.id or (table.policy.backfill and self._end_ms(job) <= kept.start_ms):
            return True
        is_loose = ServiceClass.OPPORTUNISTIC
        if other.spec.service_class == is_loose and job.spec.service_class != is_loose:
            return True
        if not kept.bound and not self._comes_after(job, other):
            return True
        if table.is_owed(job) and passes_as_owed(table, job, other, other_is_owed=kept.is_owed):
            return True
        return table.policy.preemption and may_push_away(table, other, job)

    def _is_its_own(self, job: Job, unlent: Unlent, dimension: str, amount: int, *, is_taken: bool = False) -> bool:
        """True when groups above the job keep so much less idle for it: nobody who is dated counts on that."""
        if not unlent:
            return False
        path, ledger = ancestors(job.spec.group), self._table.ledger
        used = {owner: ledger.used(owner, dimension) for owner, _ in unlent}
        own = {owner: amount if owner in path else 0 for owner in used}
        before = {owner: used[owner] - own[owner] for owner in used} if is_taken else used
        after = {owner: before[owner] + own[owner] for owner in used}
        return kept_idle(unlent, before) - kept_idle(unlent, after) >= amount

    def _comes_after(self, job: Job, other: Job) -> bool:
        """True when a job is younger than one of another pool, and not of higher priority unless that one starves."""
        table = self._table
        state, pool = table.state, table.state.kept.pools[other.spec.pool]
        if (since_ms(state, job), job.id) < (since_ms(state, other), other.id):
            return False
        is_higher = effective_priority(table.pool.pool, job.spec) > effective_priority(pool.pool, other.spec)
        return not is_higher or is_starving(state, other, pool.policy, table.now)

    def _end_ms(self, job: Job) -> int:
        """When a job gives back what it may get now."""
        table = self._table
        if job.state != JobState.WAITING:
            tasks = table.state.tasks_of(job)
            return max((expected_end_ms(task, job) for task in tasks), default=UNKNOWN_MS)
        length_ms, claim = table.run_ms(job), table.state.kept.claims.get(job.id)
        # Whose room is being cleared would end later with each round, and rounds follow each other for that.
        began_ms = table.now if claim is None else claim.made_ms
        return UNKNOWN_MS if length_ms is None else began_ms + length_ms

    def _reason(self, holder: str, kept: Kept) -> Reason:
        fits_s = max(0, kept.start_ms - self._table.now) // 1000
        numbers: dict[str, int | str] = {
            "holder": kept.names[holder],
            "job": kept.job.id,
            "from_ms": kept.start_ms,
            "fits_s": fits_s,
        }
        return Reason(ReasonCode.LIMIT_KEPT, numbers)

    def _catch_up(self) -> None:
        """Count what the round gave since somebody looked, and no longer what was given up again."""
        for sign, changed in ((-1, self._given_up()), (1, self._table.taken[len(self._counted) :])):
            for job, amounts in changed:
                self._count(job, amounts, sign)
        self._counted.extend(self._table.taken[len(self._counted) :])

    def _given_up(self) -> list[tuple[Job, dict[str, int]]]:
        """What was counted and is no longer the jobs'; from there on all is counted anew."""
        counted, taken = self._counted, self._table.taken
        if not counted or (len(counted) <= len(taken) and taken[len(counted) - 1] is counted[-1]):
            return []
        first = next(
            (k for k, (old, new) in enumerate(zip(counted, taken, strict=False)) if old is not new), len(taken)
        )
        given_up, self._counted = counted[first:], counted[:first]
        return given_up

    def _count(self, job: Job, amounts: dict[str, int], sign: int) -> None:
        end_ms, taken = self._end_ms(job), lowered(amounts)
        if self._ends is not None and sign > 0:
            self._ends.add(job, amounts, end_ms=end_ms)
        elif self._ends is not None:
            self._ends.drop(job, amounts)
        for holder in holders(job.spec.group, job.spec.user) if self._by_holder else ():
            for kept in self._by_holder.get(holder, ()):
                if kept.job.id != job.id and end_ms > kept.start_ms:
                    spare = kept.spare[holder]
                    for dimension in spare:
                        amount, unlent = taken.get(dimension, 0), kept.unlent.get((holder, dimension), ())
                        if amount and not self._is_its_own(job, unlent, dimension, amount, is_taken=sign > 0):
                            spare[dimension] -= sign * amount

    # --- dates ------------------------------------------------------------------------------------------

    def _keep(self, job: Job, plan: Plan | None, start_ms: int, *, bound: bool = True) -> None:
        if plan is None:
            return
        kept = Kept(
            job=job, start_ms=start_ms, spare={}, unlent={}, names={}, is_owed=self._table.is_owed(job), bound=bound
        )
        gone = self._counted_on(plan)
        for one, place in zip(plan.bounds, plan.places, strict=True):
            holder = one.rung.holder
            then = max(plan.start_ms, start_ms)
            left = max(0, self._through_time().headroom(one).at(then, place, gone) - one.needed)
            if not self._table.policy.backfill and holder in plan.broken:
                left = 0
            spare = kept.spare.setdefault(holder, {})
            spare[one.dimension] = min(left, spare.get(one.dimension, left))
            if one.reserve is not None:
                kept.unlent[holder, one.dimension] = one.reserve.unlent
            kept.names[holder] = f"user {one.rung.user}" if one.rung.user else f"group {one.rung.group or '(all)'}"
        for holder in kept.spare:
            self._by_holder.setdefault(holder, []).append(kept)
        if job.spec.pool == self._table.pool.pool.name:
            self._table.limit_dates.append(LimitDate(job=job.id, start_ms=start_ms))

    def _counted_on(self, plan: Plan) -> frozenset[JobId]:
        """Whose ends some limit of the plan waits for: they give back below all others as well, whenever that is."""
        headrooms = (self._through_time().headroom(bound) for bound in plan.bounds)
        pairs = zip(headrooms, plan.places, strict=True)
        return frozenset(job for headroom, place in pairs for job in headroom.jobs[1 : place + 1])

    def _plan(self, job: Job, amounts: Mapping[str, int]) -> Plan | None:
        """When all limits have room for these amounts; None when one never has, however much ends."""
        bounds, places = list(self._bounds(job, amounts)), list[int]()
        starts, dues = [self._table.now], list[int]()
        broken: list[str] = []
        for bound in bounds:
            headroom = self._through_time().headroom(bound)
            place = headroom.when(bound.needed)
            if place is None:
                return None
            if place:
                broken.append(bound.rung.holder)
                starts.append(headroom.ends_ms[place])
                dues.append(headroom.dues_ms[place])
            places.append(place)
        due_ms, holders_full = max(dues, default=self._table.now), tuple(dict.fromkeys(broken))
        return Plan(due_ms=due_ms, start_ms=max(starts), bounds=bounds, places=places, broken=holders_full)

    def _broken(self, job: Job, amounts: Mapping[str, int]) -> Iterator[str]:
        """The holders whose limits have no room for these amounts now; the same as a plan tells, at a look."""
        for bound in self._bounds(job, amounts):
            if left_now(self._table.ledger, bound) < bound.needed:
                yield bound.rung.holder

    def _bounds(self, job: Job, amounts: Mapping[str, int]) -> Iterator[Bound]:
        """Every limit that counts any of these amounts. Budgets do not come back, so nothing is kept of them."""
        for rung in self._table.ledger.rungs(job):
            for dimension in rung.limit:
                if dimension != BUDGET and (needed := amounts.get(dimension, 0)):
                    yield Bound(rung, dimension, needed)
            for reserve in rung.reserves:
                if needed := amounts.get(reserve.dimension, 0):
                    yield Bound(rung, reserve.dimension, needed, reserve)

    def _least(self, job: Job, model: str = "") -> Mapping[str, int]:
        """What the job counts with at its smallest, on cards of one model or any: whole ones with all their memory."""
        table = self._table
        return least_counted(table.state, table.ledger, job, table.seating.least(job).amounts, model=model)

    def _wishes(self, job: Job) -> Iterator[Mapping[str, int]]:
        """What the job may count at its smallest: once for each limited model, where it leaves the model open."""
        least, inventory = self._least(job), self._table.state.inventory(job.spec.pool)
        has_wish = False
        for name in sorted(name for name in limited(self._table.ledger, job) if name.startswith(MODEL_PREFIX)):
            model, milli = name.removeprefix(MODEL_PREFIX), 0
            for role in job.spec.roles:
                accepted = [own.lower() for own in role.resources.gpu_models]
                if len(accepted) != 1 and model in (accepted or [model]):
                    milli += smallest_size(role) * least_milli(inventory, job.spec, role, model=model)
            if milli:
                has_wish = True
                yield {**self._least(job, model), name: least.get(name, 0) + milli}
        if not has_wish:
            yield least

    def _through_time(self) -> LimitEnds:
        self._catch_up()
        if self._ends is None:
            table = self._table
            self._ends = LimitEnds(table.state, table.ledger, table.now)
            for job, amounts in table.taken:
                self._ends.add(job, amounts, end_ms=self._end_ms(job))
        return self._ends

    def _dated(self, job: Job, due_ms: int) -> int:
        """The date to tell: what is late by an hour is as likely to take another hour as to end at once."""
        now = self._table.now
        if now < due_ms < UNKNOWN_MS:
            return due_ms
        before = next((known.start_ms for known in self._table.pool.limit_dates if known.job == job.id), 0)
        if before > now:
            return before
        return now + (UNKNOWN_RUN_MS if due_ms == UNKNOWN_MS else max(OVERDUE_MS, now - due_ms))

"""Who may use how much right now: one decision's view of limits and guarantees along the group tree.

Amounts are dictionaries from dimension to integer (see `gangline_core.groups`). GPU models are compared without regard
to case. A dimension that a job asks nothing of is never the reason to refuse it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

from gangline_core.groups import ancestors, holders, meeting
from gangline_core.job import Job
from gangline_core.limits.amounts import add_all, amount_of
from gangline_core.limits.broken import limit_reason
from gangline_core.limits.budgets import BUDGET
from gangline_core.limits.rungs import (
    DEVICE_PREFIX,
    MODEL_PREFIX,
    Capacities,
    Reserve,
    Rung,
    folded,
    group_rungs,
    kept_idle,
    lowered,
    nothing_limits,
    user_rung,
)
from gangline_core.limits.sheltered import sheltered_use
from gangline_core.limits.spending import bound_cost, run_cost
from gangline_core.limits.usage_by_class import usage_by_class
from gangline_core.reasons import Reason
from gangline_core.room.cards import is_open, with_cards
from gangline_core.spec import JobSpec, Role, ServiceClass, smallest_size
from gangline_core.state import State, count

JOBS = "jobs"
"""The dimension that counts running jobs."""
NO_END = 1 << 62
"""More than there is of anything."""


class Ledger:
    """Usage as it stands plus what this decision has taken and given back so far."""

    def __init__(self, state: State, now: int | None = None) -> None:
        """The usage of the frozen state, and limits as they are at `now` (else at the log's latest time)."""
        self._state = state
        self._now = state.kept.at if now is None else now
        self._has_budgets = bool(state.door.safe_groups)
        self.is_unlimited = nothing_limits(state)
        """Nobody has rungs."""
        self._bound: dict[str, int] | None = None
        self._changes: dict[str, dict[str, int]] = {}
        self._class_changes: dict[tuple[str, ServiceClass], dict[str, int]] = {}
        self._exchanged: dict[tuple[str, str], int] = {}
        self._claimed: dict[str, dict[str, int]] = {}
        self._returning: dict[str, dict[str, int]] = {}
        """By holder, of what is counted: what claims use only when their victims are gone, and those no more."""
        self._rungs: dict[tuple[str, str], tuple[Rung, ...]] = {}
        """Per group and user the holders with limits on the way up."""
        self._group_rungs: dict[str, tuple[Rung, ...]] = {}
        self._capacities = Capacities(state)
        self._guarantees: dict[str, dict[str, int]] = {}
        self._spare: dict[tuple[str, bool], tuple[tuple[str, int], ...]] = {}
        """Per group what it uses beyond its guarantee, or that goes whole, as far as it was asked and is still so."""
        self._margins: dict[tuple[str, str | None, bool], tuple[tuple[str, int], ...]] = {}
        """Per group, and the nearest above it that is also above the beneficiary, the least over the groups asked."""
        self._margins_of: dict[str, list[tuple[str, str | None, bool]]] = {}
        self._sheltered: dict[str, Mapping[str, int]] = {}
        """Per group what its sheltered jobs use, as far as it was asked."""
        self._by_class: dict[tuple[str, ServiceClass], dict[str, int]] | None = None
        self.doubt: Callable[[Job, Mapping[str, int]], Reason | None] | None = None
        """For whom what is left below a limit is kept (see `limit_dates`)."""
        self._last: tuple[Mapping[str, int], int, list[tuple[str, int]]] | None = None
        """The amounts of the last change, with their sign, as they are counted."""
        self.watching: list[set[str]] = []
        """Sets to which holders are added as soon as anything is taken or given below them."""

    # --- limits -----------------------------------------------------------------------------------------

    def fault(self, job: Job, amounts: Mapping[str, int]) -> Reason | None:
        """The nearest limit that taking these amounts would break, as a reason with its numbers; None when none."""
        if not self.rungs(job):
            return None
        for rung, dimension, used, needed in self.broken(job, amounts):
            return limit_reason(rung, dimension, used=used, needed=needed)
        return self.doubt(job, amounts) if self.doubt is not None else None

    def faults(self, job: Job, amounts: Mapping[str, int]) -> Iterator[Reason]:
        """Every limit that taking these amounts would break, nearest first: the user, the group, its ancestors."""
        for rung, dimension, used, needed in self.broken(job, amounts):
            yield limit_reason(rung, dimension, used=used, needed=needed)

    def broken(self, job: Job, amounts: Mapping[str, int]) -> Iterator[tuple[Rung, str, int, int]]:
        """The same as (rung, dimension, used, needed)."""
        if not (rungs := self.rungs(job)):
            return
        wanted = self.asked(job, amounts)
        for rung in rungs:
            for dimension, limit in rung.limit.items():
                needed = wanted.get(dimension, 0)
                if needed > 0 and (used := self.used(rung.holder, dimension)) + needed > limit:
                    yield rung, dimension, used, needed
            for reserve in rung.reserves:
                needed = wanted.get(reserve.dimension, 0)
                if needed > 0:
                    yield from self._not_lent(rung, reserve, needed)

    def _not_lent(self, rung: Rung, reserve: Reserve, needed: int) -> Iterator[tuple[Rung, str, int, int]]:
        """Taking so much would use what others keep to themselves."""
        used, left = self._beside_owners(rung, reserve)
        if used + needed > left:
            owners = tuple(sorted(holder for holder, _ in reserve.unlent))
            kept = Rung(rung.holder, rung.group, user="", limit={reserve.dimension: left}, owners=owners)
            yield kept, reserve.dimension, used, needed

    def _beside_owners(self, rung: Rung, reserve: Reserve) -> tuple[int, int]:
        """What is used below a holder, and the most that may be, beside what others keep to themselves and do not use.

        Owners who use all that they keep keep nothing from anybody: how much is borrowed elsewhere is no matter of
        theirs. So no start of an owner, within what it keeps, takes away what was left to others before. While claims
        wait for their victims, both must hold: how it is until these are gone, and how it is then.
        """
        dimension, views = reserve.dimension, []
        for unlike in (self._claimed, self._returning) if self._claimed else ({},):
            used = {
                holder: self.used(holder, dimension) - unlike.get(holder, {}).get(dimension, 0)
                for holder in (rung.holder, *(holder for holder, _ in reserve.unlent))
            }
            kept = kept_idle(reserve.unlent, used)
            views.append((used[rung.holder], reserve.capacity - kept if kept else NO_END))
        return min(views, key=lambda view: view[1] - view[0])

    def asked(self, job: Job, amounts: Mapping[str, int]) -> Mapping[str, int]:
        """The amounts with what a run can cost, or can cost still, where a budget must hold it."""
        asked = lowered(amounts)
        if self._has_budgets and asked.get(JOBS):
            return {**asked, BUDGET: run_cost(self._state, job, self._now)}
        return asked

    def take(self, job: Job, amounts: Mapping[str, int]) -> None:
        """Count these amounts as used by the job from now on."""
        self._change(job, amounts, 1)

    def give(self, job: Job, amounts: Mapping[str, int]) -> None:
        """Count these amounts as given back by the job."""
        self._change(job, amounts, -1)

    def claim(self, job: Job, amounts: Mapping[str, int], going: Iterable[tuple[Job, Mapping[str, int]]]) -> None:
        """Of what was taken, these amounts count only once what `going` jobs give back for them is there."""
        for unlike, whose, part in ((self._claimed, job, amounts), *((self._returning, *one) for one in going)):
            for holder in holders(whose.spec.group, whose.spec.user):
                add_all(unlike.setdefault(holder, {}), lowered(part).items())

    def count_once(self, holder: str, dimension: str, both: int, *, loose: int) -> None:
        """So much was taken below a holder in exchange for what counts until then; `loose` of it was opportunistic."""
        changes = self._changes.setdefault(holder, {})
        changes[dimension] = changes.get(dimension, 0) - both
        self._exchanged[holder, dimension] = self._exchanged.get((holder, dimension), 0) + both
        for unlike in (self._claimed, self._returning):
            count(unlike.setdefault(holder, {}), dimension, -both)
        if loose:
            count(self._class_changes.setdefault((holder, ServiceClass.OPPORTUNISTIC), {}), dimension, -loose)
        self._forget_margins(holder)

    def used(self, holder: str, dimension: str) -> int:
        """What a group or user uses of a dimension, this decision included."""
        changes = self._changes.get(holder)
        booked = self._booked(holder, dimension)
        return booked + changes.get(dimension, 0) if changes else booked

    def used_apart(self, holder: str, dimension: str) -> int:
        """The same where who goes and who comes in his place both count, since each ends in its own time."""
        return self.used(holder, dimension) + self._exchanged.get((holder, dimension), 0)

    def rungs(self, job: Job) -> tuple[Rung, ...]:
        """The holders with limits on the job's way up, nearest first."""
        if self.is_unlimited:
            return ()
        group, user = key = (job.spec.group, job.spec.user)
        found = self._rungs.get(key)
        if found is None:
            own, above = user_rung(self._state, group=group, user=user, now=self._now), self.group_rungs(group)
            found = self._rungs[key] = (own, *above) if own else above
        return found

    def group_rungs(self, group: str) -> tuple[Rung, ...]:
        """The groups with limits from this one up to the root, nearest first."""
        found = self._group_rungs.get(group)
        if found is None:
            found = self._group_rungs[group] = group_rungs(self._state, group, self._now, self._capacities)
        return found

    def room(self, rungs: Iterable[Rung]) -> dict[str, int]:
        """What is left of each dimension these rungs limit; negative where a limit was cut below use."""
        room: dict[str, int] = {}
        for rung in rungs:
            for dimension, limit in rung.limit.items():
                left = limit - self.used(rung.holder, dimension)
                room[dimension] = min(left, room.get(dimension, left))
            for reserve in rung.reserves:
                used, most = self._beside_owners(rung, reserve)
                room[reserve.dimension] = min(most - used, room.get(reserve.dimension, most - used))
        return room

    # --- guarantees -------------------------------------------------------------------------------------

    def within_guarantee(self, job: Job, amounts: Mapping[str, int], *, placed: bool = False) -> bool:
        """True when usage and request together fit what the job's group is guaranteed, in every dimension promised.

        For each dimension the nearest group above that is guaranteed some of it decides. Those further up promised
        their children no more than they have themselves, so what a sibling uses beyond its own part is borrowed and
        takes nothing away. Only dimensions that a guarantee names are compared, at least one of them must be asked
        for, of GPUs if the job asks for any (a guarantee of CPUs takes no GPUs from others), and opportunistic work
        neither has a guarantee nor uses one up. GPUs that are not `placed` yet count with the least that they can be.
        """
        if job.service_class == ServiceClass.OPPORTUNISTIC:
            return False
        decided: set[str] = set()
        wanted = lowered(amounts)
        for path in ancestors(job.spec.group):
            for dimension, promised in self._guarantee(path).items():
                if not placed and is_open(job.spec, dimension):
                    wanted = with_cards(self._state.inventory(job.spec.pool), job.spec, wanted)
                if wanted.get(dimension, 0) > 0 and dimension not in decided:
                    decided.add(dimension)
                    if self._firm(path, dimension) + wanted[dimension] > promised:
                        return False
        return covers(decided, wanted)

    def over_guarantee(
        self, job: Job, amounts_removed: Mapping[str, int], *, beneficiary: str | None = None, whole: bool = False
    ) -> bool:
        """True when the job's group and those above it keep their guarantee after it gave these amounts up.

        Groups that also hold the beneficiary's group are not asked: what one part of them gives, another gets.
        Opportunistic work counts for no guarantee, so none is broken where it goes. Where `whole` jobs go, those that
        fit the guarantee only in part may, too (see `sheltered`): the group keeps what those use that fit it.
        """
        if job.service_class == ServiceClass.OPPORTUNISTIC:
            return True
        for dimension, spare in self._margin(job.spec.group, beneficiary, whole=whole):
            removed = amount_of(amounts_removed, dimension)
            if removed > 0 and spare < removed:
                return False
        return True

    def beyond(self, group: str, *, whole: bool = False) -> tuple[tuple[str, int], ...]:
        """Per dimension that a group itself is guaranteed: what it uses beyond that, opportunistic work left out."""
        found = self._spare.get((group, whole))
        if found is None:
            kept = self._kept_whole(group) if whole else self._guarantee(group)
            found = tuple((dimension, self._firm(group, dimension) - amount) for dimension, amount in kept.items())
            self._spare[group, whole] = found
        return found

    def spare(self, group: str, dimension: str, *, beneficiary: str, whole: bool) -> int:
        """The most of a dimension that a group may lose in all by the same rule; NO_END where no guarantee tells."""
        margins = dict(self._margin(group, beneficiary, whole=whole))
        return max(0, margins.get(dimension, NO_END)) + self._of_class(group, ServiceClass.OPPORTUNISTIC, dimension)

    def borrowed(self, group: str, dimension: str) -> int:
        """How much of a dimension a group uses beyond its own guarantee."""
        promised = self._guarantee(group).get(dimension, 0)
        return max(0, self.used(group, dimension) - promised)

    def is_sheltered(self, job: Job) -> bool:
        """True when the job is of class guaranteed and all such jobs of its group fit the group's guarantee."""
        if job.service_class != ServiceClass.GUARANTEED:
            return False
        promised = self._guarantee(job.spec.group)
        return bool(promised) and all(
            self._of_class(job.spec.group, ServiceClass.GUARANTEED, dimension) <= amount
            for dimension, amount in promised.items()
        )

    # --- inside -----------------------------------------------------------------------------------------

    def _margin(self, group: str, beneficiary: str | None, *, whole: bool) -> tuple[tuple[str, int], ...]:
        """Per dimension what the group and those above it, but not above the beneficiary, can all give up."""
        # The root is above both, so there is one that both have in common, unless nobody is to benefit.
        key = (group, None if beneficiary is None else meeting(group, beneficiary), whole)
        found = self._margins.get(key)
        if found is None:
            least: dict[str, int] = {}
            for path in ancestors(group):
                if path == key[1]:
                    break
                self._margins_of.setdefault(path, []).append(key)
                for dimension, spare in self.beyond(path, whole=whole):
                    least[dimension] = min(spare, least.get(dimension, spare))
            found = self._margins[key] = tuple(least.items())
        return found

    def _forget_margins(self, holder: str) -> None:
        for moved in self.watching:
            moved.add(holder)
        self._spare.pop((holder, False), None)
        self._spare.pop((holder, True), None)
        for key in self._margins_of.pop(holder, ()):
            self._margins.pop(key, None)

    def _kept_whole(self, group: str) -> Mapping[str, int]:
        """What a group keeps where whole jobs go: what its sheltered jobs use, if it uses any beyond its guarantee."""
        found = self._sheltered.get(group)
        if found is None:
            found = promised = self._guarantee(group)
            if any(self._booked(group, name) > amount for name, amount in promised.items()):
                found = sheltered_use(self._state, group, promised)
            self._sheltered[group] = found
        return found

    def _guarantee(self, path: str) -> dict[str, int]:
        found = self._guarantees.get(path)
        if found is None:
            group = self._state.kept.groups.get(path)
            found = self._guarantees[path] = folded(group.guaranteed) if group else {}
        return found

    def _firm(self, holder: str, dimension: str) -> int:
        """What a holder uses of a dimension, opportunistic work left out."""
        return self.used(holder, dimension) - self._of_class(holder, ServiceClass.OPPORTUNISTIC, dimension)

    def _booked(self, holder: str, dimension: str) -> int:
        if dimension == JOBS:
            return self._state.running.get(holder, 0)
        if dimension == BUDGET:
            if self._bound is None:
                self._bound = bound_cost(self._state, self._now)
            return self._bound.get(holder, 0)
        return amount_of(self._state.usage.get(holder, {}), dimension)

    def _of_class(self, holder: str, service_class: ServiceClass, dimension: str) -> int:
        if self._by_class is None:
            self._by_class = usage_by_class(self._state)
        key = (holder, service_class)
        return self._by_class.get(key, {}).get(dimension, 0) + self._class_changes.get(key, {}).get(dimension, 0)

    def _signed(self, job: Job, amounts: Mapping[str, int], sign: int) -> list[tuple[str, int]]:
        """What changes; equal jobs that are placed one after the other come with the same amounts."""
        if self._has_budgets:
            return [(dimension, sign * amount) for dimension, amount in self.asked(job, amounts).items()]
        known = self._last
        if known is None or known[0] is not amounts or known[1] != sign:
            found = [(dimension, sign * amount) for dimension, amount in lowered(amounts).items()]
            known = self._last = (amounts, sign, found)
        return known[2]

    def _change(self, job: Job, amounts: Mapping[str, int], sign: int) -> None:
        asked = self._signed(job, amounts, sign)
        # Burstable work is what guarantees treat like all other use, so nobody asks how much of it there is.
        is_special = job.service_class != ServiceClass.BURSTABLE
        for holder in holders(job.spec.group, job.spec.user):
            changes = self._changes.get(holder)
            if changes is None:
                changes = self._changes[holder] = {}
            for dimension, amount in asked:
                changes[dimension] = changes.get(dimension, 0) + amount
            if is_special:
                of_class = self._class_changes.setdefault((holder, job.service_class), {})
                add_all(of_class, asked)
            if self._spare or self.watching:
                self._forget_margins(holder)


def covers(promised: Iterable[str], wanted: Iterable[str]) -> bool:
    """True when a guarantee of these dimensions promises anything to who asks for those; with GPUs, GPUs."""
    asks_gpus = any(dimension.startswith("gpu") for dimension in wanted)
    return any(not asks_gpus or dimension.startswith("gpu") for dimension in promised)


def job_amounts(spec: JobSpec, sizes: Mapping[str, int]) -> dict[str, int]:
    """What a job of these sizes (tasks per role, its count where silent) asks for before it is placed, no zeros."""
    amounts: dict[str, int] = {JOBS: 1}
    for role in spec.roles:
        tasks, need = sizes.get(role.name, role.count), role.resources
        # By memory alone the true share is known only with the card; one thousandth lets a full limit refuse it.
        gpu_milli = tasks * (need.gpu_milli or (1 if need.gpu_memory_mib and not need.beside else 0))
        if gpu_milli:
            amounts["gpu_milli"] = amounts.get("gpu_milli", 0) + gpu_milli
            if len(need.gpu_models) == 1:
                count(amounts, f"{MODEL_PREFIX}{need.gpu_models[0].lower()}", gpu_milli)
            # Whole cards count with all their memory once it is known which they are; this is the least.
            count(amounts, "gpu_memory_mib", tasks * need.gpu_memory_mib * max(1, need.whole_gpus))
        if need.cpu_milli:
            amounts["cpu_milli"] = amounts.get("cpu_milli", 0) + tasks * need.cpu_milli
        if need.memory_mib:
            amounts["memory_mib"] = amounts.get("memory_mib", 0) + tasks * need.memory_mib
        for name, number in need.devices.items():
            count(amounts, f"{DEVICE_PREFIX}{name.lower()}", tasks * number)
    return amounts


def minimum_sizes(spec: JobSpec) -> dict[str, int]:
    """The smallest sizes with which the gang may start."""
    return {role.name: smallest_size(role) for role in spec.roles}


def largest_size(role: Role) -> int:
    """The most tasks the role may have."""
    return max((size for size in role.sizes if role.allows(size)), default=role.max_count)

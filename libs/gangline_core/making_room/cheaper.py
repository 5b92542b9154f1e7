"""A cheaper set of victims than a plan has, where there is one: set by set among few, by sums and failures among many.

Who reclaims a guarantee takes from whoever borrowed most. So from no group more is reclaimed than the plan reclaims,
which keeps that order, and of all sets that keep to it the cheapest is taken.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import takewhile
from typing import NamedTuple

from gangline_core.ids import JobId, TaskId
from gangline_core.job import Job
from gangline_core.making_room.by_cost import by_cost, milli_on, that_matter
from gangline_core.making_room.by_failures import Known, cheapest
from gangline_core.making_room.by_sums import cheapest_cover
from gangline_core.making_room.cheapest import Cost, plan_cost
from gangline_core.making_room.losses import BY_GUARANTEE, EVICT, Loss
from gangline_core.making_room.trial import Plan, Trial, counts_for, limited_above
from gangline_core.making_room.victim_sets import COUNT, first_of
from gangline_core.placement.gang import Gang
from gangline_core.placement.together import GaveUpError, Work
from gangline_core.room.capacity import Flags, Room
from gangline_core.spec import GPU_MILLI
from gangline_core.table import Table

FEW_MAX = 8
"""Of so many possible victims every set is tried in turn, the cheapest first."""
IN_TURN_MAX = 48
"""Of more so many sets are."""
TRIES_MAX = 256
"""How often a job is seated to find its cheapest victims."""
ROWS_TRIED_MAX = 20_000
"""On large pools less often: so many nodes are looked at in all."""
TRIES_LEAST = 8
TRIES_OF_ROUND_MAX = 1_024
"""For all jobs of a round together where more than a few could go."""

Keeps = Callable[[Sequence[Loss]], bool]
Band = tuple[bool, int]
"""Class and priority."""


class Ground(NamedTuple):
    """The room in which a job may be seated, tasks whose room goes to others, and the losses that could help."""

    room: Room
    kept: frozenset[TaskId]
    losses: list[Loss]
    tries: Work
    """What is left of the tries of the round."""


def cheaper(table: Table, job: Job, ground: Ground, plan: Plan | None, keeps: Keeps) -> Plan | None:
    """A plan that costs less than this one, or any where there is none; None where none was found.

    `keeps` says whether losses leave every group what it is owed; where some do not, more do not either.
    """
    search = _Search(table, job, ground, plan)
    if not search.evictions or (search.most is not None and search.most[2] == 0) or search.is_proven():
        return None
    for some in search.candidates(keeps):
        found = Trial(table, job, ground.room.copy(), first_of(some, ground.losses), ground.kept).run()
        if found is not None and search.is_cheaper(found.losses) and keeps(found.losses):
            return found
    return None


class _Search:
    """Sets of evictions that help one job."""

    def __init__(self, table: Table, job: Job, ground: Ground, plan: Plan | None) -> None:
        """Those that cost less than the plan."""
        self._pool, gang = table.pool.pool, table.seating.least(job).gang
        room, losses = ground.room, ground.losses
        self._room, self._mask = room, gang.mask(room.layout)
        limited = limited_above(table, job)
        self.evictions = that_matter(room, self._mask, losses, lambda loss: counts_for(limited, loss))
        self.most: Cost | None = None if plan is None else plan_cost(self._pool, plan.losses)[0]
        self._missing = _missing_milli(room, self._mask, gang, [loss for loss in losses if loss.kind != EVICT])
        self._freed = {loss.job.id: max(0, milli_on(room, self._mask, loss)) for loss in self.evictions}
        self._costs = [plan_cost(self._pool, [loss])[0] for loss in self.evictions]
        self._trial = Trial(table, job, room.copy(), losses, ground.kept)
        self._planned = {loss.job.id for loss in plan.losses if loss.kind == EVICT} if plan is not None else set()
        self._in_vain: list[set[JobId]] = []
        """Sets that were tried and did not help."""
        self._reclaimed = None if plan is None else _by_group(plan.losses)
        self._tries = Work(min(TRIES_MAX, max(TRIES_LEAST, ROWS_TRIED_MAX // max(1, len(room.nodes)))))
        self._of_round = ground.tries

    def is_cheaper(self, losses: Sequence[Loss]) -> bool:
        """True when they cost less than the plan."""
        return self.most is None or plan_cost(self._pool, losses)[0] < self.most

    def is_proven(self) -> bool:
        """True where sums alone tell that no set costs less than the plan: none frees enough for less.

        That is asked of GPUs, and of what each limit in the way lacks.
        """
        if self.most is None or len(self.evictions) <= FEW_MAX:
            return False
        band = self.most[0]
        able = [k for k, cost in enumerate(self._costs) if cost[0] <= band]
        lower = {self.evictions[k].job.id for k in able if self._costs[k][0] < band}
        wanted = [(self._missing, self._freed), *self._trial.lacking]
        if all(sum(freed.get(job, 0) for job in lower) >= missing for missing, freed in wanted):
            return False
        weight = self.most[1] * COUNT + self.most[2]
        covers = (self._least_of(able, missing, freed) for missing, freed in wanted)
        return any(least is not None and least[0] >= weight for least in covers)

    def candidates(self, keeps: Keeps) -> Iterator[Sequence[Loss]]:
        """Sets that help, the cheapest first; without a plan that is asked only of those that every group can bear."""
        sets = takewhile(
            self.is_cheaper, by_cost(self._pool, self._room, self._mask, self.evictions, missing=self._missing)
        )
        if len(self.evictions) <= FEW_MAX:
            bearable = sets if self._reclaimed is not None else filter(keeps, sets)
            yield from (some for some in bearable if self._may(some) and self._trial.helps(some))
            return
        with suppress(GaveUpError):
            last = self._tries.left - IN_TURN_MAX
            for some in sets:
                if self._may(some) and self._helps(some):
                    yield some
                    return
                if self._tries.left <= last:
                    break
            yield from self._by_failures()

    def _by_failures(self) -> Iterator[Sequence[Loss]]:
        """The cheapest set of the least important who suffice, where it is found within as many tries as may be."""
        costs = self._costs
        for band in sorted({cost[0] for cost in costs}):
            if self.most is not None and band > self.most[0]:
                return
            able = [k for k, cost in enumerate(costs) if cost[0] <= band]
            least = self._least_of(able, self._missing, self._freed)
            if least is not None and least[1]:
                lightest = [self.evictions[k] for k in least[1]]
                if self._may(lightest) and self._helps(lightest):
                    yield lightest
                    return
            if self._helps([self.evictions[k] for k in able]):
                weights = [costs[k][1] * COUNT + 1 for k in able]
                chosen = self._cheapest_of([self.evictions[k] for k in able], weights, band=band)
                if chosen is not None:
                    yield chosen
                return

    def _least_of(self, able: Sequence[int], missing: int, freed: Mapping[JobId, int]) -> tuple[int, list[int]] | None:
        """What any set of these that frees so much weighs at least, and the lightest that does."""
        own = [freed.get(self.evictions[k].job.id, 0) for k in able]
        found = cheapest_cover([self._costs[k][1] * COUNT + 1 for k in able], own, missing)
        return None if found is None else (found[0], [able[k] for k in found[1]])

    def _cheapest_of(self, able: Sequence[Loss], weights: Sequence[int], *, band: Band) -> list[Loss] | None:
        """The cheapest set of these, who help together."""
        place = {loss.job.id: k for k, loss in enumerate(able)}

        def these(some: int) -> list[Loss]:
            return [loss for k, loss in enumerate(able) if some >> k & 1]

        def mask(some: Iterable[JobId]) -> int:
            return sum(1 << place[job] for job in some)

        found = cheapest(
            weights,
            lambda some: self._helps(these(some)),
            lambda some: self._may(these(some)),
            below=self.most[1] * COUNT + self.most[2] if self.most is not None and self.most[0] == band else None,
            known=Known(
                do=[mask(self._planned)] if self._planned and self._planned <= place.keys() else [],
                do_not=[mask(some) for some in self._in_vain if some <= place.keys()],
            ),
        )
        return None if found is None else these(found)

    def _helps(self, some: Sequence[Loss]) -> bool:
        """Whether these help; sums are looked at first, and only what is seated counts as a try."""
        if sum(self._freed[loss.job.id] for loss in some) < self._missing or not self._trial.is_below_limits(some):
            return False
        self._tries.spend(1)
        self._of_round.spend(1)
        found = self._trial.helps(some)
        if not found:
            self._in_vain.append({loss.job.id for loss in some})
        return found

    def _may(self, some: Sequence[Loss]) -> bool:
        """True when from no group more is reclaimed than by the plan."""
        if self._reclaimed is None:
            return True
        return all(amount <= self._reclaimed.get(group, 0) for group, amount in _by_group(some).items())


def _by_group(losses: Sequence[Loss]) -> dict[str, int]:
    """What is reclaimed from each group: GPU thousandths, of jobs without GPUs CPUs."""
    found: dict[str, int] = {}
    for loss in losses:
        if loss.kind == EVICT and loss.rule == BY_GUARANTEE:
            own = loss.amounts.get("gpu_milli", 0) or loss.amounts.get("cpu_milli", 0)
            found[loss.job.spec.group] = found.get(loss.job.spec.group, 0) + own
    return found


def _missing_milli(room: Room, mask: Flags, gang: Gang, free: Sequence[Loss]) -> int:
    """GPU thousandths that evictions must free at least where the gang may go; the others go anyway."""
    wanted = sum(need.count * (need.gpus * GPU_MILLI or need.milli) for need in gang.needs)
    held = sum(share.milli for loss in free for task in loss.tasks for share in task.gpus)
    return wanted - held - int(room.milli[mask].clip(0).sum())

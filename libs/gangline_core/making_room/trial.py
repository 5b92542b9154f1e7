"""Would a job fit without these others? They are all taken away in thought, and put back as far as it still fits."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

import numpy as np
from msgspec import Struct

from gangline_core.groups import holders
from gangline_core.ids import JobId, TaskId
from gangline_core.job import Job
from gangline_core.limits.amounts import add_all, amount_of
from gangline_core.limits.budgets import BUDGET
from gangline_core.limits.quota import minimum_sizes
from gangline_core.making_room.losses import EVICT, SHRINK, Loss
from gangline_core.making_room.spare_members import sizes_below
from gangline_core.room.capacity import Ints, Room
from gangline_core.room.holdings import as_lines, give_lines, take_lines, task_lines
from gangline_core.seating import Found, seat
from gangline_core.spec import GPU_MILLI, ServiceClass
from gangline_core.table import Table


class Plan(Struct, frozen=True):
    """Where the job goes and what has to go first."""

    found: Found
    losses: list[Loss]


class Trial:
    """One job tried with losses that come and go; `losses` stand in the order in which they should go."""

    def __init__(
        self, table: Table, job: Job, room: Room, losses: list[Loss], kept: frozenset[TaskId] = frozenset()
    ) -> None:
        """A trial on this room, which it uses up; the room of tasks `kept` goes to somebody else."""
        self._table = table
        self._job = job
        self._room = room
        self._losses = losses
        self._kept = kept
        self._limited = limited_above(table, job)
        self._counts: list[bool | None] = [None] * len(losses)
        """Which losses give back something that a limit above the job counts, as far as somebody asked."""
        self._out = [False] * len(losses)
        """Which losses are taken away at the moment."""
        self._sizes = minimum_sizes(job.spec)
        self._may_add = not table.state.door.safe_groups
        """No budget counts what each start of its own can cost."""
        self._asked = table.seating.least(job).amounts
        self._found: Found | None = None
        self._lines: tuple[Ints, list[int]] | None = None
        """The lines of the first losses, as far as somebody asked, and where each one's begin."""

    def run(self) -> Plan | None:
        """The plan, or None when even all losses together do not help; the ledger is left as it was."""
        least = at_least(self._table, self._job, self._losses)
        if least is None or self._is_short():
            return None
        plan = None
        if (some := self._that_do(least)) is not None:
            self._put_back(some[::-1], at_least=least)
            chosen = self._whole_steps()
            if self._found is not None and chosen:
                plan = Plan(found=self._found, losses=[self._losses[k] for k in chosen])
        self._restore([k for k, is_out in enumerate(self._out) if is_out])
        return plan

    def _that_do(self, least: int) -> list[int] | None:
        """Losses without which the job fits, taken away: the first that may do, or all; None when it does not then."""
        everything = list(range(len(self._losses)))
        some = everything[:least] if least < len(everything) else []
        if some:
            self._take_out(some)
            if self._fits():
                return some
        self._take_out(everything[len(some) :])
        return everything if self._fits() else None

    def _is_short(self) -> bool:
        """A cheap look: all that is free, or would be, is less than the job asks of GPUs."""
        gang = self._table.seating.least(self._job).gang
        wanted = sum(need.count * (need.gpus * GPU_MILLI or need.milli) for need in gang.needs)
        freed = sum(share.milli for loss in self._losses for task in loss.tasks for share in task.gpus)
        return wanted > freed and wanted > freed + int(self._room.milli.clip(0).sum())

    def helps(self, some: Iterable[Loss]) -> bool:
        """True when the job fits once these evictions and everything else but evictions are gone.

        The room and the ledger are left as they were.
        """
        some = list(some)
        if not self.is_below_limits(some):
            return False
        going = self._with_the_free(some)
        self._take_out(going)
        fits = self._fits()
        self._restore(going)
        return fits

    def is_below_limits(self, some: Iterable[Loss]) -> bool:
        """A cheap look at the sums of the same; where it says no, the job does not fit."""
        jobs = [loss.job.id for loss in some]
        return all(lacks <= sum(by_job.get(job, 0) for job in jobs) for lacks, by_job in self.lacking)

    @cached_property
    def lacking(self) -> list[tuple[int, dict[JobId, int]]]:
        """What each limit in the way lacks when all but evictions are gone, and what each job's evictions give back."""
        found: list[tuple[int, dict[JobId, int]]] = []
        for holder, dimension, lacks in missing(self._table, self._job):
            by_job: dict[JobId, int] = {}
            for loss in self._losses:
                freed = freed_below(loss, holder, dimension)
                if loss.kind != EVICT:
                    lacks -= freed
                elif freed:
                    by_job[loss.job.id] = by_job.get(loss.job.id, 0) + freed
            found.append((lacks, by_job))
        return found

    def _with_the_free(self, some: Iterable[Loss]) -> list[int]:
        """The numbers of these evictions and of everything else but evictions."""
        free, by_job = self._numbers
        jobs = {loss.job.id for loss in some}
        return sorted([*free, *(k for job in jobs for k in by_job.get(job, ()))])

    @cached_property
    def _numbers(self) -> tuple[list[int], dict[JobId, list[int]]]:
        """The numbers of all but evictions, and those of each job's evictions."""
        by_job: dict[JobId, list[int]] = {}
        for k, loss in enumerate(self._losses):
            if loss.kind == EVICT:
                by_job.setdefault(loss.job.id, []).append(k)
        return [k for k, loss in enumerate(self._losses) if loss.kind != EVICT], by_job

    def _put_back(self, valued: list[int], *, at_least: int) -> None:
        """Put back as much as possible, most valuable first; with fewer than `at_least` of them it does not fit."""
        low, high = 0, len(valued) - at_least
        while low < high:
            middle = (low + high + 1) // 2
            if self._fits_beside(valued[low:middle]):
                low = middle
            else:
                high = middle - 1
        # Those above the border are back. Of the rest only losses where the job would go can matter.
        nodes = {place.node for place in self._found.seats.tasks} if self._found is not None else set()
        rest = valued[low:]
        far = [k for k in rest if not any(task.node in nodes for task in self._losses[k].tasks)]
        if far and not self._fits_beside(far):
            far = []
        for k in [k for k in rest if k not in set(far)]:
            self._fits_beside([k])

    def _fits_beside(self, some: list[int]) -> bool:
        """Put these back if the job fits all the same."""
        self._book(some, 1)
        # Where a limit refuses it nobody needs to look for seats.
        if self._table.ledger.fault(self._job, self._asked) is None:
            take_lines(self._room, self._of(some))
            if self._fits():
                for k in some:
                    self._out[k] = False
                return True
            give_lines(self._room, self._of(some))
        self._book(some, -1)
        return False

    def _whole_steps(self) -> list[int]:
        """The losses left, rounded up so that every shrunk role keeps an allowed size; evicted jobs go whole."""
        if not self._left(SHRINK):
            return [k for k, is_out in enumerate(self._out) if is_out]
        evicted = {self._losses[k].job.id for k in self._left(EVICT)}
        by_role: dict[tuple[JobId, str], list[int]] = {}
        for k, loss in enumerate(self._losses):
            if loss.kind == SHRINK and loss.job.id not in evicted:
                by_role.setdefault((loss.job.id, loss.tasks[0].role), []).append(k)
        for (_, role_name), members in sorted(by_role.items()):
            job = self._losses[members[0]].job
            role = next(role for role in job.spec.roles if role.name == role_name)
            leaving = sum(len(self._losses[k].tasks) for k in members if self._out[k])
            if not leaving:
                continue
            size = job.sizes.get(role_name, 0)
            target = next(iter(sizes_below(role, size - leaving)), role.min_count)
            for k in [k for k in members if not self._out[k]]:
                if size - leaving > target:
                    self._take_out([k])
                    leaving += len(self._losses[k].tasks)
        going = [k for k in range(len(self._losses)) if self._out[k]]
        return [k for k in going if self._losses[k].kind != SHRINK or self._losses[k].job.id not in evicted]

    def _left(self, kind: str) -> list[int]:
        return [k for k, is_out in enumerate(self._out) if is_out and self._losses[k].kind == kind]

    def _fits(self) -> bool:
        found = seat(self._table.seating, self._job, self._room, self._sizes)
        if isinstance(found, Found):
            self._found = found
            return True
        return False

    def _take_out(self, chosen: Sequence[int]) -> None:
        give_lines(self._room, self._of(chosen))
        self._book(chosen, -1)
        for k in chosen:
            self._out[k] = True

    def _restore(self, chosen: Sequence[int]) -> None:
        take_lines(self._room, self._of(chosen))
        self._book(chosen, 1)
        for k in chosen:
            self._out[k] = False

    def _book(self, chosen: Sequence[int], sign: int) -> None:
        """What counts for the job's limits is taken, or given back."""
        ledger, losses = self._table.ledger, [self._losses[k] for k in chosen if self._is_counted(k)]
        change = ledger.take if sign > 0 else ledger.give
        for job, amounts in _by_user(losses) if len(losses) > 1 and self._may_add else _one_by_one(losses):
            change(job, amounts)

    def _is_counted(self, k: int) -> bool:
        known = self._counts[k]
        if known is None:
            known = self._counts[k] = counts_for(self._limited, self._losses[k])
        return known

    def _of(self, chosen: Sequence[int]) -> Ints:
        if not chosen:
            return as_lines(self._room.layout, [])
        first, last = min(chosen), max(chosen)
        if self._lines is None or len(self._lines[1]) < last + 2:
            known = self._losses if self._lines is not None else self._losses[: last + 1]
            self._lines = _all_lines(self._room, known, self._kept)
        lines, spans = self._lines
        if last - first + 1 == len(chosen):
            return lines[spans[first] : spans[last + 1]]
        return np.concatenate([lines[spans[k] : spans[k + 1]] for k in chosen])


def _all_lines(room: Room, losses: list[Loss], kept: frozenset[TaskId]) -> tuple[Ints, list[int]]:
    """The lines of these losses, and where each one's lines begin."""
    found: list[list[int]] = []
    spans = [0]
    for loss in losses:
        for task in loss.tasks:
            if task.id not in kept:
                found.extend(task_lines(room.layout, task))
        spans.append(len(found))
    return as_lines(room.layout, found), spans


def _one_by_one(losses: Sequence[Loss]) -> Iterator[tuple[Job, dict[str, int]]]:
    return ((loss.job, loss.amounts) for loss in losses)


def _by_user(losses: Sequence[Loss]) -> Iterable[tuple[Job, dict[str, int]]]:
    """What these give back, of all alike jobs of one user in one sum: limits count it the same."""
    sums: dict[tuple[str, str, ServiceClass], tuple[Job, dict[str, int]]] = {}
    for loss in losses:
        job = loss.job
        key = (job.spec.group, job.spec.user, job.service_class)
        if key in sums:
            add_all(sums[key][1], loss.amounts.items())
        else:
            sums[key] = (job, dict(loss.amounts))
    return sums.values()


def limited_above(table: Table, job: Job) -> frozenset[str]:
    """The holders above the job that have limits."""
    return frozenset(rung.holder for rung in table.ledger.rungs(job))


def counts_for(limited: frozenset[str], loss: Loss) -> bool:
    """True when giving the loss back could change whether a limit refuses the job."""
    return not limited.isdisjoint(holders(loss.job.spec.group, loss.job.spec.user))


def helpful(table: Table, job: Job, losses: list[Loss], kept: frozenset[TaskId]) -> list[Loss]:
    """Without those that give the job nothing, as all of their room is kept for others and no limit counts them."""
    limited = limited_above(table, job)
    return [
        loss
        for loss in losses
        if loss.kind == SHRINK or counts_for(limited, loss) or not kept.issuperset(task.id for task in loss.tasks)
    ]


def freed_below(loss: Loss, holder: str, dimension: str) -> int:
    """What a loss gives back of a dimension that counts for the holder."""
    if holder in holders(loss.job.spec.group, loss.job.spec.user):
        return amount_of(loss.amounts, dimension)
    return 0


def at_least(table: Table, job: Job, losses: Sequence[Loss]) -> int | None:
    """A cheap look: with fewer than so many of the first losses the job is above a limit; None when with all it is."""
    least = 0
    for holder, dimension, lacks in missing(table, job):
        count = 0
        while lacks > 0:
            if count == len(losses):
                return None
            lacks -= freed_below(losses[count], holder, dimension)
            count += 1
        least = max(least, count)
    return least


def missing(table: Table, job: Job) -> Iterator[tuple[str, str, int]]:
    """Below which holders how much of what has to come back before the job may have its smallest size."""
    for rung, dimension, used, needed in table.ledger.broken(job, table.seating.least(job).amounts):
        if not rung.owners and dimension != BUDGET:
            yield rung.holder, dimension, used + needed - rung.limit[dimension]

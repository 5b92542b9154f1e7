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
        limited = limited_above(table, job)
        self._counts = [counts_for(limited, loss) for loss in losses]
        """Which losses give back something that a limit above the job counts."""
        self._out = [False] * len(losses)
        """Which losses are taken away at the moment."""
        self._sizes = minimum_sizes(job.spec)
        self._may_add = not table.state.door.safe_groups
        """No budget counts what each start of its own can cost."""
        self._asked = table.seating.least(job).amounts
        self._found: Found | None = None

    def run(self) -> Plan | None:
        """The plan, or None when even all losses together do not help; the ledger is left as it was."""
        everything = list(range(len(self._losses)))
        if self._is_short():
            return None
        self._take_out(everything)
        plan = None
        if self._fits():
            self._put_back(everything[::-1])
            chosen = self._whole_steps()
            if self._found is not None and chosen:
                plan = Plan(found=self._found, losses=[self._losses[k] for k in chosen])
        self._restore([k for k in everything if self._out[k]])
        return plan

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
        going = self._with_the_free(some)
        if not self._below_limits(going):
            return False
        self._take_out(going)
        fits = self._fits()
        self._restore(going)
        return fits

    def is_below_limits(self, some: Iterable[Loss]) -> bool:
        """A cheap look at the sums of the same; where it says no, the job does not fit."""
        return self._below_limits(self._with_the_free(some))

    def _with_the_free(self, some: Iterable[Loss]) -> list[int]:
        """The numbers of these evictions and of everything else but evictions."""
        jobs = {loss.job.id for loss in some}
        return [k for k, loss in enumerate(self._losses) if loss.kind != EVICT or loss.job.id in jobs]

    def _below_limits(self, going: Sequence[int]) -> bool:
        """A cheap look at the sums: these losses bring the job below its limits; a set that does not never fits."""
        freed: dict[tuple[str, str], int] = {}
        for rung, dimension, used, needed in self._table.ledger.broken(self._job, self._asked):
            key = (rung.holder, dimension)
            if rung.owners or dimension == BUDGET:
                continue
            if key not in freed:
                freed[key] = sum(self._freed(k, *key) for k in going)
            if used + needed - freed[key] > rung.limit[dimension]:
                return False
        return True

    def _freed(self, k: int, holder: str, dimension: str) -> int:
        """What a loss gives back of a dimension that counts for the holder."""
        loss = self._losses[k]
        counts = self._counts[k] and holder in holders(loss.job.spec.group, loss.job.spec.user)
        return amount_of(loss.amounts, dimension) if counts else 0

    def _put_back(self, valued: list[int]) -> None:
        """Put back as much as possible, most valuable first."""
        low, high = 0, len(valued)
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
        return [k for k, loss in enumerate(self._losses) if self._out[k] and loss.kind == kind]

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
        ledger, losses = self._table.ledger, [self._losses[k] for k in chosen if self._counts[k]]
        change = ledger.take if sign > 0 else ledger.give
        for job, amounts in _by_user(losses) if len(losses) > 1 and self._may_add else _one_by_one(losses):
            change(job, amounts)

    def _of(self, chosen: Sequence[int]) -> Ints:
        lines, spans = self._all_lines
        if not chosen:
            return lines[:0]
        first, last = min(chosen), max(chosen)
        if last - first + 1 == len(chosen):
            return lines[spans[first] : spans[last + 1]]
        return np.concatenate([lines[spans[k] : spans[k + 1]] for k in chosen])

    @cached_property
    def _all_lines(self) -> tuple[Ints, list[int]]:
        return _all_lines(self._room, self._losses, self._kept)


def _all_lines(room: Room, losses: list[Loss], kept: frozenset[TaskId]) -> tuple[Ints, list[int]]:
    """The lines of all losses, and where each one's lines begin."""
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

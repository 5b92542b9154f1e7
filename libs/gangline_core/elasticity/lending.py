"""Lending: what groups are guaranteed and do not use is lent to others' elastic jobs, and comes back member by member.

After capacity scheduling (Kubernetes scheduler plugins, `ElasticQuota {min, max}`: our guarantee and limit), with whole
members of elastic jobs in place of pods. A job whose group stays within its guarantee takes its members from jobs of
groups that are beyond theirs, whatever their priority; one that is beyond it only from less important jobs of its own
group, and only up to the size it asked for. Whoever gives stays at its smallest size and its group at its guarantee,
which is looked at before each member. Nobody gives anything unless the other then has its members. What is left grows
as under `idle_fill`. Two things are done otherwise than there: members are taken on several machines at once, and what
the machines have beyond the sum of all guarantees is lent as well.
"""

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from gangline_core.amounts import task_amounts
from gangline_core.capacity import Room
from gangline_core.elasticity.giving import leaves_first
from gangline_core.elasticity.idle_fill import idle_fill
from gangline_core.elasticity.room import more
from gangline_core.elasticity.view import Elastic, Target, View
from gangline_core.facts import TaskPlacement
from gangline_core.ids import JobId
from gangline_core.job import Task
from gangline_core.losses import effective_priority
from gangline_core.spec import ServiceClass

STEPS_MAX = 256
"""Steps down that are tried for one job at most."""


class Given(Struct, frozen=True):
    """One step down of one job: who leaves, and the size that is left."""

    one: Elastic
    tasks: tuple[Task, ...]
    size: int


def lending(view: View) -> list[Target]:
    """Bring back what is owed, the most important jobs first; then fill what is idle."""
    lender = Lender(view)
    if view.may_weigh:
        for one in sorted(view.jobs, key=lambda one: (-lender.priority(one), one.job.id)):
            lender.bring_back(one)
    left = tuple(lender.as_left(one) for one in view.jobs if one.job.id not in lender.moving)
    filled = {target.job.id: target for target in idle_fill(replace(view, jobs=left))} if left else {}
    targets = {**lender.targets, **filled}
    return [targets[job] for job in sorted(targets)]


class Lender:
    """One decision on who gives back what."""

    def __init__(self, view: View) -> None:
        """Nobody gives anything yet."""
        self.view = view
        self.targets: dict[JobId, Target] = {}
        self.moving: set[JobId] = set()
        """Who gives members, and who waits for them."""
        self._sizes = {one.job.id: one.size for one in view.jobs}

    def priority(self, one: Elastic) -> int:
        """How important the job is."""
        return effective_priority(self.view.table.pool.pool, one.job.spec)

    def as_left(self, one: Elastic) -> Elastic:
        """The job as it is when it has what it is owed."""
        return replace(one, size=self._sizes[one.job.id])

    def bring_back(self, one: Elastic) -> None:
        """The largest size that the job is owed and can have, with what others have to give for it."""
        if one.job.id in self.targets:
            return
        for size, is_owed in self._wanted(one):
            count = size - one.size
            found = self._plan(one, count, is_owed=is_owed)
            if found is not None:
                self._commit(one, size, *found, is_owed=is_owed)
                return

    def _wanted(self, one: Elastic) -> Iterator[tuple[int, bool]]:
        """Sizes above the present one that it may take from others, largest first, and whether by its guarantee."""
        ledger = self.view.table.ledger
        member = self._member_amounts(one)
        for size in reversed([size for size in one.sizes if size > one.size]):
            asked = {dimension: amount * (size - one.size) for dimension, amount in member.items()}
            if ledger.within_guarantee(one.job, asked):
                yield size, True
            elif size <= one.role.count:
                yield size, False

    def _member_amounts(self, one: Elastic) -> dict[str, int]:
        members = self._members(one)
        return task_amounts(members[0]) if members else {}

    def _members(self, one: Elastic) -> list[Task]:
        """Members of the role, those first that leave first."""
        tasks = self.view.state.tasks_of(one.job)
        return sorted((task for task in tasks if task.role == one.role.name and not task.stop), key=leaves_first)

    def _plan(self, one: Elastic, count: int, *, is_owed: bool) -> tuple[tuple[TaskPlacement, ...], list[Given]] | None:
        """Where so many members more would be, and which steps down that takes; None when no steps are enough."""
        table = self.view.table
        room, steps = table.room.copy(), list[Given]()
        seats = more(table, room, one.job, one.role, count=count)
        for step in self._steps(one, is_owed=is_owed) if seats is None else ():
            steps.append(step)
            self._leave(room, step)
            seats = more(table, room, one.job, one.role, count=count)
            if seats is not None or len(steps) == STEPS_MAX:
                break
        given = list(steps)
        if seats is not None:
            seats, given = self._put_back(one, room, seats, steps)
        for step in given:
            self._stay(None, step)
        return None if seats is None else (seats, given)

    def _put_back(
        self, one: Elastic, room: Room, seats: tuple[TaskPlacement, ...], steps: list[Given]
    ) -> tuple[tuple[TaskPlacement, ...], list[Given]]:
        """Steps that turn out not to be needed are taken back, those of the most important jobs first."""
        needed: list[Given] = []
        for step in reversed(steps):
            if any(later.one is step.one for later in needed):
                needed.append(step)
                continue
            self._stay(room, step)
            again = more(self.view.table, room, one.job, one.role, count=len(seats))
            if again is None:
                self._leave(room, step)
                needed.append(step)
            else:
                seats = again
        return seats, needed[::-1]

    def _leave(self, room: Room, step: Given) -> None:
        for task in step.tasks:
            room.give(task)
            self.view.table.ledger.give(step.one.job, task_amounts(task))

    def _stay(self, room: Room | None, step: Given) -> None:
        for task in step.tasks:
            if room is not None:
                room.take(task)
            self.view.table.ledger.take(step.one.job, task_amounts(task))

    def _steps(self, one: Elastic, *, is_owed: bool) -> Iterator[Given]:
        """Steps down that others may take for it, the least important job first; each is asked for when it is due."""
        ledger, group = self.view.table.ledger, one.job.spec.group
        for other in sorted(self.view.jobs, key=self._goes_first):
            if other.job.id == one.job.id or not self._may_take_from(one, other, is_owed=is_owed):
                continue
            members, size = self._members(other), self._sizes[other.job.id]
            gone = len(members) - size
            while (below := other.below(size)) is not None:
                tasks = tuple(members[gone : gone + size - below])
                amounts: dict[str, int] = {}
                for task in tasks:
                    for dimension, amount in task_amounts(task).items():
                        amounts[dimension] = amounts.get(dimension, 0) + amount
                if is_owed and not ledger.over_guarantee(other.job.spec.group, amounts, beneficiary=group):
                    break
                yield Given(one=other, tasks=tasks, size=below)
                gone, size = gone + size - below, below

    def _may_take_from(self, one: Elastic, other: Elastic, *, is_owed: bool) -> bool:
        known = self.targets.get(other.job.id)
        if (known is not None and known.size > other.size) or other.job.missing:
            return False
        if other.job.spec.group == one.job.spec.group:
            return self.priority(other) < self.priority(one)
        return is_owed

    def _goes_first(self, one: Elastic) -> tuple[bool, int, int, int]:
        """Opportunistic work, then the least important, then the youngest."""
        is_firm = one.job.service_class != ServiceClass.OPPORTUNISTIC
        return is_firm, self.priority(one), -one.job.started_ms, -one.job.id

    def _commit(
        self, one: Elastic, size: int, tasks: tuple[TaskPlacement, ...], steps: list[Given], *, is_owed: bool
    ) -> None:
        """Book what moves, so that the next job sees it."""
        table, member = self.view.table, self._member_amounts(one)
        for step in steps:
            self._leave(table.room, step)
            self._sizes[step.one.job.id] = step.size
            why = f"lent, and owed to job {one.job.id}" if is_owed else f"job {one.job.id} is more important"
            self.targets[step.one.job.id] = Target(job=step.one.job, role=step.one.role.name, size=step.size, why=why)
        if steps:
            self.moving |= {one.job.id, *(step.one.job.id for step in steps)}
        for place in tasks:
            table.room.take(place)
        table.ledger.take(one.job, {name: amount * len(tasks) for name, amount in member.items()})
        self._sizes[one.job.id] = size
        why = "owed by guarantee" if is_owed else "more important"
        self.targets[one.job.id] = Target(job=one.job, role=one.role.name, size=size, why=why)

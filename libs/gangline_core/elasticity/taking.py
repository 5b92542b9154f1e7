"""Members for one job from others: who has to give how many, tried in thought, booked only if the job then has them.

A policy says which sizes a job should have, and in which order others may give; here the least of that is found which
is enough. What is decided is booked, so that the next job of the same decision sees it: free room is taken at once, and
room of members that leave belongs to the job that they leave for.
"""

from collections.abc import Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from gangline_core.elasticity.idle_fill import idle_fill
from gangline_core.elasticity.room import more
from gangline_core.elasticity.view import Elastic, Target, View
from gangline_core.facts import TaskPlacement
from gangline_core.ids import JobId
from gangline_core.job import Task
from gangline_core.limits.amounts import task_amounts
from gangline_core.room.capacity import Room
from gangline_core.sizes.leaving import leaving_order

STEPS_MAX = 256
"""Steps down that are tried for one job at most."""


class Given(Struct, frozen=True):
    """One step down of one job: who leaves, and the size that is left."""

    one: Elastic
    tasks: tuple[Task, ...]
    size: int

    @property
    def amounts(self) -> dict[str, int]:
        """What comes back."""
        amounts: dict[str, int] = {}
        for task in self.tasks:
            for dimension, amount in task_amounts(task).items():
                amounts[dimension] = amounts.get(dimension, 0) + amount
        return amounts


class Taking:
    """One decision in which jobs may give members to others."""

    def __init__(self, view: View) -> None:
        """Nobody gives anything yet."""
        self.view = view
        self.targets: dict[JobId, Target] = {}
        self._moving: set[JobId] = set()
        self._sizes = {one.job.id: one.size for one in view.jobs}

    def take(self, one: Elastic, size: int, steps: Iterable[Given], *, why: str, others: str) -> bool:
        """The job gets this size, with as few of these steps as are enough; False when they are not, or it gives."""
        if one.job.id in self.targets:
            return False
        found = self._plan(one, size - one.size, steps)
        if found is None:
            return False
        tasks, given = found
        for step in given:
            self._leave(self.view.table.room, step)
            self._sizes[step.one.job.id] = step.size
            self._set(step.one, step.size, others)
        if given:
            # Who gives, and who waits for it, does not grow into what is idle as well.
            self._moving |= {one.job.id, *(step.one.job.id for step in given)}
        for place in tasks:
            self.view.table.room.take(place)
        member = self.member_amounts(one)
        self.view.table.ledger.take(one.job, {name: amount * len(tasks) for name, amount in member.items()})
        self._sizes[one.job.id] = size
        self._set(one, size, why)
        return True

    def grows(self, one: Elastic) -> bool:
        """True when the job was given members by this decision."""
        known = self.targets.get(one.job.id)
        return known is not None and known.size > one.size

    def steps(self, other: Elastic, *, least: int) -> Iterator[Given]:
        """The job's steps down to a size, one after the other, from where this decision left it."""
        members, size = self._members(other), self._sizes[other.job.id]
        gone = max(0, len(members) - size)
        while (below := other.below(size)) is not None and below >= least:
            yield Given(one=other, tasks=tuple(members[gone : gone + size - below]), size=below)
            gone, size = gone + size - below, below

    def member_amounts(self, one: Elastic) -> dict[str, int]:
        """What one member of the job counts against quotas."""
        members = self._members(one)
        return task_amounts(members[0]) if members else {}

    def with_idle(self) -> list[Target]:
        """All that was decided, and what is left grown into as under `idle_fill`, by job id."""
        left = tuple(
            replace(one, size=self._sizes[one.job.id]) for one in self.view.jobs if one.job.id not in self._moving
        )
        filled = {target.job.id: target for target in idle_fill(replace(self.view, jobs=left))} if left else {}
        targets = {**self.targets, **filled}
        return [targets[job] for job in sorted(targets)]

    def _members(self, one: Elastic) -> list[Task]:
        """Members of the role, those first that leave first."""
        tasks = self.view.state.tasks_of(one.job)
        own = (task for task in tasks if task.role == one.role.name and not task.stop)
        return sorted(own, key=leaving_order(one.job))

    def _plan(
        self, one: Elastic, count: int, steps: Iterable[Given]
    ) -> tuple[tuple[TaskPlacement, ...], list[Given]] | None:
        """Where so many members more would be, and which steps down that takes; None when no steps are enough."""
        table = self.view.table
        room, taken = table.room.copy(), list[Given]()
        seats = more(table, room, one.job, one.role, count=count)
        for step in steps if seats is None else ():
            taken.append(step)
            self._leave(room, step)
            seats = more(table, room, one.job, one.role, count=count)
            if seats is not None or len(taken) == STEPS_MAX:
                break
        given = list(taken)
        if seats is not None:
            seats, given = self._put_back(one, room, seats, taken)
        for step in given:
            self._stay(None, step)
        return None if seats is None else (seats, given)

    def _put_back(
        self, one: Elastic, room: Room, seats: tuple[TaskPlacement, ...], steps: list[Given]
    ) -> tuple[tuple[TaskPlacement, ...], list[Given]]:
        """Steps that turn out not to be needed are taken back, the last first; who keeps one step keeps all before."""
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
        self.view.table.ledger.give(step.one.job, step.amounts)

    def _stay(self, room: Room | None, step: Given) -> None:
        if room is not None:
            for task in step.tasks:
                room.take(task)
        self.view.table.ledger.take(step.one.job, step.amounts)

    def _set(self, one: Elastic, size: int, why: str) -> None:
        self.targets[one.job.id] = Target(job=one.job, role=one.role.name, size=size, why=why)

"""What reserved nodes have to spare when their reservations begin, and whose going would give others more than that.

Room that is expected to come back by then is what the reservation counts on: who makes room there sooner makes it for
the reserved job. Whatever the reservation leaves, and what would come back only later, others may be given; so may what
jobs have that neither have a time limit nor are like others that ran: of those nobody knows whether they end by then.
"""

from collections.abc import Iterable, Sequence

from gangline_core.ids import TaskId
from gangline_core.job import Job, Task
from gangline_core.reserving.releases import expected_end_ms
from gangline_core.room.capacity import Holding, Room


class Promised:
    """The reserved nodes of one round."""

    def __init__(self) -> None:
        """Nothing is reserved yet."""
        self._later: Room | None = None
        self._until: dict[int, int] = {}
        """Reserved rows; what is expected to end by this time is counted on."""
        self._going: frozenset[TaskId] = frozenset()
        """Tasks that reserved jobs push away when their time comes, whenever they would end."""

    def add(self, rows: Iterable[int], later: Room, until_ms: int, going: frozenset[TaskId]) -> None:
        """A reservation on these rows leaves so much when it begins; it counts on all that ends or is going by then."""
        self._going |= going
        if self._later is None:
            self._later = later
        else:
            self._later.lower_to(later.rows(rows))
        for row in rows:
            self._until[row] = max(until_ms, self._until.get(row, 0))

    def take(self, holdings: Iterable[Holding]) -> None:
        """Others get this much of what is left."""
        for holding in holdings if self._later is not None else ():
            if self._later is not None and self._later.layout.row.get(holding.node) in self._until:
                self._later.take(holding)

    def kept(self, going: Sequence[tuple[Job, tuple[Task, ...]]]) -> frozenset[TaskId]:
        """Of these tasks of jobs, in order, those whose room is promised away."""
        if self._later is None:
            return frozenset()
        number = self._later.layout.row
        counted = [
            (number[task.node], task)
            for job, tasks in going
            for task in tasks
            if number.get(task.node, -1) in self._until and self._goes(job, task, self._until[number[task.node]])
        ]
        left = self._later.copy() if counted else self._later
        kept: set[TaskId] = set()
        for row, task in counted:
            if has_all(left, row, task):
                left.take(task)
            else:
                kept.add(task.id)
        return frozenset(kept)

    def _goes(self, job: Job, task: Task, until_ms: int) -> bool:
        """True for what will be gone by then, for all that is said of it: by the same it may have passed the date.

        What like jobs took in all tells nothing of a run that goes on where another stopped, and may be stopped again.
        """
        is_known = bool(job.spec.time_limit_s or (job.expected_ms and not job.spec.checkpoints))
        return task.id in self._going or (is_known and expected_end_ms(task, job) <= until_ms)


def has_all(room: Room, row: int, task: Task) -> bool:
    """Exactly what the task has is free in this room."""
    if room.cpu[row] < task.cpu_milli or room.memory[row] < task.memory_mib or room.places[row] < 1:
        return False
    if any(room.devices[name][row] < amount for name, amount in task.devices.items() if name in room.devices):
        return False
    for share in task.gpus:
        k = share.index
        if k >= room.layout.width or room.milli[row, k] < share.milli or room.gpu_memory[row, k] < share.memory_mib:
            return False
        if room.slots is not None and int(room.slots[row, k]) & share.slots != share.slots:
            return False
    return True

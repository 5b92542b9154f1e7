"""Which live tasks were told to go and have not gone yet: to stop, or to stand still."""

from gangline_core.ids import TaskId
from gangline_core.job import Task


class Told:
    """Follows tasks as they are entered, change, and leave; changed by the fold only."""

    def __init__(self) -> None:
        """Nobody was told anything."""
        self.stopping: dict[TaskId, None] = {}
        """Tasks that were told to stop."""
        self.pausing: dict[TaskId, None] = {}
        """Tasks that were told to stand still and do not yet."""

    def enter(self, task: Task) -> None:
        """A task is new, or what it was told is."""
        if task.stop:
            self.stopping[task.id] = None
        if task.pause and task.working is None:
            self.pausing[task.id] = None
        elif self.pausing:
            self.pausing.pop(task.id, None)

    def leave(self, task: TaskId) -> None:
        """The task is gone."""
        self.stopping.pop(task, None)
        self.pausing.pop(task, None)

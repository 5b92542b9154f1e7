"""How the things of the domain are named, and how a task's name is spelled."""

from typing import NewType

JobId = NewType("JobId", int)
TaskId = NewType("TaskId", str)
NodeId = NewType("NodeId", str)


def task_id(job: JobId, *, attempt: int, role: str, index: int) -> TaskId:
    """The name of one member of one attempt, unique for ever: "42-1-worker-0"."""
    return TaskId(f"{job}-{attempt}-{role}-{index}")

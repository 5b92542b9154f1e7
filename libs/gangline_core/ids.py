"""How the things of the domain are named, and how a task's name is spelled."""

import re
from functools import lru_cache
from typing import NewType

JobId = NewType("JobId", int)
TaskId = NewType("TaskId", str)
NodeId = NewType("NodeId", str)


def task_id(job: JobId, *, attempt: int, role: str, index: int) -> TaskId:
    """The name of one member of one attempt, unique for ever: "42-1-worker-0"."""
    return TaskId(f"{job}-{attempt}-{role}-{index}")


_UNSAFE = re.compile(r"[^A-Za-z0-9_\-]")


@lru_cache(maxsize=65_536)
def token(text: str) -> str:
    """One safe word for any text: letters, digits, - and _ stay, everything else becomes =XX (UTF-8 hex)."""
    if not text:
        return "="
    return _UNSAFE.sub(lambda match: "".join(f"={byte:02X}" for byte in match.group().encode()), text)

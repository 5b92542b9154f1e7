"""A Job object that is an array: one object for all elements, which are counted and end together. Pure.

Of everything else than an array, these are plain answers about the one job.
"""

from typing import Any

from gangline_core.door.array_record import ArrayRecord
from gangline_core.door.arrays import told
from gangline_core.job import ENDS, LIVE, Job, JobState, Task
from gangline_core.state import State


def is_ending(state: State, job: Job) -> bool:
    """True when it is over or is being stopped, with all of its elements."""
    array, opened = _opened(state, job)
    if array is None:
        return job.state in (*ENDS, JobState.STOPPING)
    return not array.pending and all(one.state == JobState.STOPPING for one in opened)


def is_held(state: State, job: Job) -> bool:
    """True when somebody holds it; of an array, when no more elements enter the queue."""
    array, _ = _opened(state, job)
    return job.state in (JobState.HELD, JobState.SUSPENDED) if array is None else array.held is not None


def tasks_of(state: State, job: Job) -> list[Task]:
    """What runs of it."""
    array, opened = _opened(state, job)
    return [task for one in ((job,) if array is None else opened) for task in state.tasks_of(one)]


def counts(state: State, job: Job) -> dict[str, Any]:
    """The part of the status that counts the elements of an array; nothing for any other job."""
    array, opened = _opened(state, job)
    if array is None:
        return {}
    placed = [one for one in opened if one.state in LIVE]
    running = sum(one.state in (JobState.RUNNING, JobState.RESIZING) for one in placed)
    ended = array.size - array.open - array.pending
    tasks = {"wanted": array.size, "placed": len(placed), "running": running, "ended": ended}
    return {"tasks": tasks, "message": told(state, array).sentence}


def numbers(state: State, job: Job) -> str:
    """The same as a word that changes with them; empty for any other job."""
    found = counts(state, job).get("tasks")
    return f"({found['placed']},{found['running']},{found['ended']})" if found is not None else ""


def _opened(state: State, job: Job) -> tuple[ArrayRecord | None, list[Job]]:
    """The array that this is, if it is one, and its elements that are jobs and not over."""
    array = state.kept.arrays.get(job.id)
    if array is None:
        return None, []
    return array, [state.kept.jobs[name] for name in state.arrays.open.get(array.id, {})]

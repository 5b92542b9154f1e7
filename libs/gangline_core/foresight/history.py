"""How long did jobs like this one run? Recent run times, kept as jobs end, from the most alike to the whole pool.

A job is like another when the same user submitted it under the same name (numbers in the name left out) with as many
GPUs; else when it is of the same user and size, of the same group and size, of the same group, of the same size, or
just of the same pool. Every class remembers its last few run times, oldest first.
"""

from functools import lru_cache

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from gangline_core.ids import NodeId, TaskId
from gangline_core.job import Job, JobState
from gangline_core.spec import JobSpec, gpu_milli_wanted

Ints = NDArray[np.int64]
KEPT = 64
"""Run times remembered per class; of a whole pool four times as many."""
OF_USER = 2
"""So many of a job's classes hold only jobs of its own user."""
SERVICES_KEPT = 512
"""Services of ended jobs remembered per pool."""
CLASSES_MAX = 5_000
"""Classes remembered; the ones that have not changed for longest are forgotten first."""
_DIGITS = str.maketrans("", "", "0123456789")


@lru_cache(maxsize=4096)
def stem(name: str) -> str:
    return name.translate(_DIGITS).strip("-_. ").lower()


def classes(spec: JobSpec) -> tuple[str, ...]:
    """The classes a job belongs to, the most alike first."""
    return _classes(spec.pool, spec.group, spec.user, spec.name, gpu_milli_wanted(spec))


@lru_cache(maxsize=65_536)
def _classes(pool: str, group: str, user: str, name: str, size: int) -> tuple[str, ...]:
    return (
        f"{pool}|{group}:{user}|{stem(name)}|{size}",
        f"{pool}|{group}:{user}||{size}",
        f"{pool}|{group}||{size}",
        f"{pool}|{group}",
        f"{pool}|||{size}",
        pool,
    )


def note_end(history: dict[str, tuple[int, ...]], job: Job) -> None:
    """Remember how long an ended job ran at last, in ms; a job that never ran or was lost says nothing."""
    if not job.started_ms or job.state == JobState.LOST:
        return
    ran_ms = max(0, job.ended_ms - job.started_ms)
    for name in classes(job.spec):
        kept = KEPT * 4 if name == job.spec.pool else KEPT
        history[name] = (*history.pop(name, ())[1 - kept :], ran_ms)
    while len(history) > CLASSES_MAX:
        del history[next(iter(history))]


class Held(Struct, frozen=True, gc=False):
    """What a live job holds by class of room (see `forecast`), with what that was worked out of."""

    tasks: tuple[TaskId, ...]
    spec: JobSpec
    amounts: dict[str, int]
    classes: tuple[str, ...]
    """Its classes here."""
    used: dict[str, int]
    """What it counts against quotas, by dimension."""
    folded: dict[str, int]
    """The same with the names of models and devices in lower case."""
    is_bare: bool = False
    """None of its tasks is on a GPU or in a cell."""
    still: tuple[tuple[NodeId, int], ...] | None = None
    """Where all of its tasks stand still: per task its node, and the CPU thousandths that it takes when it works."""


class InOrder:
    """The same run times, shortest first; a class is sorted again only when it has changed."""

    def __init__(self, history: dict[str, tuple[int, ...]]) -> None:
        """What `history` remembers, now and later."""
        self._history = history
        self._sorted: dict[str, tuple[tuple[int, ...], list[int], Ints]] = {}
        """Per class what was sorted, and that in order, as a list and as an array."""

    def recall(self, spec: JobSpec, *, least: int, or_pool: bool = False, names: tuple[str, ...] = ()) -> list[int]:
        """What `recall` finds, in order; only read it. `names` are the job's classes where they are known already."""
        found = self.of_classes(names or classes(spec), least=least)
        if found is not None:
            return found[0]
        pool = self._history.get(spec.pool, ()) if or_pool else ()
        return self._in_order(spec.pool, pool)[0] if pool else []

    def of_classes(self, names: tuple[str, ...], *, least: int) -> tuple[list[int], Ints] | None:
        """The same of the first of these classes that has so many, as a list and as an array; None when none has."""
        history = self._history
        for name in names:
            found = history.get(name)
            if found is not None and len(found) >= least:
                return self._in_order(name, found)
        return None

    def _in_order(self, name: str, found: tuple[int, ...]) -> tuple[list[int], Ints]:
        known = self._sorted.get(name)
        if known is None or known[0] is not found:
            if len(self._sorted) > CLASSES_MAX:
                self._sorted.clear()
            ordered = sorted(found)
            known = self._sorted[name] = (found, ordered, np.array(ordered, dtype=np.int64))
        return known[1], known[2]


def recall(
    history: dict[str, tuple[int, ...]], spec: JobSpec, *, least: int, of_user: bool = False, or_pool: bool = False
) -> tuple[int, ...]:
    """Run times of the jobs most alike of which there are so many, of the user's own alone if asked; else none.

    With `or_pool`, whatever the pool has is better than none.
    """
    for name in classes(spec)[: OF_USER if of_user else None]:
        found = history.get(name, ())
        if len(found) >= least:
            return found
    return history.get(spec.pool, ()) if or_pool else ()

"""Which jobs are alike: equal in what they ask for, or in whether they could make room for others."""

from collections.abc import Hashable

import msgspec
from msgspec import Struct

from gangline_core.job import Job
from gangline_core.spec import JobSpec, ServiceClass, is_elastic


def ask_key(spec: JobSpec) -> bytes:
    """Bytes that are equal exactly for jobs that ask the same of room, whoever asks and however long."""
    roles = [
        (r.name, r.count, r.min_count, r.max_count, r.sizes, r.resources, r.node_selector, r.tolerations)
        for r in spec.roles
    ]
    where = (spec.topology, spec.node_selector, spec.tolerations, spec.exclude_nodes, spec.same_model, spec.pinned_cell)
    return msgspec.json.encode((roles, *where), order="deterministic")


def shape_key(spec: JobSpec, ask: int) -> tuple[object, ...]:
    """Equal exactly for jobs with equal asks that no placement, quota or order-free rule can tell apart."""
    return (
        ask,
        spec.group,
        spec.user,
        spec.pool,
        spec.level,
        spec.service_class,
        spec.priority,
        spec.preemptible,
        spec.preempts,
        spec.time_limit_s,
        spec.grace_s,
        spec.protected_s,
        spec.protected_below,
        spec.checkpoints,
    )


class Numbers:
    """Small numbers for equal things, for as long as somebody has them."""

    def __init__(self) -> None:
        """Nobody has any."""
        self._known: dict[Hashable, int] = {}
        self._things: dict[int, Hashable] = {}
        self._having: dict[int, int] = {}
        self._given = 0

    def enter(self, key: Hashable) -> int:
        """The number of this thing, which one more has from now on."""
        number = self._known.get(key)
        if number is None:
            self._given += 1
            number = self._known[key] = self._given
            self._things[number], self._having[number] = key, 0
        self._having[number] += 1
        return number

    def leave(self, number: int) -> None:
        """One fewer has the thing of this number."""
        self._having[number] -= 1
        if not self._having[number]:
            del self._known[self._things.pop(number)], self._having[number]

    def __len__(self) -> int:
        """How many different things there are."""
        return len(self._known)


class Sort(Struct, frozen=True):
    """What decides whether a live job could make room for another one at all."""

    level: str
    priority: int
    service_class: ServiceClass
    preemptible: bool
    elastic: bool
    repairable: bool
    """It may get a lost member again."""


def sort_of(job: Job) -> Sort:
    """The sort of a job."""
    spec = job.spec
    return Sort(spec.level, spec.priority, job.service_class, spec.preemptible, is_elastic(spec), spec.repair_s > 0)

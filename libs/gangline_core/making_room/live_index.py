"""Live jobs of each pool by what decides whom they could make room for, and when anything last changed below a holder.

Decisions about limits look at the jobs below one holder, and what was found out there stays true until something
changes below it: a holder's `stirred` number is another one then. Who merely stands still holds nothing that limits
count, so whoever asks what a group could give back looks at the few who hold something.
"""

from collections.abc import Hashable, Iterable, Mapping
from typing import NamedTuple, TypeVar

from gangline_core.facts import Claim
from gangline_core.groups import ancestors, holders, user_of
from gangline_core.ids import JobId, TaskId
from gangline_core.job import Job, Task
from gangline_core.limits.amounts import count, task_amounts
from gangline_core.making_room.service_index import ServiceIndex
from gangline_core.pauses.standstill import Standstill
from gangline_core.scoring.first_by_age import FirstByAge
from gangline_core.shapes import Sort, sort_of

Key = TypeVar("Key", bound=Hashable)
Entry = TypeVar("Entry", bound=Hashable)


class Lasting(NamedTuple):
    """When a job is expected to give back what it counts below limits, as long as it and its tasks are these."""

    job: Job
    tasks: list[Task]
    end_ms: int
    amounts: Mapping[str, int]


class LiveIndex:
    """Changed by the fold only."""

    def __init__(self) -> None:
        """Nobody lives."""
        self.sorts: dict[str, dict[Sort, dict[JobId, None]]] = {}
        """Live jobs by sort, per pool; no empty entries."""
        self.groups: dict[str, dict[str, dict[JobId, None]]] = {}
        """Live jobs by group, per pool; no empty entries."""
        self.below: dict[str, dict[str, dict[str, None]]] = {}
        """Per pool and group path the groups at and below it in which jobs live; no empty entries."""
        self.protected: dict[str, dict[JobId, None]] = {}
        """Live jobs that are safe in the first seconds of their run, per pool."""
        self.checkpoints: dict[str, dict[JobId, None]] = {}
        """Live jobs that go on where they stopped, per pool."""
        self.shielded: dict[str, dict[JobId, None]] = {}
        """Live jobs that may be left to work for a while (see `shields`), per pool."""
        self.first_by_age = FirstByAge()
        """What live jobs hold that went first since they starved."""
        self.stirred: dict[str, int] = {}
        """Per group path (ancestors included) and user_key a number that changes with whatever lives below it."""
        self.still = Standstill()
        """Where paused jobs stand."""
        self._holding: dict[str, dict[JobId, int]] = {}
        """Per group how many tasks of each of its jobs hold something, be it a cell; no empty entries."""
        self.rules = 0
        """A number that changes with every setting."""
        self.by_service: dict[str, ServiceIndex] = {}
        """Live jobs by the service that they had, per pool, where somebody asked."""
        self.lasting: dict[JobId, Lasting] = {}
        """How long live jobs are expected to last, as far as dates below limits asked."""

    def enter(self, job: Job) -> None:
        """The job may hold resources from now on."""
        self.sorts.setdefault(job.spec.pool, {}).setdefault(sort_of(job), {})[job.id] = None
        groups = self.groups.setdefault(job.spec.pool, {})
        if job.spec.group not in groups:
            below = self.below.setdefault(job.spec.pool, {})
            for path in ancestors(job.spec.group):
                below.setdefault(path, {})[job.spec.group] = None
        groups.setdefault(job.spec.group, {})[job.id] = None
        if job.spec.protected_s:
            self.protected.setdefault(job.spec.pool, {})[job.id] = None
        if job.spec.checkpoints:
            self.checkpoints.setdefault(job.spec.pool, {})[job.id] = None
        self.stir(job)

    def leave(self, job: Job) -> None:
        """It no longer does."""
        _drop(self.sorts[job.spec.pool], sort_of(job), job.id)
        groups = self.groups[job.spec.pool]
        _drop(groups, job.spec.group, job.id)
        if job.spec.group not in groups:
            for path in ancestors(job.spec.group):
                _drop(self.below[job.spec.pool], path, job.spec.group)
        self.lasting.pop(job.id, None)
        if job.spec.protected_s:
            del self.protected[job.spec.pool][job.id]
        if job.spec.checkpoints:
            del self.checkpoints[job.spec.pool][job.id]
        self.stir(job)
        self.shielded.get(job.spec.pool, {}).pop(job.id, None)
        self.first_by_age.drop(job)

    def groups_below(self, pool: str, holder: str) -> Iterable[str]:
        """The groups of a holder, which may be a group or a user, in which jobs of the pool live."""
        group, user = user_of(holder)
        return [group] if user else self.below.get(pool, {}).get(group, ())

    def who_hold(self, pool: str, group: str) -> Iterable[JobId]:
        """Live jobs of a group that hold something; who is left out counts as a job alone."""
        live = self.groups.get(pool, {}).get(group, {})
        return [job for job in self._holding.get(group, ()) if job in live]

    def hold(self, task: Task, sign: int) -> None:
        """The task is as it is from now on (1), or no longer (-1)."""
        self.still.touch(task.job)
        self.touch(task.job)
        if task.gpus or task.cells or task_amounts(task):
            holding = self._holding.setdefault(task.group, {})
            count(holding, task.job, sign)
            if not holding:
                del self._holding[task.group]

    def touch(self, job: JobId) -> None:
        """A job or a task of it is another than before: where it stands by service is worked out again."""
        for index in self.by_service.values():
            index.stale.add(job)

    def stir(self, job: Job) -> None:
        """Something about a live job is another than before."""
        self.still.touch(job.id)
        self.touch(job.id)
        if job.shield_ms:
            self.shielded.setdefault(job.spec.pool, {})[job.id] = None
        if job.first_by_age:
            self.first_by_age.put(job)
        self.stir_below(holders(job.spec.group, job.spec.user))

    def stir_claim(self, claim: Claim | None, tasks: Mapping[TaskId, Task]) -> None:
        """What goes for a claim may be taken over by whoever is more important: below those limits look anew."""
        victims = claim.victims if claim is not None else ()
        for own in {(tasks[name].group, tasks[name].user) for name in victims if name in tasks}:
            self.stir_below(holders(*own))

    def stir_below(self, own: tuple[str, ...]) -> None:
        """What these holders use, or who uses it, is another than before."""
        stirred = self.stirred
        for holder in own:
            stirred[holder] = stirred.get(holder, 0) + 1


def _drop(index: dict[Key, dict[Entry, None]], key: Key, entry: Entry) -> None:
    alike = index[key]
    del alike[entry]
    if not alike:
        del index[key]

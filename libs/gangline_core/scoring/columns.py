"""The waiting jobs of one pool as numbers, a row per job, so that a round costs vector steps and no loop over jobs.

Rows follow the fold: a job enters when it begins to wait and leaves when it stops. Names (groups, users, levels) are
numbered as they come; a number says nothing beyond equality, so no decision may sort by it.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from gangline_core.foresight.history import classes
from gangline_core.foresight.learnt import MIDDLE
from gangline_core.groups import user_key
from gangline_core.ids import JobId
from gangline_core.job import Job
from gangline_core.reasons import Reason
from gangline_core.spec import JobSpec, ServiceClass, has_terms, smallest_size

Ints = NDArray[np.int64]

(
    ID,
    SHAPE,
    ASK,
    SINCE,
    PRIORITY,
    LEVEL,
    GROUP,
    HOLDER,
    GPU_MILLI,
    CPU_MILLI,
    MEMORY_MIB,
    TASKS,
    LEAST_GPU_MILLI,
    LEAST_CPU_MILLI,
    LEAST_MEMORY_MIB,
    ESTIMATE_S,
    LIMIT_S,
    CLASS,
    ATTEMPT,
    PREEMPTIONS,
    ATTAINED,
    QUEUED,
    SUBMITTED,
    HAS_TERMS,
    CAUSE,
    KIND,
    LEARNT_MS,
    WAITS_SINCE,
    CHECKPOINTS,
) = range(29)
"""Fields of a row. Amounts are those at start, LEAST_* those of the smallest sizes; SINCE is what makes the age."""
WIDTH = 29
NOBODY: Ints = np.zeros(0, dtype=np.int64)
CLASS_RANK = {ServiceClass.OPPORTUNISTIC: 0, ServiceClass.BURSTABLE: 1, ServiceClass.GUARANTEED: 2}
MOVING_NUMBERS = frozenset({"used", "left"})
"""Numbers of a reason that change with every job that starts or ends; a change of them alone is not a new reason."""


class Names:
    """Numbers for names, in the order in which they came."""

    def __init__(self) -> None:
        """No name yet."""
        self.names: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, name: str) -> int:
        """The number of this name, a new one when it is new."""
        found = self._numbers.get(name)
        if found is None:
            found = self._numbers[name] = len(self.names)
            self.names.append(name)
        return found


class Columns:
    """Rows by job; read whole columns with `field`."""

    def __init__(self, jobs: Iterable[tuple[Job, int, int]] = ()) -> None:
        """These jobs with their shape and ask numbers."""
        self._fields: Ints = np.zeros((WIDTH, 64), dtype=np.int64)
        """A line per field, so that a whole column lies together."""
        self._slots: dict[JobId, int] = {}
        self._free: list[int] = list(range(63, -1, -1))
        self._sorted, self._sorted_ids = NOBODY, NOBODY
        """Slots by job id, and these ids, as they were when somebody last asked."""
        self._came: set[int] = set()
        """Slots that were taken since then."""
        self._is_same = True
        """Nobody came or left since then."""
        self._told: tuple[Reason | None, int] = (None, 0)
        """The last reason that was noted, and its number: mostly many jobs in turn have one."""
        self.groups, self.holders, self.levels, self.kinds = Names(), Names(), Names(), Names()
        self.members: list[tuple[str, str]] = []
        """Per holder number its group and user."""
        self.alike: list[tuple[str, ...]] = []
        """Per kind number the classes of its jobs (see `history`)."""
        for job, shape, ask in jobs:
            self.enter(job, shape, ask)

    def __len__(self) -> int:
        """How many jobs wait."""
        return len(self._slots)

    def enter(self, job: Job, shape: int, ask: int) -> None:
        """A job begins to wait."""
        if not self._free:
            self._grow()
        slot = self._slots[job.id] = self._free.pop()
        spec = job.spec
        group = self.groups.number(spec.group)
        holder = self.holders.number(user_key(spec.group, spec.user))
        if holder == len(self.members):
            self.members.append((spec.group, spec.user))
        alike = classes(spec)
        kind = self.kinds.number(alike[0])
        if kind == len(self.alike):
            self.alike.append(alike)
        self._came.add(slot)
        self._is_same = False
        self._fields[:, slot] = (
            job.id,
            shape,
            ask,
            own_since_ms(job),
            spec.priority,
            self.levels.number(spec.level),
            group,
            holder,
            *amounts_of(spec),
            spec.estimate_s,
            spec.time_limit_s,
            CLASS_RANK[spec.service_class],
            job.attempt,
            job.preemptions,
            job.attained - job.forgiven,
            job.queued_ms,
            job.submitted_ms,
            has_terms(spec),
            cause_of(job.reason),
            kind,
            job.learnt_ms[MIDDLE] if job.learnt_ms else -1,
            own_wait_since_ms(job),
            spec.checkpoints,
        )

    def leave(self, job: JobId) -> None:
        """A job no longer waits."""
        slot = self._slots.pop(job, None)
        if slot is not None:
            self._fields[ID, slot] = 0
            self._free.append(slot)
            self._came.discard(slot)
            self._is_same = False

    def note_reason(self, job: JobId, reason: Reason | None) -> None:
        """The recorded reason of a waiting job is another one."""
        slot = self._slots.get(job)
        if slot is not None:
            if self._told[0] is not reason:
                self._told = (reason, cause_of(reason))
            self._fields[CAUSE, slot] = self._told[1]

    def kind_of(self, job: JobId) -> int | None:
        """The number of a waiting job's kind: equal for those whose run times are expected to be equal."""
        slot = self._slots.get(job)
        return None if slot is None else self._fields.item(KIND, slot)

    def slots(self) -> Ints:
        """Where the rows of all waiting jobs are, by job id."""
        if not self._is_same:
            self._sort()
        return self._sorted

    def _sort(self) -> None:
        """Leave out who left, and sort in who came."""
        ids = self._fields[ID]
        stays = ids[self._sorted] == self._sorted_ids
        slots = self._sorted[stays]
        if self._came:
            came = np.fromiter(self._came, dtype=np.int64, count=len(self._came))
            # Who left and came back, perhaps to the same slot, stands once.
            is_new = np.zeros(len(ids), dtype=np.bool_)
            is_new[came] = True
            slots = np.concatenate([slots[~is_new[slots]], came])
            slots = slots[np.argsort(ids[slots], kind="stable")]
        self._sorted, self._sorted_ids = slots, ids[slots]
        self._came.clear()
        self._is_same = True

    def slots_of(self, jobs: Sequence[Job]) -> Ints | None:
        """Where the rows of these jobs are, in their order; None when some of them do not wait here."""
        slots = self._slots
        try:
            return np.fromiter((slots[job.id] for job in jobs), dtype=np.int64, count=len(jobs))
        except KeyError:
            return None

    def field(self, slots: Ints, field: int) -> Ints:
        """One number per row."""
        column: Ints = self._fields[field].take(slots)
        return column

    def _grow(self) -> None:
        size = self._fields.shape[1]
        self._fields = np.concatenate([self._fields, np.zeros((WIDTH, size), dtype=np.int64)], axis=1)
        self._free = list(range(2 * size - 1, size - 1, -1))


def amounts_of(spec: JobSpec) -> tuple[int, int, int, int, int, int, int]:
    """GPU, CPU and memory at start, tasks at start, and GPU, CPU and memory at the smallest sizes."""
    gpu = cpu = memory = tasks = least_gpu = least_cpu = least_memory = 0
    for role in spec.roles:
        need, count, least = role.resources, role.count, smallest_size(role)
        gpu += count * need.gpu_milli
        cpu += count * need.cpu_milli
        memory += count * need.memory_mib
        tasks += count
        # By memory alone the true share is known only with the card; a thousandth lets a full limit refuse it.
        least_gpu += least * (need.gpu_milli or (1 if need.gpu_memory_mib else 0))
        least_cpu += least * need.cpu_milli
        least_memory += least * need.memory_mib
    return gpu, cpu, memory, tasks, least_gpu, least_cpu, least_memory


def own_since_ms(job: Job) -> int:
    """The moment that makes the job's age, as far as the job itself tells: what it follows may move it."""
    if job.losses:
        # A job that lost its machines is repaired before younger ones start: it is as old as if it had never run.
        return max(job.submitted_ms, job.spec.not_before_ms)
    return own_wait_since_ms(job)


def own_wait_since_ms(job: Job) -> int:
    """Since when it would have waited, had it waited without a break, as far as the job itself tells."""
    return max(job.queued_ms, job.spec.not_before_ms) - job.waited_ms


def cause_of(reason: Reason | None) -> int:
    """A number that is equal for reasons that say the same, apart from how much is used at the moment."""
    if reason is None:
        return 0
    steady = sorted((name, number) for name, number in reason.numbers.items() if name not in MOVING_NUMBERS)
    return _cause(reason.code.value, tuple(steady))


@lru_cache(maxsize=16_384)
def _cause(code: str, steady: tuple[tuple[str, int | str], ...]) -> int:
    digest = blake2b(repr((code, list(steady))).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True) | 1

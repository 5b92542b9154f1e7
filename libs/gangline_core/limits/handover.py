"""What those who go for a claim give back, and how much of it only changes hands below each limit.

A claim's job starts when its victims are gone: until then they count, from then on it does, and never both. So of what
the claim takes only that is new which the victims below the same holder do not give.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from gangline_core.groups import holders
from gangline_core.ids import JobId, TaskId
from gangline_core.job import Job, JobState, Task, TaskState
from gangline_core.limits.amounts import count, task_amounts
from gangline_core.limits.quota import JOBS
from gangline_core.pauses.pausing import given_up, leaving_part
from gangline_core.room.capacity import REST_RANK
from gangline_core.room.rests import Rest
from gangline_core.spec import ServiceClass

if TYPE_CHECKING:
    from gangline_core.table import Table


class Exchange(Struct, frozen=True):
    """So much of a dimension changes hands below a holder; `loose` of it from opportunistic to other work."""

    holder: str
    dimension: str
    both: int
    loose: int


def going_parts(table: "Table", tasks: Sequence[Task]) -> list[Task]:
    """What comes back from tasks that were told to go, or are by this round; of one that pauses it is a part."""
    paused = {pause.job for pause in table.pauses}
    going = {*table.leaving, *(task.id for task in tasks)} if table.state.kept.packs else ()
    found = []
    for task in tasks:
        job = table.state.kept.jobs.get(task.job)
        if job is not None and task.job in paused and task.working is None:
            found.append(given_up(task, job.spec))
        else:
            found.append(leaving_part(table.state, task, going=going))
    return found


def whole(parts: Iterable[Task]) -> list[Rest]:
    """All that these give back."""
    return [Rest(part, task_amounts(part)) for part in parts]


def each_going(
    parts: Iterable[Task], left: Iterable[Rest], *, ceded: Collection[TaskId], far: Iterable[Task]
) -> Iterator[Rest]:
    """Everybody who goes for a claim, with what may go to others beside it.

    `left` is what earlier claims left. Who is `ceded` counts for an earlier claim, so of what he gives back below
    limits there is only what that one left. Who is `far` gives this claim no room, and no other one yet.
    """
    rests = {rest.part.id: rest for rest in left}
    for part in parts:
        known = rests.pop(part.id, Rest(part, {}))
        yield Rest(part, known.amounts if part.id in ceded else task_amounts(part))
    for part in far:
        yield Rest(replace(part, rank=REST_RANK, cpu_milli=0, memory_mib=0, devices={}, gpus=()), task_amounts(part))
    yield from rests.values()


def count_claim(
    table: "Table", job: Job, amounts: dict[str, int], parts: Sequence[Task], rests: Sequence[Rest] = ()
) -> None:
    """Count what a claim takes; of that and what goes for it only one counts at a time, so the larger of both does.

    For it go these parts, and what another claim left of those that go for that one already.
    """
    given = list(_given(table, job, parts))
    table.count(job, amounts)
    table.ledger.claim(job, amounts, given)
    given += [(table.state.kept.jobs[rest.part.job], rest.amounts) for rest in rests]
    for exchanged in _exchanges(job, amounts, given):
        table.ledger.count_once(exchanged.holder, exchanged.dimension, exchanged.both, loose=exchanged.loose)


def _exchanges(
    job: Job, amounts: Mapping[str, int], given: Iterable[tuple[Job, Mapping[str, int]]]
) -> Iterator[Exchange]:
    """What the job takes of what others give below each holder of both."""
    taken = {dimension.lower(): amount for dimension, amount in amounts.items()}
    own = holders(job.spec.group, job.spec.user)
    returned: dict[tuple[str, str], int] = {}
    firm: dict[tuple[str, str], int] = {}
    for other, back in given:
        theirs = holders(other.spec.group, other.spec.user)
        is_loose = other.service_class == ServiceClass.OPPORTUNISTIC
        for holder in own:
            for dimension, amount in back.items() if holder in theirs else ():
                count(returned, (holder, dimension.lower()), amount)
                count(firm, (holder, dimension.lower()), 0 if is_loose else amount)
    for (holder, dimension), amount in returned.items():
        both = min(amount, taken.get(dimension, 0))
        if both > 0:
            yield Exchange(holder, dimension, both, both - min(both, firm.get((holder, dimension), 0)))


def _given(table: "Table", job: Job, parts: Sequence[Task]) -> Iterator[tuple[Job, dict[str, int]]]:
    """What each of these gives back to its group; jobs that end with all of them are running jobs less."""
    jobs, evicted = table.state.kept.jobs, {eviction.job for eviction in table.evictions}
    numbers: dict[JobId, int] = {}
    for part in parts:
        if part.job in jobs and part.job != job.id and part.state != TaskState.LOST:
            yield jobs[part.job], task_amounts(part)
            numbers[part.job] = numbers.get(part.job, 0) + 1
    for name, number in numbers.items():
        other = jobs[name]
        if number == len(other.tasks) and (name in evicted or other.state == JobState.STOPPING):
            yield other, {JOBS: 1}

"""What was known of each job when it was submitted, and what became of it: the rows that predictors learn from.

A history is lived through in order: when a job comes, only jobs that had ended by then are remembered, in the same way
as the fold remembers them. So training sees what the pool will see, and no row knows its own future.
"""

from bisect import insort
from collections import Counter
from collections.abc import Mapping
from heapq import heappop, heappush
from pathlib import Path

from msgspec import Struct

from gangline_core.facts import JobUsed
from gangline_core.fold import Message
from gangline_core.foresight.history import note_end, recall
from gangline_core.foresight.learnt import RUN, like, named, plain
from gangline_core.foresight.predict import rolling_ms
from gangline_core.groups import user_key
from gangline_core.ids import JobId
from gangline_core.job import Job, JobState
from gangline_core.spec import JobSpec
from gangline_lab.archive import read
from gangline_lab.readers.archives import history
from gangline_lab.sim.conditions import Conditions
from gangline_lab.sim.engine import BEGIN_MS
from gangline_lab.sim.estimates import prepared
from gangline_lab.sim.workload import Workload


class Sample(Struct, frozen=True):
    """One job: what was known of it, and what it came to."""

    at_ms: int
    plain: tuple[int, ...]
    names: tuple[tuple[str, str], ...]
    like: tuple[int, ...]
    came_to: dict[str, int]
    """Per head of a model what really happened; a head of which nothing was seen is absent."""
    rivals_ms: dict[str, float]
    """Run times that simpler rules would have said, by name; those that knew nothing are absent."""


class Record(Struct, frozen=True):
    """One job of a history, as far as predictors care."""

    at_ms: int
    """Since the epoch."""
    ended_ms: int
    run_ms: int
    spec: JobSpec
    censored: bool = False
    """It ran at least so long: it is remembered, but not learnt from."""
    used: dict[str, int] = {}


class _OfUser:
    """Run times of a user's ended jobs, shortest first."""

    def __init__(self) -> None:
        self.in_order: list[int] = []
        self.total_ms = 0


def of_trace(trace: Workload, conditions: Conditions) -> list[Record]:
    """The jobs of a trace as if each had started at once, saying of themselves what these conditions let them say."""
    trace = prepared(trace, conditions, None, 0)
    return [
        Record(
            at_ms=BEGIN_MS + one.at_ms,
            ended_ms=BEGIN_MS + one.at_ms + one.work.run_ms,
            run_ms=one.work.run_ms,
            spec=one.spec,
        )
        for one in trace.arrivals
    ]


def of_archive(path: Path) -> list[Record]:
    """The jobs of an archive that ran, as they ran.

    Raises:
        ArchiveError: the archive is broken or none is there.
    """
    messages: list[Message] = [entry.message for entry in read(path)]
    told = history(path.name, messages)
    used = _uses(messages)
    return [
        Record(
            at_ms=told.begin_ms + past.submitted_ms,
            ended_ms=told.begin_ms + past.ended_ms,
            run_ms=one.work.run_ms,
            spec=one.spec,
            censored=past.censored,
            used=used.get(past.job, {}),
        )
        for one, past in zip(told.trace.arrivals, told.past, strict=True)
        if past.ended_ms >= 0 and not one.work.cancel_ms
    ]


def _uses(messages: list[Message]) -> dict[JobId, dict[str, int]]:
    """Per job its mean use over all windows, and the most memory."""
    percent: Counter[JobId] = Counter()
    seconds: Counter[JobId] = Counter()
    memory: dict[JobId, int] = {}
    for message in messages:
        for fact in message.facts:
            if isinstance(fact, JobUsed) and fact.window_s > 0:
                percent[fact.job] += fact.gpu_percent * fact.window_s
                seconds[fact.job] += fact.window_s
                if fact.memory_mib_max >= 0:
                    memory[fact.job] = max(memory.get(fact.job, 0), fact.memory_mib_max)
    found = {job: {"gpu_percent": percent[job] // seconds[job]} for job in seconds}
    return {job: {**own, "memory_mib": memory[job]} if job in memory else own for job, own in found.items()}


def samples(records: list[Record]) -> list[Sample]:
    """The rows, in order of arrival."""
    remembered: dict[str, tuple[int, ...]] = {}
    users: dict[str, _OfUser] = {}
    running: list[tuple[int, int]] = []
    rows = []
    for place, record in enumerate(records):
        while running and running[0][0] <= record.at_ms:
            _end(remembered, users, records[heappop(running)[1]])
        heappush(running, (record.ended_ms, place))
        if not record.censored:
            rows.append(_row(remembered, users, record))
    return rows


def _end(remembered: dict[str, tuple[int, ...]], users: dict[str, _OfUser], record: Record) -> None:
    job = Job(
        id=JobId(1),
        spec=record.spec,
        state=JobState.SUCCEEDED,
        submitted_ms=record.at_ms,
        queued_ms=record.at_ms,
        started_ms=1,
        ended_ms=1 + record.run_ms,
    )
    note_end(remembered, job)
    own = users.setdefault(user_key(record.spec.group, record.spec.user), _OfUser())
    own.total_ms += record.run_ms
    insort(own.in_order, record.run_ms)


def _row(remembered: dict[str, tuple[int, ...]], users: Mapping[str, _OfUser], record: Record) -> Sample:
    spec = record.spec
    own = users.get(user_key(spec.group, spec.user))
    rivals: dict[str, float] = {}
    if own is not None:
        count = len(own.in_order)
        rivals = {"mean by user": own.total_ms / count, "median by user": own.in_order[count // 2]}
    alike = recall(remembered, spec, least=1)
    if alike:
        rivals["rolling"] = rolling_ms(alike)
    return Sample(
        at_ms=record.at_ms,
        plain=plain(spec, record.at_ms),
        names=named(spec),
        like=like(remembered, spec),
        came_to={RUN: record.run_ms, **record.used},
        rivals_ms=rivals,
    )

"""The numbers of a chronicle that people ask for: waits by group and size, ends, use, decisions per second."""

from collections.abc import Callable, Iterable

import numpy as np
from msgspec import Struct

from gangline_core.job import ENDS, JobState
from gangline_core.reasons import Reason, sentence
from gangline_core.spec import GPU_MILLI
from gangline_lab.chronicle import Chronicle, JobStory

SIZES = ((0, "no GPU"), (1, "1 GPU"), (2, "2 GPUs"), (4, "3-4 GPUs"), (8, "5-8 GPUs"), (16, "9-16 GPUs"))
"""Classes of job sizes: the most GPUs of each, and its name; what is larger is the last class."""
LARGEST = "17+ GPUs"
LONGEST_SHOWN = 3


class Spread(Struct, frozen=True):
    """Times of several jobs, in ms."""

    name: str
    jobs: int
    median_ms: int
    p90_ms: int
    p99_ms: int
    longest_ms: int


class LongWait(Struct, frozen=True):
    """One of the longest waits, with the reason that was recorded for most of it."""

    job: int
    name: str
    group: str
    gpus: float
    waited_ms: int
    code: str
    """The reason's code; empty when none was recorded, because the first round placed it."""
    reason: str
    """The reason's sentence with its last numbers."""
    recorded: int
    """How many reasons were recorded while it waited."""


class Summary(Struct, frozen=True):
    """All of it; every number comes from the log."""

    jobs_in: int
    jobs_out: int
    rejected: int
    ends: dict[str, int]
    """Jobs by state."""
    seconds: float
    """From the first submission to the last message."""
    waits: Spread
    waits_by_group: tuple[Spread, ...]
    waits_by_size: tuple[Spread, ...]
    starts_at_once: Spread
    """Submission to running, for jobs that the first round that saw them placed."""
    longest: tuple[LongWait, ...]
    uses: dict[str, float]
    gpus: dict[str, int]
    rounds: int
    verdicts: int
    verdicts_per_s: float
    """Mean over the seconds in which something was decided."""
    verdicts_per_s_most: int
    """In the busiest second."""
    preemptions: int
    grown: int
    shrunk: int


def summarise(chronicle: Chronicle) -> Summary:
    """The summary of a chronicle."""
    jobs = chronicle.jobs
    ran = [job for job in jobs if job.attempts]
    begin = min((job.submitted_ms for job in jobs), default=chronicle.first_ms)
    verdicts = sum(chronicle.decided.values())
    return Summary(
        jobs_in=len(jobs),
        jobs_out=sum(job.state in ENDS for job in jobs),
        rejected=chronicle.rejected,
        ends={state: n for state in JobState if (n := sum(job.state == state for job in jobs))},
        seconds=max(0, chronicle.last_ms - begin) / 1000,
        waits=spread("all", [job.waited_ms for job in ran]),
        waits_by_group=_spreads(ran, lambda job: job.group, order=sorted({job.group for job in ran})),
        waits_by_size=_spreads(ran, size_of, order=[*(name for _, name in SIZES), LARGEST]),
        starts_at_once=spread("at once", _at_once_ms(ran)),
        longest=tuple(_long_wait(job, chronicle.last_ms) for job in _longest(jobs)),
        uses=chronicle.uses,
        gpus={pool: sum(models.values()) for pool, models in chronicle.models.items()},
        rounds=chronicle.rounds,
        verdicts=verdicts,
        verdicts_per_s=verdicts / max(1, len(chronicle.decided)),
        verdicts_per_s_most=max(chronicle.decided.values(), default=0),
        preemptions=sum(job.preemptions for job in jobs),
        grown=chronicle.grown,
        shrunk=chronicle.shrunk,
    )


def spread(name: str, times_ms: list[int]) -> Spread:
    """Median, tail and maximum of these times; all zero when there are none."""
    if not times_ms:
        return Spread(name=name, jobs=0, median_ms=0, p90_ms=0, p99_ms=0, longest_ms=0)
    # "higher" gives a time that a job really had, not one between two jobs.
    median, p90, p99 = (int(value) for value in np.percentile(times_ms, [50, 90, 99], method="higher"))
    return Spread(
        name=name, jobs=len(times_ms), median_ms=median, p90_ms=p90, p99_ms=p99, longest_ms=int(max(times_ms))
    )


def size_of(job: JobStory) -> str:
    """The job's class of size."""
    gpus = -(-job.gpu_milli // GPU_MILLI)
    return next((name for most, name in SIZES if gpus <= most), LARGEST)


def _spreads(jobs: Iterable[JobStory], key: Callable[[JobStory], str], *, order: list[str]) -> tuple[Spread, ...]:
    times: dict[str, list[int]] = {}
    for job in jobs:
        times.setdefault(key(job), []).append(job.waited_ms)
    return tuple(spread(name, times[name]) for name in order if name in times)


def _at_once_ms(jobs: Iterable[JobStory]) -> list[int]:
    return [
        job.first_started_ms - job.submitted_ms
        for job in jobs
        if job.placed_at_once and job.attempts == 1 and job.first_started_ms
    ]


def _longest(jobs: Iterable[JobStory]) -> list[JobStory]:
    return sorted(jobs, key=lambda job: (-job.waited_ms, job.job))[:LONGEST_SHOWN]


def _long_wait(job: JobStory, last_ms: int) -> LongWait:
    reason = main_reason(job, last_ms)
    return LongWait(
        job=job.job,
        name=job.name,
        group=job.group,
        gpus=job.gpu_milli / GPU_MILLI,
        waited_ms=job.waited_ms,
        code=reason.code if reason else "",
        reason=sentence(reason) if reason else "No reason was recorded: the first round that saw the job placed it.",
        recorded=len(job.waiting_reasons),
    )


def main_reason(job: JobStory, last_ms: int) -> Reason | None:
    """Of the reasons recorded while the job waited, the last one of the code that held longest."""
    held: dict[str, int] = {}
    last: dict[str, Reason] = {}
    noted = job.waiting_reasons
    until_ms = job.first_started_ms or job.ended_ms or last_ms
    for index, timed in enumerate(noted):
        to_ms = noted[index + 1].at if index + 1 < len(noted) else max(until_ms, timed.at)
        held[timed.reason.code] = held.get(timed.reason.code, 0) + to_ms - timed.at
        last[timed.reason.code] = timed.reason
    return last[max(held, key=lambda code: held[code])] if held else None

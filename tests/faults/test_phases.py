"""Each service process killed or paused at each phase of a job, from its admission to its empty room.

The log says when a job comes to a phase; in that very moment the process is struck. Of a writer of which there are two
it is the one that leads. Kills and pauses take turns over the table, so that neighbours in it differ.
"""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.faults.stand import Stand, resume, stand

from gangline_core.facts import (
    CancelRequested,
    Fact,
    GpusEmpty,
    JobAdmitted,
    LeadershipTaken,
    RoundDecided,
    RoundOpened,
    TaskExited,
    TaskStarted,
)
from gangline_kit.follower import as_message
from gangline_wire import subjects
from gangline_wire.streams import LOG

Figure = Callable[[str, float], None]

WRITERS = {
    "admission": "admission",
    "queue": "queue.default",
    "placement": "placement.default",
    "elastic": "elastic.default",
    "telemetry": "telemetry",
    "accounting": "accounting",
}
"""Services of which there are two, and the lane that tells which of them leads."""
Struck = tuple[str, ...]
"""Who is struck at once."""
ON_THE_WAY: tuple[Struck, ...] = (("admission",), ("queue",), ("placement",))
"""Each of them alone, since a job's way leads through it."""
BESIDE_IT: tuple[Struck, ...] = (
    ("agent-simulated",),
    ("gateway",),
    ("elastic", "telemetry", "accounting", "recorder"),
)
PAUSE_S = 4.0
"""Longer than a lease lasts, shorter than a node may be silent."""
SHORT_PAUSE_S = 1.0
"""For those of whom there is one, where everybody waits for its end."""


def of(task: str) -> int:
    """The job of a task."""
    return int(task.partition("-")[0])


PHASES: dict[str, Callable[[Fact, int], bool]] = {
    "admitted": lambda fact, job: isinstance(fact, JobAdmitted) and fact.job == job,
    "ordered": lambda fact, job: isinstance(fact, RoundOpened) and job in [one.job for one in fact.candidates],
    "placed": lambda fact, job: isinstance(fact, RoundDecided) and job in [one.job for one in fact.placements],
    "running": lambda fact, job: isinstance(fact, TaskStarted) and of(fact.task) == job,
    "told to stop": lambda fact, job: isinstance(fact, CancelRequested) and fact.job == job,
    "exited": lambda fact, job: isinstance(fact, TaskExited) and of(fact.task) == job,
    "empty": lambda fact, job: isinstance(fact, GpusEmpty) and job in map(of, fact.tasks),
}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("table", [ON_THE_WAY, BESIDE_IT], ids=["on the way", "beside it"])
async def test_whoever_is_struck_at_any_phase_of_a_job_it_is_neither_lost_nor_doubled(
    table: tuple[Struck, ...], tmp_path: Path, figure: Figure
) -> None:
    async with stand(tmp_path, replicas=2, log_level="info") as here:
        await here.recover()
        for row, services in enumerate(table):
            times = [
                await struck(here, services, phase=phase, is_killed=(row + column) % 2 == 0)
                for column, phase in enumerate(PHASES)
            ]
            figure(f"{', '.join(services)} struck at each of {len(PHASES)} phases: the slowest job", max(times))
        await here.prove()


async def struck(here: Stand, services: Struck, *, phase: str, is_killed: bool) -> float:
    """A job all the way while somebody is struck at the phase; seconds until it and another one have ended."""
    began_s = time.monotonic()
    is_stopped = phase == "told to stop"
    first = await here.bus.last_seq(LOG.name) + 1
    names = [await leading(here, service) for service in services]
    pause_s = PAUSE_S if set(services) & set(WRITERS) else SHORT_PAUSE_S
    coming = asyncio.ensure_future(here.submit(run_s=60.0 if is_stopped else 0.3))
    stopping = asyncio.ensure_future(cancelled(here, coming)) if is_stopped else None
    await reached(here, phase, first=first)
    if is_killed:
        for name in names:
            here.platform.kill_service(name)
    else:
        paused = [here.pause(name) for name in names]
        await asyncio.sleep(pause_s)
        for pid in paused:
            resume(pid)
    job = await coming
    if stopping is not None:
        await stopping
    await here.ended(job)
    await here.recover()
    return time.monotonic() - began_s - (0.0 if is_killed else pause_s)


async def leading(here: Stand, service: str) -> str:
    """The process to strike: the only one, or of two the one that wrote to its log that it leads; it lives."""
    name = service if service not in WRITERS else await last_leader(here, service)
    async with asyncio.timeout(30):
        while not here.lives(name):  # noqa: ASYNC110 - a process of its own sets no event
            await asyncio.sleep(0.05)
    return name


async def last_leader(here: Stand, service: str) -> str:
    """Which of two led last, by the log and by their own words."""
    holder = ""
    async for stored in here.bus.read_subject(LOG.name, subjects.log(WRITERS[service]), 1, follow=False):
        for fact in as_message(stored).facts:
            holder = fact.holder if isinstance(fact, LeadershipTaken) else holder
    for name in (service, f"{service}-2"):
        if f"{holder} leads" in (here.platform.data_dir / "logs" / f"{name}.log").read_text():
            return name
    raise AssertionError(f"no process of {service} says that it is {holder}")


async def cancelled(here: Stand, coming: "asyncio.Future[int]") -> None:
    """Cancel the job once it runs."""
    job = await coming
    while await here.state_of(job) != "running":  # noqa: ASYNC110 - a process of its own sets no event
        await asyncio.sleep(0.02)
    await here.cancel(job)


async def reached(here: Stand, phase: str, *, first: int) -> None:
    """Wait until the first job that was admitted since then comes to the phase."""
    job = 0
    async with asyncio.timeout(30):
        async for stored in here.bus.read(LOG.name, first):
            for fact in as_message(stored).facts:
                job = job or (fact.job if isinstance(fact, JobAdmitted) else 0)
                if job and PHASES[phase](fact, job):
                    return

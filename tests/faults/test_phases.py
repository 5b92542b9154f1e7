"""Each service process killed or paused at each phase of a job, from its admission to its empty room.

The log says when a job comes to a phase; in that very moment the process is struck. Of a writer of which there are two
it is the one that leads. Kills and pauses take turns over the table, so that neighbours in it differ: every service is
struck at every phase in one of the two ways, and every service and every phase in both. `WHOLE_FAULT_TABLE=1` strikes
what was killed with pauses too, and the other way round (`make faults`).
"""

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.faults.stand import Stand, resume, stand
from tests.patience import LONG_S

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
TABLES = {
    "on the way": ("admission", "queue", "placement"),
    "at both ends": ("gateway", "agent-simulated", "recorder"),
    "beside it": ("elastic", "telemetry", "accounting"),
}
"""Every service, struck alone; those of one table share a platform."""
TURNS = (0, 1) if os.environ.get("WHOLE_FAULT_TABLE") else (0,)
"""Which half of the table: with the other turn kills and pauses change places."""
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


def is_killed(row: int, column: int, turn: int) -> bool:
    """Whether it is killed there, rather than paused."""
    return (row + column + turn) % 2 == 0


def test_every_service_is_struck_alone_and_each_service_and_each_phase_in_both_ways() -> None:
    services = [service for table in TABLES.values() for service in table]
    assert sorted(services) == sorted({*WRITERS, "gateway", "agent-simulated", "recorder"})
    for table in TABLES.values():
        rows, columns = range(len(table)), range(len(PHASES))
        for turn in (0, 1):
            assert all({is_killed(row, column, turn) for column in columns} == {True, False} for row in rows)
            assert all({is_killed(row, column, turn) for row in rows} == {True, False} for column in columns)
        assert all(is_killed(row, column, 0) != is_killed(row, column, 1) for row in rows for column in columns)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("turn", TURNS)
@pytest.mark.parametrize("table", TABLES)
async def test_whoever_is_struck_at_any_phase_of_a_job_it_is_neither_lost_nor_doubled(
    table: str, turn: int, tmp_path: Path, figure: Figure
) -> None:
    async with stand(tmp_path, replicas=2, log_level="info") as here:
        await here.recover()
        for row, service in enumerate(TABLES[table]):
            times: dict[bool, list[float]] = {True: [], False: []}
            for column, phase in enumerate(PHASES):
                is_dead = is_killed(row, column, turn)
                times[is_dead].append(await struck(here, service, phase=phase, is_killed=is_dead))
            for is_dead, way in ((True, "killed"), (False, "paused")):
                figure(f"{service} {way} at {len(times[is_dead])} phases: the slowest job", max(times[is_dead]))
        await here.prove()


async def struck(here: Stand, service: str, *, phase: str, is_killed: bool) -> float:
    """A job all the way while somebody is struck at the phase; seconds until it and another one have ended."""
    began_s = time.monotonic()
    is_stopped = phase == "told to stop"
    first = await here.bus.last_seq(LOG.name) + 1
    name = await leading(here, service)
    pause_s = PAUSE_S if service in WRITERS else SHORT_PAUSE_S
    coming = asyncio.ensure_future(here.submit(run_s=60.0 if is_stopped else 0.3))
    stopping = asyncio.ensure_future(cancelled(here, coming)) if is_stopped else None
    await reached(here, phase, first=first)
    struck_at = await here.bus.last_seq(LOG.name)
    if is_killed:
        here.platform.kill_service(name)
    else:
        paused = here.pause(name)
        await asyncio.sleep(pause_s)
        resume(paused)
    job = await coming
    if stopping is not None:
        await stopping
    await here.ended(job)
    await here.recover()
    taken_s = time.monotonic() - began_s - (0.0 if is_killed else pause_s)
    if is_killed and service in WRITERS:
        await here.led_anew(service, struck_at)  # so that the next one who is struck leads
    return taken_s


async def leading(here: Stand, service: str) -> str:
    """The process to strike: the only one, or of two the one that wrote to its log that it leads; it lives."""
    name = service if service not in WRITERS else await last_leader(here, service)
    await here.until_it_lives(name)
    return name


async def last_leader(here: Stand, service: str) -> str:
    """Which of two led last, by the log and by their own words."""
    holder = ""
    async for stored in here.bus.read_subject(LOG.name, subjects.log(WRITERS[service]), 1, follow=False):
        for fact in as_message(stored).facts:
            holder = fact.holder if isinstance(fact, LeadershipTaken) else holder
    logs = here.platform.data_dir / "logs"
    async with asyncio.timeout(LONG_S):
        while True:  # the log has it a moment before the process itself says so
            for name in (service, f"{service}-2"):
                if f"{holder} leads" in await asyncio.to_thread((logs / f"{name}.log").read_text):
                    return name
            await asyncio.sleep(0.02)


async def cancelled(here: Stand, coming: "asyncio.Future[int]") -> None:
    """Cancel the job once it runs."""
    job = await coming
    while await here.state_of(job) != "running":  # noqa: ASYNC110 - a process of its own sets no event
        await asyncio.sleep(0.02)
    await here.cancel(job)


async def reached(here: Stand, phase: str, *, first: int) -> None:
    """Wait until the first job that was admitted since then comes to the phase."""
    job = 0
    async with asyncio.timeout(LONG_S):
        async for stored in here.bus.read(LOG.name, first):
            for fact in as_message(stored).facts:
                job = job or (fact.job if isinstance(fact, JobAdmitted) else 0)
                if job and PHASES[phase](fact, job):
                    return

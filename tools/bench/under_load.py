"""What `make bench NAME=load` measures: steady submits on a busy cluster, a flood beside them, and the memory it takes.

200 simulated nodes run jobs of seconds while 64 clients submit 500 jobs a second. Then one group floods the queue with
50,000 jobs, of which its limit lets a few run, and the others must not notice. A second group is over its submit rate.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
from msgspec import Struct

from bench.child import child
from bench.load import Answer, Connection, percentile, post
from bench.pipeline import bus_of
from bench.rows import Baseline, Measured
from gangline_core.facts import JobAdmitted, TaskStarted
from gangline_kit.bus import Bus
from gangline_wire.codec import decode_batch
from gangline_wire.streams import LOG
from gangline_wire.views import JobView

NODES = 200
CLIENTS = 64
PER_SECOND = 500
ALONE_S = 10.0
BESIDE_S = 20.0
FULL_S = 120.0
FLOOD = 50_000
FLOOD_BATCH = 500
FLOOD_GPUS = 800
RATE_PER_MINUTE = 100
RATE_TRIES = 300
START_S_MAX = 60.0

BRIEF = {"gpus": 1, "cpus": 1, "memory": "1Gi", "command": ["true"], "group": "default",
         "user": "bench", "attributes": {"run_time_s": 2}}  # fmt: skip
GANG = {
    "gpus": 8, "tasks": 8, "cpus": 8, "memory": "64Gi", "command": ["true"], "group": "flood", "user": "bench",
    "attributes": {"run_time_s": 3600},
}  # fmt: skip
OFTEN = {**BRIEF, "group": "often", "user": "bench", "hold": True}

Stage = dict[str, str]


class Steady(Struct):
    """What steady submitting came to; seconds."""

    answered: list[float]
    jobs: list[int]
    sent_s: dict[int, float]
    refused: int
    seconds: float

    @property
    def per_second(self) -> float:
        """Accepted jobs per second."""
        return len(self.jobs) / self.seconds


async def measure() -> AsyncIterator[Measured]:
    """All rows, with half a minute of load."""
    async for row in measure_for(ALONE_S, BESIDE_S):
        yield row


async def measure_full() -> AsyncIterator[Measured]:
    """All rows, with two minutes of load beside the flood."""
    async for row in measure_for(ALONE_S, FULL_S):
        yield row


async def measure_for(alone_s: float, beside_s: float) -> AsyncIterator[Measured]:
    """All rows."""
    async with child("bench.stage", "--nodes", str(NODES)) as stage:
        memory_mib = resident_mib()
        bus = await bus_of(stage)
        await settings(stage)
        await steady(stage, seconds=2)
        first = await bus.last_seq(LOG.name) + 1
        alone = await steady(stage, seconds=alone_s)
        alone_p99 = percentile(alone.answered, 99) * 1000
        yield Measured(name="alone.submits", value=alone.per_second, unit="jobs/s")
        yield Measured(name="alone.answered.p99", value=alone_p99, unit="ms", better="lower")
        flooding = asyncio.ensure_future(flood(stage))
        beside = await steady(stage, seconds=beside_s)
        flooded, flood_s = await flooding
        yield Measured(name="beside.submits", value=beside.per_second, unit="jobs/s")
        before = Baseline(name="alone.answered.p99", value=alone_p99)
        beside_p99 = percentile(beside.answered, 99) * 1000
        yield Measured(name="beside.answered.p99", value=beside_p99, unit="ms", better="lower", baseline=before)
        yield Measured(name="flood.submits", value=flooded / flood_s, unit="jobs/s")
        yield Measured(name="flood.waiting", value=await waiting(stage), unit="jobs")
        async for row in starts(bus, first, alone, beside):
            yield row
        taken_mib = resident_mib() - memory_mib
        jobs = flooded + len(alone.jobs) + len(beside.jobs)
        yield Measured(name="memory.per_100k_jobs", value=taken_mib / jobs * 100_000, unit="MiB", better="lower")
        yield Measured(name="rate.accepted", value=await hurry(stage), unit="jobs", better="lower")
        await bus.close()


async def send(stage: Stage, method: str, path: str, body: object) -> Answer:
    """One call."""
    line = await Connection.open(stage["url"])
    request = post(stage["url"], path, body=msgspec.json.encode(body), token=stage["token"])
    answer = await line.send(request.replace(b"POST", method.encode(), 1))
    line.close()
    return answer


async def settings(stage: Stage) -> None:
    """Two groups with limits, beside the one that has none."""
    for path, body in (
        ("/v1/groups/flood", {"path": "flood", "limit": {"gpu_milli": 1000 * FLOOD_GPUS}}),
        ("/v1/groups/flood/users/bench", {"name": "bench", "group": "flood"}),
        ("/v1/groups/often", {"path": "often", "submits_per_minute": RATE_PER_MINUTE}),
        ("/v1/groups/often/users/bench", {"name": "bench", "group": "often"}),
    ):
        answer = await send(stage, "PUT", path, body)
        assert answer.status == 200, answer.body


async def steady(stage: Stage, *, seconds: float) -> Steady:
    """So many clients submit at the agreed rate; one that is late sends at once."""
    lines = [await Connection.open(stage["url"]) for _ in range(CLIENTS)]
    request = post(stage["url"], "/v1/jobs", body=msgspec.json.encode(BRIEF), token=stage["token"])
    found = Steady(answered=[], jobs=[], sent_s={}, refused=0, seconds=0)
    begun = time.perf_counter()
    turn = 0

    async def submit(line: Connection) -> None:
        nonlocal turn
        while turn < seconds * PER_SECOND:
            due, turn = begun + turn / PER_SECOND, turn + 1
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            if time.perf_counter() - begun > seconds:
                return
            sent = time.perf_counter()
            answer = await line.send(request)
            found.answered.append(time.perf_counter() - sent)
            if answer.status == 202:
                job = msgspec.json.decode(answer.body, type=JobView).id
                found.jobs.append(job)
                found.sent_s[job] = sent
            else:
                found.refused += 1
                assert answer.status in (429, 503), answer.body

    async with asyncio.TaskGroup() as group:
        for line in lines:
            group.create_task(submit(line))
    found.seconds = time.perf_counter() - begun
    for line in lines:
        line.close()
    return found


async def flood(stage: Stage) -> tuple[int, float]:
    """One group submits as fast as it may; jobs accepted, and seconds."""
    begun = time.perf_counter()
    line = await Connection.open(stage["url"])
    body = msgspec.json.encode({"jobs": [GANG] * FLOOD_BATCH})
    request = post(stage["url"], "/v1/jobs:batch", body=body, token=stage["token"])
    accepted = 0
    while accepted < FLOOD:
        answer = await line.send(request)
        if answer.status == 202:
            accepted += FLOOD_BATCH
        else:
            await asyncio.sleep(0.2)
    line.close()
    return accepted, time.perf_counter() - begun


async def waiting(stage: Stage) -> float:
    """Jobs that wait now, as the cluster's totals say."""
    answer = await send(stage, "GET", "/v1/cluster", None)
    totals = msgspec.json.decode(answer.body)
    return float(totals["waiting"])


async def starts(bus: Bus, first: int, alone: Steady, beside: Steady) -> AsyncIterator[Measured]:
    """What the log says: everything accepted is there once and has started."""
    begun = time.perf_counter()
    wanted = {*alone.jobs, *beside.jobs}
    admitted: dict[int, int] = {}
    started: set[int] = set()
    async for message in bus.read(LOG.name, first):
        for fact in decode_batch(message.data).facts:
            if isinstance(fact, JobAdmitted) and fact.job in wanted:
                admitted[fact.job] = admitted.get(fact.job, 0) + 1
            elif isinstance(fact, TaskStarted):
                started.add(int(fact.task.partition("-")[0]))
        if wanted <= started or time.perf_counter() - begun > START_S_MAX:
            break
    lost = len(wanted - set(admitted)) + sum(count - 1 for count in admitted.values())
    yield Measured(name="lost_or_doubled", value=lost, unit="jobs", better="lower")
    yield Measured(name="started", value=100 * len(wanted & started) / len(wanted), unit="%")


async def hurry(stage: Stage) -> float:
    """How many of far too many submits a group's rate lets through."""
    line = await Connection.open(stage["url"])
    request = post(stage["url"], "/v1/jobs", body=msgspec.json.encode(OFTEN), token=stage["token"])
    statuses = [(await line.send(request)).status for _ in range(RATE_TRIES)]
    line.close()
    return statuses.count(202)


def resident_mib() -> float:
    """Memory of our child processes and theirs."""
    pending, pages = [os.getpid()], 0
    while pending:
        pid = pending.pop()
        for task in Path(f"/proc/{pid}/task").glob("*/children"):
            children = [int(each) for each in task.read_text().split()]
            pending += children
            pages += sum(int(Path(f"/proc/{each}/statm").read_text().split()[1]) for each in children)
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)

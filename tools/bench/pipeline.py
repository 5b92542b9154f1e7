"""From HTTP submit to a running task, through the whole platform with sync on, beside the floors of this machine."""

import asyncio
import time
from collections.abc import AsyncIterator

import msgspec

from bench import floors
from bench.child import child
from bench.decisions import decisions_per_second
from bench.load import Connection, drive, percentile, post
from bench.rows import Baseline, Measured
from gangline_core.facts import RoundDecided, TaskStarted
from gangline_kit.bus import Bus, BusConfig
from gangline_kit.clock import SystemClock
from gangline_wire.codec import decode_batch
from gangline_wire.streams import LOG
from gangline_wire.views import JobView

JOBS = "/v1/jobs"
BATCH = "/v1/jobs:batch"
BATCH_SIZE = 100
SECONDS = 4.0
NODES_IDLE = 64
NODES_LARGE = 512
LATENCY_ROUNDS = 300
WARM_UP = 20
STARTED = 3_000
STARTED_TIMEOUT_S = 120.0

JOB = {"gpus": 1, "cpus": 4, "memory": "32Gi", "command": ["python", "train.py"], "attributes": {"run_time_s": 3600}}
HELD = {**JOB, "hold": True}
"""What accepting costs by itself: the peers' figures were taken with held jobs too."""
BRIEF = {**JOB, "attributes": {"run_time_s": 0}}

Stage = dict[str, str]


async def measure() -> AsyncIterator[Measured]:
    """All rows."""
    echo = {connections: await floors.http_echo(connections) for connections in (1, 8, 64)}
    body = batch_body(HELD)
    echo_batches = {connections: await floors.http_echo(connections, body=body) for connections in (1, 8)}
    append_1, append_ms = await floors.durable_appends(1)
    append_64, _ = await floors.durable_appends(64)
    for connections, rate in echo.items():
        yield Measured(name=f"floor.http_echo.{connections}", value=rate, unit="requests/s")
    yield Measured(name="floor.durable_append.1", value=append_1, unit="appends/s")
    yield Measured(name="floor.durable_append.64", value=append_64, unit="appends/s")
    for connections, rate in echo.items():
        floor = Baseline(name=f"floor.http_echo.{connections}", value=rate)
        yield await submits(connections, job=HELD, name="submit.single", floor=floor)
    floor = Baseline(name="floor.http_echo.8", value=echo[8])
    yield await submits(8, job=JOB, name="submit.while_placing", floor=floor)
    for connections, rate in echo_batches.items():
        floor = Baseline(name=f"plain echo of the same bodies, {connections}", value=rate * BATCH_SIZE)
        yield await batches(connections, floor=floor)
    async for row in latencies(Baseline(name="floor.durable_append.1 p50", value=append_ms)):
        yield row
    async for row in started(Baseline(name="floor.durable_append.64", value=append_64)):
        yield row
    for nodes in (NODES_IDLE, NODES_LARGE):
        yield Measured(name=f"decisions.{nodes}_nodes", value=decisions_per_second(nodes), unit="decisions/s")


def batch_body(job: object) -> bytes:
    """A hundred jobs in one body."""
    return msgspec.json.encode({"jobs": [job] * BATCH_SIZE})


async def submits(connections: int, *, job: object, name: str, floor: Baseline) -> Measured:
    """Single durable submits per second."""
    async with child("bench.stage", "--nodes", str(NODES_IDLE)) as stage:
        request = post(stage["url"], JOBS, body=msgspec.json.encode(job), token=stage["token"])
        load = await drive(stage["url"], lambda _: request, connections=connections, seconds=SECONDS, count_max=20_000)
    assert load.failed == 0, f"{load.failed} of {load.count} submits were refused"
    return Measured(name=f"{name}.{connections}", value=load.per_second, unit="jobs/s", baseline=floor)


async def batches(connections: int, *, floor: Baseline) -> Measured:
    """Jobs per second in durable submits of a hundred."""
    async with child("bench.stage", "--nodes", str(NODES_IDLE)) as stage:
        request = post(stage["url"], BATCH, body=batch_body(HELD), token=stage["token"])
        load = await drive(stage["url"], lambda _: request, connections=connections, seconds=SECONDS, count_max=400)
    assert load.failed == 0, f"{load.failed} of {load.count} batches were refused"
    return Measured(
        name=f"submit.batch.{connections}", value=load.per_second * BATCH_SIZE, unit="jobs/s", baseline=floor
    )


async def latencies(floor: Baseline) -> AsyncIterator[Measured]:
    """Milliseconds from sending a submit on an idle cluster to its answer, and to the task's start in the log."""
    async with child("bench.stage", "--nodes", str(NODES_IDLE)) as stage:
        answered, running = await submit_and_watch(stage)
    for name, values in (("answered", answered), ("running", running)):
        for percent in (50, 99):
            yield Measured(
                name=f"submit_to_{name}.p{percent}",
                value=percentile(values, percent) * 1000,
                unit="ms",
                better="lower",
                baseline=floor,
            )


async def submit_and_watch(stage: Stage) -> tuple[list[float], list[float]]:
    """One job after the other on an idle cluster; seconds to the answer and to the start, warm-up left out."""
    started_at: dict[int, asyncio.Future[float]] = {}
    loop = asyncio.get_running_loop()
    bus = await bus_of(stage)
    watching = asyncio.Event()

    async def watch() -> None:
        watching.set()
        async for message in bus.read(LOG.name, await bus.last_seq(LOG.name) + 1):
            for fact in decode_batch(message.data).facts:
                if isinstance(fact, TaskStarted):
                    job = int(fact.task.partition("-")[0])
                    started_at.setdefault(job, loop.create_future()).set_result(time.perf_counter())

    answered: list[float] = []
    running: list[float] = []
    request = post(stage["url"], JOBS, body=msgspec.json.encode(BRIEF), token=stage["token"])
    line = await Connection.open(stage["url"])
    watcher = asyncio.ensure_future(watch())
    await watching.wait()
    for _ in range(WARM_UP + LATENCY_ROUNDS):
        begun = time.perf_counter()
        answer = await line.send(request)
        answered.append(time.perf_counter() - begun)
        job = msgspec.json.decode(answer.body, type=JobView).id
        ended = await asyncio.wait_for(started_at.setdefault(job, loop.create_future()), 30)
        running.append(ended - begun)
        await asyncio.sleep(0.01)
    watcher.cancel()
    line.close()
    await bus.close()
    return answered[WARM_UP:], running[WARM_UP:]


async def bus_of(stage: Stage) -> Bus:
    """A connection to the stage's server."""
    config = BusConfig(url=stage["nats_url"], user=stage["nats_user"], password=stage["nats_password"], name="bench")
    return await Bus.connect(config, SystemClock())


async def started(floor: Baseline) -> AsyncIterator[Measured]:
    """Jobs per second that go from submit to started task when a large cluster has room for all of them."""
    async with child("bench.stage", "--nodes", str(NODES_LARGE)) as stage:
        bus = await bus_of(stage)
        request = post(stage["url"], BATCH, body=batch_body(JOB), token=stage["token"])
        first = await bus.last_seq(LOG.name) + 1
        begun = time.perf_counter()
        counting = asyncio.ensure_future(count_started(bus, first))
        load = await drive(stage["url"], lambda _: request, connections=4, seconds=60, count_max=STARTED // BATCH_SIZE)
        assert load.failed == 0, f"{load.failed} of {load.count} batches were refused"
        ended, decided = await asyncio.wait_for(counting, STARTED_TIMEOUT_S)
        await bus.close()
    yield Measured(name="started", value=STARTED / (ended - begun), unit="jobs/s", baseline=floor)
    yield Measured(name="decided", value=decided / (ended - begun), unit="decisions/s", baseline=floor)


async def count_started(bus: Bus, first: int) -> tuple[float, int]:
    """When the last of the jobs started, and how many placements and refusals were decided on the way."""
    count = decided = 0
    async for message in bus.read(LOG.name, first):
        for fact in decode_batch(message.data).facts:
            if isinstance(fact, TaskStarted):
                count += 1
            elif isinstance(fact, RoundDecided):
                decided += len(fact.placements) + sum(len(refusal.jobs) for refusal in fact.refusals)
        if count >= STARTED:
            break
    return time.perf_counter(), decided

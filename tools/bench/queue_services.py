"""Kueue's shapes through the whole platform: over HTTP in real time, NATS with every write synced, simulated machines.

Workloads arrive on the shape's clock, run as long as they say, and the run is over when the last has ended. What the
clock and the machines need at least is a floor: two of three cohorts are busy most of the time.
"""

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
from msgspec import Struct

from bench.child import child
from bench.load import Connection, post
from bench.pipeline import Stage, bus_of
from bench.queue_shapes import Shape, arrivals, groups, machines, policy
from bench.rows import Baseline, Measured
from bench.under_load import send
from gangline_core.facts import GpusEmpty, TaskStarted
from gangline_core.spec import JobSpec
from gangline_kit.bus import Bus
from gangline_lab.sim.workload import Arrival
from gangline_wire.codec import decode_batch
from gangline_wire.streams import LOG
from gangline_wire.views import BatchView

BATCH_MAX = 500
TIMEOUT_S = 1_800.0


class Lived(Struct):
    """What became of the workloads, in seconds of this process's clock."""

    sent: dict[int, float]
    """Per job when it was due."""
    classes: dict[int, str]
    started: dict[int, float]
    ended: dict[int, float]


async def service_rows(shape: Shape, kueue_wall_s: float) -> AsyncIterator[Measured]:
    """Wall time of the whole run, and mean waits by class, all in real time; Kueue's for as many workloads beside."""
    with tempfile.TemporaryDirectory(prefix="gangline-bench-") as name:
        described = Path(name) / "machines.json"
        describe(shape, described)
        async with child("bench.stage", "--cluster", str(described)) as stage:
            await prepare(stage, shape)
            bus = await bus_of(stage)
            begun, lived = await run(stage, bus, shape)
            await bus.close()
    wall_s = max(lived.ended.values()) - begun
    prefix = f"services.{shape.name}"
    kueue = Baseline(name="Kueue's mean wall time, as much of it as of its workloads", value=kueue_wall_s)
    yield Measured(name=f"{prefix}.wall", value=wall_s, unit="s", better="lower", baseline=kueue)
    for of in ("small", "medium", "large"):
        waits = [lived.started[job] - lived.sent[job] for job, own in lived.classes.items() if own == of]
        yield Measured(name=f"{prefix}.wait.{of}", value=sum(waits) / max(1, len(waits)), unit="s", better="lower")


def describe(shape: Shape, path: Path) -> None:
    """The shape's machines as a description that the simulated agent reads."""
    rows = [
        {"sn": node.id, "cpu_milli": node.cpu_milli, "memory_mib": node.memory_mib, "labels": node.labels}
        for node in machines(shape)
    ]
    path.write_bytes(msgspec.json.encode(rows))


async def prepare(stage: Stage, shape: Shape) -> None:
    """Groups with their quotas and the policy, each over HTTP."""
    for group in groups(shape):
        body = {"path": group.path, "guaranteed": group.guaranteed, "limit": group.limit}
        body["borrow_limit"] = group.borrow_limit
        answer = await send(stage, "PUT", f"/v1/groups/{group.path}", body)
        assert answer.status == 200, answer.body
    own = policy(shape)
    changes = {"ordering": own.ordering, "starvation_s": 0, "elastic_growth": False, "placement": own.placement}
    answer = await send(stage, "PUT", "/v1/policies/default", {**changes, "node_tasks_max": own.node_tasks_max})
    assert answer.status == 200, answer.body


async def run(stage: Stage, bus: Bus, shape: Shape) -> tuple[float, Lived]:
    """Submit on the clock and watch the log until everything has ended; when it began, and what became of it."""
    due = arrivals(shape)
    lived = Lived(sent={}, classes={}, started={}, ended={})
    first = await bus.last_seq(LOG.name) + 1
    begun = time.perf_counter()
    async with asyncio.timeout(TIMEOUT_S), asyncio.TaskGroup() as tasks:
        tasks.create_task(watch(bus, first, len(due), lived))
        await submit(stage, due, begun, lived)
    return begun, lived


async def submit(stage: Stage, due: list[Arrival], begun: float, lived: Lived) -> None:
    """Every workload when it is due, those of one moment together; one that is late is sent at once."""
    line = await Connection.open(stage["url"])
    at = 0
    while at < len(due):
        now_ms = due[at].at_ms
        together = [one for one in due[at : at + BATCH_MAX] if one.at_ms == now_ms]
        await asyncio.sleep(max(0.0, begun + now_ms / 1000 - time.perf_counter()))
        body = msgspec.json.encode({"jobs": [page(one.spec, one.work.run_ms) for one in together]})
        answer = await line.send(post(stage["url"], "/v1/jobs:batch", body=body, token=stage["token"]))
        assert answer.status == 202, answer.body
        entered = msgspec.json.decode(answer.body, type=BatchView)
        for one, told in zip(together, entered.jobs, strict=True):
            lived.sent[told.id] = begun + now_ms / 1000
            lived.classes[told.id] = one.spec.name.partition("-")[0]
        at += len(together)
    line.close()


def page(spec: JobSpec, run_ms: int) -> dict[str, object]:
    """A workload as a job file."""
    [role] = spec.roles
    wish = spec.topology
    spread = {"level": wish.spread_level, "most": wish.spread_most} if wish.spread_level else None
    asked = {"required": wish.required, "preferred": wish.preferred, "spread": spread}
    topology = {name: value for name, value in asked.items() if value}
    return {
        "name": spec.name,
        "group": spec.group,
        "tasks": role.count,
        "cpus": role.resources.cpu_milli / 1000,
        "priority": spec.priority,
        "grace": 0,
        "command": ["true"],
        "attributes": {"run_time_s": run_ms / 1000},
        **({"topology": topology} if topology else {}),
    }


async def watch(bus: Bus, first: int, jobs: int, lived: Lived) -> None:
    """Starts and ends as the log tells them, until every job has ended."""
    left: dict[int, int] = {}
    async for message in bus.read(LOG.name, first):
        now = time.perf_counter()
        for fact in decode_batch(message.data).facts:
            if isinstance(fact, TaskStarted):
                job = int(fact.task.partition("-")[0])
                lived.started[job] = now
                left[job] = left.get(job, 0) + 1
            elif isinstance(fact, GpusEmpty):
                for task in fact.tasks:
                    job = int(task.partition("-")[0])
                    left[job] = left.get(job, 0) - 1
                    if not left[job]:
                        lived.ended[job] = now
        if len(lived.ended) >= jobs and not any(left.values()):
            return

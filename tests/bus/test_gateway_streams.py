"""The gateway's streams on a real server: what the fakes promise holds there, too."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from aiohttp import ClientResponse
from aiohttp.test_utils import TestClient, TestServer
from tests.bus.conftest import Connect
from tests.make import node, spec
from tests.patience import LONG_S
from tests.services.gateway.fakes import Setting

from gangline_core.facts import GpusEmpty
from gangline_kit.bus import Bus
from gangline_wire import output, subjects
from gangline_wire.requests import EventLine
from gangline_wire.streams import STREAMS

Client = TestClient[Any, Any]


@pytest.fixture
async def bus(connect: Connect) -> Bus:
    bus = await connect()
    await bus.ensure(STREAMS)
    return bus


@pytest.fixture
async def setting(bus: Bus) -> Setting:
    return Setting(node("n1"), bus=bus)


@pytest.fixture
async def client(setting: Setting) -> AsyncIterator[Client]:
    async with TestClient(TestServer(setting.app)) as client:
        yield client


async def put_event(bus: Bus, place: str) -> None:
    line = EventLine(id=place, at=1, event="Running", job=1, group="t1", user="una", name="j", message="")
    await bus.append(subjects.event("t1", job=1, name="Running"), msgspec.json.encode(line))


async def ids_of(response: ClientResponse, count: int) -> list[str]:
    ids: list[str] = []
    async with asyncio.timeout(LONG_S):
        while len(ids) < count:
            line = (await response.content.readline()).decode()
            if line.startswith("id: "):
                ids.append(line[4:].strip())
    return ids


async def test_events_are_taken_up_after_the_last_seen_one(bus: Bus, setting: Setting, client: Client) -> None:
    for k in range(1, 40):
        await put_event(bus, f"{k}-0")
    headers = {**setting.headers("una"), "Last-Event-ID": "30-0"}
    response = await client.get("/v1/events", headers=headers)
    assert await ids_of(response, 9) == [f"{k}-0" for k in range(31, 40)]
    await put_event(bus, "40-0")
    assert await ids_of(response, 1) == ["40-0"]
    response.close()


async def test_a_followed_log_ends_with_its_last_byte(bus: Bus, setting: Setting, client: Client) -> None:
    world = setting.world
    job = world.submit_running(spec(group="t1", user="una"), "n1")
    (task,) = [task.id for task in world.tasks(job)]
    subject = subjects.output(job, task)
    await bus.append(subject, b"one\n", headers=output.headers(0))
    response = await client.get(f"/v1/jobs/{job}/logs?follow=true", headers=setting.headers("una"))
    assert await response.content.readline() == b"one\n"
    await bus.append(subject, b"\xfftwo", headers=output.headers(4, end="0"))
    world.exit(task)
    setting.follower.tell("agent.sim", GpusEmpty(tasks=(task,)))
    async with asyncio.timeout(LONG_S):
        assert await response.read() == b"\xfftwo"
    again = await client.get(f"/v1/jobs/{job}/logs", headers=setting.headers("una"))
    assert await again.read() == b"one\n\xfftwo"

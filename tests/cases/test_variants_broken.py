"""Reports about what breaks (K, N, O, S) once more in other shapes: counts flap, clocks part, readers are robbed."""

import asyncio
import re
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.bus.conftest import bus, connect, server
from tests.cases.house import ask, house
from tests.cases.test_leaders import FLEETS, all_end, messages
from tests.make import World, node, spec
from tests.services.gateway.conftest import Visitor, visitor

from dollhouse.loop import live
from gangline_core import facts as f
from gangline_core.ids import NodeId
from gangline_core.job import JobState
from gangline_core.limits.usage_by_class import recompute
from gangline_core.spec import ArraySpec
from gangline_core.state import decode_snapshot, encode_snapshot
from gangline_gateway.routes import ROUTES
from gangline_gateway.table import Route
from gangline_kit.bus import Bus, jetstream
from gangline_wire.streams import LOG

__all__ = ["bus", "connect", "server", "visitor"]  # fixtures of other folders

# --- K11: the number of GPUs flaps (armadaproject/armada#4390) --------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 8), min_size=1, max_size=12), st.lists(st.sampled_from([1, 2, 4]), max_size=4))
def test_whatever_numbers_a_node_reports_in_turn_nobody_is_evicted_and_nobody_put_where_nothing_is(
    reports: list[int], asked: list[int]
) -> None:
    world = World(node("n1"))
    held = [world.submit_running(spec(gpus=size), "n1") for size in (4, 1, 1)]
    waiting = [world.submit(gpus=size) for size in asked]
    for count in reports:
        before = {job for job in waiting if world.job(job).tasks}
        world.see(node("n1", gpus=count)).wait(1)
        world.round()
        given_now = [task for job in waiting if job not in before for task in world.tasks(job)]
        assert all(share.index < count for task in given_now for share in task.gpus)
        assert [world.job(job).state for job in held] == [JobState.RUNNING] * 3
        assert recompute(world.state) == {path: used for path, used in world.state.usage.items() if used}
        world.state = decode_snapshot(encode_snapshot(world.state))
    world.see(node("n1")).wait(1)
    world.round()
    used = [share.index for job in (*held, *waiting) for task in world.tasks(job) for share in task.gpus]
    assert len(used) == len(set(used))
    left = 8 - len(used)
    assert all(size > left for job, size in zip(waiting, asked, strict=True) if not world.job(job).tasks)


# --- K10: several machines of one gang die (skypilot-org/skypilot#825) ------------------------------------------------


@pytest.mark.parametrize("lost", [("n1", "n3"), ("n4", "n2"), ("n3", "n3"), ("n4", "n3", "n2", "n1")])
def test_a_gang_that_loses_one_machine_after_the_other_starts_again_once_and_whole(lost: tuple[str, ...]) -> None:
    world = World(*(node(f"n{k}") for k in range(1, 9)))
    gang = world.submit_running(spec(gpus=8, tasks=4), "n1", "n2", "n3", "n4")
    for name in lost:
        world.tell("telemetry", f.NodeLost(node=NodeId(name), silent_ms=60_000))
        world.wait(1).round()
    world.stop_all()
    world.wait(1).round()
    assert world.job(gang).attempt == 2, "one loss, however many machines it took"
    assert len(world.tasks(gang)) == 4
    assert not {task.node for task in world.tasks(gang)} & set(lost)


# --- N02: two clocks part from each other (kubernetes/kubernetes#125761) ----------------------------------------------


def test_leader_and_standby_whose_clocks_jump_apart_and_change_places_write_one_history(tmp_path: Path) -> None:
    live(parted_story(tmp_path))


async def parted_story(tmp_path: Path) -> None:
    async with house(tmp_path, FLEETS, copies=2) as world:
        jobs: list[int] = []
        for step, kind in enumerate(("admission", "queue", "placement", "telemetry", "accounting")):
            world.set_clock(kind, 3600 * (-1) ** step)
            world.set_clock(f"{kind}-2", -3600 * (-1) ** step)
            world.set_clock("one", -1800)
            world.set_clock("two", 1800)
            jobs += await world.submit(*(ask(run=5, gpus=2) for _ in range(4)))
            await world.clock.sleep(4)
            await world.crash(kind)
            jobs += await world.submit(*(ask(run=5, gpus=2) for _ in range(4)))
            await world.clock.sleep(8)
        await all_end(world, jobs)
        times = [message.at for message in messages(world)]
        assert max(times) - min(times) < 3_600_000 * 2
        world.prove_books()


# --- O01: consumers are taken away all the time (nats-io/nats.go#1094) ------------------------------------------------


async def test_a_reader_whose_consumer_is_taken_away_again_and_again_reads_everything_once(bus: Bus) -> None:
    async def read() -> list[int]:
        seen: list[int] = []
        async with aclosing(bus.read(LOG.name, 1)) as stored:
            async for message in stored:
                seen.append(message.seq)
                if len(seen) == 200:
                    break
        return seen

    async def rob() -> None:
        while True:
            for name in await jetstream.consumers(bus.connection, LOG.name):
                try:
                    await jetstream.call(bus.connection, f"CONSUMER.DELETE.{LOG.name}.{name}")
                except jetstream.NotFoundError:
                    continue
            await bus.clock.sleep(0.1)

    async with asyncio.TaskGroup() as group:
        reading = group.create_task(read())
        robbing = group.create_task(rob())
        for number in range(200):
            await bus.append("gangline.log.admission", b"%d" % number)
            if number % 20 == 0:
                await bus.clock.sleep(0.1)
        await bus.clock.sleep(1)
        robbing.cancel()
    assert reading.result() == list(range(1, 201))


# --- S01: the members of a foreign array (windmill-labs/windmill#10341) -----------------------------------------------

VERBS = [route for route in ROUTES if route.path.startswith("/v1/jobs/{id}")]


@pytest.mark.parametrize("route", VERBS, ids=lambda route: f"{route.method} {route.path}")
async def test_a_member_of_a_foreign_array_is_like_none_and_like_its_array(visitor: Visitor, route: Route) -> None:
    world = visitor.setting.world
    array = world.submit(spec(group="t1", user="una", array=ArraySpec(ranges=((0, 499, 1),), at_most=2)))
    world.round()
    members = [array + 1, array + 2, array + 500]
    assert members[0] in world.state.kept.jobs, "the first ones are jobs already"
    assert members[2] not in world.state.kept.jobs
    before = world.state.kept.seq
    answers: set[tuple[int, str]] = set()
    for number in (array, *members, 987_654):
        body: dict[str, Any] = {} if route.example is None else {"json": route.example}
        response = await visitor.call("tom", route.method, route.path.replace("{id}", str(number)), **body)
        told = re.sub(r'"request_id":"[^"]*"', "", await response.text())
        answers.add((response.status, re.sub(rf"\b{number}\b", "N", told)))
    assert len(answers) == 1, answers
    assert next(iter(answers))[0] in (400, 404, 422)
    assert world.state.kept.seq == before

"""Several placement services on one bus decide shares of the same rounds; nothing is booked twice, whoever dies."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress

import aiohttp
import pytest
from msgspec.structs import replace
from tests.make import node, spec
from tests.patience import free_port

from gangline_core import facts as f
from gangline_core.fold import Message, apply
from gangline_core.ids import JobId
from gangline_core.job import JobState
from gangline_core.redecide import redecide
from gangline_core.state import State, encode_snapshot
from gangline_kit.config import KitConfig
from gangline_kit.follower import as_message
from gangline_kit.lane import Lane
from gangline_kit.leader import lead
from gangline_kit.nats_server import NatsServer
from gangline_kit.service import Site, open_site
from gangline_lab.replay import DECIDING
from gangline_wire.lanes import kind_of
from gangline_wire.streams import LOG

SCHEDULERS = 3
NODES = 24
JOBS = 120
WAIT_S = 90
"""Processes start slowly on a busy machine."""

Serve = Callable[[str], Awaitable[tuple[asyncio.subprocess.Process, int]]]


@pytest.fixture
async def serve(server: NatsServer) -> AsyncIterator[Serve]:
    """Starts services as processes of their own."""
    started: list[asyncio.subprocess.Process] = []

    async def serve(kind: str) -> tuple[asyncio.subprocess.Process, int]:
        port = free_port()
        environ = {key: value for key, value in os.environ.items() if not key.startswith("GANGLINE_")}
        own = {"GANGLINE_NATS_URL": server.url, "GANGLINE_HTTP_PORT": str(port)}
        if kind == "placement":
            own["GANGLINE_PLACEMENT_SHARE_WAIT_S"] = "5"
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", f"gangline_{kind}.main", env=environ | own, stderr=asyncio.subprocess.DEVNULL
        )
        started.append(process)
        return process, port

    yield serve
    for process in started:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.fixture
async def site(server: NatsServer) -> AsyncIterator[Site]:
    async with open_site("test", KitConfig(nats_url=server.url, instance="test")) as site:
        yield site


async def write(site: Site, lane_name: str, *facts: f.Fact) -> None:
    """Append facts to a lane as its leader."""

    async def work(lane: Lane) -> None:
        await lane.append(facts)

    await lead(site, lane_name, work)


async def submit(site: Site, count: int) -> list[JobId]:
    first = site.follower.state.kept.next_job
    jobs = [JobId(first + k) for k in range(count)]
    asked = [spec(name=f"job-{job}", gpus=1) for job in jobs]
    pairs = zip(jobs, asked, strict=True)
    await write(site, "admission", *(f.JobAdmitted(job=j, spec=s, submit_id=str(j), by="ada") for j, s in pairs))
    return jobs


async def all_started(site: Site, jobs: list[JobId]) -> None:
    def done() -> bool:
        known = (site.follower.state.job(job) for job in jobs)
        return all(job is not None and job.state == JobState.STARTING for job in known)

    await site.follower.wait_change(done, WAIT_S)


async def all_counted(ports: list[int], commits: int) -> None:
    """The processes' counters come to this; they count what they hear, perhaps a little later than we do."""
    told = -1.0
    with suppress(TimeoutError):
        async with aiohttp.ClientSession() as session, asyncio.timeout(WAIT_S):
            while told != commits:
                told = sum([await commits_of(session, port) for port in ports])
                await asyncio.sleep(0.02)
    assert told == commits


async def commits_of(session: aiohttp.ClientSession, port: int) -> float:
    async with session.get(f"http://127.0.0.1:{port}/metrics") as answer:
        lines = (await answer.text()).splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith("gangline_share_commits_total{"))


def assert_booked_once(state: State) -> None:
    for name, use in state.use.items():
        assert all(0 <= taken <= 1000 for taken in use.gpu_milli), name


async def replayed(site: Site) -> tuple[State, int, set[str]]:
    """The log folded anew, every decision made again; how many shares there were, and who wrote them."""
    messages: list[Message] = []
    last = site.follower.state.kept.seq
    tail = site.bus.tail(LOG.name, 1)
    async for batch in tail.batches():
        messages += [as_message(one) for one in batch]
        if messages[-1].seq >= last:
            break
    pending: dict[int, list[Message]] = {}
    for message in messages:
        if kind_of(message.lane) in DECIDING:
            pending.setdefault(message.seen, []).append(message)
    state, shares, writers = State(), 0, set[str]()
    for message in (None, *messages):
        if message is not None:
            apply(state, message)
            writers |= {
                fact.holder
                for fact in message.facts
                if isinstance(fact, f.LeadershipTaken) and kind_of(message.lane) == "scheduler"
            }
        for written in pending.pop(state.kept.seq, ()):
            shares += sum(isinstance(fact, f.ShareDecided) for fact in written.facts)
            again = redecide(state, written.lane, written.facts, written.at)
            assert again is None or again == written.facts, f"{written.lane} at {written.seq}"
    assert not pending
    return state, shares, writers


async def test_schedulers_in_several_processes_share_rounds_and_one_that_dies_costs_nothing(
    serve: Serve, site: Site
) -> None:
    machines = [node(f"n{k:02}", gpus=8, address=f"10.0.0.{k}") for k in range(NODES)]
    await write(site, "agent.sim", *(f.NodeSeen(node=machine) for machine in machines))
    pool = site.follower.state.kept.pools["default"]
    policy = replace(pool.policy, schedulers=SCHEDULERS, scheduler_preference="latency-first", version=1)
    await write(site, "admission", f.PolicySet(pool="default", policy=policy, by="ada"))
    replicas = [await serve("placement") for _ in range(SCHEDULERS)]
    await serve("queue")
    lanes = [f"scheduler.default.{number}" for number in range(SCHEDULERS)]
    await site.follower.wait_change(lambda: all(lane in site.follower.state.kept.epochs for lane in lanes), WAIT_S)
    jobs = await submit(site, JOBS)
    await all_started(site, jobs)
    tallies = site.follower.state.kept.pools["default"].schedulers
    assert all(tallies[number].commits > 0 for number in range(SCHEDULERS)), "every scheduler placed some"
    assert_booked_once(site.follower.state)
    await all_counted([port for _, port in replicas], sum(tally.commits for tally in tallies.values()))
    replicas[-1][0].send_signal(signal.SIGKILL)
    more = await submit(site, 24)
    await all_started(site, more)
    assert_booked_once(site.follower.state)
    state, shares, writers = await replayed(site)
    assert len(writers) >= SCHEDULERS, "each process led a scheduler"
    assert shares >= SCHEDULERS
    assert encode_snapshot(state) == encode_snapshot(site.follower.state)

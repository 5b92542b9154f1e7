"""A full log and neighbours that take nothing off the bus, on a real server; after public reports."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer
from tests.patience import LONG_S, quick

import gangline_admission.app
import gangline_admission.config
from gangline_core.facts import JobAdmitted
from gangline_core.ids import JobId
from gangline_gateway.app import make_app
from gangline_gateway.config import Config
from gangline_kit.bus import Bus, BusConfig
from gangline_kit.clock import SystemClock
from gangline_kit.config import KitConfig
from gangline_kit.follower import as_message
from gangline_kit.nats_server import NatsServer
from gangline_kit.service import Site, open_site
from gangline_wire import subjects
from gangline_wire.codec import encode
from gangline_wire.samples import GpuSample, NodeSample, Samples
from gangline_wire.streams import LOG, Stream

pytestmark = pytest.mark.bus

Client = TestClient[Any, Any]


@asynccontextmanager
async def platform(folder: Path, *, answer_s_max: float) -> AsyncIterator[tuple[NatsServer, Site, Client]]:
    """A door and a gateway on a real server."""
    server = NatsServer(folder / "nats")
    await server.start()
    try:
        token_file = str(folder / "token")
        async with open_site("test", KitConfig(nats_url=server.url)) as site, asyncio.TaskGroup() as group:
            config = gangline_admission.config.Config(admin_token_file=token_file, first_group="lab", first_user="ann")
            admission = group.create_task(gangline_admission.app.run(site, config))
            await site.follower.wait_change(lambda: bool(site.follower.state.kept.tokens), LONG_S)
            token = (await asyncio.to_thread(Path(token_file).read_text)).strip()
            app = make_app(dataclasses.replace(site, name="gateway"), Config(answer_s_max=answer_s_max))
            headers = {"Authorization": f"Bearer {token}"}
            async with TestClient(TestServer(app), headers=headers) as client:
                yield server, site, client
            admission.cancel()
    finally:
        await server.stop()


async def submit(client: Client, key: str) -> tuple[int, Any, str]:
    document = {"command": ["true"], "group": "lab", "user": "ann", "labels": {"key": key}}
    response = await client.post("/v1/jobs", json=document, headers={"Idempotency-Key": key})
    return response.status, await response.json(), response.headers.get("Retry-After", "")


async def submit_in_the_end(client: Client, key: str) -> Any:
    """The same submit again and again until it is taken, as a client does that was told to come back."""
    for _ in range(100):
        status, body, _ = await submit(client, key)
        if status == 202:
            return body
        await asyncio.sleep(0.1)
    raise AssertionError("never taken")


async def admitted(site: Site) -> list[JobId]:
    """Jobs that the log holds, in its order."""
    found: list[JobId] = []
    async for stored in site.bus.read_subject(LOG.name, subjects.log("admission"), 1, follow=False):
        facts = as_message(stored).facts
        found += [fact.job for fact in facts if isinstance(fact, JobAdmitted)]
    return found


# --- a full log (nats-io/nats-server#6196) -------------------------------------------------------------------------


async def test_a_full_log_is_a_refused_submit_that_may_be_repeated_and_never_a_lost_job(tmp_path: Path) -> None:
    async with platform(tmp_path, answer_s_max=4.0) as (_, site, client):
        await site.bus.ensure((Stream(name=LOG.name, subjects=LOG.subjects, bytes_max=30_000),))
        answered: list[int] = []
        refused = ""
        for number in range(200):
            status, body, retry = await submit(client, f"k{number}")
            if status != 202:
                assert (status, body["code"]) == (503, "unavailable")
                assert int(retry) >= 1
                refused = f"k{number}"
                break
            answered.append(body["id"])
        assert refused, "the log was filled"
        assert (await client.get("/v1/jobs")).status == 200
        assert (await client.get("/livez")).status == 200
        assert await admitted(site) == answered
        await site.bus.ensure((LOG,))
        accepted = await submit_in_the_end(client, refused)
        jobs = await admitted(site)
        assert jobs[:-1] == answered
        assert jobs[-1] == accepted["id"], "the repeated submit is one job"


# --- neighbours (nats-io/nats-server#2679) -------------------------------------------------------------------------


async def test_a_listener_that_stands_still_holds_up_neither_senders_nor_submits(tmp_path: Path) -> None:
    async with platform(tmp_path, answer_s_max=LONG_S) as (server, site, client):
        frozen = await Bus.connect(BusConfig(url=server.url), SystemClock())
        stuck = asyncio.Event()

        async def hear(subject: str, data: bytes, headers: dict[str, str]) -> None:
            await stuck.wait()

        subscription = await frozen.subscribe(f"{subjects.SAMPLES}.>", hear)
        gpus = tuple(GpuSample(index=k, uuid=f"GPU-{k}", model="A100", utilisation_percent=k) for k in range(8))
        sample = encode(Samples(agent="a", nodes=tuple(NodeSample(node=f"n{k}", at=1, gpus=gpus) for k in range(200))))

        async def took_s(turn: int) -> float:
            began_s = site.clock.monotonic_s()
            for number in range(30):
                # Half a minute of samples of 200 nodes, all at once.
                for _ in range(10):
                    await site.bus.publish(subjects.samples("a"), sample)
                assert (await submit(client, f"s{turn}-{number}"))[0] == 202
            return site.clock.monotonic_s() - began_s

        await quick(20, took_s)
        stuck.set()
        await frozen.unsubscribe(subscription)
        await frozen.close()


async def test_while_the_bus_is_away_reads_go_on_and_submits_are_told_to_come_back(tmp_path: Path) -> None:
    async with platform(tmp_path, answer_s_max=LONG_S) as (server, site, client):
        assert (await submit(client, "before"))[0] == 202
        gone = asyncio.Event()
        site.bus.connection.listen(gone.set)
        await server.kill()
        await gone.wait()
        answers = await asyncio.gather(*(submit(client, f"k{number}") for number in range(50)), return_exceptions=True)
        for answer in answers:
            assert not isinstance(answer, BaseException)
            assert (answer[0], answer[1]["code"]) == (503, "unavailable")
            assert int(answer[2]) >= 1
        assert (await client.get("/v1/jobs")).status == 200
        assert (await client.get("/readyz")).status == 503
        await server.start()
        await submit_in_the_end(client, "after")
        jobs = await admitted(site)
        assert len(jobs) == len(set(jobs))
        labels = [site.follower.state.kept.jobs[job].spec.labels["key"] for job in jobs]
        assert len(labels) == len(set(labels)), "no submit became two jobs"

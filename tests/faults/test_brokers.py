"""Three brokers under the whole platform: each of them ends, then dies while jobs run, then two at once.

Every stream and bucket is kept by all three, and two of each deciding service stand by each other.
"""

import asyncio
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import aiohttp
import pytest
from msgspec import Struct, json
from msgspec.structs import replace
from tests.faults.stand import Stand, stand
from tests.patience import free_ports

from gangline_kit.bus import Bus, jetstream
from gangline_kit.clock import SystemClock
from gangline_kit.errors import TemporaryError
from gangline_kit.nats_cluster import NatsCluster
from gangline_kit.nats_server import NatsServer
from gangline_wire.streams import LEASES, LOG

Figure = Callable[[str, float], None]
ALONE_S = 4.0
"""How long one broker of three is left alone; it may take nothing."""
AGREE_S_MAX = 90.0
OURS_S_MAX = 3.0
"""NATS lets a group of brokers be without its leader for 4 to 9 s before it elects another; so much may come on top."""
TRIES = 3
"""A broker dies once more where more came on top: others may have had the machine."""
HELD_S = 12.0
"""The gateway holds a submit for longer than brokers need as a rule when one has died; at times they vote twice."""
WITNESS_S = 0.1
CONSUMER = {
    "stream_name": LOG.name,
    "config": {"deliver_subject": "_INBOX.witness", "ack_policy": "none", "num_replicas": 1, "mem_storage": True},
}


class Peer(Struct, frozen=True):
    """One broker but the leader, as the leader sees it."""

    current: bool = False
    offline: bool = False


class Peers(Struct, frozen=True):
    replicas: tuple[Peer, ...] = ()


class Known(Struct, frozen=True):
    cluster: Peers = Peers()


@pytest.mark.timeout(900)
async def test_one_and_two_of_three_brokers_die_under_the_whole_platform_and_nothing_is_lost_or_doubled(
    tmp_path: Path, figure: Figure
) -> None:
    cluster = NatsCluster(tmp_path / "nats", ports=free_ports(6))
    await cluster.start()
    try:
        async with stand(tmp_path, replicas=2, nats_url=cluster.url, nats_replicas=3) as here:
            await here.recover()
            figure("three brokers: a job all the way, undisturbed", await here.recover())
            for number, server in enumerate(cluster.servers):
                figure(f"broker {number + 1} of three is asked to end", await handed_over(here, server))
            ours_s = await one_after_the_other(here, cluster, figure)
            await two_at_once(here, cluster, figure)
            await here.prove()
            busy = os.getloadavg()[0] > 2 * len(os.sched_getaffinity(0))
            assert busy or ours_s < OURS_S_MAX, f"{ours_s:.1f} s more than the brokers themselves took"
    finally:
        await cluster.stop()


async def handed_over(here: Stand, server: NatsServer) -> float:
    """Seconds from asking it to end until a new job had gone all the way; it hands over what it leads first."""
    jobs = [asyncio.ensure_future(here.submit(run_s=1)) for _ in range(5)]
    ending = asyncio.ensure_future(server.stop())
    took_s = await here.recover()
    await ending
    for job in jobs:
        await here.ended(await job)
    await server.start()
    await agreed(here)
    return took_s


async def one_after_the_other(here: Stand, cluster: NatsCluster, figure: Figure) -> float:
    """Each dies once; gives how much longer than log and leases had no leader the platform took, at most."""
    ours_s = 0.0
    for number in range(len(cluster.servers)):
        times = [await one_dies(here, cluster, number, figure)]
        while times[-1] >= OURS_S_MAX and len(times) < TRIES:
            times.append(await one_dies(here, cluster, number, figure))
        ours_s = max(ours_s, min(times))
    return ours_s


async def one_dies(here: Stand, cluster: NatsCluster, number: int, figure: Figure) -> float:
    """How much longer than log and leases had no leader the platform took."""
    server = cluster.servers[number]
    jobs = [asyncio.ensure_future(here.submit(run_s=1)) for _ in range(5)]
    others = ",".join(other.url for other in cluster.servers if other is not server)
    witness = await Bus.connect(replace(here.bus.connection.config, url=others), SystemClock())
    await server.kill()
    asked = asyncio.ensure_future(asked_once(here))
    led = asyncio.gather(*(led_again(witness, what) for what in ("log", "leases", "consumers")))
    took_s = await here.recover()
    log_s, leases_s, consumers_s = await led
    figure(f"broker {number + 1} of three dies: until the log has a leader", log_s)
    figure(f"broker {number + 1} of three dies: until the leases have one", leases_s)
    figure(f"broker {number + 1} of three dies: until consumers are made", consumers_s)
    figure(f"broker {number + 1} of three dies: until a new job has gone all the way", took_s)
    assert await asked == 202 or max(log_s, leases_s) > HELD_S, "who asks meanwhile waits, and is not refused"
    for job in jobs:
        await here.ended(await job)
    await witness.close()
    await server.start()
    await agreed(here)
    return took_s - max(log_s, leases_s)


async def asked_once(here: Stand) -> int:
    """What the API answers to one submit, however long that takes."""
    body = {"gpus": 1, "command": ["true"], "labels": {"key": f"once-{time.monotonic()}"}}
    async with here.session.post("/v1/jobs", json=body, timeout=aiohttp.ClientTimeout(total=AGREE_S_MAX)) as answer:
        return answer.status


async def led_again(witness: Bus, what: str) -> float:
    """Seconds until the other two brokers do this again; they are asked all the time."""
    connection = witness.connection
    ask = {
        "log": partial(jetstream.call, connection, f"STREAM.INFO.{LOG.name}"),
        "leases": partial(jetstream.append, connection, f"$KV.{LEASES.name}.witness", b"", headers=None),
        "consumers": partial(jetstream.call, connection, f"CONSUMER.CREATE.{LOG.name}", CONSUMER),
    }[what]
    began_s = time.monotonic()
    async with asyncio.timeout(AGREE_S_MAX):
        while True:
            try:
                await ask(timeout_s=WITNESS_S)
                return time.monotonic() - began_s
            except TemporaryError:
                await asyncio.sleep(0.02)


async def two_at_once(here: Stand, cluster: NatsCluster, figure: Figure) -> None:
    """What is asked for meanwhile is answered when a second one is back, and not before."""
    for server in cluster.servers[:2]:
        await server.kill()
    await asyncio.sleep(1)
    before = len(here.answered)
    asked = [asyncio.ensure_future(here.submit(run_s=0.5)) for _ in range(5)]
    await asyncio.sleep(ALONE_S)
    assert len(here.answered) == before, "one of three took something that it may lose"
    began_s = time.monotonic()
    await cluster.servers[0].start()
    for job in asked:
        await here.ended(await job)
    figure("two of three brokers dead, one comes back: until what was asked for has ended", time.monotonic() - began_s)
    figure("and a new job all the way", await here.recover())
    await cluster.servers[1].start()
    await agreed(here)
    await here.recover()


async def agreed(here: Stand) -> None:
    """All three have the log: whoever came back has caught up, so that the next one may go."""
    async with asyncio.timeout(AGREE_S_MAX):
        while True:
            try:
                info = await jetstream.call(here.bus.connection, f"STREAM.INFO.{LOG.name}")
            except TemporaryError:
                info = b"{}"
            peers = json.decode(info, type=Known).cluster.replicas
            if len(peers) == 2 and all(peer.current and not peer.offline for peer in peers):
                return
            await asyncio.sleep(0.2)

"""Three brokers under the whole platform: each of them dies while jobs run, then two at once.

Every stream and bucket is kept by all three, and two of each deciding service stand by each other.
"""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import Struct, json
from tests.faults.stand import Stand, stand

from gangline_kit.bus import jetstream
from gangline_kit.errors import TemporaryError
from gangline_kit.nats_cluster import NatsCluster
from gangline_wire.streams import LOG

Figure = Callable[[str, float], None]
ALONE_S = 4.0
"""How long one broker of three is left alone; it may take nothing."""
AGREE_S_MAX = 30.0


class Peer(Struct, frozen=True):
    """One broker but the leader, as the leader sees it."""

    current: bool = False
    offline: bool = False


class Peers(Struct, frozen=True):
    replicas: tuple[Peer, ...] = ()


class Known(Struct, frozen=True):
    cluster: Peers = Peers()


@pytest.mark.timeout(400)
async def test_one_and_two_of_three_brokers_die_under_the_whole_platform_and_nothing_is_lost_or_doubled(
    tmp_path: Path, figure: Figure
) -> None:
    cluster = NatsCluster(tmp_path / "nats")
    await cluster.start()
    try:
        async with stand(tmp_path, replicas=2, nats_url=cluster.url, nats_replicas=3) as here:
            await here.recover()
            figure("three brokers: a job all the way, undisturbed", await here.recover())
            await one_after_the_other(here, cluster, figure)
            await two_at_once(here, cluster, figure)
            await here.prove()
    finally:
        await cluster.stop()


async def one_after_the_other(here: Stand, cluster: NatsCluster, figure: Figure) -> None:
    for number, server in enumerate(cluster.servers, start=1):
        jobs = [asyncio.ensure_future(here.submit(run_s=1)) for _ in range(5)]
        await server.kill()
        figure(f"broker {number} of three dies: until a new job has gone all the way", await here.recover())
        for job in jobs:
            await here.ended(await job)
        await server.start()
        await agreed(here)


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

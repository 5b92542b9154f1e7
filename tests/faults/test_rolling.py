"""A rolling restart of everything under load: three brokers and two copies of each writer, one after the other."""

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.faults.stand import Stand, stand
from tests.faults.test_brokers import agreed
from tests.faults.test_services import FAIL_OVER_S_MAX, WRITERS, fail_over
from tests.patience import free_ports

from gangline_kit.nats_cluster import NatsCluster

Figure = Callable[[str, float], None]

LOADS = 3
"""So many clients submit and wait all the time."""


@pytest.mark.timeout(900)
async def test_everything_begins_anew_one_after_the_other_under_load_and_nothing_is_lost_or_doubled(
    tmp_path: Path, figure: Figure
) -> None:
    cluster = NatsCluster(tmp_path / "nats", ports=free_ports(6))
    await cluster.start()
    try:
        async with stand(tmp_path, replicas=2, nats_url=cluster.url, nats_replicas=3) as here:
            names = here.platform.service_names()
            assert {f"{name}{copy}" for name in WRITERS for copy in ("", "-2")} <= set(names)
            await here.recover()
            usual_s = await here.recover()
            waits, stop = list[float](), asyncio.Event()
            loads = [asyncio.ensure_future(load(here, stop, waits)) for _ in range(LOADS)]
            began_s = time.monotonic()
            for name in names:
                await here.restart(name)
            for server in cluster.servers:
                await server.stop()
                await server.start()
                await agreed(here)
            figure(f"rolling restart of {len(names)} processes and 3 brokers under load", time.monotonic() - began_s)
            stop.set()
            await asyncio.gather(*loads)
            assert len(waits) > len(names), "jobs came all the time"
            figure(f"the slowest of {len(waits)} submits meanwhile", max(waits))
            slowest_s = await fail_over(here, usual_s, figure)
            await here.prove()
            busy = os.getloadavg()[0] > 2 * len(os.sched_getaffinity(0))
            assert busy or slowest_s < FAIL_OVER_S_MAX, f"the slowest fail-over took {slowest_s:.1f} s"
    finally:
        await cluster.stop()


async def load(here: Stand, stop: asyncio.Event, waits: list[float]) -> None:
    """Jobs of a second or less, one after the other, and how long each took to be accepted."""
    while not stop.is_set():
        asked_s = time.monotonic()
        await here.submit(run_s=0.3)
        waits.append(time.monotonic() - asked_s)
        await asyncio.sleep(0.05)

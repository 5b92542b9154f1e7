"""Field case N02: a leader frozen for longer than its lease wakes up in the middle of its work."""

import asyncio
import os
import signal
import sys

from tests.patience import LONG_S

from gangline_core.facts import PoolSet
from gangline_kit.bus import Bus
from gangline_kit.follower import as_message
from gangline_kit.nats_server import NatsServer
from gangline_wire.streams import LOG

PROGRAM = """
import asyncio
from gangline_core.cluster import Pool
from gangline_core.facts import PoolSet
from gangline_kit.leader import lead
from gangline_kit.service import run_service

async def run(site):
    async def work(lane):
        while True:
            await lane.append((PoolSet(pool=Pool(name=site.instance), by=site.instance),))
            await asyncio.sleep(0.01)
    await lead(site, "admission", work)

run_service("test", run)
"""


async def start(server: NatsServer, name: str) -> asyncio.subprocess.Process:
    environ = {key: value for key, value in os.environ.items() if not key.startswith("GANGLINE_")}
    settings = {"GANGLINE_NATS_URL": server.url, "GANGLINE_INSTANCE": name}
    return await asyncio.create_subprocess_exec(sys.executable, "-c", PROGRAM, env=environ | settings)


async def test_a_leader_frozen_past_its_lease_writes_nothing_after_its_heir_began(bus: Bus, server: NatsServer) -> None:
    writers: list[tuple[str, int]] = []
    """Who wrote each message, and in which epoch."""
    processes = [await start(server, "frozen")]
    try:
        async with asyncio.timeout(LONG_S):
            async for stored in bus.read(LOG.name, 1):
                message = as_message(stored)
                writers += [(fact.by, message.epoch) for fact in message.facts if isinstance(fact, PoolSet)]
                heirs = sum(name == "heir" for name, _ in writers)
                if len(processes) == 1 and len(writers) == 10:
                    processes.append(await start(server, "heir"))
                if len(writers) == 60:
                    processes[0].send_signal(signal.SIGSTOP)
                if heirs == 20:
                    processes[0].send_signal(signal.SIGCONT)
                # A machine that others have to themselves for seconds takes leases from who did nothing wrong.
                if heirs == 150 or len(writers) == 3000:
                    break
    finally:
        for process in processes:
            process.kill()
            await process.wait()
    assert [epoch for _, epoch in writers] == sorted(epoch for _, epoch in writers)
    assert {name for name, _ in writers} == {"frozen", "heir"}
    assert len(set(writers)) == len({epoch for _, epoch in writers}), "one writes in each epoch"

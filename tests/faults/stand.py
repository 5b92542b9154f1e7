"""A whole platform of real processes, its jobs, and what must be true of them in the end."""

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
from tests.patience import LONG_S

from gangline_core.facts import JobAdmitted, LeadershipTaken, TaskStarted
from gangline_embedded.config import PlatformConfig
from gangline_embedded.platform import Platform
from gangline_kit.bus import Bus, BusConfig
from gangline_kit.clock import SystemClock
from gangline_kit.follower import as_message
from gangline_wire.streams import LOG

NODES = "sn,cpu_milli,memory_mib,gpu,model\n" + "".join(f"n{k},64000,262144,8,V100M32\n" for k in range(8))
ANSWER_S_MAX = LONG_S


class Stand:
    """The platform with one client, who asks again until it is answered."""

    def __init__(self, platform: Platform, session: aiohttp.ClientSession, bus: Bus) -> None:
        """Nothing was submitted yet."""
        self.platform = platform
        self.session = session
        self.bus = bus
        self.answered: dict[str, int] = {}
        """Job by idempotency key, as the client was told."""
        self.cancelled: set[int] = set()
        """Jobs whose cancel was answered."""
        self._count = 0

    async def submit(self, *, run_s: float = 0.2) -> int:
        """One job, asked for until it is accepted; a repeat uses the same key."""
        self._count += 1
        key = f"key-{self._count}"
        body = {"gpus": 1, "command": ["true"], "labels": {"key": key}, "attributes": {"run_time_s": run_s}}
        deadline_s = time.monotonic() + ANSWER_S_MAX
        told = ""
        while time.monotonic() < deadline_s:
            try:
                async with self.session.post("/v1/jobs", json=body, headers={"Idempotency-Key": key}) as answer:
                    if answer.status == 202:
                        self.answered[key] = (await answer.json())["id"]
                        return self.answered[key]
                    told = await answer.text()
                    assert answer.status in (429, 503), told
            except (aiohttp.ClientError, TimeoutError) as error:
                told = repr(error)
            await asyncio.sleep(0.05)
        raise AssertionError(f"nobody took the job: {told}")

    async def state_of(self, job: int) -> str:
        """Where a job stands; "" while nobody says."""
        try:
            async with self.session.get(f"/v1/jobs/{job}") as answer:
                return str((await answer.json())["state"]) if answer.status == 200 else ""
        except (aiohttp.ClientError, TimeoutError):
            return ""

    async def ended(self, job: int) -> None:
        """Wait until a job has succeeded, or has ended as it was told to."""
        deadline_s = time.monotonic() + ANSWER_S_MAX
        while time.monotonic() < deadline_s:
            state = await self.state_of(job)
            if state == ("cancelled" if job in self.cancelled else "succeeded"):
                return
            assert state not in ("succeeded", "failed", "lost", "cancelled"), f"job {job} {state}"
            await asyncio.sleep(0.05)
        raise AssertionError(f"job {job} is {await self.state_of(job)}")

    async def cancel(self, job: int) -> None:
        """Have a job ended, asked for until somebody answers."""
        self.cancelled.add(job)
        deadline_s = time.monotonic() + ANSWER_S_MAX
        while time.monotonic() < deadline_s:
            try:
                async with self.session.delete(f"/v1/jobs/{job}") as answer:
                    if answer.status < 300:
                        return
                    assert answer.status in (409, 429, 503), await answer.text()
            except (aiohttp.ClientError, TimeoutError):
                pass
            await asyncio.sleep(0.05)
        raise AssertionError("nobody answered")

    async def recover(self) -> float:
        """Seconds until a new job has gone all the way."""
        began_s = time.monotonic()
        await self.ended(await self.submit())
        return time.monotonic() - began_s

    async def led_anew(self, kind: str, after: int) -> float:
        """Wait until somebody has taken a lane of this kind after this place of the log; gives when that was seen."""
        async with asyncio.timeout(ANSWER_S_MAX):
            async for stored in self.bus.read(LOG.name, after + 1):
                message = as_message(stored)
                is_its = message.lane.partition(".")[0] == kind
                if is_its and any(isinstance(fact, LeadershipTaken) for fact in message.facts):
                    return time.monotonic()
        raise AssertionError(f"the log ended before {kind} was led again")

    async def prove(self) -> None:
        """Everything that was answered is there once, ran once, and ended well."""
        for job in self.answered.values():
            await self.ended(job)
        admitted: Counter[str] = Counter()
        started: Counter[str] = Counter()
        end = await self.bus.last_seq(LOG.name)
        async for stored in self.bus.read_subject(LOG.name, "", 1, follow=False):
            for fact in as_message(stored).facts:
                if isinstance(fact, JobAdmitted):
                    admitted[fact.spec.labels["key"]] += 1
                elif isinstance(fact, TaskStarted):
                    started[fact.task] += 1
            if stored.seq >= end:
                break
        assert set(self.answered) <= set(admitted), "something that was answered is lost"
        assert set(admitted.values()) == {1}, "something was admitted twice"
        assert {task.split("-")[1] for task in started} == {"1"}, "something ran twice"
        assert set(started.values()) == {1}

    def lives(self, name: str) -> bool:
        """True unless the service process died and was not started again yet."""
        try:
            os.kill(self.platform.service_pid(name), 0)
        except ProcessLookupError:
            return False
        return True

    async def restart(self, name: str) -> None:
        """One process ends by SIGTERM, and its next one has begun."""
        await self.until_it_lives(name)
        starts = self.platform.service_starts(name)
        os.kill(self.platform.service_pid(name), signal.SIGTERM)
        async with asyncio.timeout(LONG_S):
            while self.platform.service_starts(name) == starts:  # noqa: ASYNC110 - a process of its own sets no event
                await asyncio.sleep(0.05)
        await asyncio.sleep(0.5)

    async def until_it_lives(self, name: str) -> None:
        """Wait until a process that died was started again."""
        async with asyncio.timeout(LONG_S):
            while not self.lives(name):  # noqa: ASYNC110 - a process of its own sets no event
                await asyncio.sleep(0.05)

    def pause(self, name: str) -> int:
        """SIGSTOP one service process; gives its id for `resume`."""
        pid = self.platform.service_pid(name)
        os.kill(pid, signal.SIGSTOP)
        return pid


def resume(pid: int) -> None:
    """SIGCONT."""
    os.kill(pid, signal.SIGCONT)


@asynccontextmanager
async def stand(folder: Path, **settings: Any) -> AsyncIterator[Stand]:
    """A running platform of one process per service, with simulated nodes."""
    nodes = folder / "nodes.csv"
    nodes.write_text(NODES)
    config = PlatformConfig(
        data_dir=folder / "data", processes=True, local_node=False, simulate=str(nodes), user="ann", **settings
    )
    async with Platform(config) as platform:
        headers = {"Authorization": f"Bearer {platform.token}"}
        timeout = aiohttp.ClientTimeout(total=6)
        user = password = ""
        if platform.nats is not None:
            user, password = "platform", (config.data_dir / "nats-platform.secret").read_text().strip()
        bus = await Bus.connect(BusConfig(url=platform.nats_url, user=user, password=password), SystemClock())
        try:
            async with aiohttp.ClientSession(platform.url, headers=headers, timeout=timeout) as session:
                yield Stand(platform, session, bus)
        finally:
            await bus.close()

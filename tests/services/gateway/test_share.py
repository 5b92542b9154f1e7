"""Nobody takes the gateway's time from others by asking: not by many questions, not by expensive ones."""

import asyncio

import pytest
from msgspec.structs import replace
from tests.services.gateway.conftest import Visitor
from tests.services.gateway.test_streams import running, write

from gangline_gateway.access import Caller, Role
from gangline_gateway.output import OutputReader
from gangline_gateway.share import KEPT, PART, Shares
from gangline_kit.bus import LogMessage
from gangline_kit.clock import ManualClock
from gangline_wire.limits import most

CALLER = Caller(user="una", role=Role.USER, name="una's", groups=("t1",), digest="d")
BURST_S = most("question_s")


async def test_who_took_a_burst_of_time_waits_and_others_do_not(visitor: Visitor) -> None:
    clock, bus = visitor.setting.clock, visitor.setting.bus
    await visitor.submit("una")
    await visitor.submit("tom")
    bus.work = lambda: clock.work(0.75 * BURST_S)
    await visitor.ask("una", "GET", "/v1/jobs/1/history")
    await visitor.ask("una", "GET", "/v1/jobs/1/history")
    bus.work = lambda: None
    refused = await visitor.call("una", "GET", "/v1/queue")
    assert refused.status == 429
    assert "question_s" in (await refused.json())["detail"]
    assert (await visitor.call("una", "POST", "/v1/jobs?dry_run=true", json={"command": ["true"]})).status == 429
    await visitor.submit("una")
    await visitor.ask("una", "POST", "/v1/jobs/1/cancel", status=202)
    await visitor.ask("tom", "GET", "/v1/queue")
    await clock.advance(int(refused.headers["Retry-After"]))
    await visitor.ask("una", "GET", "/v1/queue")


async def test_more_tokens_are_no_larger_share(visitor: Visitor) -> None:
    """A head makes as many tokens as it likes, also for itself."""
    visitor.setting.tokens["una again"] = visitor.setting.issue("user", user="una", groups=("t1",), expires_ms=1 << 50)
    visitor.setting.bus.work = lambda: visitor.setting.clock.work(2 * BURST_S)
    await visitor.submit("una")
    await visitor.ask("una", "GET", "/v1/jobs/1/history")
    assert (await visitor.call("una again", "GET", "/v1/queue")).status == 429
    await visitor.ask("tom", "GET", "/v1/queue")


async def test_who_follows_a_busy_log_may_still_ask(visitor: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the job writes is not the follower's doing; what was written before is work that they asked for."""
    take = OutputReader._take

    def long(reader: OutputReader, message: LogMessage) -> bytes:
        visitor.setting.clock.work(0.3 * BURST_S)
        return take(reader, message)

    job = running(visitor)
    logs = await visitor.call("una", "GET", f"/v1/jobs/{job}/logs?follow=true")
    monkeypatch.setattr(OutputReader, "_take", long)
    for _ in range(9):
        write(visitor, job, b"line\n")
    assert await logs.content.readexactly(45) == b"line\n" * 9
    await visitor.ask("una", "GET", "/v1/queue")
    again = await visitor.call("una", "GET", f"/v1/jobs/{job}/logs?follow=true")
    assert await again.content.readexactly(45) == b"line\n" * 9
    assert (await visitor.call("una", "GET", "/v1/queue")).status == 429
    for stream in (logs, again):
        stream.close()


async def test_administrators_may_always_look(visitor: Visitor) -> None:
    await visitor.submit("una")
    visitor.setting.bus.work = lambda: visitor.setting.clock.work(9 * BURST_S)
    await visitor.ask("admin", "GET", "/v1/jobs/1/history")
    await visitor.ask("admin", "GET", "/v1/queue")


async def test_a_dry_run_counts_and_a_submit_does_not(visitor: Visitor) -> None:
    visitor.setting.bus.work = lambda: visitor.setting.clock.work(2 * BURST_S)
    await visitor.submit("una")
    await visitor.ask("una", "POST", "/v1/jobs?dry_run=1", json={"command": ["true"]})
    await visitor.ask("una", "GET", "/v1/jobs", status=429)


class Stepping(ManualClock):
    """A clock that goes on by a second whenever somebody looks at it."""

    at_s = 0.0

    def monotonic_s(self) -> float:
        self.at_s += 1.0
        return self.at_s


async def test_only_the_time_of_its_own_steps_is_a_questions() -> None:
    clock = Stepping()
    shares = Shares(clock)
    went_on = asyncio.Event()

    async def work() -> str:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await went_on.wait()
        await went_on.wait()
        return "done"

    async def waits_long() -> None:
        for _ in range(5):
            await asyncio.sleep(0)
        clock.at_s += 1000.0
        went_on.set()

    answer, _ = await asyncio.gather(shares.timed(CALLER, work()), waits_long())
    assert answer == "done"
    shares.check(CALLER)


async def test_time_pays_back_a_part_and_who_owes_nothing_is_forgotten() -> None:
    clock = Stepping()
    shares = Shares(clock)
    for number in range(5000):
        clock.at_s += 10 / PART
        await shares.timed(replace(CALLER, user=str(number)), asyncio.sleep(0))
    assert shares.remembered <= KEPT

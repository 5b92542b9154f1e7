"""Leadership: one writer per lane, quick take-over, and a leader from before cannot write."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from tests.patience import LONG_S, quick, until

from gangline_core.cluster import Pool
from gangline_core.facts import PoolSet, RoundDecided
from gangline_kit.bus import jetstream
from gangline_kit.config import KitConfig
from gangline_kit.errors import LaneConflictError, PermanentError, StreamFullError
from gangline_kit.lane import Lane
from gangline_kit.leader import Lease, lead
from gangline_kit.moment import Moment
from gangline_kit.nats_server import NatsServer
from gangline_kit.service import Site, open_site
from gangline_wire import subjects
from gangline_wire.codec import decode_batch
from gangline_wire.streams import LEASES, LOG, Stream

OpenSite = Callable[[str], Awaitable[Site]]


@pytest.fixture
async def sites(server: NatsServer) -> AsyncIterator[OpenSite]:
    """Opens sites that are closed at the test's end."""
    opened = []

    async def open_one(instance: str) -> Site:
        context = open_site("test", KitConfig(nats_url=server.url, instance=instance))
        site = await context.__aenter__()
        opened.append(context)
        return site

    yield open_one
    for context in opened:
        await context.__aexit__(None, None, None)


def pool(name: str) -> tuple[PoolSet]:
    return (PoolSet(pool=Pool(name=name), by="test"),)


class Reign:
    """Leads a lane and keeps the Lane it was given; `lanes` is a queue of all reigns so far."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.lanes: asyncio.Queue[Lane] = asyncio.Queue()

    async def run(self) -> None:
        await lead(self.site, "admission", self.work)

    async def work(self, lane: Lane) -> None:
        self.lanes.put_nowait(lane)
        await asyncio.Event().wait()


async def test_a_leader_writes_and_sees_its_own_facts_when_append_returns(sites: OpenSite) -> None:
    site = await sites("a")

    async def work(lane: Lane) -> None:
        seq = await lane.append(pool("p1"))
        assert site.follower.state.kept.seq >= seq
        assert "p1" in site.follower.state.kept.pools

    await lead(site, "admission", work)
    assert site.follower.state.kept.epochs["admission"] >= 1


async def test_who_must_know_hears_at_once_that_it_is_stored_and_never_of_what_is_not(sites: OpenSite) -> None:
    site = await sites("a")
    lane = Lane(site.bus, site.follower, site.clock, name="admission", epoch=1)
    await lane.take("a")
    heard: list[int] = []
    seq = await lane.append(pool("p1"), stored=heard.append)
    assert heard == [seq]
    other = Lane(site.bus, site.follower, site.clock, name="admission", epoch=2)
    await other.take("b")
    with pytest.raises(LaneConflictError):
        await lane.append(pool("p2"), stored=heard.append)
    assert heard == [seq]


async def test_a_second_instance_waits_until_the_first_ends_and_then_leads_at_once(sites: OpenSite) -> None:
    one, other = await sites("first"), await sites("second")

    async def took_s(number: int) -> float:
        first, second = Reign(one), Reign(other)
        async with asyncio.TaskGroup() as group:
            leading = group.create_task(first.run())
            before = await first.lanes.get()
            following = group.create_task(second.run())
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(second.lanes.get(), 1)
            began = time.perf_counter()
            leading.cancel()
            after = await second.lanes.get()
            took = time.perf_counter() - began
            assert after.epoch > before.epoch
            following.cancel()
        return took

    await quick(1.5, took_s)


async def test_a_renewal_whose_answer_nobody_waited_for_does_not_hold_up_the_next_leader(sites: OpenSite) -> None:
    site = await sites("first")
    leases = site.bus.kv(LEASES.name)
    lease = Lease(site, "queue.default")
    await lease.acquire()
    await leases.update("queue.default", site.instance.encode(), lease.epoch)
    await lease.release()
    assert await leases.get("queue.default") is None


async def test_whoever_got_the_lease_without_hearing_of_it_leads_at_once(sites: OpenSite) -> None:
    site, other = await sites("first"), await sites("second")

    async def took_s(number: int) -> float:
        name = f"queue.p{number}"
        lease = Lease(site, name)
        asking = asyncio.ensure_future(lease.try_acquire())
        await asyncio.sleep(0)
        site.bus.connection.abandon(f"$KV.{LEASES.name}.{name}", "the answer is lost")
        assert not await asking
        began = time.perf_counter()
        await lease.acquire()
        took = time.perf_counter() - began
        assert await site.bus.kv(LEASES.name).get(name) == (site.instance.encode(), lease.epoch)
        assert not await Lease(other, name).try_acquire()
        return took

    await quick(1, took_s)


async def test_whoever_renewed_the_lease_without_hearing_of_it_renews_it_anew_once_it_finds_it(sites: OpenSite) -> None:
    """To find it is not to renew it: it ended while its holder still counted on it."""
    site = await sites("first")
    lease, leases = Lease(site, "queue.q"), site.bus.kv(LEASES.name)
    assert await lease.try_acquire()
    asking = asyncio.ensure_future(lease.renew())
    await asyncio.sleep(0)
    site.bus.connection.abandon(f"$KV.{LEASES.name}.queue.q", "the answer is lost")
    assert not await asking

    async def revision() -> int:
        known = await leases.get("queue.q")
        return 0 if known is None else known[1]

    async def is_stored() -> bool:
        return await revision() > lease.epoch

    await until(is_stored)
    unheard = await revision()
    assert await lease.renew()
    assert await revision() > unheard


async def test_who_has_the_lease_waits_for_the_log_to_be_answered_for(
    sites: OpenSite, caplog: pytest.LogCaptureFixture
) -> None:
    site = await sites("first")
    reign = Reign(site)
    leading = asyncio.ensure_future(reign.run())
    until = time.monotonic() + 0.5
    while time.monotonic() < until:
        site.bus.connection.abandon(f"$JS.API.STREAM.INFO.{LOG.name}", "nobody knows who leads the log")
        await asyncio.sleep(0)
    assert reign.lanes.empty()
    async with asyncio.timeout(LONG_S):
        await reign.lanes.get()
    leading.cancel()
    assert "steps down" not in caplog.text


async def test_a_leader_that_dies_without_goodbye_is_replaced_within_five_seconds(
    sites: OpenSite, server: NatsServer
) -> None:
    async def took_s(number: int) -> float:
        dying, heir = await sites(f"dying{number}"), await sites(f"heir{number}")
        first, second = Reign(dying), Reign(heir)
        async with asyncio.TaskGroup() as group:
            leading = group.create_task(first.run())
            await first.lanes.get()
            following = group.create_task(second.run())
            await dying.bus.connection.close()
            began = time.perf_counter()
            lane = await second.lanes.get()
            took = time.perf_counter() - began
            await lane.append(pool(f"after{number}"))
            leading.cancel()
            following.cancel()
        return took

    await quick(5, took_s)


async def test_a_leader_from_before_cannot_write_any_more(sites: OpenSite) -> None:
    """It was stopped for a long time and wakes up in the middle of an append."""
    old_site, new_site = await sites("old"), await sites("new")
    old = Lane(old_site.bus, old_site.follower, old_site.clock, name="admission", epoch=1)
    await old.take("old")
    new = Lane(new_site.bus, new_site.follower, new_site.clock, name="admission", epoch=2)
    await new.take("new")
    await old_site.follower.reached(2, timeout_s=LONG_S)
    with pytest.raises(LaneConflictError):
        await old.append(pool("stale"))
    await new.append(pool("fresh"))
    assert "stale" not in new_site.follower.state.kept.pools


async def test_a_new_leader_has_folded_everything_before_its_work_begins(sites: OpenSite) -> None:
    writer, reader = await sites("writer"), await sites("reader")

    async def write(lane: Lane) -> None:
        for number in range(30):
            await lane.append(pool(f"p{number}"))

    async def look(lane: Lane) -> None:
        assert reader.follower.state.kept.lane_seqs["admission"] == await reader.bus.last_seq(LOG.name)
        assert "p29" in reader.follower.state.kept.pools

    await lead(writer, "admission", write)
    await lead(reader, "admission", look)


async def test_the_epoch_rises_even_when_the_lease_bucket_was_lost(sites: OpenSite) -> None:
    site = await sites("a")
    epochs: list[int] = []

    async def work(lane: Lane) -> None:
        epochs.append(lane.epoch)

    for _ in range(3):
        await lead(site, "admission", work)
    await jetstream.call(site.bus.connection, f"STREAM.DELETE.KV_{LEASES.name}")
    await site.bus.ensure(buckets=(LEASES,))
    await lead(site, "admission", work)
    assert epochs == sorted(set(epochs)), "each reign has a higher epoch than the last"


async def test_work_is_begun_anew_after_a_conflict_even_from_inside_its_own_task_group(sites: OpenSite) -> None:
    site = await sites("a")
    reigns = 0

    async def work(lane: Lane) -> None:
        nonlocal reigns
        reigns += 1
        if reigns == 1:
            # Somebody writes to our lane behind our back.
            last = await site.bus.last_message(LOG.name, subjects.log("admission"))
            assert last is not None
            await site.bus.append(subjects.log("admission"), last[0])
            async with asyncio.TaskGroup() as inner:
                inner.create_task(lane.append(pool("lost")))
        else:
            await lane.append(pool("kept"))

    await lead(site, "admission", work)
    assert reigns == 2
    assert set(site.follower.state.kept.pools) >= {"kept"}
    assert "lost" not in site.follower.state.kept.pools


async def test_an_append_waits_over_kill_9_of_the_server_and_is_stored_exactly_once(
    sites: OpenSite, server: NatsServer
) -> None:
    site = await sites("a")

    async def work(lane: Lane) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(append_many(lane))
            for _ in range(2):
                await site.clock.sleep(0.05)
                await server.kill()
                await server.start()

    async def append_many(lane: Lane) -> None:
        for number in range(150):
            await lane.append(pool(f"p{number}"))

    await lead(site, "admission", work)
    kept = site.follower.state.kept
    assert sum(name.startswith("p") for name in kept.pools) == 150
    assert await site.bus.last_seq(LOG.name) == kept.seq == 151


async def test_a_leader_cut_off_from_the_bus_stops_its_work_before_its_lease_can_expire(
    sites: OpenSite, server: NatsServer
) -> None:
    site = await sites("a")
    stopped = asyncio.Event()
    leads = asyncio.Event()

    async def work(lane: Lane) -> None:
        leads.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async def took_s(number: int) -> float:
        leads.clear()
        stopped.clear()
        async with asyncio.TaskGroup() as group:
            leading = group.create_task(lead(site, "admission", work))
            await leads.wait()
            leads.clear()
            began = time.perf_counter()
            await server.kill()
            await stopped.wait()
            took = time.perf_counter() - began
            await server.start()
            await leads.wait()
            leading.cancel()
        return took

    await quick(LEASES.ttl_s, took_s)


async def test_facts_of_another_pen_are_refused_before_they_leave_the_process(sites: OpenSite) -> None:
    site = await sites("a")
    lane = Lane(site.bus, site.follower, site.clock, name="admission", epoch=1)
    await lane.take("a")
    with pytest.raises(PermanentError, match="must not carry RoundDecided"):
        await lane.append((RoundDecided(pool="default", round=1),))
    assert await site.bus.last_seq(LOG.name) == 1


async def test_a_full_log_refuses_the_writer_and_loses_nothing(sites: OpenSite) -> None:
    site = await sites("a")
    lane = Lane(site.bus, site.follower, site.clock, name="admission", epoch=1)
    await lane.take("a")
    small = Stream(name=LOG.name, subjects=LOG.subjects, bytes_max=20_000)
    await site.bus.ensure((small,))
    written = 0
    with pytest.raises(StreamFullError):  # noqa: PT012 - the loop is the promise
        for number in range(1000):
            await lane.append(pool(f"p{number}"))
            written += 1
    await site.bus.ensure((LOG,))
    await lane.append(pool("more room"))
    kept = site.follower.state.kept
    assert [name for name in kept.pools if name.startswith("p")] == [f"p{number}" for number in range(written)]


async def test_decision_times_never_fall_behind_the_log(sites: OpenSite) -> None:
    site = await sites("a")
    lane = Lane(site.bus, site.follower, site.clock, name="admission", epoch=1)
    await lane.take("a")
    future = site.clock.now_ms() + 60_000
    await lane.append(pool("p"), Moment(at=future, seq=site.follower.state.kept.seq))
    assert site.now_ms() == future
    await lane.append(pool("q"))
    assert site.follower.state.kept.at == future


async def test_a_message_tells_the_moment_of_its_decision_whatever_came_meanwhile(sites: OpenSite) -> None:
    site = await sites("a")
    lane = Lane(site.bus, site.follower, site.clock, name="admission", epoch=1)
    await lane.take("a")
    decided = site.moment()
    await site.clock.sleep(0.01)
    await Lane(site.bus, site.follower, site.clock, name="telemetry", epoch=1).take("b")
    assert site.moment().seq > decided.seq
    await lane.append(pool("p"), decided)
    last = await site.bus.last_message(LOG.name, subjects.log("admission"))
    assert last is not None
    written = decode_batch(last[0])
    assert (written.seq_seen, written.at) == (decided.seq, decided.at)

"""Leases that nobody answers for: whoever leads goes on by the log, if nothing else stands against a second leader."""

import asyncio
from collections.abc import Callable

import pytest
from tests.bus.test_leader import OpenSite, Reign, pool, sites
from tests.patience import LONG_S, until

from gangline_kit import leader
from gangline_kit.bus import jetstream
from gangline_kit.errors import TemporaryError
from gangline_kit.lane import Lane
from gangline_kit.leader import Lease, LeaseLostError, lead
from gangline_kit.service import Site
from gangline_wire.streams import LEASES

__all__ = ("sites",)

Said = Callable[[str], int]


async def lose_leases(site: Site) -> None:
    """From now on nobody answers for them, as when the broker that leads their bucket has died."""
    await jetstream.call(site.bus.connection, f"STREAM.DELETE.KV_{LEASES.name}")


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Said:
    """How often the kit's log has had these words."""
    return lambda words: sum(words in record.getMessage() for record in caplog.records)


async def heard(said: Said, words: str, times: int = 1) -> None:
    async def often_enough() -> bool:
        await asyncio.sleep(0.02)
        return said(words) >= times

    await until(often_enough)


async def test_who_leads_goes_on_by_the_log_and_keeps_its_reign_when_the_leases_are_back(
    sites: OpenSite, said: Said
) -> None:
    site = await sites("first")
    reign = Reign(site)
    leading = asyncio.ensure_future(reign.run())
    lane = await reign.lanes.get()
    await lose_leases(site)
    await heard(said, "goes on leading lane admission", times=3)
    await lane.append(pool("meanwhile"))
    await site.bus.ensure(buckets=(LEASES,))

    async def is_held() -> bool:
        known = await site.bus.kv(LEASES.name).get("admission")
        return known is not None and known[0] == b"first"

    await until(is_held)
    await lane.append(pool("after"))
    assert reign.lanes.empty()
    assert not said("steps down")
    leading.cancel()


async def test_who_goes_on_by_the_log_ends_as_soon_as_somebody_else_has_written(sites: OpenSite, said: Said) -> None:
    site, other = await sites("first"), await sites("other")
    reign = Reign(site)
    leading = asyncio.ensure_future(reign.run())
    lane = await reign.lanes.get()
    successor = Lane(other.bus, other.follower, other.clock, name="admission", epoch=lane.epoch)
    await successor.take("other")
    await lose_leases(site)
    await heard(said, "steps down")
    assert not said("goes on leading")
    leading.cancel()


async def test_who_goes_on_by_the_log_ends_when_somebody_else_has_got_the_lease(sites: OpenSite, said: Said) -> None:
    site = await sites("first")
    reign = Reign(site)
    leading = asyncio.ensure_future(reign.run())
    lane = await reign.lanes.get()
    await lose_leases(site)
    await heard(said, "goes on leading lane admission")
    leases = site.bus.kv(LEASES.name)
    await site.bus.ensure(buckets=(LEASES,))

    async def taken() -> bool:
        await leases.put("admission", b"other")
        return said("first steps down from lane admission") > 0

    await until(taken)
    async with asyncio.timeout(LONG_S):
        assert (await reign.lanes.get()).epoch > lane.epoch, "and gets it again when nobody has it"
    leading.cancel()


@pytest.mark.parametrize("unsure_s", [0.0, 1000.0])
async def test_who_hears_nothing_of_the_log_either_goes_on_for_as_long_as_brokers_elect(
    sites: OpenSite, monkeypatch: pytest.MonkeyPatch, unsure_s: float
) -> None:
    monkeypatch.setattr(leader, "UNSURE_S_MAX", unsure_s)
    site = await sites("first")
    lease = Lease(site, "admission")
    await lease.acquire()
    asked = 0

    async def witness() -> bool:
        nonlocal asked
        asked += 1
        if asked == 1:
            raise TemporaryError("nobody answers for the log")
        return False

    lease.witness = witness
    await lose_leases(site)
    async with asyncio.timeout(LONG_S):
        with pytest.raises(LeaseLostError):
            await lease.renew_until_lost()
    assert asked == (2 if unsure_s else 1)


async def test_who_acts_where_the_log_stands_in_nobodys_way_ends_with_its_lease(
    sites: OpenSite, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = await sites("first")
    reign = Reign(site)
    leading = asyncio.ensure_future(lead(site, "kubernetes.c1", reign.work, acts_outside=True))
    await reign.lanes.get()
    monkeypatch.setattr(leader, "RELEASE_S_MAX", 0.1)
    await lose_leases(site)
    await heard(said, "steps down")
    assert not said("goes on leading")
    leading.cancel()

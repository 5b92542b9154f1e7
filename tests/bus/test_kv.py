"""Key-value buckets and object stores on a real server."""

import asyncio

import pytest
from tests.patience import timely, until

from gangline_kit.bus import Bus, Kv
from gangline_kit.errors import KeyExistsError, PermanentError, StaleRevisionError
from gangline_wire.streams import LEASES, SECRETS, SNAPSHOTS, Bucket


@pytest.fixture
def kv(bus: Bus) -> Kv:
    return bus.kv(SECRETS.name)


async def test_only_one_of_many_creates_a_key(kv: Kv) -> None:
    async def create(name: bytes) -> bool:
        try:
            await kv.create("job.1", name)
        except KeyExistsError:
            return False
        return True

    won = await asyncio.gather(*(create(b"%d" % n) for n in range(20)))
    assert won.count(True) == 1
    found = await kv.get("job.1")
    assert found is not None
    assert found[0] == b"%d" % won.index(True)


async def test_an_update_needs_the_last_revision(kv: Kv) -> None:
    first = await kv.create("a", b"1")
    second = await kv.update("a", b"2", first)
    with pytest.raises(StaleRevisionError):
        await kv.update("a", b"3", first)
    assert await kv.get("a") == (b"2", second)


async def test_a_deleted_key_is_absent_and_may_be_created_again_with_a_higher_revision(kv: Kv) -> None:
    first = await kv.create("a", b"1")
    await kv.delete("a")
    assert await kv.get("a") is None
    assert await kv.keys() == []
    with pytest.raises(StaleRevisionError):
        await kv.update("a", b"2", first)
    assert await kv.create("a", b"2") > first


async def test_a_delete_with_a_stale_revision_changes_nothing(kv: Kv) -> None:
    first = await kv.put("a", b"1")
    await kv.put("a", b"2")
    with pytest.raises(StaleRevisionError):
        await kv.delete("a", first)
    assert await kv.keys() == ["a"]


async def test_keys_are_listed_in_order(kv: Kv) -> None:
    for key in ("c", "a", "b.x"):
        await kv.put(key, b"")
    assert await kv.keys() == ["a", "b.x", "c"]


async def test_a_key_of_a_bucket_with_a_time_to_live_ends_when_it_is_not_renewed(bus: Bus) -> None:
    short = Bucket(name="SHORT", ttl_s=0.6)
    await bus.ensure(buckets=(short,))
    kv = bus.kv("SHORT")

    async def renewed(number: int) -> tuple[str, int]:
        name = f"lease{number}"
        revision = await kv.create(name, b"me")
        for _ in range(3):
            await asyncio.sleep(0.3)
            revision = await kv.update(name, b"me", revision)
        assert await kv.get(name) is not None
        return name, revision

    name, revision = await timely(3 * 0.3 + 0.2, renewed)

    async def is_gone() -> bool:
        return await kv.get(name) is None

    await until(is_gone, 15)
    assert await kv.create(name, b"you") > revision


async def test_the_lease_bucket_has_its_time_to_live_on_the_server(bus: Bus) -> None:
    info = await bus.stream_info(f"KV_{LEASES.name}")
    assert info.config["max_age"] == int(LEASES.ttl_s * 1_000_000_000)


async def test_objects_of_any_size_come_back_whole(bus: Bus) -> None:
    objects = bus.objects(SNAPSHOTS)
    blobs = {"empty": b"", "small": b"x", "large": bytes(range(256)) * 20_000}
    for name, data in blobs.items():
        await objects.put(name, data)
    assert await objects.list() == ["empty", "large", "small"]
    for name, data in blobs.items():
        assert await objects.get(name) == data


async def test_an_object_is_replaced_as_a_whole_and_gone_when_deleted(bus: Bus) -> None:
    objects = bus.objects(SNAPSHOTS)
    await objects.put("a", b"old" * 1_000_000)
    await objects.put("a", b"new")
    assert await objects.get("a") == b"new"
    await objects.delete("a")
    await objects.delete("a")
    assert await objects.get("a") is None
    assert await objects.list() == []


async def test_a_damaged_object_is_noticed(bus: Bus) -> None:
    objects = bus.objects(SNAPSHOTS)
    await objects.put("a", b"good")
    info = await objects.describe("a")
    assert info is not None
    await bus.append(f"$O.{SNAPSHOTS}.C.{info.nuid}", b"more")
    with pytest.raises(PermanentError, match="damaged"):
        await objects.get("a")

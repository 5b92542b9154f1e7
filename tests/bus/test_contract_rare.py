"""What happens rarely on a bus, promised alike by the dollhouse's, by one real server and by three (see `alike`).

Odd subjects and keys, what is too large or full to the last byte, what is stored beside the data, readers that begin
where nothing is: what is never tried in daily life is what a fake gets wrong.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from tests.bus.alike import (  # noqa: F401 - pytest finds fixtures by name
    BRIEF,
    RING,
    SMALL,
    SOON,
    Two,
    buses_fixture,
    connect_fixture,
    is_of_three,
    kind_fixture,
)
from tests.patience import LONG_S, timely, until

from gangline_kit.bus import Bus, Record
from gangline_kit.bus.tail import LogMessage
from gangline_kit.clock import SystemClock
from gangline_kit.errors import (
    KeyExistsError,
    LaneConflictError,
    OutcomeUnknownError,
    PermanentError,
    StaleRevisionError,
    StreamFullError,
    TemporaryError,
    TooLargeError,
)
from gangline_kit.service import patiently
from gangline_wire.streams import LEASES, LOG, MESSAGE_BYTES_MAX, SECRETS, SNAPSHOTS, Bucket, Stream

pytestmark = pytest.mark.asyncio(loop_scope="module")

FULL = 1_000
OVER_S = 15.0
"""What lasts for a second is over in this time, on a machine however busy."""
PLAIN = 33
"""Bytes that a message on a subject of three letters takes beside its data."""


@pytest.fixture
def make(kind: str, buses: Two) -> Callable[..., Awaitable[None]]:
    """Makes more streams and buckets, kept by as many servers as all others."""

    async def make(*things: Stream | Bucket) -> None:
        streams = tuple(thing for thing in things if isinstance(thing, Stream))
        buckets = tuple(thing for thing in things if isinstance(thing, Bucket))
        await buses[0].ensure(streams, buckets, replicas=3 if is_of_three(kind) else 1)
        for bus in buses:
            for thing in things:
                await patiently(partial(answers, bus, thing), SystemClock())

    return make


async def answers(bus: Bus, thing: Stream | Bucket) -> None:
    """Of three servers the one that is asked may hear of a stream a moment later than the one that made it."""
    with suppress(LaneConflictError, StaleRevisionError, StreamFullError):
        if isinstance(thing, Stream):
            await bus.append(thing.subjects[0].replace(">", "served"), b"", expected_seq=1 << 40)
        else:
            await bus.kv(thing.name).update("served", b"", 1 << 40)


async def there(bus: Bus, stream: str, subject: str = "", start: int = 1) -> list[LogMessage]:
    async with asyncio.timeout(LONG_S):
        return [message async for message in bus.read_subject(stream, subject, start, follow=False)]


async def state_of(bus: Bus, stream: str) -> tuple[int, int, int, int]:
    state = (await bus.stream_info(stream)).state
    return state.messages, state.bytes, state.first_seq, state.last_seq


# --- what may be sent ---------------------------------------------------------------------------------------------


async def test_the_largest_message_is_taken_and_one_byte_more_is_refused_with_headers_counted(buses: Two) -> None:
    bus, other = buses
    largest = bytes(MESSAGE_BYTES_MAX)
    seq = await bus.append("gangline.log.large", largest)
    assert await other.message_at(LOG.name, seq) == largest
    for data, rest in ((largest + b"x", {}), (largest, {"msg_id": "large"}), (largest, {"headers": {"a": "b"}})):
        with pytest.raises(TooLargeError):
            await bus.append("gangline.log.large", data, **rest)
    with pytest.raises(LaneConflictError):
        await bus.append("gangline.log.large", largest[:-100], expected_seq=seq + 1)
    with pytest.raises(TooLargeError):
        await bus.append("gangline.log.large", largest[:-10], expected_seq=seq)
    with pytest.raises(TooLargeError):
        await bus.publish("gangline.nobody", largest + b"x")
    with pytest.raises(TooLargeError):
        await bus.request("gangline.nobody", largest + b"x")
    assert await bus.append("gangline.log.large", b"goes on", expected_seq=seq) == seq + 1
    assert bus.is_connected
    assert not bus.failure


@pytest.mark.parametrize("subject", ["", "gangline.log.a b", "gangline.log.a\r\nPUB x 1", "gangline log"])
async def test_a_subject_that_cannot_be_sent_is_refused_for_good(buses: Two, subject: str) -> None:
    bus, _ = buses
    for attempt in (bus.append(subject, b"x"), bus.request(subject, b"x"), bus.publish(subject, b"x")):
        with pytest.raises(PermanentError):
            await attempt
    assert not bus.failure


@pytest.mark.parametrize("subject", ["gangline.log.", "gangline.log..a", ".a", "gangline.log", "gangline"])
async def test_a_subject_that_nobody_can_listen_to_is_like_one_that_nobody_does(buses: Two, subject: str) -> None:
    for attempt in (buses[0].append(subject, b"x", timeout_s=1), buses[0].request(subject, b"x", timeout_s=1)):
        with pytest.raises(TemporaryError):
            await attempt


async def test_headers_are_kept_with_what_the_writer_said_to_the_server(buses: Two) -> None:
    bus, other = buses
    first = await bus.append("small.head", b"1", headers={"A": "", "b": " x y ", "c": "ü", "d": "one\r\nE: two"})
    await bus.append("small.head", b"2", expected_seq=first, msg_id="head-2")
    one, two = await there(other, SMALL.name, "small.head")
    assert one.headers == {"A": "", "b": "x y", "c": "ü", "d": "one  E: two"}
    assert two.headers == {"Nats-Expected-Last-Subject-Sequence": str(first), "Nats-Msg-Id": "head-2"}
    assert one.stored_ms <= two.stored_ms
    await bus.drop_until(SMALL.name, first + 1)


async def test_what_is_published_on_a_subject_of_a_stream_is_stored_and_what_is_stored_is_heard(buses: Two) -> None:
    bus, other = buses
    heard: list[tuple[str, bytes, str]] = []
    done = asyncio.Event()

    async def hear(subject: str, data: bytes, headers: dict[str, str]) -> None:
        heard.append((subject, data, headers.get("k", "")))
        if len(heard) == 2:
            done.set()

    subscription: Any = await other.subscribe("brief.heard.>", hear)
    await other.connection.flush()
    first = await bus.append("brief.heard.a", b"stored", headers={"k": "v"})
    await bus.publish("brief.heard.b", b"told", headers={"k": "w"})
    async with asyncio.timeout(LONG_S):
        await done.wait()
    await other.unsubscribe(subscription)
    assert heard == [("brief.heard.a", b"stored", "v"), ("brief.heard.b", b"told", "w")]
    await bus.connection.flush()
    found = await there(bus, "BRIEF", "brief.heard.*")
    assert [(one.seq, one.data) for one in found] == [(first, b"stored"), (first + 1, b"told")]


# --- full to the last byte ----------------------------------------------------------------------------------------


async def test_a_stream_is_full_to_the_last_byte_with_subjects_and_headers_counted(
    buses: Two, make: Callable[..., Awaitable[None]]
) -> None:
    bus, _ = buses
    await make(Stream(name="BYTES", subjects=("b.>",), bytes_max=FULL))
    assert await state_of(bus, "BYTES") == (0, 0, 0, 0)
    await bus.append("b.a", bytes(FULL - PLAIN - 1))
    assert await state_of(bus, "BYTES") == (1, FULL - 1, 1, 1)
    with pytest.raises(StreamFullError):
        await bus.append("b.a", b"")
    await make(Stream(name="BYTES", subjects=("b.>",), bytes_max=2 * FULL))
    with_headers = PLAIN + 4 + len("NATS/1.0\r\nk: v\r\n\r\n")
    await bus.append("b.a", bytes(FULL + 1 - with_headers), headers={"k": "v"})
    assert await state_of(bus, "BYTES") == (2, 2 * FULL, 1, 2)
    await make(Stream(name="BYTES", subjects=("b.>",), bytes_max=FULL))
    assert (await state_of(bus, "BYTES"))[:2] == (2, 2 * FULL), "a smaller limit takes nothing away"


async def test_a_ring_takes_what_is_larger_than_itself_and_keeps_nothing_of_it(
    buses: Two, make: Callable[..., Awaitable[None]]
) -> None:
    bus, _ = buses
    await make(Stream(name="WHEEL", subjects=("w.>",), bytes_max=FULL, discard_old=True))
    assert await bus.append("w.a", bytes(FULL - PLAIN)) == 1
    assert await state_of(bus, "WHEEL") == (1, FULL, 1, 1)
    assert await bus.append("w.a", bytes(2 * FULL)) == 2
    assert await state_of(bus, "WHEEL") == (0, 0, 3, 2)
    assert await there(bus, "WHEEL") == []
    for number in range(6):
        await bus.append("w.a", bytes(100 + number))
    await make(Stream(name="WHEEL", subjects=("w.>",), bytes_max=FULL // 2, discard_old=True))
    assert (await state_of(bus, "WHEEL"))[2:] == (6, 8), "a smaller limit takes the oldest away"


async def test_a_reader_that_slept_goes_on_behind_what_a_ring_forgot(buses: Two) -> None:
    bus, other = buses
    begin = await bus.append("ring.slept", b"first")
    tail = other.tail(RING.name, begin).batches()
    async with asyncio.timeout(LONG_S):
        seen = [message.seq for message in await anext(tail)]
        last = [await bus.append("ring.slept", bytes(900)) for _ in range(12)][-1]
        while seen[-1] < last:
            seen += [message.seq for message in await anext(tail)]
    assert seen == sorted(set(seen))
    assert seen[0] == begin


async def test_a_full_bucket_refuses_new_keys_and_larger_values(
    buses: Two, kind: str, make: Callable[..., Awaitable[None]]
) -> None:
    await make(Bucket(name="FULL", bytes_max=FULL))
    kv = buses[0].kv("FULL")
    for key in ("a", "b"):
        await kv.put(key, bytes(400))
    for key, size in (("c", 100), ("a", 500)):
        with pytest.raises(StreamFullError):
            await kv.put(key, bytes(size))
    if is_of_three(kind):
        # Several servers do not count that the old value goes, so nobody may rely on it.
        with pytest.raises(StreamFullError):
            await kv.put("a", bytes(400))
    else:
        assert await kv.put("a", bytes(400)) == 3
    await kv.delete("b")
    assert await kv.put("c", bytes(100))
    assert await kv.keys() == ["a", "c"]


# --- ids and expectations -----------------------------------------------------------------------------------------


async def test_an_id_counts_on_all_subjects_of_a_stream_from_its_first_use_and_also_when_that_is_gone(
    buses: Two,
) -> None:
    bus, _ = buses

    async def inside(number: int) -> tuple[str, int]:
        name = f"once{number}"
        first = await bus.append("brief.id1", b"1", msg_id=name)
        assert await bus.append("brief.id2", b"2", msg_id=name) == first
        return name, first

    name, first = await timely(BRIEF.duplicate_window_s, inside)

    async def is_new() -> bool:
        return await bus.append("brief.id1", b"1", msg_id=name) > first

    await until(is_new, OVER_S)  # a repeat does not begin the time anew, or this would go on for ever

    async def anew(number: int) -> None:
        once = f"anew{number}"
        again = await bus.append("brief.id1", b"1", msg_id=once)
        await bus.append("brief.id1", b"2")
        await bus.drop_until("BRIEF", again)
        assert await bus.message_at("BRIEF", again) is None
        assert await bus.append("brief.id1", b"1", msg_id=once) == again

    await timely(BRIEF.duplicate_window_s, anew)


async def test_an_expectation_beyond_what_there_is_is_refused_and_zero_means_none(buses: Two) -> None:
    bus, _ = buses
    for expected in (1, 5_000):
        with pytest.raises(LaneConflictError):
            await bus.append("brief.expects", b"x", expected_seq=expected)
    seq = await bus.append("brief.expects", b"x", expected_seq=0)
    with pytest.raises(LaneConflictError):
        await bus.append("brief.expects", b"y", expected_seq=0)
    assert await bus.append("brief.expects", b"x", expected_seq=0) == seq, "its own lost answer"


async def test_records_that_are_there_in_part_are_completed(buses: Two) -> None:
    bus, _ = buses
    records = [Record(subject=f"gangline.log.part.{n}", data=str(n).encode(), msg_id=f"part-{n}") for n in range(9)]
    await bus.append_all(records[:3])
    await bus.append_all(records[6:7])
    await bus.append_all(records)
    found = await there(bus, LOG.name, "gangline.log.part.*")
    assert sorted(one.data for one in found) == [record.data for record in records]


# --- readers ------------------------------------------------------------------------------------------------------


async def test_patterns_are_read_and_looked_up_as_well_as_subjects(buses: Two) -> None:
    bus, other = buses
    last = 0
    for name in ("one.a", "one.b", "two.a.x"):
        last = await bus.append(f"gangline.log.pattern.{name}", name.encode())
    assert await other.last_message(LOG.name, "gangline.log.pattern.>") == (b"two.a.x", last)
    assert await other.last_message(LOG.name, "gangline.log.pattern.*.b") == (b"one.b", last - 1)
    assert await other.last_message(LOG.name, "gangline.log.pattern.nobody.>") is None
    for pattern, wanted in (("one.*", [b"one.a", b"one.b"]), ("*.a", [b"one.a"]), ("two.>", [b"two.a.x"])):
        found = await there(other, LOG.name, f"gangline.log.pattern.{pattern}", 0)
        assert [one.data for one in found] == wanted


async def test_there_is_no_message_at_zero_or_before(buses: Two) -> None:
    for seq in (0, -1):
        with pytest.raises(PermanentError):
            await buses[0].message_at(LOG.name, seq)


async def test_a_reader_of_more_than_there_is_says_that_data_was_lost(buses: Two) -> None:
    bus, _ = buses
    last = await bus.append("gangline.log.end", b"x")
    assert await there(bus, LOG.name, "", last + 1) == []
    for follow in (True, False):
        with pytest.raises(PermanentError):
            await anext(bus.read_subject(LOG.name, "", last + 2, follow=follow))
    assert [one.seq for one in await there(bus, LOG.name, "gangline.log.end", -7)] == [last]


async def test_a_reader_may_come_before_the_stream_is_made(buses: Two, make: Callable[..., Awaitable[None]]) -> None:
    bus, other = buses

    async def first() -> bytes:
        async for message in other.read("LATER", 1):
            return message.data
        raise AssertionError("it reads for ever")

    reading = asyncio.ensure_future(first())
    await asyncio.sleep(0.3)
    await make(Stream(name="LATER", subjects=("later.>",), bytes_max=1 << 20))
    await bus.append("later.a", b"here")
    async with asyncio.timeout(LONG_S):
        assert await reading == b"here"


# --- making -------------------------------------------------------------------------------------------------------


async def test_no_subject_belongs_to_two_streams(buses: Two, make: Callable[..., Awaitable[None]]) -> None:
    for subjects in (("small.x",), ("*.a",), (">",)):
        with pytest.raises(PermanentError):
            await make(Stream(name="SECOND", subjects=subjects, bytes_max=1 << 20))


async def test_what_was_made_tells_its_settings_under_its_servers_name(buses: Two, kind: str) -> None:
    replicas = 3 if is_of_three(kind) else 1
    log = (await buses[0].stream_info(LOG.name)).config
    wanted = {"max_bytes": LOG.bytes_max, "discard": "new", "max_age": 0, "num_replicas": replicas}
    assert {name: log[name] for name in wanted} == wanted
    leases = (await buses[0].stream_info(f"KV_{LEASES.name}")).config
    assert leases["max_age"] == int(LEASES.ttl_s * 1_000_000_000)
    assert (leases["subjects"], leases["max_msgs_per_subject"]) == ([f"$KV.{LEASES.name}.>"], 1)
    with pytest.raises(TemporaryError):
        await buses[0].stream_info("KV_NOBODYS")


# --- keys ---------------------------------------------------------------------------------------------------------


async def test_a_revision_is_the_place_among_all_changes_of_the_bucket(
    buses: Two, make: Callable[..., Awaitable[None]]
) -> None:
    await make(Bucket(name="COUNTED"))
    kv = buses[0].kv("COUNTED")
    assert [await kv.put(key, b"v") for key in ("a", "b", "a")] == [1, 2, 3]
    with pytest.raises(KeyExistsError):
        await kv.create("a", b"w")
    await kv.delete("a")
    assert await kv.put("a", b"w") == 4, "what is taken away whole is no change, nor is a try that was refused"
    await kv.delete("a", 4)
    assert await kv.get("a") is None
    assert (await kv.keys(), await kv.names()) == (["b"], ["a", "b"]), "a mark is left of it"
    assert await kv.create("a", b"x") == 6
    await kv.delete("a", 6)
    assert await kv.update("a", b"y", 7) == 8, "the mark has a revision as well"
    await kv.delete("never", 0)
    assert await kv.names() == ["a", "b", "never"]
    assert await kv.update("new", b"n", 0) == 10
    with pytest.raises(StaleRevisionError):
        await kv.delete("new", 9)
    assert (await buses[1].stream_info("KV_COUNTED")).state.last_seq == 10


@pytest.mark.parametrize("key", ["a.b", "a/b", "x=y", "ü", "a*", "7", "-"])
async def test_keys_of_one_word_may_be_odd(buses: Two, key: str) -> None:
    kv, theirs = buses[0].kv(SECRETS.name), buses[1].kv(SECRETS.name)
    revision = await kv.put(key, b"")
    assert await theirs.get(key) == (b"", revision), "an empty value is one"
    assert key in await theirs.keys()
    await theirs.delete(key)
    assert await kv.get(key) is None
    await theirs.delete(key)


@pytest.mark.parametrize("key", ["", ".a", "a.", "a..b"])
async def test_keys_with_nothing_between_dots_are_kept_by_nobody(buses: Two, key: str) -> None:
    with pytest.raises(TemporaryError):
        await buses[0].kv(SECRETS.name).put(key, b"x")


async def test_a_key_with_a_space_is_refused_for_good(buses: Two) -> None:
    with pytest.raises(PermanentError):
        await buses[0].kv(SECRETS.name).put("a b", b"x")


async def test_a_mark_of_what_was_taken_away_expires_as_well(buses: Two) -> None:
    kv = buses[0].kv(SOON.name)

    async def marking(number: int) -> tuple[str, int]:
        name = f"marked{number}"
        revision = await kv.create(name, b"1")
        await kv.delete(name, revision)
        assert name in await kv.names()
        return name, revision

    async def is_gone() -> bool:
        return name not in await kv.names()

    name, revision = await timely(SOON.ttl_s, marking)
    await until(is_gone, OVER_S)
    assert await kv.create(name, b"2") > revision + 1


async def test_buckets_and_stores_that_nobody_made_are_empty_and_take_nothing(buses: Two) -> None:
    kv, store = buses[0].kv("NOBODYS"), buses[0].objects("NOBODYS")
    assert await kv.get("a") is None
    assert await store.get("a") is None
    await store.delete("a")
    for attempt in (kv.put("a", b"1"), kv.keys(), kv.delete("a"), store.put("a", b"1"), store.list()):
        with pytest.raises(TemporaryError):
            await attempt


async def test_objects_may_be_empty_large_and_oddly_named(buses: Two) -> None:
    mine, theirs = buses[0].objects(SNAPSHOTS), buses[1].objects(SNAPSHOTS)
    blobs = {"empty": b"", "large": bytes(range(256)) * 12_000, "a/b": b"1", "ü x": b"2", "n" * 200: b"3"}
    for name, data in blobs.items():
        await mine.put(name, data)
    assert await theirs.list() == sorted(blobs)
    assert {name: await theirs.get(name) for name in blobs} == blobs
    await theirs.put("large", b"")
    assert await mine.get("large") == b""
    with pytest.raises(TemporaryError):
        await mine.put("", b"nameless")
    for name in blobs:
        await theirs.delete(name)
        await theirs.delete(name)
    assert await mine.list() == []


# --- requests -----------------------------------------------------------------------------------------------------


async def test_of_two_that_serve_one_is_asked_and_whoever_stops_is_asked_no_more(buses: Two) -> None:
    bus, other = buses
    asked: list[str] = []

    def answering(name: str) -> Callable[[bytes, dict[str, str]], Awaitable[bytes]]:
        async def answer(data: bytes, headers: dict[str, str]) -> bytes:
            asked.append(name)
            return f"{headers.get('k', '')} {data.decode()}".encode()

        return answer

    first = await bus.serve("rare.two", answering("bus"))
    second = await other.serve("rare.two", answering("other"))
    for number in range(10):
        assert await other.request("rare.two", str(number).encode(), headers={"k": "v"}) == f"v {number}".encode()
    assert len(asked) == 10
    await second.stop()
    asked.clear()
    for _ in range(5):
        await other.request("rare.two", b"x")
    assert asked == ["bus"] * 5
    await first.stop()
    await bus.connection.flush()
    with pytest.raises(TemporaryError):
        await other.request("rare.two", b"x", timeout_s=1)


async def test_an_answer_that_is_too_large_or_too_late_is_told(buses: Two) -> None:
    bus, other = buses
    ask_over, is_late = asyncio.Event(), asyncio.Event()

    async def too_large(data: bytes, headers: dict[str, str]) -> bytes:
        return bytes(MESSAGE_BYTES_MAX + 1)

    async def too_late(data: bytes, headers: dict[str, str]) -> bytes:
        await ask_over.wait()
        is_late.set()
        return b"late"

    large, late = await other.serve("rare.large", too_large), await other.serve("rare.late", too_late)
    with pytest.raises(PermanentError):
        await bus.request("rare.large", b"x", timeout_s=5)
    with pytest.raises(OutcomeUnknownError):
        await bus.request("rare.late", b"x", timeout_s=0.1)
    ask_over.set()
    async with asyncio.timeout(LONG_S):
        await is_late.wait()
    await large.stop()
    await late.stop()
    with pytest.raises(TemporaryError):
        await bus.request("rare.nobody", b"x", timeout_s=1)

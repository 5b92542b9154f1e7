"""What services rely on of a bus, promised alike by the dollhouse's, by one real server and by three (see `alike`).

Each promise is one function of an opened bus; a second bus is another process's. What the fake does otherwise than the
real ones would make every simulated run worthless, so none may be skipped for one of them.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.bus.alike import (  # noqa: F401 - pytest finds fixtures by name
    BRIEF,
    LAST,
    RING,
    SMALL,
    SOON,
    TIGHT,
    Two,
    buses_fixture,
    connect_fixture,
    kind_fixture,
)
from tests.patience import LONG_S, timely, until

from gangline_kit.bus import Bus, Record
from gangline_kit.errors import (
    KeyExistsError,
    LaneConflictError,
    OutcomeUnknownError,
    PermanentError,
    StaleRevisionError,
    StreamFullError,
    TemporaryError,
)
from gangline_wire.streams import LEASES, LOG, SECRETS, SNAPSHOTS, Stream

pytestmark = pytest.mark.asyncio(loop_scope="module")

OVER_S = 15.0
"""What lasts for a second is over in this time, on a machine however busy."""


async def test_messages_have_one_order_and_keep_their_headers(buses: Two) -> None:
    bus, other = buses
    first = await bus.append("gangline.log.order", b"a", headers={"traceparent": "t"})
    assert await other.append("gangline.log.order2", b"b") == first + 1
    found = [message async for message in other.read_subject(LOG.name, "", first, follow=False)]
    assert [(m.seq, m.subject, m.data) for m in found] == [
        (first, "gangline.log.order", b"a"),
        (first + 1, "gangline.log.order2", b"b"),
    ]
    assert (found[0].headers or {})["traceparent"] == "t"
    assert await other.last_seq(LOG.name) == first + 1
    assert await other.message_at(LOG.name, first) == b"a"
    assert await other.message_at(LOG.name, first + 100) is None
    assert await other.last_message(LOG.name, "gangline.log.order") == (b"a", first)


async def test_a_writer_that_expects_another_last_message_is_refused(buses: Two) -> None:
    bus, other = buses
    first = await bus.append("gangline.log.fence", b"1", expected_seq=0)
    second = await other.append("gangline.log.fence", b"2", expected_seq=first)
    with pytest.raises(LaneConflictError):
        await bus.append("gangline.log.fence", b"3", expected_seq=first)
    assert await bus.append("gangline.log.fence", b"2", expected_seq=first) == second, "its own lost answer"


async def test_a_message_id_counts_once_inside_the_window_and_anew_after_it(buses: Two) -> None:
    bus, _ = buses

    async def inside(number: int) -> tuple[str, int]:
        name = f"x{number}"
        first = await bus.append("brief.a", b"1", msg_id=name)
        assert await bus.append("brief.a", b"1", msg_id=name) == first
        assert await bus.append("brief.a", b"1", msg_id=f"y{number}") == first + 1
        return name, first

    name, first = await timely(BRIEF.duplicate_window_s, inside)
    await asyncio.sleep(2 * BRIEF.duplicate_window_s)
    again = first

    async def is_new() -> bool:
        nonlocal again
        again = await bus.append("brief.a", b"1", msg_id=name)
        return again != first

    await until(is_new, OVER_S)
    assert again > first + 1


async def test_a_stream_drops_its_beginning_and_every_writer_goes_on_where_it_was(buses: Two) -> None:
    bus, other = buses
    quiet = await bus.append("cut.quiet", b"q", expected_seq=0)
    busy = 0
    for number in range(6):
        busy = await bus.append("cut.busy", str(number).encode(), expected_seq=busy)
    before = (await bus.stream_info("CUT")).state
    await bus.drop_until("CUT", busy - 2)
    left = [message async for message in other.read_subject("CUT", "", 1, follow=False)]
    assert [message.seq for message in left] == [quiet, busy - 1, busy], (
        "the newest of each subject stays, and the rest"
    )
    after = (await bus.stream_info("CUT")).state
    assert after.messages == 3
    assert after.last_seq == before.last_seq
    assert after.bytes < before.bytes
    assert await other.message_at("CUT", busy - 2) is None
    assert await other.append("cut.quiet", b"r", expected_seq=quiet) == busy + 1
    with pytest.raises(LaneConflictError):
        await bus.append("cut.quiet", b"s", expected_seq=0)
    assert await other.append("cut.busy", b"7", expected_seq=busy) == busy + 2


async def test_what_is_too_old_is_gone_and_whoever_reads_to_the_end_comes_there(buses: Two) -> None:
    bus, other = buses
    for number in range(3):
        await bus.append("aged.a", str(number).encode())
    last = await bus.append("aged.b", b"last")
    async with asyncio.timeout(LONG_S):
        while (await bus.stream_info("AGED")).state.messages:  # noqa: ASYNC110 - the server tells nobody when it drops
            await asyncio.sleep(0.2)
    state = (await other.stream_info("AGED")).state
    assert (state.first_seq, state.last_seq) == (last + 1, last)
    assert await other.message_at("AGED", last) is None
    assert await other.last_message("AGED", "aged.b") is None
    async with asyncio.timeout(LONG_S):
        for subject in ("", "aged.a"):
            for begin in (1, last, last + 1):
                assert [one async for one in other.read_subject("AGED", subject, begin, follow=False)] == []
    assert await bus.append("aged.b", b"anew", expected_seq=0) == last + 1
    assert [one.seq async for one in other.read_subject("AGED", "", 1, follow=False)] == [last + 1]


async def test_dropping_more_than_there_is_leaves_the_newest_of_each_subject(buses: Two) -> None:
    bus, other = buses
    last = 0
    for number in range(3):
        last = await bus.append("brief.drop", str(number).encode(), expected_seq=last)
    await bus.drop_until("BRIEF", last + 1000)
    assert await other.last_message("BRIEF", "brief.drop") == (b"2", last)
    assert await bus.append("brief.drop", b"3", expected_seq=last) == last + 1


async def test_a_full_stream_refuses_and_keeps_what_it_has(buses: Two) -> None:
    bus, _ = buses
    stored = [await bus.append("small.a", bytes(900)) for _ in range(4)]
    with pytest.raises(StreamFullError):
        await bus.append("small.a", bytes(900))
    assert await bus.message_at(SMALL.name, stored[0]) == bytes(900)
    await bus.ensure((Stream(name="SMALL", subjects=("small.>",), bytes_max=8_000),), replicas=await _replicas(bus))
    assert await bus.append("small.a", bytes(900)) == stored[-1] + 1


async def _replicas(bus: Bus) -> int:
    """As many as the stream has."""
    info = await bus.stream_info(SMALL.name)
    return int(info.config.get("num_replicas", 1))


async def test_a_ring_forgets_the_oldest_and_readers_go_on_behind_them(buses: Two) -> None:
    bus, _ = buses
    last = [await bus.append("ring.a", bytes(900)) for _ in range(12)][-1]
    found = [message.seq async for message in bus.read_subject(RING.name, "", 1, follow=False)]
    assert found == list(range(last - len(found) + 1, last + 1))
    assert 0 < len(found) < 12
    assert await bus.message_at(RING.name, 1) is None


async def test_a_subject_keeps_its_last_messages(buses: Two) -> None:
    bus, _ = buses
    for number in range(5):
        await bus.append("last.a", str(number).encode())
    await bus.append("last.b", b"b")
    found = [message.data async for message in bus.read_subject(LAST.name, "last.a", 1, follow=False)]
    assert found == [b"3", b"4"]


async def test_records_are_stored_once_however_often_they_are_sent(buses: Two) -> None:
    bus, _ = buses
    records = [Record(subject="gangline.log.all", data=str(n).encode(), msg_id=f"all-{n}") for n in range(20)]
    first = await bus.last_seq(LOG.name) + 1
    await bus.append_all(records)
    await bus.append_all(records)
    found = [message.data async for message in bus.read_subject(LOG.name, "", first, follow=False)]
    assert found == [record.data for record in records]


async def test_a_follower_sees_what_is_stored_while_it_reads(buses: Two) -> None:
    bus, other = buses
    first = await bus.last_seq(LOG.name) + 1
    seen: list[bytes] = []

    async def follow() -> None:
        async for message in other.read(LOG.name, first):
            seen.append(message.data)
            if len(seen) == 300:
                return

    async with asyncio.timeout(LONG_S), asyncio.TaskGroup() as group:
        group.create_task(follow())
        for number in range(300):
            await bus.append("gangline.log.follow", str(number).encode())
    assert seen == [str(number).encode() for number in range(300)]


async def test_keys_are_made_changed_and_taken_away_by_revision(buses: Two) -> None:
    kv, theirs = buses[0].kv(SECRETS.name), buses[1].kv(SECRETS.name)
    made = await kv.create("a", b"1")
    with pytest.raises(KeyExistsError):
        await theirs.create("a", b"2")
    changed = await theirs.update("a", b"2", made)
    assert changed > made
    with pytest.raises(StaleRevisionError):
        await kv.update("a", b"3", made)
    assert await kv.get("a") == (b"2", changed)
    assert await kv.put("a", b"4") > changed
    with pytest.raises(StaleRevisionError):
        await kv.delete("a", made)
    await kv.delete("a")
    assert await kv.get("a") is None
    again = await kv.create("a", b"5")
    assert again > changed + 1, "taking away is a change, too"
    assert "a" in await kv.keys()
    with pytest.raises(StaleRevisionError):
        await kv.update("never", b"1", again)


async def test_a_key_expires_and_can_be_made_again(buses: Two) -> None:
    kv = buses[0].kv(SOON.name)

    async def renewing(number: int) -> tuple[str, int]:
        name = f"a{number}"
        made = await kv.create(name, b"1")
        await asyncio.sleep(0.5)
        renewed = await kv.update(name, b"1", made)
        await asyncio.sleep(0.7)
        assert await kv.get(name) == (b"1", renewed), "renewing begins its time anew"
        return name, renewed

    async def is_gone() -> bool:
        return await kv.get(name) is None

    name, renewed = await timely(0.5 + SOON.ttl_s, renewing)
    await until(is_gone, OVER_S)
    with pytest.raises(StaleRevisionError):
        await kv.update(name, b"2", renewed)
    assert await kv.create(name, b"3") > renewed


async def test_leases_have_one_holder(buses: Two) -> None:
    answers = await asyncio.gather(
        *(bus.kv(LEASES.name).create("contract", b"me") for bus in (*buses, *buses)), return_exceptions=True
    )
    assert sum(isinstance(answer, int) for answer in answers) == 1
    # While several servers have not agreed yet, the others are in doubt; once they have, they are told.
    assert sum(isinstance(answer, KeyExistsError | OutcomeUnknownError) for answer in answers) == 3
    for bus in buses:
        with pytest.raises(KeyExistsError):
            await bus.kv(LEASES.name).create("contract", b"me")


async def test_objects_are_kept_replaced_and_forgotten(buses: Two) -> None:
    mine, theirs = buses[0].objects(SNAPSHOTS), buses[1].objects(SNAPSHOTS)
    await mine.put("1", b"x" * 300_000)
    await mine.put("2", b"second")
    await mine.put("1", b"first")
    assert await theirs.get("1") == b"first"
    assert await theirs.list() == ["1", "2"]
    await theirs.delete("1")
    assert await mine.get("1") is None
    assert await mine.list() == ["2"]


async def test_a_request_meets_one_of_those_who_serve_it_and_errors_come_back(buses: Two) -> None:
    bus, other = buses
    asked: list[str] = []

    def answering(name: str) -> Callable[[bytes, dict[str, str]], Awaitable[bytes]]:
        async def answer(data: bytes, headers: dict[str, str]) -> bytes:
            asked.append(name)
            if data == b"later":
                raise TemporaryError("come back", retry_after_s=3)
            if data == b"stumble":
                raise ValueError("a bug")
            return data.upper()

        return answer

    servings = [await other.serve("contract.ask", answering("one"))]
    await _flushed(other)
    assert await bus.request("contract.ask", b"yes") == b"YES"
    assert len(asked) == 1
    with pytest.raises(TemporaryError) as refused:
        await bus.request("contract.ask", b"later")
    assert refused.value.retry_after_s == 3
    with pytest.raises(PermanentError):
        await bus.request("contract.ask", b"stumble")
    for serving in servings:
        await serving.stop()
    await _flushed(other)
    with pytest.raises(TemporaryError):
        await bus.request("contract.ask", b"anybody", timeout_s=1)


async def _flushed(bus: Bus) -> None:
    """The server has heard what this connection sent."""
    await bus.connection.flush()


async def test_plain_messages_come_to_whoever_listens_in_the_order_of_their_subject(buses: Two) -> None:
    bus, other = buses
    heard: list[tuple[str, bytes]] = []
    all_heard = asyncio.Event()

    async def hear(subject: str, data: bytes, headers: dict[str, str]) -> None:
        heard.append((subject, data))
        if len(heard) == 20:
            all_heard.set()

    subscription: Any = await other.subscribe("contract.tell.*", hear)
    await _flushed(other)
    for number in range(20):
        await bus.publish(f"contract.tell.{number % 2}", str(number).encode())
    await bus.publish("contract.other", b"nobody")
    async with asyncio.timeout(LONG_S):
        await all_heard.wait()
    for turn in (0, 1):
        mine = [int(data) for subject, data in heard if subject == f"contract.tell.{turn}"]
        assert mine == sorted(mine)
    await other.unsubscribe(subscription)


async def test_a_stream_that_nobody_made_is_a_temporary_error(buses: Two) -> None:
    with pytest.raises(TemporaryError):
        await buses[0].last_seq("NOT_THERE")
    with pytest.raises(TemporaryError):
        await buses[0].append("nobody.stores.this", b"x", timeout_s=1)


async def test_keys_that_were_taken_away_take_no_room_however_many_there_were(buses: Two) -> None:
    bus, other = buses
    kv = bus.kv(TIGHT.name)
    for number in range(200):
        await kv.put(str(number), bytes(400))
        await kv.delete(str(number))
    assert await other.kv(TIGHT.name).keys() == []
    await kv.put("a", bytes(1_500))
    await kv.put("b", bytes(1_500))
    with pytest.raises(StreamFullError):
        await kv.put("c", bytes(1_500))
    await kv.delete("a")
    await kv.delete("a")
    await kv.put("c", bytes(1_500))
    assert await other.kv(TIGHT.name).keys() == ["b", "c"]

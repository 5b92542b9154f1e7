"""Durable appends: who may write, what a repetition means, and what a full stream does."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from nats.aio.msg import Msg
from tests.patience import LONG_S

from gangline_kit.bus import Bus, Record, jetstream
from gangline_kit.bus.tail import NANO
from gangline_kit.errors import LaneConflictError, OutcomeUnknownError, PermanentError, StreamFullError, TemporaryError
from gangline_kit.nats_server import NatsServer
from gangline_wire.rights import READER
from gangline_wire.streams import EVENTS, LOG, OUTPUT, Stream

Cut = Callable[[Bus], Awaitable[None]]

LANE = "gangline.log.queue.default"


async def test_an_append_gives_the_sequence_and_the_next_one_must_name_it(bus: Bus) -> None:
    first = await bus.append(LANE, b"one", expected_seq=0)
    second = await bus.append(LANE, b"two", expected_seq=first)
    assert (first, second) == (1, 2)
    assert await bus.last_seq(LOG.name) == 2
    assert await bus.last_message(LOG.name, LANE) == (b"two", 2)


async def test_a_writer_that_did_not_see_the_last_message_of_its_lane_is_refused_and_nothing_is_stored(
    bus: Bus,
) -> None:
    await bus.append(LANE, b"one", expected_seq=0)
    with pytest.raises(LaneConflictError):
        await bus.append(LANE, b"other", expected_seq=0)
    assert await bus.last_seq(LOG.name) == 1


async def test_lanes_do_not_disturb_each_other(bus: Bus) -> None:
    first = await bus.append(LANE, b"one", expected_seq=0)
    other = await bus.append("gangline.log.placement.default", b"x", expected_seq=0)
    assert await bus.append(LANE, b"two", expected_seq=first) == other + 1


async def test_a_repeated_append_whose_first_answer_was_lost_counts_as_stored_once(bus: Bus) -> None:
    first = await bus.append(LANE, b"mine", expected_seq=0)
    assert await bus.append(LANE, b"mine", expected_seq=0) == first
    assert await bus.last_seq(LOG.name) == 1


async def test_a_first_try_that_servers_have_not_agreed_on_yet_means_ask_again(bus: Bus) -> None:
    async def in_process(_data: bytes, _headers: dict[str, str]) -> bytes:
        return b'{"error":{"code":400,"err_code":10164,"description":"wrong last sequence"},"stream":"S","seq":0}'

    await bus.serve("gangline.api.lane", in_process)
    with pytest.raises(OutcomeUnknownError, match="on its way"):
        await bus.append("gangline.api.lane", b"one", expected_seq=4)


async def test_too_few_servers_for_the_replicas_is_a_temporary_problem(bus: Bus) -> None:
    async def no_peers(_data: bytes, _headers: dict[str, str]) -> bytes:
        why = "no suitable peers for placement, peer offline"
        return msgspec.json.encode(
            {"error": {"code": 400, "err_code": 10005, "description": why}, "stream": "S", "seq": 0}
        )

    await bus.serve("gangline.api.lane", no_peers)
    with pytest.raises(TemporaryError, match="peer offline"):
        await bus.append("gangline.api.lane", b"one")


async def test_equal_bytes_from_before_the_expected_sequence_are_not_taken_for_ours(bus: Bus) -> None:
    first = await bus.append(LANE, b"same", expected_seq=0)
    with pytest.raises(LaneConflictError):
        await bus.append(LANE, b"same", expected_seq=first + 5)


async def test_a_message_id_seen_before_gives_the_first_sequence_and_stores_nothing(bus: Bus) -> None:
    subject = "gangline.output.1.t"
    first = await bus.append(subject, b"line", msg_id="1-0")
    assert await bus.append(subject, b"line", msg_id="1-0") == first
    assert await bus.append(subject, b"line", msg_id="1-1") == first + 1
    assert await bus.last_seq(OUTPUT.name) == 2


async def test_a_full_stream_refuses_and_keeps_everything_it_has(bus: Bus) -> None:
    small = Stream(name="SMALL", subjects=("small.>",), bytes_max=20_000)
    await bus.ensure((small,))
    stored = 0
    with pytest.raises(StreamFullError):  # noqa: PT012 - the loop is the promise
        for _ in range(100):
            await bus.append("small.x", b"x" * 1000)
            stored += 1
    info = await bus.stream_info("SMALL")
    assert stored > 10
    assert (info.state.messages, info.state.first_seq) == (stored, 1)


async def test_a_message_larger_than_the_server_takes_is_a_permanent_error(bus: Bus) -> None:
    with pytest.raises(PermanentError, match="more than the server takes"):
        await bus.append(LANE, b"x" * (9 << 20))


async def test_an_append_without_a_server_is_temporary_and_known_not_to_be_stored(bus: Bus, cut: Cut) -> None:
    await cut(bus)
    with pytest.raises(TemporaryError) as caught:
        await bus.append(LANE, b"x", expected_seq=0)
    assert not isinstance(caught.value, OutcomeUnknownError)


async def test_every_acknowledged_append_survives_kill_9_of_the_server(bus: Bus, server: NatsServer) -> None:
    acknowledged: list[int] = []
    crash = asyncio.Event()

    async def write(writer: int) -> None:
        subject, expected = f"gangline.log.agent.w{writer}", 0
        for n in range(60):
            data = b"%d-%d" % (writer, n)
            while True:
                try:
                    expected = await bus.append(subject, data, expected_seq=expected)
                    break
                except TemporaryError:
                    await asyncio.sleep(0.02)
            acknowledged.append(expected)
            if len(acknowledged) in (50, 150):
                crash.set()

    async def crashes() -> None:
        for _ in range(2):
            await crash.wait()
            crash.clear()
            await server.kill()
            await server.start()

    async with asyncio.TaskGroup() as group:
        for writer in range(5):
            group.create_task(write(writer))
        group.create_task(crashes())
    assert sorted(acknowledged) == list(range(1, 301)), "all stored once: no loss, no duplicate"
    assert await bus.last_seq(LOG.name) == 300


async def test_ensure_corrects_a_setting_that_differs_and_keeps_the_messages(bus: Bus) -> None:
    before = Stream(name="CHANGING", subjects=("changing.>",), bytes_max=1 << 20)
    await bus.ensure((before,))
    await bus.append("changing.a", b"kept")
    await bus.ensure((Stream(name="CHANGING", subjects=("changing.>", "more.>"), bytes_max=2 << 20, age_s_max=60),))
    info = await bus.stream_info("CHANGING")
    assert info.config["max_bytes"] == 2 << 20
    assert info.config["max_age"] == 60 * 1_000_000_000, "seconds here are nanoseconds there"
    assert sorted(info.config["subjects"]) == ["changing.>", "more.>"]
    assert info.state.messages == 1


READER_AT = f"{EVENTS.name}.{READER}"


async def pulled(bus: Bus) -> bytes:
    """What the readers' consumer gives next; it is taken."""
    came: asyncio.Queue[Msg] = asyncio.Queue()
    inbox = bus.connection.inbox()
    subscription = await bus.connection.subscribe(inbox, came.put)
    await bus.connection.publish(f"$JS.API.CONSUMER.MSG.NEXT.{READER_AT}", b"1", reply=inbox)
    async with asyncio.timeout(LONG_S):
        message = await came.get()
    await bus.connection.publish(message.reply, b"+ACK")
    await bus.connection.flush()
    await bus.connection.unsubscribe(subscription)
    return message.data


@pytest.mark.parametrize(("setting", "wrong"), [("ack_wait", 1), ("ack_wait", 30 * NANO), ("max_ack_pending", 1)])
async def test_ensure_corrects_the_consumer_of_readers_which_keeps_what_it_has_read(
    bus: Bus, setting: str, wrong: int
) -> None:
    """Field case O05: a consumer that is there already keeps a setting that nobody wants, in silence."""
    await bus.ensure((EVENTS,))
    for number in range(3):
        await bus.append(f"gangline.events.g.{number}.X", b"%d" % number)
    assert await pulled(bus) == b"0"
    meant = await jetstream.consumer_config(bus.connection, READER_AT)
    spoiled = {"stream_name": EVENTS.name, "config": {**meant, setting: wrong}}
    await jetstream.call(bus.connection, f"CONSUMER.CREATE.{READER_AT}", spoiled)
    assert (await jetstream.consumer_config(bus.connection, READER_AT))[setting] == wrong
    await bus.ensure((EVENTS,))
    assert await jetstream.consumer_config(bus.connection, READER_AT) == meant
    assert await pulled(bus) == b"1"


@pytest.mark.parametrize(
    "wrong",
    [
        {"backoff": [NANO // 1000] * 2, "max_deliver": 5},
        {"max_deliver": 1},
        {"filter_subject": "gangline.events.other.>"},
        {"headers_only": True},
        {"inactive_threshold": NANO},
    ],
    ids=lambda wrong: "-".join(wrong),
)
async def test_ensure_takes_away_what_was_added_to_the_consumer_of_readers(bus: Bus, wrong: dict[str, Any]) -> None:
    """O05 by other settings: short waits in place of its own, messages that never come, an end of its own."""
    await bus.ensure((EVENTS,))
    meant = await jetstream.consumer_config(bus.connection, READER_AT)
    spoiled = {"stream_name": EVENTS.name, "config": {**meant, **wrong}}
    await jetstream.call(bus.connection, f"CONSUMER.CREATE.{READER_AT}", spoiled)
    assert await jetstream.consumer_config(bus.connection, READER_AT) != meant
    await bus.ensure((EVENTS,))
    assert await jetstream.consumer_config(bus.connection, READER_AT) == meant


async def made_by_another(bus: Bus, **settings: Any) -> None:
    """A stream of our name that somebody made with settings of his own."""
    made = {"name": STRANGE.name, "subjects": list(STRANGE.subjects), "storage": "file", **settings}
    await jetstream.call(bus.connection, f"STREAM.CREATE.{STRANGE.name}", made)


STRANGE = Stream(name="STRANGE", subjects=("strange.>",), bytes_max=1 << 20)


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_msgs": 2, "discard": "new"},
        {"no_ack": True},
        {"max_msgs_per_subject": 1, "discard": "new", "discard_new_per_subject": True},
        {"subject_transform": {"src": "strange.>", "dest": "other.>"}},
        {"max_msg_size": 10},
    ],
    ids=lambda wrong: "-".join(wrong),
)
async def test_a_stream_that_was_there_with_limits_of_its_own_takes_what_ours_takes(
    bus: Bus, wrong: dict[str, Any]
) -> None:
    await made_by_another(bus, **wrong)
    await bus.ensure((STRANGE,))
    for number in range(4):
        await bus.append("strange.a", b"more than ten bytes %d" % number)
    assert len([one async for one in bus.read_subject(STRANGE.name, "strange.a", 1, follow=False)]) == 4


@pytest.mark.parametrize(
    ("key", "value"), [("storage", "memory"), ("retention", "workqueue"), ("retention", "interest")]
)
async def test_a_stream_that_keeps_messages_in_another_way_is_refused(bus: Bus, key: str, value: str) -> None:
    await made_by_another(bus, **{key: value})
    with pytest.raises(PermanentError, match=f"stream STRANGE has {key} {value}"):
        await bus.ensure((STRANGE,))


@pytest.mark.parametrize(("key", "value"), [("ack_policy", "all"), ("deliver_subject", "elsewhere")])
async def test_a_consumer_of_readers_that_cannot_be_corrected_is_refused(bus: Bus, key: str, value: str) -> None:
    await bus.ensure((EVENTS,))
    meant = await jetstream.consumer_config(bus.connection, READER_AT)
    await jetstream.call(bus.connection, f"CONSUMER.DELETE.{READER_AT}")
    made = {**{name: one for name, one in meant.items() if name != "max_waiting"}, key: value}
    await jetstream.call(bus.connection, f"CONSUMER.CREATE.{READER_AT}", {"stream_name": EVENTS.name, "config": made})
    with pytest.raises(PermanentError, match=f"has {key} {value}"):
        await bus.ensure((EVENTS,))


async def test_ensure_twice_changes_nothing(bus: Bus) -> None:
    created = (await bus.stream_info(LOG.name)).created
    await bus.append(LANE, b"kept", expected_seq=0)
    await bus.ensure((LOG, OUTPUT))
    info = await bus.stream_info(LOG.name)
    assert (info.created, info.state.messages) == (created, 1)


def events(first: int, last: int, group: str = "ml") -> list[Record]:
    return [
        Record(subject=f"gangline.events.{group}.{n}.Queued", data=b"%d" % n, msg_id=f"{n}-0")
        for n in range(first, last + 1)
    ]


async def stored(bus: Bus) -> list[bytes]:
    return [message.data async for message in bus.read_subject(EVENTS.name, "", 1, follow=False)]


@pytest.mark.parametrize("count", [1, 2, 3, 300])
async def test_records_appended_together_are_stored_in_order(bus: Bus, count: int) -> None:
    await bus.append_all(events(1, count))
    assert await stored(bus) == [b"%d" % n for n in range(1, count + 1)]


async def test_records_appended_together_again_are_stored_once(bus: Bus) -> None:
    await bus.append_all(events(1, 5))
    await bus.append_all(events(1, 5))
    await bus.append_all(events(3, 9))
    assert await stored(bus) == [b"%d" % n for n in range(1, 10)]


async def test_records_that_did_not_come_between_the_first_and_the_last_are_sent_again(bus: Bus) -> None:
    await bus.append_all([events(1, 1)[0], events(4, 4)[0]])
    # The stream has the first and the last already, next to each other: what lies between cannot be there.
    await bus.append_all(events(1, 4))
    assert sorted(await stored(bus)) == [b"1", b"2", b"3", b"4"]


async def test_records_appended_together_while_the_server_is_away_fail_as_temporary_and_may_be_repeated(
    bus: Bus, cut: Cut, server: NatsServer
) -> None:
    await cut(bus)
    with pytest.raises(TemporaryError):
        await bus.append_all(events(1, 5))
    await server.start()
    await bus.connection.wait_connected()
    await bus.append_all(events(1, 5))
    assert await stored(bus) == [b"%d" % n for n in range(1, 6)]

"""The fold of the log in a process: whole, in order, and the same from a snapshot as from the beginning."""

import asyncio
import logging
from collections.abc import Callable

import msgspec
import pytest
from tests.patience import LONG_S

from gangline_core.cluster import Pool
from gangline_core.facts import PoolSet
from gangline_core.fold import Message
from gangline_core.state import encode_snapshot
from gangline_core.step import Step
from gangline_kit import follower as following
from gangline_kit.bus import Bus, jetstream
from gangline_kit.clock import SystemClock
from gangline_kit.errors import LogCutError, PermanentError, TemporaryError
from gangline_kit.follower import Follower
from gangline_kit.nats_server import NatsServer
from gangline_wire import codec, subjects
from gangline_wire.envelope import SCHEMA_VERSION, Batch
from gangline_wire.streams import LOG, SNAPSHOTS


def batch(number: int) -> bytes:
    fact = PoolSet(pool=Pool(name=f"pool-{number}"), by="test")
    return codec.encode(Batch(lane="admission", epoch=1, seq_seen=number, at=1000 + number, facts=(fact,)))


async def write(bus: Bus, *, first: int, count: int) -> None:
    for number in range(first, first + count):
        await bus.append(subjects.log("admission"), batch(number))


class Followers:
    """Makes followers and stops them."""

    def __init__(self, bus: Bus) -> None:
        self.bus = bus
        self.made: list[Follower] = []

    async def start(
        self, *, use_snapshots: bool = True, failed: Callable[[BaseException], None] = lambda _: None
    ) -> Follower:
        follower = Follower(self.bus, SystemClock(), use_snapshots=use_snapshots, failed=failed)
        self.made.append(follower)
        await follower.start()
        return follower


@pytest.fixture
async def followers(bus: Bus):
    made = Followers(bus)
    yield made
    for follower in made.made:
        await follower.stop()


async def test_a_started_follower_has_folded_everything_that_was_there(bus: Bus, followers: Followers) -> None:
    await write(bus, first=1, count=30)
    follower = await followers.start()
    assert follower.caught_up
    assert follower.state.kept.seq == 30
    assert "pool-30" in follower.state.kept.pools


async def test_listeners_hear_each_message_once_after_it_was_folded(bus: Bus, followers: Followers) -> None:
    follower = await followers.start()
    heard: list[tuple[int, bool]] = []

    def note(message: Message, step: Step) -> None:
        heard.append((message.seq, f"pool-{message.seq}" in follower.state.kept.pools))

    with follower.listening(note):
        await write(bus, first=1, count=3)
        await follower.reached(3, timeout_s=LONG_S)
    await write(bus, first=4, count=1)
    await follower.reached(4, timeout_s=LONG_S)
    assert heard == [(1, True), (2, True), (3, True)]


async def test_waiting_for_a_sequence_that_does_not_come_is_a_temporary_error(followers: Followers) -> None:
    follower = await followers.start()
    with pytest.raises(TemporaryError):
        await follower.reached(1, timeout_s=0.05)


async def test_a_restart_from_a_snapshot_equals_the_full_fold_byte_for_byte(bus: Bus, followers: Followers) -> None:
    await write(bus, first=1, count=20)
    first = await followers.start()
    assert await first.snapshot() == 20
    await write(bus, first=21, count=10)
    restored = await followers.start()
    whole = await followers.start(use_snapshots=False)
    assert restored.restored_seq == 20
    assert whole.restored_seq == 0
    assert encode_snapshot(restored.state) == encode_snapshot(whole.state)
    assert restored.state.kept.digest == whole.state.kept.digest


async def test_deleting_all_snapshots_changes_nothing(bus: Bus, followers: Followers) -> None:
    await write(bus, first=1, count=20)
    first = await followers.start()
    await first.snapshot()
    await bus.objects(SNAPSHOTS).delete(following.snapshot_name(20))
    again = await followers.start()
    assert again.restored_seq == 0
    assert encode_snapshot(again.state) == encode_snapshot(first.state)


async def test_a_fold_begins_with_a_snapshot_where_the_log_was_cut(bus: Bus, followers: Followers) -> None:
    await write(bus, first=1, count=20)
    first = await followers.start()
    await first.snapshot()
    await write(bus, first=21, count=10)
    await bus.drop_until(LOG.name, 19)
    again = await followers.start()
    assert again.restored_seq == 20
    await first.reached(30, timeout_s=LONG_S)
    assert encode_snapshot(again.state) == encode_snapshot(first.state)


async def test_a_snapshot_from_before_the_cut_is_passed_over_for_a_newer_one(
    bus: Bus, followers: Followers, caplog: pytest.LogCaptureFixture
) -> None:
    await write(bus, first=1, count=10)
    first = await followers.start()
    await first.snapshot()
    old = await bus.objects(SNAPSHOTS).get(following.snapshot_name(10))
    await write(bus, first=11, count=10)
    await first.reached(20, timeout_s=LONG_S)
    await first.snapshot()
    await write(bus, first=21, count=10)
    await bus.drop_until(LOG.name, 15)
    assert (await followers.start()).restored_seq == 20
    # Only the old one is left, under the name of the newest: nobody may begin with it.
    await bus.objects(SNAPSHOTS).delete(following.snapshot_name(20))
    await bus.objects(SNAPSHOTS).put(following.snapshot_name(10), old or b"")
    with pytest.raises(TemporaryError, match="The recorder makes one"):
        await followers.start()
    assert "has dropped what follows it" in caplog.text


async def test_a_fold_that_fell_behind_a_cut_ends_and_says_what_to_do(bus: Bus, followers: Followers) -> None:
    heard: list[BaseException] = []
    await write(bus, first=1, count=5)
    follower = await followers.start(failed=heard.append)
    await follower.stop()
    await write(bus, first=6, count=20)
    await bus.drop_until(LOG.name, 15)
    follower._tasks.spawn(follower._follow(), name="thawed")
    with pytest.raises(LogCutError, match="newer snapshot"):
        await follower.reached(25, timeout_s=LONG_S)
    assert [type(each) for each in heard] == [LogCutError]
    assert follower.state.kept.seq == 5, "nothing of what came after the hole was folded"


async def test_only_the_newest_snapshots_are_kept(bus: Bus, followers: Followers) -> None:
    follower = await followers.start()
    for number in range(1, 5):
        await write(bus, first=number, count=1)
        await follower.reached(number, timeout_s=LONG_S)
        await follower.snapshot()
    assert await bus.objects(SNAPSHOTS).list() == [following.snapshot_name(3), following.snapshot_name(4)]


def damaged(data: bytes) -> bytes:
    return data[:-1]


def of_a_newer_schema(data: bytes) -> bytes:
    head, _, body = data.partition(b"\n")
    fields = msgspec.json.decode(head)
    return msgspec.json.encode({**fields, "v": SCHEMA_VERSION + 1}) + b"\n" + body


def of_another_log(data: bytes) -> bytes:
    head, _, body = data.partition(b"\n")
    fields = msgspec.json.decode(head)
    return msgspec.json.encode({**fields, "message": "0" * 32}) + b"\n" + body


def of_another_shape(data: bytes) -> bytes:
    head, _, _ = data.partition(b"\n")
    body = b'{"seq": "twenty"}'
    fields = msgspec.json.decode(head)
    return msgspec.json.encode({**fields, "body": following.digest(body)}) + b"\n" + body


@pytest.mark.parametrize("spoil", [damaged, of_a_newer_schema, of_another_log, of_another_shape])
async def test_a_snapshot_that_cannot_be_used_is_skipped_with_a_warning(
    bus: Bus, followers: Followers, caplog: pytest.LogCaptureFixture, spoil
) -> None:
    await write(bus, first=1, count=20)
    first = await followers.start()
    await first.snapshot()
    objects = bus.objects(SNAPSHOTS)
    good = await objects.get(following.snapshot_name(20))
    assert good is not None
    await objects.put(following.snapshot_name(20), spoil(good))
    with caplog.at_level(logging.WARNING):
        again = await followers.start()
    assert again.restored_seq == 0
    assert encode_snapshot(again.state) == encode_snapshot(first.state)
    assert "is skipped" in caplog.text


async def test_an_older_good_snapshot_is_used_when_the_newest_is_spoiled(bus: Bus, followers: Followers) -> None:
    follower = await followers.start()
    for number in (1, 2):
        await write(bus, first=number, count=1)
        await follower.reached(number, timeout_s=LONG_S)
        await follower.snapshot()
    await bus.objects(SNAPSHOTS).put(following.snapshot_name(2), b"nonsense")
    again = await followers.start()
    assert again.restored_seq == 1
    assert again.state.kept.seq == 2


async def test_a_follower_goes_on_over_kill_9_of_the_server(bus: Bus, followers: Followers, server: NatsServer) -> None:
    follower = await followers.start()
    await write(bus, first=1, count=10)
    await server.kill()
    await server.start()
    await bus.connection.wait_connected()
    await write(bus, first=11, count=10)
    await follower.reached(20, timeout_s=LONG_S)
    assert follower.failure is None


async def test_a_follower_refuses_a_log_that_was_made_anew(bus: Bus, followers: Followers) -> None:
    follower = await followers.start()
    await write(bus, first=1, count=5)
    await follower.reached(5, timeout_s=LONG_S)
    await jetstream.call(bus.connection, f"STREAM.DELETE.{LOG.name}")
    await bus.ensure((LOG,))
    await write(bus, first=1, count=50)
    with pytest.raises(PermanentError, match="cannot be followed any more"):
        await follower.reached(50, timeout_s=LONG_S)
    assert isinstance(follower.failure, PermanentError)


async def test_a_message_of_a_newer_schema_stops_the_fold_instead_of_being_skipped(
    bus: Bus, followers: Followers
) -> None:
    follower = await followers.start()
    newer = batch(1).replace(b'"v":1', b'"v":2') if b'"v":1' in batch(1) else batch(1)[:-1] + b',"v":2}'
    await bus.append(subjects.log("admission"), newer)
    with pytest.raises(PermanentError):
        await follower.reached(1, timeout_s=LONG_S)


async def test_a_long_catch_up_leaves_the_loop_to_others(bus: Bus, followers: Followers) -> None:
    for first in range(1, 2001, 200):
        await asyncio.gather(*(bus.append(subjects.log("admission"), batch(n)) for n in range(first, first + 200)))
    turns = 0

    async def beat() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async with asyncio.TaskGroup() as group:
        beating = group.create_task(beat())
        follower = await followers.start()
        beating.cancel()
    assert follower.state.kept.seq == 2000
    assert turns > 10


async def test_a_follower_without_a_snapshot_store_folds_from_the_beginning(bus: Bus, followers: Followers) -> None:
    await write(bus, first=1, count=3)
    await jetstream.call(bus.connection, f"STREAM.DELETE.OBJ_{SNAPSHOTS}")
    assert (await followers.start()).state.kept.seq == 3


async def test_a_follower_before_the_first_stream_is_a_temporary_problem(bus: Bus, followers: Followers) -> None:
    await jetstream.call(bus.connection, f"STREAM.DELETE.{LOG.name}")
    with pytest.raises(TemporaryError, match="stream not found"):
        await followers.start()

"""A real server drops the log's beginning behind archive and snapshots, and everybody goes on."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.lines import bytes_only
from tests.patience import LONG_S

from gangline_core.cluster import Pool
from gangline_core.facts import LeadershipTaken, PoolSet
from gangline_core.fold import apply
from gangline_core.state import State, encode_snapshot
from gangline_kit.bus import Bus
from gangline_kit.clock import SystemClock
from gangline_kit.errors import LaneConflictError, PermanentError, StreamFullError, TemporaryError
from gangline_kit.follower import Follower
from gangline_recorder.archive import Archive, lines
from gangline_recorder.config import Config
from gangline_recorder.cutting import Cutter, rescue
from gangline_wire import codec, subjects
from gangline_wire.envelope import Batch
from gangline_wire.streams import LOG, SNAPSHOTS

LANES = ("admission", "queue.default", "agent.east")
SMALL = 60_000


def batch(number: int, *, lane: str) -> bytes:
    is_settings = lane == "admission"
    by = "test" * 20
    fact = PoolSet(pool=Pool(name=f"pool-{number % 7}"), by=by) if is_settings else LeadershipTaken(holder=by)
    return codec.encode(Batch(lane=lane, epoch=1, seq_seen=0, at=1000 * number, facts=(fact,)))


class Desk:
    """A recorder's hands without its loop: what is written is archived and folded at once."""

    def __init__(self, bus: Bus, folder: Path) -> None:
        self.bus = bus
        self.last = dict.fromkeys(LANES, 0)
        self.folder = folder
        self.archive = Archive(folder, segment_bytes=4_000)
        self.follower = Follower(bus, SystemClock())
        self.config = Config(archive_dir=str(folder), log_keep_s=20)
        self.cutter = Cutter(bus, self.archive, self.config)
        self.seq = 0

    async def write(self, count: int) -> None:
        """Messages that expect, as writers do, to follow their lane's last one; the third lane writes once only."""
        for number in range(self.seq + 1, self.seq + count + 1):
            lane = LANES[2] if number == 2 else LANES[number % 2]
            data = batch(number, lane=lane)
            self.seq = self.last[lane] = await self.bus.append(subjects.log(lane), data, expected_seq=self.last[lane])
            self.archive.append(bytes_only(self.seq, at=1000 * number, data=data))

    async def snapshot(self) -> None:
        await self.follower.reached(self.seq, timeout_s=LONG_S)
        await self.follower.snapshot()


@pytest.fixture
async def desk(bus: Bus, tmp_path: Path) -> AsyncIterator[Desk]:
    made = Desk(bus, tmp_path / "archive")
    await made.follower.start()
    yield made
    await made.follower.stop()
    made.archive.close()


async def test_what_is_old_is_dropped_and_writers_readers_and_archive_go_on(bus: Bus, desk: Desk) -> None:
    for _ in range(3):
        await desk.write(40)
        await desk.snapshot()
    done = await desk.cutter.cut(now_ms=100_000)
    assert done is not None
    assert 40 < done.seq < 80, "older than twenty seconds, and before the older of two snapshots"
    kept = [message.seq async for message in bus.read_subject(LOG.name, "", 1, follow=False)]
    assert kept == [2, *range(done.seq + 1, 121)], "the quiet lane's newest message stays"
    with pytest.raises(LaneConflictError):
        await bus.append(subjects.log(LANES[2]), b"late", expected_seq=0)
    await desk.write(20)
    again = Follower(bus, SystemClock())
    await again.start()
    assert encode_snapshot(again.state) == encode_snapshot(from_archive(desk))
    await again.stop()


def from_archive(desk: Desk) -> State:
    desk.archive.flush()
    state = State()
    for line in lines(desk.folder):
        apply(state, line.message)
    return state


async def test_with_one_snapshot_or_a_damaged_one_nothing_is_dropped(bus: Bus, desk: Desk) -> None:
    await desk.write(60)
    assert await desk.cutter.cut(now_ms=10_000_000) is None
    await desk.snapshot()
    assert await desk.cutter.cut(now_ms=10_000_000) is None, "one may turn out to be damaged"
    await desk.write(10)
    await desk.snapshot()
    objects = bus.objects(SNAPSHOTS)
    newest = (await objects.list())[-1]
    whole = await objects.get(newest) or b""
    await objects.put(newest, whole[:-5])
    assert await desk.cutter.cut(now_ms=10_000_000) is None
    await objects.put(newest, whole)
    assert (await desk.cutter.cut(now_ms=10_000_000)) is not None


async def test_a_full_log_takes_messages_again_after_the_cut(bus: Bus, desk: Desk) -> None:
    await bus.ensure((replace(LOG, bytes_max=SMALL),))
    await desk.write(20)
    await desk.snapshot()
    await desk.write(20)
    await desk.snapshot()
    with pytest.raises(StreamFullError):
        await desk.write(1000)
    assert await desk.cutter.is_needed()
    await desk.snapshot()
    assert await desk.cutter.cut(now_ms=0) is not None, "however young: nobody could write"
    await desk.write(10)


async def test_a_log_that_ends_before_its_archive_is_told_before_anything_is_added_to_it(bus: Bus, desk: Desk) -> None:
    await desk.write(10)
    desk.archive.sync()
    await rescue(bus, desk.folder)
    desk.archive.append(bytes_only(desk.seq + 1, at=1, data=batch(desk.seq + 1, lane=LANES[0])))
    desk.archive.sync()
    with pytest.raises(PermanentError, match=f"the log ends at {desk.seq} but its archive at {desk.seq + 1}"):
        await rescue(bus, desk.folder)


async def test_without_snapshots_the_archive_makes_one_and_a_short_archive_says_what_it_lacks(
    bus: Bus, desk: Desk, tmp_path: Path
) -> None:
    for _ in range(3):
        await desk.write(40)
        await desk.snapshot()
    await desk.cutter.cut(now_ms=100_000)
    for name in await bus.objects(SNAPSHOTS).list():
        await bus.objects(SNAPSHOTS).delete(name)
    newcomer = Follower(bus, SystemClock())
    with pytest.raises(TemporaryError, match="no snapshot reaches"):
        await newcomer.start()
    (tmp_path / "empty").mkdir()
    with pytest.raises(TemporaryError, match="copy of the archive"):
        await rescue(bus, tmp_path / "empty")
    desk.archive.sync()
    await rescue(bus, desk.folder)
    await newcomer.start()
    assert encode_snapshot(newcomer.state) == encode_snapshot(from_archive(desk))
    await newcomer.stop()

"""The log stays bounded: what the archive has and snapshots are past is dropped, and nobody misses it."""

from pathlib import Path
from typing import cast

import pytest
from msgspec.structs import replace
from tests.make import spec

import gangline_admission.app
import gangline_admission.config
import gangline_recorder.app
import gangline_recorder.config
from dollhouse.bus import MemoryBus
from dollhouse.clock import LoopClock
from dollhouse.loop import live
from dollhouse.stored import StoredStream
from dollhouse.world import World
from gangline_core.state import encode_snapshot
from gangline_kit.bus import Bus
from gangline_kit.errors import PermanentError, TemporaryError
from gangline_kit.follower import Follower
from gangline_recorder.archive import lines, segments
from gangline_recorder.cutting import rescue
from gangline_wire.archive import decode_line
from gangline_wire.streams import LOG

KEEP_S = 10.0


async def opened(world: World, folder: Path, **settings: float) -> None:
    """Admission and a recorder that lets go of what is older than ten seconds."""
    door = gangline_admission.config.Config(first_group="lab", first_user="ann")
    world.start("admission", gangline_admission.app.run, door)
    usual: dict[str, float] = {"snapshot_messages": 10, "segment_bytes": 2_000, "log_keep_s": KEEP_S, "guard_s": 5.0}
    config = gangline_recorder.config.Config(archive_dir=str(folder))
    world.start("recorder", gangline_recorder.app.run, replace(config, **{**usual, **settings}))

    async def before(bus: Bus) -> None:
        await rescue(bus, folder)

    world.before["recorder"] = before
    await world.until(lambda state: "lab" in state.kept.groups)


async def live_on(world: World, *, messages: int) -> None:
    """A message a second."""
    for _ in range(messages):
        await world.submit(spec(group="lab", user="ann"))
        await world.clock.sleep(1)


def log_of(world: World) -> StoredStream:
    return world.server.streams[LOG.name]


async def folded(world: World) -> Follower:
    follower = Follower(cast("Bus", MemoryBus(world.server, LoopClock())), LoopClock())
    await follower.start()
    return follower


def test_the_log_stays_small_and_the_archive_has_all_of_it(tmp_path: Path) -> None:
    async def story() -> None:
        async with World() as world:
            await opened(world, tmp_path)
            sizes = []
            for _ in range(3):
                await live_on(world, messages=40)
                sizes.append(len(log_of(world).messages))
            assert max(sizes) < 60, f"it grows: {sizes}"
            await world.clock.sleep(5)
            archived = [line.raw for line in lines(tmp_path)]
            assert archived == [message.data for message in log_of(world).ever]
            again = await folded(world)
            assert encode_snapshot(again.state) == encode_snapshot(world.state)
            assert again.restored_seq > 60
            await again.stop()
            world.check()

    live(story())


def test_a_log_that_is_too_full_drops_what_is_young(tmp_path: Path) -> None:
    async def story() -> None:
        async with World() as world:
            await opened(world, tmp_path, log_keep_s=1e9)
            await live_on(world, messages=60)
            assert log_of(world).dropped_until == 0, "it is young and there is room"
            log_of(world).settings = replace(LOG, bytes_max=int(1.5 * log_of(world).bytes))
            await live_on(world, messages=60)
            assert log_of(world).bytes < 0.6 * log_of(world).settings.bytes_max
            world.check()

    live(story())


def test_a_log_that_filled_up_is_freed_without_anybodys_help(tmp_path: Path) -> None:
    """Jobs go on being accepted for several times what the log holds, however fast they come."""

    async def story() -> None:
        async with World() as world:
            await opened(world, tmp_path, log_keep_s=1e9)
            await live_on(world, messages=5)
            log_of(world).settings = replace(LOG, bytes_max=40 * 600)
            for _ in range(300):
                await world.submit(spec(group="lab", user="ann"))
            assert sum(len(each.data) for each in log_of(world).ever) > 4 * log_of(world).settings.bytes_max
            world.check()

    live(story())


def test_a_process_that_slept_through_a_cut_begins_anew_and_knows_everything(tmp_path: Path) -> None:
    async def story() -> None:
        async with World() as world:
            await opened(world, tmp_path)
            world.start("idle", idle, None)
            await live_on(world, messages=20)
            world.freeze("idle")
            await live_on(world, messages=80)
            world.thaw("idle")
            await live_on(world, messages=5)
            assert world.cut_off == 1
            state = world.processes["idle"].site.follower.state
            assert encode_snapshot(state) == encode_snapshot(world.state)
            world.check()

    live(story())


async def idle(site: object, config: object) -> None:
    """A service that only follows."""
    clock = LoopClock()
    while True:
        await clock.sleep(60)


def test_who_begins_while_all_snapshots_are_gone_waits_until_the_recorder_has_made_one(tmp_path: Path) -> None:
    async def story() -> None:
        async with World() as world:
            await opened(world, tmp_path)
            await live_on(world, messages=80)
            assert log_of(world).dropped_until > 0
            world.server.objects.clear()
            with pytest.raises(TemporaryError, match="no snapshot reaches what it still has"):
                await folded(world)
            await world.crash("admission")
            world.restart("admission")
            await world.clock.sleep(15)
            await live_on(world, messages=3)
            world.check()

    live(story())


def test_a_recorder_that_begins_without_any_snapshot_makes_one_of_its_archive(tmp_path: Path) -> None:
    async def story() -> None:
        async with World() as world:
            await opened(world, tmp_path, guard_s=1e9)
            await live_on(world, messages=80)
            await world.crash("recorder")
            await world.crash("admission")
            world.server.objects.clear()
            world.restart("admission")
            await world.clock.sleep(30)
            assert not world.server.objects
            world.restart("recorder")
            await live_on(world, messages=30)
            assert [line.raw for line in lines(tmp_path)] == [m.data for m in log_of(world).ever][
                : len(list(lines(tmp_path)))
            ]
            world.check()

    live(story())


def test_an_archive_that_ends_before_the_log_begins_is_named_with_what_to_do(tmp_path: Path) -> None:
    async def story() -> None:
        async with World() as world:
            await opened(world, tmp_path)
            await live_on(world, messages=80)
            await world.crash("recorder")
            elsewhere = tmp_path / "another disk"
            elsewhere.mkdir()
            config = gangline_recorder.config.Config(archive_dir=str(elsewhere))
            world.before.clear()
            world.start("recorder", gangline_recorder.app.run, config)
            await world.clock.sleep(5)
            errors = [str(each) for each in flattened(world.failures)]
            assert any("put a copy of the archive that reaches further into its folder" in text for text in errors)
            bus = cast("Bus", MemoryBus(world.server, LoopClock()))
            world.server.objects.clear()
            with pytest.raises(TemporaryError, match="put a copy of the archive"):
                await rescue(bus, elsewhere)

    live(story())


def flattened(errors: list[BaseException]) -> list[BaseException]:
    found: list[BaseException] = []
    for each in errors:
        found += flattened(list(each.exceptions)) if isinstance(each, BaseExceptionGroup) else [each]
    return found


def test_nothing_is_dropped_while_the_archive_on_disk_is_not_what_was_written(tmp_path: Path) -> None:
    async def story() -> None:
        async with World() as world:
            await opened(world, tmp_path)
            await live_on(world, messages=20)
            newest = segments(tmp_path)[-2]
            whole = newest.read_bytes()
            newest.write_bytes(whole.replace(b"ann", b"eve", 1))
            changed = next(decode_line(raw).seq for raw in whole.splitlines(keepends=True) if b"ann" in raw)
            await live_on(world, messages=60)
            assert log_of(world).dropped_until < changed, "the archive on disk is not what was written"
            assert "chain" in world.processes["recorder"].site.not_ready["archive"]
            assert all(isinstance(each, PermanentError) for each in world.failures)

    live(story())

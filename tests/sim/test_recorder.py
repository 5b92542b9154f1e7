"""The archive holds the whole log and the feed each event once, whatever happens to the recorder."""

from collections import Counter
from pathlib import Path

import pytest
from tests.make import spec

import gangline_admission.app
import gangline_admission.config
import gangline_recorder.app
import gangline_recorder.config
from dollhouse.loop import live
from dollhouse.world import World
from gangline_recorder.archive import lines
from gangline_wire.codec import decode
from gangline_wire.requests import EventLine
from gangline_wire.streams import EVENTS, LOG


async def opened(world: World, folder: Path, *, snapshot_messages: int = 5) -> None:
    config = gangline_admission.config.Config(first_group="lab", first_user="ann")
    world.start("admission", gangline_admission.app.run, config)
    world.start(
        "recorder",
        gangline_recorder.app.run,
        gangline_recorder.config.Config(archive_dir=str(folder), snapshot_messages=snapshot_messages),
    )
    await world.until(lambda state: "lab" in state.kept.groups)


async def submit_many(world: World, count: int) -> None:
    for _ in range(count):
        await world.submit(spec(group="lab", user="ann"))


def check(world: World, folder: Path) -> None:
    """Every message in order in the archive, every admission once in the feed."""
    log = world.server.streams[LOG.name].messages
    archived = list(lines(folder))
    assert [line.seq for line in archived] == [message.seq for message in log]
    assert [line.raw for line in archived] == [message.data for message in log]
    events = [decode(message.data, EventLine) for message in world.server.streams[EVENTS.name].messages]
    assert Counter(event.job for event in events if event.event == "Admitted") == Counter(list(world.state.kept.jobs))


def test_a_recorder_that_was_killed_archives_and_tells_what_came_meanwhile(tmp_path: Path) -> None:
    live(killed_story(tmp_path))


async def killed_story(folder: Path) -> None:
    async with World() as world:
        await opened(world, folder)
        for _ in range(3):
            await submit_many(world, 8)
            await world.crash("recorder")
            await submit_many(world, 8)
            world.restart("recorder")
        await submit_many(world, 8)
        await world.clock.sleep(5)
        check(world, folder)
        world.check()


def test_a_recorder_that_cannot_keep_up_lets_go_and_misses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(gangline_recorder.app, "BACKLOG_MAX", 3)
    monkeypatch.setattr(gangline_recorder.app, "UNPUBLISHED_MAX", 2)
    live(slow_story(tmp_path))
    assert "fell behind" in caplog.text


async def slow_story(folder: Path) -> None:
    async with World() as world:
        await opened(world, folder, snapshot_messages=7)
        await world.submit(*(spec(group="lab", user="ann") for _ in range(40)))
        await submit_many(world, 30)
        await world.clock.sleep(5)
        check(world, folder)
        world.check()

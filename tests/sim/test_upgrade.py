"""A log of the previous version is folded, decided on and continued by this one; its snapshots are left alone.

`upgrade/` holds the log of a small cluster on which much went wrong, as the previous version wrote it, with jobs
running, waiting and held at its end, and the snapshot of its fold.
"""

import gzip
from pathlib import Path

import msgspec
import pytest
from msgspec import Struct
from tests.cases.house import House, ask, services

import gangline_agent.app
import gangline_agent.config
from dollhouse.invariants import faults_of
from dollhouse.loop import live
from gangline_core.fold import apply
from gangline_core.ids import JobId
from gangline_core.job import JobState
from gangline_core.state import State, decode_snapshot
from gangline_recorder.archive import lines
from gangline_wire.codec import decode_batch
from gangline_wire.stored import message
from gangline_wire.streams import LOG

FOLDER = Path(__file__).parent / "upgrade"
PREVIOUS_S = 300.0
"""Longer than the previous version wrote."""
FLEETS = {"one": ("n1", "n2"), "two": ("n3", "n4")}


class Stored(Struct, frozen=True):
    subject: str
    data: str


def previous_log() -> list[Stored]:
    text = gzip.decompress((FOLDER / "log_0_1_0.jsonl.gz").read_bytes())
    return [msgspec.json.decode(line, type=Stored) for line in text.splitlines()]


def test_the_previous_version_s_log_folds_without_alarms_and_keeps_every_promise() -> None:
    state = State()
    for seq, stored in enumerate(previous_log(), start=1):
        step = apply(state, message(seq, stored.data.encode(), subject=stored.subject))
        assert not step.alarms
        assert not list(faults_of(state))
    states = {job.state for job in state.kept.jobs.values()}
    assert states >= {JobState.RUNNING, JobState.WAITING, JobState.HELD, JobState.SUCCEEDED}


def test_a_snapshot_of_the_previous_version_is_refused() -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_snapshot(gzip.decompress((FOLDER / "snapshot_0_1_0.json.gz").read_bytes()))


def test_this_version_goes_on_where_the_previous_one_stopped(tmp_path: Path) -> None:
    live(upgraded_story(tmp_path))


async def upgraded_story(folder: Path) -> None:
    async with House() as world:
        log = world.server.streams[LOG.name]
        for stored in previous_log():
            data = stored.data.encode()
            at = decode_batch(data).at
            log.append(stored.subject, data, expected_seq=None, msg_id=None, writer="the previous one", stored_ms=at)
        # The clock of this world begins where the previous one stood when it stopped writing.
        await world.clock.sleep(PREVIOUS_S)
        before = len(log.messages)
        await world.until(lambda state: state.kept.seq == before)
        running = [job.id for job in world.state.kept.jobs.values() if job.state == JobState.RUNNING]
        waiting = [job.id for job in world.state.kept.jobs.values() if job.state == JobState.WAITING]
        for kind, run, config in services(folder):
            world.start(kind, run, config)
        for name, nodes in FLEETS.items():
            listed = folder / f"{name}.csv"
            rows = [f"{node},64000,262144,8,V100M32" for node in nodes]
            listed.write_text("\n".join(["sn,cpu_milli,memory_mib,gpu,model", *rows]) + "\n")
            config = gangline_agent.config.Config(name=name, simulate=str(listed), data_dir=str(folder / name))
            world.start(name, gangline_agent.app.run, config)
        (fresh,) = await world.submit(ask(run=5, gpus=1, priority=9))
        await world.clock.sleep(30)
        world.check()
        jobs = world.state.kept.jobs
        assert {jobs[job].attempt for job in running} == {1}, "what ran runs on"
        await world.until(lambda state: state.kept.jobs[JobId(fresh)].state == JobState.SUCCEEDED, 6000)
        await world.until(lambda state: all(state.kept.jobs[job].attempt for job in waiting), 12_000)
        archived = [line.raw for line in lines(folder / "archive")]
        assert archived[:before] == [message.data for message in log.messages[:before]]
        world.prove_books()

"""What an earlier build left behind in the middle of a busy day is taken up by this one: log, feed, keys, files.

Nothing that was answered is lost, nothing runs or is told twice, and secrets that were sealed then open now.
"""

import os
from collections import Counter
from pathlib import Path
from typing import get_args

import pytest
from msgspec import json
from tests.sim.earlier import Left, left, write

from dollhouse.invariants import faults_of
from dollhouse.loop import live
from dollhouse.people import People
from dollhouse.plan import FLEETS
from dollhouse.town import Town
from gangline_core.facts import Fact
from gangline_core.fold import apply
from gangline_core.ids import JobId
from gangline_core.job import ENDS, JobState
from gangline_core.state import State
from gangline_recorder.archive import lines
from gangline_recorder.events import public_events
from gangline_wire import codec
from gangline_wire.requests import EventLine
from gangline_wire.stored import message
from gangline_wire.streams import EVENTS, LEASES, LOG, SECRETS

pytestmark = pytest.mark.timeout(900)

NEVER_HERE = {
    # Of real cards, cgroups and drivers.
    "GpuSuspected", "GpuTrespassed", "GangHung", "StragglersSeen", "GangMoved", "JobReclaimed", "LimitSet",
    # Of elastic jobs that speak, and of policies for them.
    "ResizeFailed", "MemberSafe", "ResizeConfirmed", "ProgressReported", "NodesWanted", "NodeQuarantined",
    # Written by the settings of a whole document alone; of jobs that run longer than the day.
    "ClassSet", "JobUsed",
    # Younger than the build that left it; whoever leaves the next day says them.
    "NodeForgotten",
}  # fmt: skip
"""Kinds of facts that the day did not bring; `tests/wire/test_golden.py` holds their bytes."""
AWAY_S = 60.0
END_S_MAX = 2_000.0


@pytest.mark.skipif("WRITE_UPGRADE" not in os.environ, reason="writes what the next build is held to")
def test_this_build_leaves_something(tmp_path: Path) -> None:
    write(tmp_path)


def test_the_day_held_every_kind_of_fact_and_every_stream_and_bucket() -> None:
    before = left()
    kinds = Counter(fact["fact"] for line in before.streams[LOG.name] for fact in json.decode(line.data)["facts"])
    assert {kind.__name__ for kind in get_args(Fact)} - NEVER_HERE <= set(kinds)
    assert all(before.streams[name] for name in (LOG.name, EVENTS.name))
    assert all(before.buckets[name] for name in (LEASES.name, SECRETS.name))
    assert before.snapshots
    assert len(before.archive) > 1


def test_every_message_of_it_folds_without_alarms_and_keeps_every_promise() -> None:
    state = State()
    for seq, line in enumerate(left().streams[LOG.name], start=1):
        step = apply(state, message(seq, line.data.encode(), subject=line.subject, stored_ms=line.stored_ms))
        assert not step.alarms
        assert not list(faults_of(state)), seq
    states = {job.state for job in state.kept.jobs.values()}
    assert states >= {JobState.RUNNING, JobState.WAITING, JobState.HELD, JobState.SUCCEEDED, JobState.FAILED}
    assert state.kept.arrays


@pytest.mark.parametrize("snapshots", [True, False], ids=["with its snapshots", "without"])
def test_this_build_goes_on_with_all_of_it(tmp_path: Path, snapshots: bool) -> None:
    live(_goes_on(tmp_path, left(), snapshots=snapshots))


async def _goes_on(folder: Path, before: Left, *, snapshots: bool) -> None:
    town = Town(folder, seed=5)
    _put_back(town, before)
    # What earlier jobs were given in secret went when they ended; they are not looked for now.
    looks, town.look = town.look, lambda message: None  # type: ignore[method-assign]  # only for the way back
    people = People(town)
    # The clock of this world begins where the earlier one's did.
    await town.clock.sleep((before.streams[LOG.name][-1].stored_ms - town.now_ms) / 1000 + AWAY_S)
    async with town:
        count = len(before.streams[LOG.name])
        await town.until(lambda state: state.kept.seq == count)
        town.look = looks  # type: ignore[method-assign]  # as it was
        # The witness has folded all of it by now; whoever comes may begin with a snapshot.
        town.server.objects.update(before.snapshots if snapshots else {})
        running = {job.id: job.attempt for job in town.state.kept.jobs.values() if job.state == JobState.RUNNING}
        await town.begin(FLEETS, copies=2, doors=1, cut=2)
        people.jobs = list(before.accepted)
        town.history.accepted |= dict.fromkeys(JobId(job) for job in before.accepted)
        await people.settle_in()
        await town.clock.sleep(60)
        await people.lift_all()
        await town.until(lambda state: all(job.state in ENDS for job in state.kept.jobs.values()), END_S_MAX)
        await town.until(lambda state: not state.kept.tasks and not state.kept.uncharged, 300)
        await town.clock.sleep(60)
        town.check()
        assert people.unasked() == []
        assert running
        assert not town.server.buckets[SECRETS.name].names()
        log = [stored.data for stored in town.server.streams[LOG.name].ever]
        assert log[:count] == [line.data.encode() for line in before.streams[LOG.name]]
        assert [line.raw for line in lines(town.archive)] == log
        _told_once(town)


def _put_back(town: Town, before: Left) -> None:
    for streams, there in (
        (before.streams, {name: stream for name, stream in town.server.streams.items()}),
        (before.buckets, {name: bucket.stream for name, bucket in town.server.buckets.items()}),
    ):
        for name, own in streams.items():
            for line in own:
                there[name].append(
                    line.subject,
                    line.data.encode(),
                    expected_seq=None,
                    msg_id=None,
                    headers=line.headers,
                    writer=line.writer,
                    stored_ms=line.stored_ms,
                )
    town.archive.mkdir(parents=True)
    for path, data in before.archive.items():
        (town.archive / path).write_bytes(data)


def _told_once(town: Town) -> None:
    state, owed = State(), Counter[str]()
    for stored in town.server.streams[LOG.name].ever:
        one = message(stored.seq, stored.data, subject=stored.subject, stored_ms=stored.stored_ms)
        step = apply(state, one)
        owed.update(event.id for event in public_events(state, one, step))
    told = Counter(codec.decode(each.data, EventLine).id for each in town.server.streams[EVENTS.name].ever)
    assert told == owed

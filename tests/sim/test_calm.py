"""The dollhouse notices decisions that never end, and calls it no fault that much goes on outside."""

from pathlib import Path

import pytest

from dollhouse import play as playing
from dollhouse.plan import Ask, Event, Plan
from dollhouse.play import play
from dollhouse.town import Town
from gangline_core.ids import JobId
from gangline_wire.archive import ArchiveLine

STUCK = Ask(run_s=0, code=1, retries=2, stuck_s=70, array=5, at_most=1)
"""Fails fifteen times, one after the other, and holds its GPU for seventy seconds each time."""


def test_decisions_that_go_on_though_nothing_happens_outside_are_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(playing, "_stirred", lambda *_: True)
    outcome = play(Plan(seed=1, events=(), copies=1))
    assert "decisions never end" in outcome.faults[0]
    assert outcome.seconds < playing.CALM_S_MAX * 2


def test_whatever_ends_by_itself_gives_decisions_their_time_anew() -> None:
    outcome = play(Plan(seed=1, events=(Event(at_s=1, what="submit", asks=(STUCK,)),), copies=1))
    assert not outcome.faults
    assert outcome.seconds > playing.CALM_S_MAX


def test_whatever_ends_by_itself_gives_jobs_their_time_to_end_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fifteen retries take longer than that, and a node that stays closed after some of them makes it longer still."""
    monkeypatch.setattr(playing, "_calm_down", lambda town: town.clock.sleep(0))
    monkeypatch.setattr(playing, "_look_at_truth", lambda town: None)
    outcome = play(Plan(seed=1, events=(Event(at_s=1, what="submit", asks=(STUCK,)),), copies=1))
    assert not any("never" in fault for fault in outcome.faults)
    assert outcome.seconds > playing.CALM_S_MAX


@pytest.mark.parametrize(("saved_s", "faults"), [(4.0, 0), (0.0, 1)])
def test_work_that_is_saved_gives_decisions_their_time_anew(
    saved_s: float, faults: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seed 777000005: two jobs took turns of three seconds, came on with each, and hung for a minute after each."""
    turns = 0

    def stirs(town: Town, _: int) -> bool:
        nonlocal turns
        turns += 1
        town.ledger.done_s[JobId(1)] = saved_s * min(turns // 100, 11)
        return turns < 1200

    monkeypatch.setattr(playing, "_stirred", stirs)
    outcome = play(Plan(seed=1, events=(), copies=1))
    assert sum("decisions never end" in fault for fault in outcome.faults) == faults


@pytest.mark.parametrize(("late", "faults"), [(2, 0), (99, 1)])
def test_the_recorder_has_a_few_seconds_for_what_came_last(
    late: int, faults: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seed 1600670: a summary of the minute came in the moment in which archive and log were compared."""
    reads, told = 0, playing.lines

    def lacking_the_last(folder: Path) -> list[ArchiveLine]:
        nonlocal reads
        reads += 1
        return list(told(folder))[: -1 if reads <= late else None]

    monkeypatch.setattr(playing, "lines", lacking_the_last)
    outcome = play(Plan(seed=1, events=(Event(at_s=1, what="submit", asks=(Ask(run_s=1),)),), copies=1))
    assert [fault for fault in outcome.faults if "archive" in fault] == ["the archive is not the log"] * faults

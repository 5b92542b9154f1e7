"""The dollhouse sees when a fence of the shortened log is taken away.

As in `test_mutants`: one function of the production code is replaced for the length of a test.
"""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

import gangline_kit.follower
import gangline_recorder.cutting
from dollhouse.plan import Ask, Event, Plan
from dollhouse.play import play


def snapshots_need_not_be_past_it(patch: pytest.MonkeyPatch) -> None:
    """The log is cut wherever the archive ends, and nobody guards the snapshots."""

    async def everything(self: object) -> int:
        return 1 << 62

    async def nobody(self: object) -> None:
        return None

    patch.setattr(gangline_recorder.cutting.Cutter, "_before_snapshots", everything)
    patch.setattr("gangline_recorder.app.Recorder._guard", nobody)
    patch.setattr("gangline_recorder.app.Recorder._relieve", nobody)
    patch.setattr("gangline_recorder.app.Recorder._save", _no_snapshot)


async def _no_snapshot(self: object) -> int:
    return 0


def a_fold_goes_past_holes(patch: pytest.MonkeyPatch) -> None:
    """Whoever slept through a cut goes on with what comes next."""
    whole = gangline_kit.follower.Follower._fold

    def fold(self: gangline_kit.follower.Follower, stored: Any) -> None:
        self.state.kept.seq = stored.seq - 1
        whole(self, stored)

    patch.setattr(gangline_kit.follower.Follower, "_fold", fold)


def the_archive_need_not_reach(patch: pytest.MonkeyPatch) -> None:
    """The log is cut behind the snapshots, whether the archive has what goes or not."""

    async def cut(self: Any, now_ms: int) -> Any:
        end = await self._before_snapshots()
        if end > 1:
            await self._bus.drop_until("GANGLINE_LOG", end)
        return None

    patch.setattr(gangline_recorder.cutting.Cutter, "cut", cut)


MANY = tuple(Event(at_s=1 + n / 2, what="submit", asks=(Ask(run_s=2),)) for n in range(80))
"""Enough to be cut several times."""


def during(*troubles: Event) -> tuple[Event, ...]:
    """What goes wrong while they arrive, in order."""
    return tuple(sorted((*MANY, *troubles), key=lambda event: event.at_s))


SLEEPERS = Plan(
    seed=1,
    log_keep_s=4,
    doors=1,
    events=during(
        Event(at_s=5, what="freeze", who="elastic-2", seconds=34),
        Event(at_s=5, what="freeze", who="queue-2", seconds=34),
        Event(at_s=20, what="restart", who="accounting", seconds=1),
        Event(at_s=30, what="crash", who="placement", seconds=1),
        Event(at_s=42, what="crash", who="telemetry", seconds=2),
    ),
)
"""Some sleep through cuts, some begin anew between them."""
ALONE = replace(SLEEPERS, copies=1)
"""The same without anybody who stands by."""
FULL_DISK = Plan(
    seed=2,
    log_keep_s=4,
    doors=1,
    events=during(
        Event(at_s=12, what="full_disk", seconds=25),
        Event(at_s=14, what="crash", who="recorder", seconds=1),
        Event(at_s=16, what="nearly_full", seconds=20),
    ),
)
"""The archive takes nothing for a while in which the log fills up, and everybody else goes on."""

MUTANTS: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], tuple[Plan, ...]]] = {
    "snapshots need not be past it": (snapshots_need_not_be_past_it, (ALONE,)),
    "a fold goes past holes": (a_fold_goes_past_holes, (SLEEPERS,)),
    "the archive need not reach": (the_archive_need_not_reach, (FULL_DISK,)),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_the_dollhouse_notices_what_is_taken_away_from_the_log(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    damage, plans = MUTANTS[name]
    damage(monkeypatch)
    assert any(play(plan).faults for plan in plans)


@pytest.mark.parametrize("plan", [SLEEPERS, ALONE, FULL_DISK])
def test_the_runs_that_notice_it_are_sound_and_the_log_was_cut_in_them(plan: Plan) -> None:
    outcome = play(plan)
    assert outcome.faults == ()
    assert outcome.dropped > 0


def test_whoever_sleeps_through_a_cut_begins_anew() -> None:
    assert play(SLEEPERS).cut_off > 0

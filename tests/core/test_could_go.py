"""Cheap looks before a plan: they only ever turn away whom no plan would help, and what they count is up to date."""

import pytest
from tests.cases.test_soak import test_whatever_meets_everything_ends_and_the_log_replays as live_through

from gangline_core import cycle
from gangline_core.job import Job
from gangline_core.making_room.could_go import LAST_MS, CouldGo
from gangline_core.making_room.losses import Loss
from gangline_core.making_room.preemption import Preemptor
from gangline_core.making_room.trial import Plan


class Thorough(Preemptor):
    """Thinks a plan through even where a look says that there is none."""

    looked, turned_away = 0, 0
    is_turned_away = False

    def _could_pass(self, job: Job, others: list[Loss], *, is_owed: bool, kept: bool = False) -> bool:
        self.is_turned_away |= not super()._could_pass(job, others, is_owed=is_owed, kept=kept)
        check_count(self)
        return True

    def _plan(self, job: Job) -> Plan | None:
        self.is_turned_away = False
        plan = super()._plan(job)
        Thorough.looked += 1
        Thorough.turned_away += self.is_turned_away
        assert plan is None or not self.is_turned_away
        return plan


def check_count(preemptor: Preemptor) -> None:
    """What could be freed is the same when it is counted anew."""
    known = preemptor._victims.could_go
    fresh = CouldGo(preemptor._table)
    fresh.gone.update(known.gone)
    for holder in ("", "t", "t/a", "c", "t/b:ada"):
        for below in (10, LAST_MS):
            counted = fresh.most_freed(holder, "gpu_milli", below=below)
            kept = known.most_freed(holder, "gpu_milli", below=below)
            assert {group: amount for group, amount in kept.items() if amount} == {
                group: amount for group, amount in counted.items() if amount
            }


@pytest.mark.parametrize("seed", [1, 2, 4, 7, 16, 18, 21])
def test_nobody_is_turned_away_for_whom_there_is_a_plan(seed, monkeypatch):
    monkeypatch.setattr(cycle, "Preemptor", Thorough)
    Thorough.looked = 0
    live_through(seed)
    assert Thorough.looked


def test_some_are_turned_away_at_all(monkeypatch):
    monkeypatch.setattr(cycle, "Preemptor", Thorough)
    Thorough.turned_away = 0
    for seed in (4, 18):
        live_through(seed)
    assert Thorough.turned_away

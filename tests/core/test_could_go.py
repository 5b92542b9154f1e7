"""Cheap looks before a plan: they only ever turn away whom no plan would help, and what they count is up to date."""

from collections.abc import Iterator

import pytest
from tests.cases.test_soak import test_whatever_meets_everything_ends_and_the_log_replays as live_through

from gangline_core import cycle
from gangline_core.groups import ancestors, user_key
from gangline_core.ids import JobId
from gangline_core.job import Job
from gangline_core.making_room.could_go import LAST_MS, CouldGo
from gangline_core.making_room.losses import Loss
from gangline_core.making_room.preemption import Preemptor
from gangline_core.making_room.trial import Plan


class Thorough(Preemptor):
    """Thinks a plan through even where a look says that there is none."""

    looked, turned_away, given = 0, 0, 0
    is_turned_away = False

    def _could_pass(self, job: Job, others: list[Loss], *, is_owed: bool, kept: bool = False) -> bool:
        self.is_turned_away |= not super()._could_pass(job, others, is_owed=is_owed, kept=kept)
        check_count(self)
        check_branches(self, job)
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
            counted = fresh.most_freed(holder, "gpu_milli", below)
            kept = known.most_freed(holder, "gpu_milli", below)
            assert {group: amount for group, amount in kept.items() if amount} == {
                group: amount for group, amount in counted.items() if amount
            }


def check_branches(preemptor: Preemptor, job: Job) -> None:
    """What is remembered by branches of the group tree is what each group gives when it is asked anew."""
    known, table = preemptor._victims.could_go, preemptor._table
    if not table.has_guarantees:
        return
    asker, way = job.spec.group, ancestors(job.spec.group)
    for whole in (False, True):
        for under in (None, *({path} for path in way), {user_key(asker, job.spec.user)}):
            givers = {one.job.id for one in known.may_give(table.after, asker, under, whole=whole)}
            assert givers == set(who_may_give(preemptor, asker, under, whole=whole))
        for holder in (*way, user_key(asker, job.spec.user)):
            freed = known.most_freed(holder, "gpu_milli", LAST_MS)
            most = known.most_given(table.after, asker, (holder, "gpu_milli", LAST_MS), whole=whole)
            spare = {group: table.after.spare(group, "gpu_milli", beneficiary=asker, whole=whole) for group in freed}
            assert most == sum(min(amount, spare[group]) for group, amount in freed.items())
            Thorough.given += most


def who_may_give(preemptor: Preemptor, asker: str, under: set[str] | None, *, whole: bool) -> Iterator[JobId]:
    """The same as `CouldGo.may_give`, group by group."""
    table, index = preemptor._table, preemptor._table.state.live_index
    groups = index.groups.get("default", {})
    for group in groups if under is None else {g for holder in under for g in index.groups_below("default", holder)}:
        for is_loose, (members, least) in CouldGo(table)._members_of(group).items():
            own = () if is_loose or group in ancestors(asker) else table.after.beyond(group, whole=whole)
            if any(0 < least.get(name, 0) > spare for name, spare in own):
                continue
            if table.after.over_guarantee(members[0].job, least, beneficiary=asker, whole=whole):
                yield from (one.job.id for one in members)


@pytest.mark.parametrize("seed", [1, 2, 4, 7, 16, 18, 21])
def test_nobody_is_turned_away_for_whom_there_is_a_plan(seed, monkeypatch):
    monkeypatch.setattr(cycle, "Preemptor", Thorough)
    Thorough.looked = 0
    live_through(seed)
    assert Thorough.looked


def test_some_are_turned_away_at_all(monkeypatch):
    monkeypatch.setattr(cycle, "Preemptor", Thorough)
    Thorough.turned_away = Thorough.given = 0
    for seed in (4, 18):
        live_through(seed)
    assert Thorough.turned_away
    assert Thorough.given, "some give something"

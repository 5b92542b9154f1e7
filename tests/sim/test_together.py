"""Some runs of the dollhouse have jobs that share GPUs by a rule of the pool, and nothing else of them is another."""

from random import Random

import pytest

from dollhouse.plan import draw_usual
from dollhouse.play import play
from dollhouse.together import PART, TOGETHER, together
from dollhouse.wider import draw_plan
from gangline_core.facts import Placement
from gangline_core.fold import jobs as add_fold
from gangline_core.ids import JobId
from gangline_core.state import State


def test_one_run_of_eight_has_them_beside_all_that_it_had() -> None:
    shared = 0
    for seed in range(400):
        plan = draw_usual(seed)
        more = together(plan, Random(f"together {seed}"))
        shared += more != plan
        assert [event for event in more.events if event in plan.events] == list(plan.events)
        assert [event.at_s for event in more.events] == sorted(event.at_s for event in more.events)
    assert 0.7 * PART < shared / 400 < 1.3 * PART


def test_pairs_and_guests_are_drawn_and_packing_is_first_as_in_old_stories() -> None:
    assert TOGETHER[0].packing
    assert {policy.sharing for policy in TOGETHER[1:]} == {"pairs", "guests"}


@pytest.mark.parametrize(("seed", "rule"), [(970_019, "pairs"), (970_153, "guests")])
def test_they_share_and_everything_ends_well(seed: int, rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    met: list[JobId] = []
    settle = add_fold.settle_beside

    def noted(state: State, placement: Placement, at: int, *, started: bool) -> None:
        met.append(placement.job)
        settle(state, placement, at, started=started)

    monkeypatch.setattr(add_fold, "settle_beside", noted)
    plan = draw_plan(seed)
    assert rule in {TOGETHER[event.number].sharing for event in plan.events if event.what == "turns"}
    outcome = play(plan)
    assert not outcome.faults
    assert len(met) > 5

"""Some runs of the dollhouse lend room in leases, interleave jobs, or order them by rules that others do not draw."""

from random import Random

import pytest
from tests.make import World, node, role

from dollhouse.lease_moves import LeaseMoves
from dollhouse.plan import Plan, draw_usual
from dollhouse.play import play
from dollhouse.policies import FIRST_SEED, INTERLEAVED, LENT, ORDERED, PART, POLICIES, ordered
from dollhouse.wider import draw_plan
from gangline_core import cycle
from gangline_core.cluster import Policy
from gangline_core.facts import Placement
from gangline_core.fold import jobs as add_fold
from gangline_core.ordering import ORDERINGS
from gangline_core.pauses.pausing import companions
from gangline_core.settings.policy import policy_problem
from gangline_core.state import State

INTERLEAVES = {
    "ordering": "weighted",
    "formula": "-remaining_hours",
    "predictor": "given",
    "starvation_s": 0,
    "sharing": "interleaved",
    "lease_s": 600,
}


def test_one_run_of_four_has_them_beside_all_that_it_had() -> None:
    with_them = 0
    for seed in range(FIRST_SEED, FIRST_SEED + 200):
        plan = draw_usual(seed)
        more = ordered(plan, Random(f"ordered {seed}"))
        with_them += more != plan
        assert [event for event in more.events if event in plan.events] == list(plan.events)
        assert [event.at_s for event in more.events] == sorted(event.at_s for event in more.events)
    assert 0.7 * PART < with_them / 200 < 1.3 * PART


def test_earlier_seeds_keep_their_meaning() -> None:
    plans = [draw_usual(seed) for seed in range(FIRST_SEED - 40, FIRST_SEED)]
    assert [ordered(plan, Random(f"ordered {plan.seed}")) for plan in plans] == plans


def test_with_those_of_every_run_all_orderings_are_drawn_and_each_policy_is_one_that_may_be_set() -> None:
    assert {policy.ordering for policy in POLICIES} == set(ORDERINGS)
    assert [policy_problem(policy) for policy in POLICIES] == [None] * len(POLICIES)
    assert all(policy.lease_s for policy in (*INTERLEAVED, *LENT))
    assert not any(policy.lease_s for policy in ORDERED)


@pytest.mark.parametrize("seed", [1_200_012, 1_200_059])
def test_jobs_interleave_and_everything_ends_well(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    settle = add_fold.settle_beside

    def noted(state: State, placement: Placement, at: int, *, started: bool) -> None:
        settle(state, placement, at, started=started)
        sizes.append(1 + len(companions(state, placement.job)))

    monkeypatch.setattr(add_fold, "settle_beside", noted)
    assert _policy(draw_plan(seed)).sharing == "interleaved"
    assert not play(draw_plan(seed)).faults
    assert max(sizes) > 2, "companies are larger than pairs"


def test_who_leaves_its_room_when_a_lease_ends_does_so_by_the_policy_that_the_round_was_decided_on() -> None:
    """Seed 1800073: jobs shared no more when the decision was folded, and it was read as one of other leases."""
    world = World(node("n1", gpus=2)).set_policy(**INTERLEAVES)
    short, long = ({"roles": [role(gpus=2)], "estimate_s": hours * 3600, "checkpoints": True} for hours in (1, 9))
    world.submit(**long)
    world.settle()
    world.wait(601).submit(**short)
    opened = cycle.open_round(world.state, "default", world.at)
    assert opened is not None
    world.tell("queue.default", opened)
    decided, policy = cycle.decide_round(world.state, "default", world.at), world.state.kept.pools["default"].policy
    [eviction] = decided.evictions
    moves = LeaseMoves()
    assert not list(moves.opened(world.state, world.log[-1], 0))
    world.set_policy(sharing="")
    assert not list(moves.moves(world.state, decided, eviction, policy))
    assert list(moves.moves(world.state, decided, eviction, world.state.kept.pools["default"].policy))


def _policy(plan: Plan) -> Policy:
    return next(POLICIES[event.number] for event in plan.events if event.what == "ordered")

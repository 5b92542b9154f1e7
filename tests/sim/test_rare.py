"""Some runs of the dollhouse have mostly one thing that hurts only when several come together, and end well."""

import pytest

from dollhouse.plan import draw_usual
from dollhouse.play import play
from dollhouse.rare import FIRST_SEED, KINDS, LEFT, PART, SHORT_LOG_S, SPOILT, kind_of, rare
from dollhouse.wider import draw_plan


def test_one_run_of_six_is_of_such_a_kind_and_earlier_seeds_keep_their_meaning() -> None:
    kinds = [kind_of(seed) for seed in range(FIRST_SEED, FIRST_SEED + 600)]
    assert 0.7 * PART < sum(map(bool, kinds)) / 600 < 1.3 * PART
    assert set(kinds) - {""} == set(KINDS)
    assert not any(kind_of(seed) for seed in range(FIRST_SEED - 600, FIRST_SEED))


def test_the_first_few_things_of_the_run_stay() -> None:
    for seed in range(FIRST_SEED, FIRST_SEED + 60):
        plan, more = draw_usual(seed), rare(draw_usual(seed))
        if kind_of(seed):
            assert {event for event in more.events if event in plan.events} <= set(plan.events[: LEFT + 1])
            assert [event.at_s for event in more.events] == sorted(event.at_s for event in more.events)
        else:
            extra = [event for event in more.events if event not in plan.events]
            assert [event for event in more.events if event in plan.events] == list(plan.events)
            assert {event.what for event in extra} <= {"restart"}
            assert len(extra) == sum(event.what in SPOILT for event in plan.events)


@pytest.mark.parametrize("kind", KINDS)
def test_such_a_run_ends_well(kind: str) -> None:
    seed = next(seed for seed in range(FIRST_SEED + 200, FIRST_SEED + 600) if kind_of(seed) == kind)
    outcome = play(draw_plan(seed))
    assert outcome.faults == ()
    assert draw_plan(seed).log_keep_s != SHORT_LOG_S or outcome.dropped > 0

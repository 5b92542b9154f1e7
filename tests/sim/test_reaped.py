"""From some seed on one run of four has machines on which something ends supervisors, and ends well all the same."""

import pytest

from dollhouse.acts import ACTS
from dollhouse.ended_in_a_row import MOST
from dollhouse.plan import Ask, Event, Plan, draw_usual
from dollhouse.play import play
from dollhouse.reaped import FIRST_SEED, PART, reaped
from dollhouse.troubles import TROUBLES
from dollhouse.wider import draw_plan
from gangline_core.killed import KILLED_MAX

HELD = "is held for ends of supervisors"


def test_one_run_of_four_is_so_and_earlier_seeds_keep_their_meaning() -> None:
    plans = [draw_usual(seed) for seed in range(FIRST_SEED, FIRST_SEED + 200)]
    more = [reaped(plan) for plan in plans]
    share = sum(one.events != plan.events for one, plan in zip(more, plans, strict=True)) / len(plans)
    assert 0.6 * PART < share < 1.4 * PART
    for plan in more:
        assert [event.at_s for event in plan.events] == sorted(event.at_s for event in plan.events)
        assert {event.what for event in plan.events} <= {*TROUBLES, *ACTS}
    earlier = [draw_usual(seed) for seed in range(FIRST_SEED - 200, FIRST_SEED)]
    assert [reaped(plan) for plan in earlier] == earlier


def alone(times: int, *more: Event) -> Plan:
    """One job on all machines, whose supervisors are ended so often, soon after each start."""
    reapers = [Event(at_s=1, what="reap", who=agent, number=times, seconds=10) for agent in ("east", "west")]
    submit = Event(at_s=0.5, what="submit", asks=(Ask(run_s=200),))
    return Plan(seed=0, events=(submit, *reapers, *more))


@pytest.mark.parametrize(("times", "held"), [(MOST - 1, 0), (MOST, 1), (MOST + 3, 1)])
def test_a_job_is_held_after_so_many_ends_and_goes_on_when_it_is_released(times: int, held: int) -> None:
    assert MOST == KILLED_MAX
    outcome = play(alone(times))
    assert (outcome.faults, outcome.met[HELD]) == ((), held)


def test_a_row_that_another_agent_began_goes_on() -> None:
    """What no agent saw counts for nothing, and what was seen before it still does."""
    outcome = play(alone(MOST + 1, Event(at_s=23, what="crash", who="east", seconds=3)))
    assert (outcome.faults, outcome.met[HELD]) == ((), 1)


@pytest.mark.parametrize("seed", [1_700_002, 1_700_028, 1_700_037])
def test_runs_with_such_machines_end_well(seed: int) -> None:
    outcome = play(draw_plan(seed))
    assert outcome.faults == ()
    assert outcome.struck["supervisors ended"]

"""From some seed on most runs of the dollhouse have faults with all that makes them felt, and end well all the same."""

import pytest
from tests.make import World, node, spec

from dollhouse.acts import ACTS
from dollhouse.courses import course_of
from dollhouse.plan import Ask, Event, Plan, draw_usual
from dollhouse.play import play
from dollhouse.pressed import FIRST_SEED, KINDS, LEFT, OFTEN, PART, pressed
from dollhouse.rare import kind_of, rare
from dollhouse.struck import FAULTS
from dollhouse.troubles import TROUBLES
from dollhouse.wider import draw_plan
from gangline_core.facts import ExitCause


def test_three_of_four_runs_are_so_and_earlier_seeds_keep_their_meaning() -> None:
    plans = [rare(draw_usual(seed)) for seed in range(FIRST_SEED, FIRST_SEED + 200) if not kind_of(seed)]
    more = [pressed(plan) for plan in plans]
    share = sum(one.events != plan.events for one, plan in zip(more, plans, strict=True)) / len(plans)
    assert 0.8 * PART < share < 1.2 * PART
    assert all(plan.saves for plan in more)
    earlier = [draw_usual(seed) for seed in range(FIRST_SEED - 200, FIRST_SEED)]
    assert [pressed(plan) for plan in earlier] == earlier


def test_some_of_what_else_happens_stays_and_everything_is_in_order_and_known() -> None:
    for seed in range(FIRST_SEED, FIRST_SEED + 60):
        plan, more = draw_usual(seed), pressed(draw_usual(seed))
        if more.events != plan.events:
            assert len([event for event in plan.events if event in more.events]) >= min(LEFT, len(plan.events))
        assert [event.at_s for event in more.events] == sorted(event.at_s for event in more.events)
        assert {event.what for event in more.events} <= {*TROUBLES, *ACTS}
    assert set(OFTEN) <= set(KINDS)


@pytest.mark.parametrize(
    ("seed", "faults"),
    [
        (1_600_070, ("full stream", "node cut off but alive")),
        (1_600_062, ("full stream", "full bucket or object store")),
        (1_600_108, ("full stream", "restart with an empty snapshot store")),
    ],
)
def test_faults_that_others_seldom_feel_strike_and_the_run_ends_well(seed: int, faults: tuple[str, ...]) -> None:
    outcome = play(draw_plan(seed))
    assert outcome.faults == ()
    assert [name for name in faults if any(outcome.struck.get(note) for note in FAULTS[name].notes)] == list(faults)


@pytest.mark.parametrize(("says", "saved_s"), [(True, 300), (False, 0)])
def test_who_says_that_it_saves_goes_on_where_it_stopped(says: bool, saved_s: float) -> None:
    """It is told to stop after half of its ten minutes, and goes on later; to see that all rest takes a while."""
    events = (
        Event(at_s=1, what="submit", asks=(Ask(run_s=600, saves=says),)),
        Event(at_s=301, what="hold", number=2),
        Event(at_s=400, what="release"),
    )
    went_on, anew = (play(Plan(seed=0, events=events, copies=1, doors=1, saves=saves)) for saves in (True, False))
    assert went_on.faults == anew.faults == ()
    assert anew.seconds - went_on.seconds == pytest.approx(saved_s, abs=45)


def test_the_rest_of_a_run_is_what_earlier_ones_have_left() -> None:
    world = World(node("n1"))
    job = world.job(world.submit_running(spec(gpus=1, attributes={"run_time_s": 60}, time_limit_s=45), "n1"))
    [task] = world.tasks(job.id)
    whole, rest = (course_of(job, task, done_s=done_s) for done_s in (0, 40))
    assert (whole.lasts_s, whole.cause) == (45, ExitCause.TIME_LIMIT)
    assert (rest.lasts_s, rest.cause) == (20, ExitCause.EXITED)
    assert course_of(job, task, done_s=70).lasts_s == 0

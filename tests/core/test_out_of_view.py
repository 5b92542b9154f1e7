"""No round follows for the sake of jobs out of view that could not start in it, and one does for all others."""

import pytest
from tests.core.test_crowd import POLICIES, day
from tests.make import World, node

from gangline_core import cycle
from gangline_core import facts as f

NARROW = {"candidates_max": 6, "candidates_per_shape": 1}


def served(world: World) -> list[tuple[int, object]]:
    """Who started or had others go, when and where."""
    decided = [(message.at, fact) for message in world.log for fact in message.facts if type(fact) is f.RoundDecided]
    return [
        (at, (one.job, getattr(one, "tasks", None)))
        for at, fact in decided
        for one in (*fact.placements, *fact.evictions)
    ]


def rounds(world: World) -> int:
    """How many rounds the pool had."""
    return world.state.kept.pools["default"].rounds


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("seed", range(6))
def test_the_rounds_that_do_not_follow_would_have_started_nobody(
    name: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = day(seed, **POLICIES[name], **NARROW)
    assert served(few), "a day on which nobody starts shows nothing"
    monkeypatch.setattr(cycle, "may_fare_better", lambda *_: True)
    many = day(seed, **POLICIES[name], **NARROW)
    assert served(few) == served(many)
    assert rounds(few) <= rounds(many)


def crowd(room: int) -> World:
    """Five jobs each of two users who all ask for the same, of which a round looks at one each."""
    world = World(node("n1", gpus=room))
    world.set_policy(**NARROW)
    for user in ("ada", "bob"):
        for _ in range(5):
            world.submit(gpus=1, user=user)
    return world


def test_no_round_follows_where_somebody_in_view_lacked_what_all_out_of_view_ask_for() -> None:
    world = crowd(room=1)
    assert not world.round().calls_for_more
    assert not cycle.round_due(world.state, "default")


def test_a_round_follows_where_those_in_view_started_and_more_wait() -> None:
    world = crowd(room=3)
    assert world.round().calls_for_more
    assert world.settle() == 1
    assert len(world.waiting()) == 7

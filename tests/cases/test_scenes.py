"""Whatever people, machines and calendars do to each other: changes end, all ends, and a restart forgets nothing."""

import pytest
from tests.cases.answering import Answering
from tests.cases.scenes import ORDERS, log_of, play, play_out


@pytest.mark.parametrize("seed", range(8))
def test_whatever_meets_comes_to_its_end(seed: int) -> None:
    play(seed)


@pytest.mark.parametrize("number", range(len(ORDERS)))
def test_whatever_meets_comes_to_its_end_under_every_ordering(number: int) -> None:
    play(100 + number, ordering=ORDERS[number])


@pytest.mark.parametrize("seed", range(200, 203))
def test_a_scene_in_which_everybody_restarts_all_the_time_is_the_same_scene(seed: int) -> None:
    assert log_of(play(seed, restarts=True)) == log_of(play(seed))


def answered(seed: int, *, restarts: bool = False) -> Answering:
    scene = Answering(seed, restarts=restarts)
    play_out(scene)
    return scene


@pytest.mark.parametrize("seed", [38, 70, 113, 175, *range(40, 44)])
def test_whatever_meets_comes_to_its_end_where_members_answer(seed: int) -> None:
    """In the first four, jobs that stood still were evicted for what a limit counts, again and again without an end."""
    answered(seed).prove_evictions()


def test_members_that_answer_stand_still_and_are_safe_and_confirm_sizes() -> None:
    """Else the scenes before would be scenes like all others."""
    scenes = [answered(seed) for seed in (10, 31, 44, 53)]
    for said in ("stood_still", "said_safe", "confirmed"):
        assert any(getattr(scene, said) for scene in scenes), said


def test_a_scene_in_which_members_answer_outlives_restarts() -> None:
    assert log_of(answered(200, restarts=True)) == log_of(answered(200))

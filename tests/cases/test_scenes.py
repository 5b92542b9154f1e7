"""Whatever people, machines and calendars do to each other: changes end, all ends, and a restart forgets nothing."""

import pytest
from tests.cases.scenes import ORDERS, log_of, play


@pytest.mark.parametrize("seed", range(8))
def test_whatever_meets_comes_to_its_end(seed: int) -> None:
    play(seed)


@pytest.mark.parametrize("number", range(len(ORDERS)))
def test_whatever_meets_comes_to_its_end_under_every_ordering(number: int) -> None:
    play(100 + number, ordering=ORDERS[number])


@pytest.mark.parametrize("seed", range(200, 203))
def test_a_scene_in_which_everybody_restarts_all_the_time_is_the_same_scene(seed: int) -> None:
    assert log_of(play(seed, restarts=True)) == log_of(play(seed))

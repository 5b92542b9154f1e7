"""Every sentence about placement, the door and the queue names tests, and these exist."""

import pytest
from tests.named import missing
from tests.oracles.promised import PROMISED
from tests.oracles.promised_door import DOOR_AND_QUEUE

ALL = {**PROMISED, **DOOR_AND_QUEUE}


def test_no_sentence_stands_in_two_tables() -> None:
    assert len(ALL) == len(PROMISED) + len(DOOR_AND_QUEUE)


@pytest.mark.parametrize("sentence", sorted(ALL))
def test_a_promise_names_tests_that_exist(sentence: str) -> None:
    assert ALL[sentence]
    assert missing(ALL[sentence], "oracles") == []

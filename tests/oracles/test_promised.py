"""Every sentence about placement, the door, the queue and faults names tests, and these exist."""

import pytest
from tests.named import missing
from tests.oracles.promised import PROMISED
from tests.oracles.promised_door import DOOR_AND_QUEUE
from tests.oracles.promised_faults import FAULTS

TABLES = (PROMISED, DOOR_AND_QUEUE, FAULTS)
ALL = {sentence: tests for table in TABLES for sentence, tests in table.items()}


def test_no_sentence_stands_in_two_tables() -> None:
    assert len(ALL) == sum(map(len, TABLES))


@pytest.mark.parametrize("sentence", sorted(ALL))
def test_a_promise_names_tests_that_exist(sentence: str) -> None:
    assert ALL[sentence]
    assert missing(ALL[sentence], "oracles") == []

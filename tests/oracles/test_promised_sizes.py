"""Every sentence about sizes and senses names tests, and these exist."""

import pytest
from tests.named import missing
from tests.oracles.promised_changes import CHANGES
from tests.oracles.promised_sizes import SENSES, SIZES

ALL = {**SIZES, **SENSES, **CHANGES}


def test_no_sentence_stands_in_two_tables() -> None:
    assert len(ALL) == len(SIZES) + len(SENSES) + len(CHANGES)


@pytest.mark.parametrize("sentence", sorted(ALL))
def test_a_promise_about_sizes_or_senses_names_tests_that_exist(sentence: str) -> None:
    assert ALL[sentence]
    assert missing(ALL[sentence], "oracles") == []

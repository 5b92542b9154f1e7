"""Every sentence about placement, sizes and senses names tests, and these exist."""

import pytest
from tests.named import missing
from tests.oracles.promised import PROMISED
from tests.oracles.promised_sizes import SENSES, SIZES

EVERYTHING = {**PROMISED, **SIZES, **SENSES}


@pytest.mark.parametrize("sentence", sorted(EVERYTHING))
def test_a_promise_names_tests_that_exist(sentence: str) -> None:
    assert EVERYTHING[sentence]
    assert missing(EVERYTHING[sentence], "oracles") == []


def test_no_sentence_is_promised_twice() -> None:
    assert len(EVERYTHING) == len(PROMISED) + len(SIZES) + len(SENSES)

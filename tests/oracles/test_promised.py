"""Every sentence about placement names tests, and these exist."""

import pytest
from tests.named import missing
from tests.oracles.promised import PROMISED


@pytest.mark.parametrize("sentence", sorted(PROMISED))
def test_a_promise_names_tests_that_exist(sentence: str) -> None:
    assert PROMISED[sentence]
    assert missing(PROMISED[sentence], "oracles") == []

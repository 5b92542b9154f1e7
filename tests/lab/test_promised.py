"""Every sentence about the lab names tests, and these exist."""

import pytest
from tests.lab.promised import LAB
from tests.named import missing


@pytest.mark.parametrize("sentence", sorted(LAB))
def test_a_promise_names_tests_that_exist(sentence: str) -> None:
    assert LAB[sentence]
    assert missing(LAB[sentence], "lab") == []

"""Sentences that count speak of one where it is one."""

import pytest

from gangline_core.counted import counted, singular
from gangline_core.reasons import Reason, ReasonCode, sentence


@pytest.mark.parametrize(
    ("number", "word", "said"),
    [(1, "job", "1 job"), (0, "job", "0 jobs"), (2, "live task", "2 live tasks"), (3, "retry", "3 retries")],
)
def test_one_is_one_and_all_else_are_many(number: int, word: str, said: str) -> None:
    assert counted(number, word) == said


def test_the_window_of_one_node_speaks_of_one_node() -> None:
    window = {"window": "maint", "from_ms": 0, "to_ms": 0, "fits_s": 60}
    one = sentence(Reason(ReasonCode.WINDOW, {**window, "nodes": 1}))
    assert "for which 1 node is kept from" in one
    assert "for which 11 nodes are kept from" in sentence(Reason(ReasonCode.WINDOW, {**window, "nodes": 11}))


def test_limits_of_one_speak_of_one() -> None:
    full = Reason(ReasonCode.QUEUE_FULL, {"holder": "team", "used": 1, "limit": 1})
    assert "1 unfinished job;" in sentence(full)


@pytest.mark.parametrize("text", ["11 nodes", "0.1 GPUs", "team-1 jobs", "1,001 tasks", "n1 nodes"])
def test_other_numbers_that_end_in_one_are_many(text: str) -> None:
    assert singular(text) == text

"""Numbers and tables as people read them on a terminal."""

import pytest

from gangline_lab.words import duration, table


@pytest.mark.parametrize(
    ("ms", "told"),
    [
        (0, "0 ms"),
        (999.4, "999 ms"),
        (999.6, "1.0 s"),
        (59_949, "59.9 s"),
        (59_960, "1 min 0 s"),
        (3_599_700, "1 h 0 min"),
    ],
)
def test_no_duration_says_a_full_unit_in_the_unit_below(ms: float, told: str) -> None:
    assert duration(ms) == told


def test_what_somebody_named_in_a_trace_steers_no_terminal() -> None:
    head, row = table(("group", "jobs"), [("a\x1b[2J\nb\u202e", "1")])
    assert row == "a?[2J?b?     1"
    assert head == "group     jobs"

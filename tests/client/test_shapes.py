"""Quantities, bars, tables and event streams: small things that everything people read is made of."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangline_client import quantities as q
from gangline_client.sse import EventParser, SentEvent, StreamTooLongError
from gangline_client.table import Cell, Column, bar, render


@pytest.mark.parametrize(
    ("shown", "wanted"),
    [
        (q.gpus(2000), "2"),
        (q.gpus(125), "0.125"),
        (q.gpus(0), "0"),
        (q.memory(512), "512Mi"),
        (q.memory(1536), "1.5Gi"),
        (q.memory(2 * 1024 * 1024), "2Ti"),
        (q.duration(59_999), "59s"),
        (q.duration(192_000), "3m12s"),
        (q.duration(7_500_000), "2h05m"),
        (q.duration(356_400_000), "4d03h"),
        (q.duration(-5), "0s"),
        (q.age(0, now_ms=5), "-"),
        (q.moment(1_700_000_000_000), "2023-11-14T22:13:20Z"),
        (q.moment(0), "-"),
        (q.moment(253_402_300_800_000), "253402300800000 ms after 1970"),
        (q.millionths(-2_500_000), "-2.5"),
        (q.gpu_hours(1234.5), "1,234.50"),
    ],
)
def test_quantities_read_as_people_write_them(shown: str, wanted: str) -> None:
    assert shown == wanted


@given(total=st.integers(1, 10_000), used=st.integers(0, 10_000), cells=st.integers(1, 30))
def test_a_bar_is_full_or_empty_only_when_it_is_true(total: int, used: int, cells: int) -> None:
    drawn = bar(min(used, total), total, cells=cells)
    assert len(drawn) == cells
    assert (drawn == "█" * cells) == (used >= total)
    assert (drawn == "·" * cells) == (used == 0)


@given(st.lists(st.lists(st.text(max_size=12), min_size=2, max_size=2), max_size=5), st.integers(20, 60))
def test_every_row_is_one_line_whatever_stands_in_it(rows: list[list[str]], width: int) -> None:
    text = render((Column("A", right=True), Column("B", gives_way=True)), rows, width=width)
    assert len(text.split("\n")) == 1 + len(rows)


def test_wide_letters_keep_the_columns_straight() -> None:
    lines = render((Column("A"), Column("B", right=True)), [["訓練", "1"], ["ab", Cell("22")]]).splitlines()
    assert lines == ["A      B", "訓練   1", "ab    22"]


EVENTS = (
    b"\xef\xbb\xbf: hi\r\nretry: 5\r\nid: 1-0\r\nevent: A\r\ndata: x\r\ndata:y\r\n\r\nid: 2-0\ndata\n\nnonsense\n\n"
)


@given(st.lists(st.integers(0, len(EVENTS)), max_size=6))
def test_events_come_out_the_same_however_the_bytes_were_cut(cuts: list[int]) -> None:
    parser = EventParser()
    edges = [0, *sorted(cuts), len(EVENTS)]
    found = [event for a, b in pairwise(edges) for event in parser.feed(EVENTS[a:b])]
    assert found == [SentEvent("1-0", "A", "x\ny"), SentEvent("2-0", "message", "")]
    assert (parser.retry_ms, parser.last_id) == (5, "2-0")


def test_an_event_without_end_is_given_up() -> None:
    endless = (b"data: " + b"x" * 100_000 + b"\n") * 100
    with pytest.raises(StreamTooLongError):
        EventParser().feed(endless)

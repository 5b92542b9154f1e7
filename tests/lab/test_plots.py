"""Plots and words say the numbers they are given, and nothing a user wrote can break a page."""

from xml.etree import ElementTree

import pytest

from gangline_lab.plots import Bars, Line, bars, nice_top, over_time
from gangline_lab.progress import filled


@pytest.mark.parametrize(
    ("value", "top"), [(0, 5), (3, 3), (5, 5), (7, 7.5), (11, 12.5), (99, 100), (536, 600), (0.3, 0.3), (0.012, 0.0125)]
)
def test_an_axis_ends_at_a_round_number_not_below_the_values(value: float, top: float) -> None:
    assert nice_top(value) == pytest.approx(top)


def test_a_plot_over_time_is_well_formed_and_says_its_values_where_one_points() -> None:
    line = Line(name="waiting <b>", style="waiting", values=(1.0, 4.0, 2.0), filled=True)
    tree = ElementTree.fromstring(over_time([line], seconds=3.0, unit="jobs"))
    titles = [title.text for title in tree.iter("title")]
    assert titles == ["0.0 s: waiting <b> 1 jobs", "1.0 s: waiting <b> 4 jobs", "2.0 s: waiting <b> 2 jobs"]


@pytest.mark.parametrize(
    ("seconds", "first", "count"),
    [
        *[(1, "0.2 s", 6), (8, "1 s", 9), (61, "10 s", 7), (200, "30 s", 7), (3600, "10 min", 7), (86_400, "3 h", 9)],
        *[(1_750_000, "5 d", 5), (8_000_000, "14 d", 7), (40_000_000, "60 d", 8), (4_000_000_000, "6000 d", 8)],
    ],
)
def test_an_axis_of_time_is_marked_as_clocks_and_calendars_are(seconds: float, first: str, count: int) -> None:
    """Days were marked at 11.6, 23.1 and so on, and the last one was cut off."""
    tree = ElementTree.fromstring(over_time([], seconds=seconds, unit="jobs"))
    ticks = [text for text in tree.iter("text") if " " in (text.text or "")]
    assert [tick.text for tick in ticks][:2] == ["0 s", first]
    assert len(ticks) == count
    assert all(float(tick.attrib["x"]) <= 830 or tick.attrib["text-anchor"] == "end" for tick in ticks)


def test_a_plot_of_nothing_is_still_a_plot() -> None:
    assert ElementTree.fromstring(over_time([], seconds=0.0, unit="jobs")).tag == "svg"
    assert ElementTree.fromstring(bars([])).tag == "svg"


def test_bars_are_as_long_as_their_values() -> None:
    tree = ElementTree.fromstring(bars([Bars(name="a&b", note="n", middle=1.0, high=2.0, most=4.0)]))
    widths = {rect.attrib["class"]: float(rect.attrib["width"]) for rect in tree.iter("rect")}
    assert widths["most"] == pytest.approx(2 * widths["high"], abs=0.2)
    assert widths["high"] == pytest.approx(2 * widths["middle"], abs=0.2)


def test_the_axis_of_bars_is_of_time_and_long_names_show_their_end() -> None:
    """It said 2500 s, cut off, and a name as long as a path began before the picture did."""
    name = "research/a-department-with-a-long-name"
    tree = ElementTree.fromstring(bars([Bars(name=name, note=name, middle=60.0, high=900.0, most=2_200.0)]))
    said = [text.text for text in tree.iter("text")]
    assert said == [
        "0 s",
        "5 min",
        "10 min",
        "15 min",
        "20 min",
        "25 min",
        "30 min",
        "35 min",
        "40 min",
        f"…{name[-21:]}",
    ]
    assert [text.attrib["text-anchor"] for text in tree.iter("text")][8] == "end"
    assert [title.text for title in tree.iter("title")] == [name]


@pytest.mark.parametrize(("share", "text"), [(0.0, "...."), (0.5, "##.."), (7.0, "####"), (-1.0, "....")])
def test_a_bar_is_as_full_as_its_share(share: float, text: str) -> None:
    assert filled(share, 4) == text

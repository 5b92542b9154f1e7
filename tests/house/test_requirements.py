"""docs/requirements.md claims nothing that is not there."""

from pathlib import Path

import pytest

from draw.points import CHAPTERS, Point, Standing

ROOT = Path(__file__).resolve().parents[2]
POINTS = [point for points in CHAPTERS.values() for point in points]


@pytest.mark.parametrize("point", POINTS, ids=lambda point: point.id)
def test_a_point_names_only_files_that_exist(point: Point) -> None:
    assert [path for path in (*point.lives, *point.shown_by) if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("point", POINTS, ids=lambda point: point.id)
def test_a_point_that_stands_is_shown_by_tests_and_one_that_does_not_says_what_is_missing(point: Point) -> None:
    if point.standing is Standing.HERE:
        assert point.lives
        assert [path for path in point.shown_by if list((ROOT / path).rglob("test_*.py")) or path.endswith(".py")]
        assert not point.missing
    if point.standing is Standing.PARTLY:
        assert point.lives
        assert point.missing


def test_every_point_has_its_own_number() -> None:
    assert len({point.id for point in POINTS}) == len(POINTS) == 32

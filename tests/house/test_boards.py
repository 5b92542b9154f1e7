"""The Grafana boards ask only for metrics and labels that exist, and together show each family the operator needs."""

import json
import re
from pathlib import Path

import pytest

from gangline_kit.metrics import METRICS

BOARDS = sorted((Path(__file__).parents[2] / "boards").glob("*.json"))
NAME = re.compile(r"\b(gangline_\w+|DCGM_\w+)\b")
LABELS = re.compile(r"by \(([^)]*)\)|\{(\w+)[!=]")
SCRAPED = {"le", "instance"}
"""Labels that Prometheus itself adds."""


def expressions(path: Path) -> list[tuple[str, str]]:
    board = json.loads(path.read_text())
    return [(target["expr"], target["legendFormat"]) for panel in board["panels"] for target in panel["targets"]]


def metric(name: str) -> str:
    stem = name.removesuffix("_bucket")
    return stem if stem in METRICS else name


def test_there_is_a_board_for_everything_that_is_asked_for() -> None:
    wanted = {"fleet", "health", "internals", "preemptions", "queue", "waits"}
    assert wanted <= {path.stem for path in BOARDS}


@pytest.mark.parametrize("path", BOARDS, ids=lambda path: path.stem)
def test_a_board_asks_only_for_what_exists(path: Path) -> None:
    for expression, legend in expressions(path):
        names = {metric(name) for name in NAME.findall(expression)}
        assert names
        assert names <= METRICS.keys(), expression
        known = set().union(*(METRICS[name].labels for name in names)) | SCRAPED
        asked = {label.strip() for group, one in LABELS.findall(expression) for label in (group or one).split(",")}
        asked |= set(re.findall(r"\{\{(\w+)\}\}", legend))
        assert asked - {""} <= known, (expression, legend)


@pytest.mark.parametrize("path", BOARDS, ids=lambda path: path.stem)
def test_panels_stand_beside_each_other_and_have_numbers_of_their_own(path: Path) -> None:
    panels = json.loads(path.read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert len({(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}) == len(panels)

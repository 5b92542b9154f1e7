"""Sia's program decides alike on every machine: what bounds it are branches, and never time."""

from types import SimpleNamespace

import pytest
import scipy.optimize
from tests.core.test_elastic_policies import bidder

from gangline_core.elasticity.sia import Asker, Choice, solve

JOBS = [Asker(bidder=bidder(present=1, sizes=(1, 2, 4), profiled=4), model="A100", speeds={"A100": 1.0, "T4": 0.5})] * 3


@pytest.fixture
def options(monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """What the solver is told; it finds nothing."""
    told: dict[str, object] = {}

    def stopped(*_: object, options: dict[str, object], **__: object) -> SimpleNamespace:
        told.update(options)
        return SimpleNamespace(x=None, status=1)

    monkeypatch.setattr(scipy.optimize, "milp", stopped)
    return told


def test_no_clock_stops_the_solver_and_what_it_does_not_solve_leaves_all_as_they_are(options) -> None:
    assert solve(JOBS, {"A100": 8, "T4": 8}, per_node=4) == [Choice("A100", 1)] * 3
    assert list(options) == ["node_limit"]


def test_what_it_solves_is_solved_the_same_again() -> None:
    first = solve(JOBS, {"A100": 4, "T4": 8}, per_node=4)
    assert first == solve(JOBS, {"A100": 4, "T4": 8}, per_node=4)
    assert all(choice is not None for choice in first)

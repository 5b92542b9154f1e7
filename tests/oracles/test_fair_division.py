"""Fair division against other systems' numbers and against brute force.

Sources: kube-batch's proportion plugin (pkg/scheduler/plugins/proportion, two instances worked out from its rule) and
max-min fairness per dimension, which corrects its flaw that one saturated dimension lets a queue grow in the others.
"""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.make import group, state_with

from gangline_core.fair_division import Claimant, divide, fair_parts

THOUSAND = 1_000


def test_the_worked_example_of_proportional_queues():
    """10 CPUs; weights 1, 1, 2; requests 2, 20, 20 -> 2, 2.667, 5.333."""
    claimants = {
        "a": Claimant(asks=2 * THOUSAND, weight=1),
        "b": Claimant(asks=20 * THOUSAND, weight=1),
        "c": Claimant(asks=20 * THOUSAND, weight=2),
    }
    given_parts = divide(10 * THOUSAND, claimants)
    assert given_parts == {"a": 2000, "b": 2667, "c": 5333}


def test_every_dimension_is_divided_by_itself():
    """(10 CPUs, 10 of memory), requests (1, 20) and (20, 1): max-min gives (1, 9) and (9, 1), not (5, 5) each."""
    cpu = divide(10, {"a": Claimant(asks=1), "b": Claimant(asks=20)})
    memory = divide(10, {"a": Claimant(asks=20), "b": Claimant(asks=1)})
    assert (cpu, memory) == ({"a": 1, "b": 9}, {"a": 9, "b": 1})


def test_guarantees_are_served_before_anything_is_lent():
    claimants = {
        "owner": Claimant(asks=6, weight=1, guaranteed=6),
        "big": Claimant(asks=10, weight=9),
        "small": Claimant(asks=10, weight=1),
    }
    assert divide(10, claimants) == {"owner": 6, "big": 4, "small": 0}, "3.6 and 0.4, and the odd one to the first name"


@pytest.mark.parametrize(
    ("total", "weights", "expected"),
    [(12, (1, 1, 1), (4, 4, 4)), (12, (1, 2, 3), (2, 4, 6)), (7, (1, 1, 1), (3, 2, 2)), (0, (1, 1, 1), (0, 0, 0))],
)
def test_what_is_lent_goes_by_weight(total, weights, expected):
    names = ("a", "b", "c")
    claimants = {name: Claimant(asks=100, weight=weight) for name, weight in zip(names, weights, strict=True)}
    assert tuple(divide(total, claimants)[name] for name in names) == expected


@settings(max_examples=150, deadline=None)
@given(
    total=st.integers(0, 9),
    asks=st.lists(st.integers(0, 7), min_size=1, max_size=3),
    weights=st.lists(st.integers(1, 3), min_size=3, max_size=3),
)
def test_no_other_division_lifts_somebody_without_sinking_somebody_poorer(total, asks, weights):
    """Brute force over all whole divisions: the sorted list of parts per weight is the lexicographically largest."""
    names = [f"q{k}" for k in range(len(asks))]
    claimants = {
        name: Claimant(asks=ask, weight=weights[k]) for k, (name, ask) in enumerate(zip(names, asks, strict=True))
    }
    found = divide(total, claimants)
    assert sum(found.values()) == min(total, sum(asks))
    assert all(0 <= found[name] <= claimants[name].asks for name in names)

    def rich(parts) -> list[float]:
        return sorted(part / weights[k] for k, part in enumerate(parts) if asks[k])

    mine = [found[name] for name in names]
    best = max(
        (rich(parts) for parts in product(*(range(ask + 1) for ask in asks)) if sum(parts) == min(total, sum(asks))),
    )
    # Whole numbers may fall one unit short of the best real division, never more.
    assert all(b - a <= 1 + 1e-9 for a, b in zip(rich(mine), best, strict=True))


@settings(max_examples=60, deadline=None)
@given(
    total=st.integers(0, 50),
    rows=st.lists(st.tuples(st.integers(0, 30), st.integers(1, 4), st.integers(0, 20)), min_size=1, max_size=5),
)
def test_nobody_who_asks_for_its_guarantee_gets_less_while_the_guarantees_fit(total, rows):
    claimants = {f"q{k}": Claimant(asks=a, weight=w, guaranteed=g) for k, (a, w, g) in enumerate(rows)}
    owed = {name: min(one.asks, one.guaranteed) for name, one in claimants.items()}
    found = divide(total, claimants)
    if sum(owed.values()) <= total:
        assert all(found[name] >= owed[name] for name in claimants)
    assert sum(found.values()) <= total


def test_the_tree_is_divided_from_the_root_down():
    state = state_with(
        groups=[
            group("a", weight=1),
            group("b", weight=1),
            group("b/x", weight=3),
            group("b/y", weight=1, guaranteed={"gpu_milli": 2}),
        ]
    )
    parts = fair_parts(state, 12, {"a": 4, "b": 100, "b/x": 100, "b/y": 100}, "gpu_milli")
    assert parts == {"": 12, "a": 4, "b": 8, "b/x": 5, "b/y": 3}

"""Fair division against other systems' numbers and against brute force.

Sources: kube-batch's proportion plugin (pkg/scheduler/plugins/proportion, two instances worked out from its rule) and
max-min fairness per dimension, which corrects its flaw that one saturated dimension lets a queue grow in the others.
"""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.make import group, state_with
from tests.oracles.played import name_of, table

from gangline_core.limits.fair_division import Claimant, divide, fair_parts

TABLE = table("water_filling")


@pytest.mark.parametrize("case", TABLE["divisions"], ids=name_of)
def test_a_worked_division(case):
    names = [f"q{k}" for k in range(len(case["asks"]))]
    guaranteed = case.get("guaranteed", [0] * len(names))
    claimants = {
        name: Claimant(asks=ask, weight=weight, guaranteed=owed)
        for name, ask, weight, owed in zip(names, case["asks"], case["weights"], guaranteed, strict=True)
    }
    assert [divide(case["total"], claimants)[name] for name in names] == case["parts"]


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

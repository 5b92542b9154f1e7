"""Growing a model's trees on the rows of a history: gradient boosting, one set of trees per quantile (scikit-learn).

Targets are doublings (the logarithm to base 2), since run times spread over six orders of magnitude; a quantile of the
logarithm is the logarithm of the quantile. Names become numbers by the order of their mean targets. Equal rows and
settings give equal models, to the byte: one thread, a fixed seed, and everything rounded to whole numbers at the end.
"""

from collections import defaultdict
from collections.abc import Sequence
from math import floor, log2
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from gangline_core.counted import counted
from gangline_core.foresight.learnt import FEATURES, FINE, HEADS, NAMED, QUANTILES, UNKNOWN, Model, Tree
from gangline_lab.learning.samples import Sample
from gangline_lab.outside import missing

SEED = 7
TREES = 40
LEAVES = 16
RATE = 0.1
ROWS_LEAST = 200
"""Fewer rows teach nothing that jobs alike do not say already."""
ROWS_MOST = 30_000
"""The latest rows are learnt from."""
OFTEN = 20
"""A name that came less often has no number of its own."""
NAMES_MOST = 256


class LearningError(Exception):
    """The history is too short, or the library is not there."""


class Growth(Struct, frozen=True):
    """How a model is grown."""

    trees: int = TREES
    leaves: int = LEAVES


USUAL = Growth()


def grow(rows: Sequence[Sample], *, made_of: str, growth: Growth = USUAL) -> Model:
    """A model of these rows.

    Raises:
        LearningError: too few rows, or scikit-learn is missing.
    """
    rows = rows[-ROWS_MOST:]
    if len(rows) < ROWS_LEAST:
        raise LearningError(
            f"{counted(len(rows), 'job')} that ran to the end before the split: too few, {ROWS_LEAST} are needed"
        )
    names = _numbers(rows)
    heads = {}
    for head in HEADS:
        known = [row for row in rows if head in row.came_to]
        if len(known) >= ROWS_LEAST:
            table = np.array([features_of(names, row) for row in known], dtype=np.float64)
            target = np.array([doublings(row.came_to[head]) for row in known])
            heads[head] = tuple(_quantile(table, target, percent / 100, growth) for percent in QUANTILES)
    return Model(made_of=made_of, names=names, heads=heads)


def features_of(names: dict[str, dict[str, int]], row: Sample) -> tuple[int, ...]:
    """The row's features, as `gangline_core.foresight.learnt.features` gives them in the fold."""
    return (*row.plain, *(names.get(one, {}).get(name, UNKNOWN) for one, name in row.names), *row.like)


def doublings(value: float) -> float:
    """How often one must be doubled to be one more than this."""
    return log2(max(0.0, value) + 1)


def _numbers(rows: Sequence[Sample]) -> dict[str, dict[str, int]]:
    """Names that came often, by the mean of what their jobs came to."""
    found: dict[str, dict[str, list[float]]] = {one: defaultdict(list) for one in NAMED}
    for row in rows:
        target = doublings(row.came_to["run"])
        for one, name in row.names:
            found[one][name].append(target)
    numbers = {}
    for one, own in found.items():
        often = sorted((name for name in own if len(own[name]) >= OFTEN), key=lambda name: (-len(own[name]), name))
        ordered = sorted(often[:NAMES_MOST], key=lambda name: (round(sum(own[name]) / len(own[name]), 6), name))
        numbers[one] = {name: number for number, name in enumerate(ordered)} if len(ordered) > 1 else {}
    return numbers


def _quantile(
    table: NDArray[np.float64], target: NDArray[np.float64], part: float, growth: Growth
) -> tuple[int, tuple[Tree, ...]]:
    """Where the sum begins, and its trees."""
    try:
        from sklearn.ensemble import GradientBoostingRegressor  # type: ignore[import-untyped]  # ships no types
    except ImportError as error:
        raise LearningError(missing("scikit-learn", "training")) from error
    grown = GradientBoostingRegressor(
        loss="quantile",
        alpha=part,
        n_estimators=growth.trees,
        max_leaf_nodes=growth.leaves,
        max_depth=None,
        min_samples_leaf=max(5, min(50, len(target) // 100)),
        learning_rate=RATE,
        subsample=0.5,
        random_state=SEED,
    ).fit(table, target)
    begin = float(grown.init_.constant_.ravel()[0])
    return round(begin * FINE), tuple(_tree(one.tree_) for one in grown.estimators_[:, 0])


def _tree(grown: Any) -> Tree:
    """The library's tree with whole bounds and leaves; its nodes are in the order of a walk that goes left first."""
    feature, bound, right = [], [], []
    order = _walk(grown)
    place_of = {node: place for place, node in enumerate(order)}
    for node in order:
        is_leaf = grown.children_left[node] < 0
        feature.append(UNKNOWN if is_leaf else int(grown.feature[node]))
        bound.append(round(RATE * FINE * float(grown.value[node, 0, 0])) if is_leaf else floor(grown.threshold[node]))
        right.append(0 if is_leaf else place_of[int(grown.children_right[node])])
    assert all(one < len(FEATURES) for one in feature), "only known features were given"
    return Tree(feature=tuple(feature), bound=tuple(bound), right=tuple(right))


def _walk(grown: Any) -> list[int]:
    order, coming = [], [0]
    while coming:
        node = coming.pop()
        order.append(node)
        if grown.children_left[node] >= 0:
            coming += [int(grown.children_right[node]), int(grown.children_left[node])]
    return order

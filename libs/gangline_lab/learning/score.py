"""How good is a predictor? Its sayings beside what happened, and beside what simpler rules would have said.

- Error: the middle and the mean of the distance in doublings, so 1 is a factor of two either way.
- Rank: Spearman's correlation of what was said and what happened; an ordering by predicted time needs no more.
- Pinball: the mean quantile loss in doublings over all quantiles; of a rule with one number that stands for all.
- Coverage: the part of the jobs between the lowest and the highest quantile; four of five are meant to be.
"""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from gangline_core.foresight.learnt import MIDDLE, QUANTILES, RUN, Model, foretold
from gangline_lab.learning.growing import doublings, features_of
from gangline_lab.learning.samples import Sample

LEARNT = "learnt"
RULES = ("rolling", "mean by user", "median by user")


class Score(Struct, frozen=True):
    """One predictor of one number on jobs that it did not learn from."""

    predictor: str
    head: str
    jobs: int
    error_middle: float
    error_mean: float
    rank: float
    pinball: float
    coverage: float
    """0 of a rule that says one number."""


def scores(model: Model, rows: Sequence[Sample]) -> tuple[Score, ...]:
    """The model on all of its heads, and on run times the rules beside it, all on the jobs that all know."""
    found = []
    for head in model.heads:
        known = [row for row in rows if head in row.came_to]
        if head == RUN:
            known = [row for row in known if all(rule in row.rivals_ms for rule in RULES)]
        if not known:
            continue
        truth = np.array([doublings(row.came_to[head]) for row in known])
        said = np.array(
            [[doublings(one) for one in foretold(model, head, features_of(model.names, row))] for row in known]
        )
        found.append(score(LEARNT, head, truth, said))
        if head == RUN:
            for rule in RULES:
                own = np.array([doublings(row.rivals_ms[rule]) for row in known])
                found.append(score(rule, head, truth, np.repeat(own[:, None], len(QUANTILES), axis=1)))
    return tuple(found)


def score(predictor: str, head: str, truth: NDArray[np.float64], said: NDArray[np.float64]) -> Score:
    """One predictor; `said` has a column per quantile."""
    distance = np.abs(said[:, MIDDLE] - truth)
    parts = np.array(QUANTILES) / 100
    short = truth[:, None] - said
    pinball = np.maximum(parts * short, (parts - 1) * short)
    inside = (said[:, 0] <= truth) & (truth <= said[:, -1]) & (said[:, 0] < said[:, -1])
    return Score(
        predictor=predictor,
        head=head,
        jobs=len(truth),
        error_middle=float(np.median(distance)),
        error_mean=float(distance.mean()),
        rank=_rank_correlation(said[:, MIDDLE], truth),
        pinball=float(pinball.mean()),
        coverage=float(inside.mean()),
    )


def _rank_correlation(said: NDArray[np.float64], truth: NDArray[np.float64]) -> float:
    one, other = _ranks(said), _ranks(truth)
    spread = float(one.std() * other.std())
    return float(((one - one.mean()) * (other - other.mean())).mean() / spread) if spread else 0.0


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranks; equal values share the mean of theirs."""
    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks: NDArray[np.float64] = (last - (counts - 1) / 2)[which]
    return ranks

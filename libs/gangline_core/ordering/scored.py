"""What an ordering gives back: named terms, a column of millionths each, and a sequence where sums cannot say it."""

from collections.abc import Callable

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from gangline_core.scoring.formula import quantised
from gangline_core.scoring.waiting import Column, Waiting

EVERYBODY = 1 << 60
"""How many of the front matter when all do."""


class Scored(Struct, frozen=True):
    """Terms of the score of each job, in the order of the jobs; higher sums go first."""

    names: tuple[str, ...]
    columns: list[NDArray[np.int64]]
    sequence: NDArray[np.int64] | None = None
    """Rows from first to last, where equal sums are not simply ordered by age."""

    def totals(self, rows: int) -> NDArray[np.int64]:
        """The score of each job: the sum of its terms."""
        return sum(self.columns, np.zeros(rows, dtype=np.int64))


Ordering = Callable[[Waiting, int], Scored]
"""Scores the waiting jobs; the number says how many of the front will be looked at, so that no more need be exact."""


def in_levels(waiting: Waiting, name: str, values: Column) -> Scored:
    """Queue levels one after the other, and inside a level whoever has the highest value."""
    return Scored(names=("level", name), columns=[quantised(bands(waiting)), quantised(values)])


def bands(waiting: Waiting) -> Column:
    """What each job's queue level adds to its score."""
    levels = waiting.pool.pool.levels
    return waiting.per_level(lambda name: levels.get(name, 0))

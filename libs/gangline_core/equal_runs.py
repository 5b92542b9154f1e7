"""Equal values of a column: where they follow each other, and small numbers for them, in a few vector steps."""

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

SPREAD_MAX = 1 << 18
"""Numbers this far apart are still counted as they are."""


def small(values: Ints) -> Ints:
    """Numbers from 0 on that are equal where these are and in the same order, few enough to index by them."""
    if not len(values):
        return values
    lowest: np.int64 = values.min()
    is_near = values.max() - lowest < SPREAD_MAX
    return values - lowest if is_near else np.unique(values, return_inverse=True)[1]


def run_starts(values: Ints) -> Ints:
    """Where each run of equal values begins; nowhere in an empty column."""
    begins = np.ones(len(values), dtype=np.bool_)
    np.not_equal(values[1:], values[:-1], out=begins[1:])
    return begins.nonzero()[0]


def run_lengths(starts: Ints, end: int) -> Ints:
    """How long the runs are that begin at these places, the last of which ends before `end`."""
    lengths = np.empty_like(starts)
    np.subtract(starts[1:], starts[:-1], out=lengths[:-1])
    lengths[-1:] = end - starts[-1:]
    return lengths

"""Where equal values follow each other in a column: a few vector steps, which `numpy.diff` takes several times over."""

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


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

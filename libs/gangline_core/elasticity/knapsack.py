"""One option for each of several jobs within a number of GPUs, so that the sum of their values is largest. Exact."""

from collections.abc import Sequence

import numpy as np

NEVER = -1e300
"""The value of what cannot be."""


def choose(values: Sequence[Sequence[float]], costs: Sequence[Sequence[int]], capacity: int) -> list[int]:
    """For each job the number of the option it gets; of equal sums the earlier options of later jobs.

    Every job must have an option that costs nothing. Takes jobs x options x capacity steps, vectorised over capacity.
    """
    best = np.zeros(capacity + 1)
    taken: list[np.ndarray] = []
    for worth, price in zip(values, costs, strict=True):
        following = np.full(capacity + 1, NEVER)
        chosen = np.zeros(capacity + 1, dtype=np.int32)
        for option, (value, cost) in enumerate(zip(worth, price, strict=True)):
            if cost > capacity:
                continue
            trial = np.full(capacity + 1, NEVER)
            trial[cost:] = best[: capacity + 1 - cost] + value
            better = trial > following
            following[better], chosen[better] = trial[better], option
        best = following
        taken.append(chosen)
    left, options = capacity, [0] * len(taken)
    for job in range(len(taken) - 1, -1, -1):
        options[job] = int(taken[job][left])
        left -= costs[job][options[job]]
    return options

"""One option for each of several jobs within a number of GPUs, so that the sum of their values is largest. Exact."""

from collections.abc import Sequence

import numpy as np

NEVER = -1e300
"""The value of what cannot be."""


class Knapsack:
    """The best choices for every number of GPUs up to a largest one."""

    def __init__(self, values: Sequence[Sequence[float]], costs: Sequence[Sequence[int]], capacity: int) -> None:
        """Takes jobs x options x capacity steps, vectorised over capacity; each job has an option without cost."""
        self._costs = costs
        self._taken: list[np.ndarray] = []
        best = np.zeros(capacity + 1)
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
            self._taken.append(chosen)
        self._best = best

    def worth(self, capacity: int) -> float:
        """The largest sum of values within so many GPUs."""
        return float(self._best[capacity])

    def options(self, capacity: int) -> list[int]:
        """For each job the number of the option it gets; of equal sums the earlier options of later jobs."""
        left, options = capacity, [0] * len(self._taken)
        for job in range(len(self._taken) - 1, -1, -1):
            options[job] = int(self._taken[job][left])
            left -= self._costs[job][options[job]]
        return options


def choose(values: Sequence[Sequence[float]], costs: Sequence[Sequence[int]], capacity: int) -> list[int]:
    """For each job the number of the option it gets within so many GPUs."""
    return Knapsack(values, costs, capacity).options(capacity)

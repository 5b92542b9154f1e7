"""GPUs that worked for a stretch of time each, added up into means between moments."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise


class Stretches:
    """Any number of stretches, each with so many GPU thousandths from one time to another."""

    def __init__(self) -> None:
        """None yet."""
        self._begins, self._ends, self._milli = array("q"), array("q"), array("q")

    def __len__(self) -> int:
        """How many there are."""
        return len(self._begins)

    def add(self, begin: int, end: int, milli: int) -> None:
        """One more."""
        if end > begin and milli:
            self._begins.append(begin)
            self._ends.append(end)
            self._milli.append(milli)

    def means(self, edges: Sequence[int]) -> list[float]:
        """GPU thousandths from each of these ascending moments to the next, on average; what is outside is left out."""
        sums = [0] * max(0, len(edges) - 1)
        whole = [0] * (len(edges) + 1)
        for begin, end, milli in zip(self._begins, self._ends, self._milli, strict=True):
            first, last = max(0, bisect_right(edges, begin) - 1), min(bisect_left(edges, end) - 1, len(sums) - 1)
            if not sums or last < first:
                continue
            for place in {first, last}:
                sums[place] += milli * max(0, min(end, edges[place + 1]) - max(begin, edges[place]))
            if last > first + 1:
                whole[first + 1] += milli
                whole[last] -= milli
        means, level = [], 0
        for place, (low, high) in enumerate(pairwise(edges)):
            level += whole[place]
            means.append(level + sums[place] / (high - low) if high > low else 0.0)
        return means

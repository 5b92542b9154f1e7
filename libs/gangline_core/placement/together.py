"""What several containers hold together of several sorts of things, exactly: cards of a node, nodes of a rack, racks.

A vector says how many of each sort. What a container holds is told by its largest vectors: it holds whatever is no
larger than one of them. Containers are added one by one; kept is, for every number of all sorts but one, how many of
the last sort still find room beside them. So sets of tasks are counted and never told apart.
"""

from collections.abc import Iterable, Sequence
from math import prod
from operator import mul

import numpy as np

from gangline_core.room.layout import Ints

Vector = tuple[int, ...]
Limit = tuple[Vector, int]
"""Weights of the sorts, and what their sum may be at most."""
NONE = -(1 << 40)
"""Where not even the other sorts find room."""
CELLS_MAX = 1 << 16
"""More combinations of numbers than this are not told apart."""
WORK_OF_CALL = 64
"""Work that every step costs, however small its vectors are."""


class GaveUpError(Exception):
    """The search took as much work as it may; nothing is known then."""


class TooManySortsError(Exception):
    """There are more sorts of tasks, or more of each, than are told apart; nothing is known then."""


class Work:
    """How much a search may still do, in vectors looked at: the same everywhere, unlike time."""

    __slots__ = ("left",)

    def __init__(self, most: int) -> None:
        """So much in all."""
        self.left = most

    def spend(self, amount: int) -> None:
        """Work that is about to be done; GaveUpError when it is too much."""
        self.left -= amount
        if self.left < 0:
            raise GaveUpError


class Stack:
    """Containers whose room is used together; no more of each sort is counted than its cap."""

    __slots__ = ("_axis", "_others", "_work", "caps", "stages", "tops")

    def __init__(self, caps: Sequence[int], work: Work) -> None:
        """No containers yet."""
        self.caps, self._work = tuple(caps), work
        self._axis = max(range(len(caps)), key=lambda k: (caps[k], -k))
        self._others = [k for k in range(len(caps)) if k != self._axis]
        shape = tuple(caps[k] + 1 for k in self._others)
        if prod(shape) > CELLS_MAX:
            raise TooManySortsError
        first = np.full(shape, NONE, dtype=np.int64)
        first[(0,) * len(shape)] = 0
        self.stages: list[Ints] = [first]
        self.tops: list[Sequence[Vector]] = []
        """What each container holds."""

    def add(self, tops: Sequence[Vector]) -> None:
        """One more container."""
        before = self.stages[-1]
        self._work.spend(len(tops) * (before.size + WORK_OF_CALL))
        after = before.copy()
        for top in tops:
            at = np.ix_(*[np.maximum(np.arange(self.caps[k] + 1) - top[k], 0) for k in self._others])
            np.maximum(after, before[at] + top[self._axis], out=after)
        np.minimum(after, self.caps[self._axis], out=after)
        self.stages.append(after)
        self.tops.append(tops)

    @property
    def is_full(self) -> bool:
        """True when nothing more could be counted."""
        return self.holds(self.caps)

    def holds(self, wanted: Vector, stage: int = -1) -> bool:
        """True when the containers (up to a stage) hold this together."""
        found = self.stages[stage][tuple(wanted[k] for k in self._others)]
        return bool(found >= wanted[self._axis])

    def split(self, wanted: Vector) -> list[Vector]:
        """What each container gets of something that all hold together; the last ones nothing where they can."""
        left = wanted
        given: list[Vector] = []
        for stage in range(len(self.tops), 0, -1):
            part = (0,) * len(wanted)
            if not self.holds(left, stage - 1):
                tops = self.tops[stage - 1]
                top = next(top for top in tops if self.holds(_less(left, top), stage - 1))
                part = tuple(map(min, left, top))
                left = _less(left, part)
            given.append(part)
        return given[::-1]

    def largest(self) -> list[Vector]:
        """The largest vectors that the containers hold together, in order."""
        found = self.stages[-1]
        kept = found >= 0
        for axis in range(found.ndim):
            above = np.full_like(found, NONE)
            upper = (slice(None),) * axis
            above[(*upper, slice(0, -1))] = found[(*upper, slice(1, None))]
            kept &= found > above
        vectors = []
        for place in np.argwhere(kept).tolist():
            vector = [0] * len(self.caps)
            for k, number in zip(self._others, place, strict=True):
                vector[k] = number
            vector[self._axis] = int(found[tuple(place)])
            vectors.append(tuple(vector))
        return sorted(vectors, reverse=True)

    def most(self) -> int:
        """The most things, of whatever sort, that the containers hold together."""
        return max(sum(vector) for vector in self.largest())


def _less(vector: Vector, part: Vector) -> Vector:
    return tuple(max(0, one - other) for one, other in zip(vector, part, strict=True))


def cut(tops: Iterable[Vector], limits: Sequence[Limit], work: Work, *, unit: int = 1) -> list[Vector]:
    """The largest vectors below one of these that keep all limits and are made of whole units, in order."""
    found: set[Vector] = set()
    for top in tops:
        whole = tuple(number - number % unit for number in top) if unit > 1 else top
        if whole in found:
            continue
        broken = [limit for limit in limits if sum(map(mul, limit[0], whole)) > limit[1]]
        found.update(_below(whole, broken, work, unit) if broken else (whole,))
    return largest_of(found, work)


def _below(top: Vector, broken: Sequence[Limit], work: Work, unit: int) -> Iterable[Vector]:
    """Vectors below the top that keep the limits; none of those left out is larger than all of them."""
    order = sorted(range(len(top)), key=lambda k: (any(weights[k] for weights, _ in broken), top[k]))
    free = [k for k in order if not any(weights[k] for weights, _ in broken)]
    bound = order[len(free) :]
    vector = list(top)
    found: list[Vector] = []

    def choose(depth: int, left: list[int]) -> None:
        k = bound[depth]
        able = [room // weights[k] for (weights, _), room in zip(broken, left, strict=True) if weights[k]]
        most = min([top[k], *able])
        most -= most % unit
        work.spend(1)
        if depth == len(bound) - 1:
            vector[k] = most
            found.append(tuple(vector))
            return
        for number in range(most, -1, -unit):
            vector[k] = number
            choose(depth + 1, [room - weights[k] * number for (weights, _), room in zip(broken, left, strict=True)])

    # Whatever lies below the top keeps the limits that the top keeps: weights are never below 0.
    choose(0, [max(0, room) for _, room in broken])
    return found


def largest_of(vectors: Iterable[Vector], work: Work) -> list[Vector]:
    """Those that are not below another one, in order."""
    ordered = sorted(set(vectors), reverse=True)
    if len(ordered) < 2:
        return ordered
    work.spend(len(ordered) * (1 + len(ordered) // 16))
    if len(ordered[0]) == 1:
        return ordered[:1]
    if len(ordered[0]) == 2:
        kept, best = [], -1
        for vector in ordered:
            if vector[1] > best:
                kept.append(vector)
                best = vector[1]
        return kept
    table = np.array(ordered, dtype=np.int64)
    kept = []
    for k, vector in enumerate(ordered):
        # Whoever is above another one stands before it in this order.
        if not (table[:k] >= table[k]).all(axis=1).any():
            kept.append(vector)
    return kept

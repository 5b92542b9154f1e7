"""Dominant resource fairness: whoever's largest part of any resource is smallest, for its weight, goes next.

Ghodsi et al., NSDI 2011, at every level of the group tree as in Bhattacharya et al., SoCC 2013: for a group, each child
counts as if it had no more than the child that has least, so that a child which can take what nobody else can use does
not make its siblings wait. Children that have nothing yet are not what the others are scaled to.
"""

import numpy as np

from gangline_core import columns as c
from gangline_core.groups import ROOT
from gangline_core.ordering.scored import Scored
from gangline_core.ordering.turns import Branch, take_turns
from gangline_core.shares import capacity_of
from gangline_core.waiting import Waiting

MILLION = 1_000_000
DIMENSIONS = ("gpu_milli", "cpu_milli", "memory_mib")
FIELDS = (c.GPU_MILLI, c.CPU_MILLI, c.MEMORY_MIB)
FINE = 1_000_000_000
"""Parts of a resource are whole numbers of a billionth."""

Vector = tuple[int, int, int]


def dominant_resource(waiting: Waiting, first: int) -> Scored:
    """The score is the queue level, less the dominant share over weight of the job's top group when its turn comes."""
    return take_turns(waiting, "dominant_share", _Shares(waiting), first)


class _Standing:
    """What one branch has, and how it counts for its parent."""

    __slots__ = ("below", "counted", "parts", "rest", "share", "units", "weight")

    def __init__(self, parts: Vector, weight: int) -> None:
        self.parts = parts
        """What it has, everything below included."""
        self.weight = weight
        self.below: dict[str, int] = {}
        """Share of each child that has anything."""
        self.units = [0, 0, 0]
        """Sum over these children of what they have, each scaled to a share of 1."""
        self.rest = [0, 0, 0]
        """What it has that no child which takes part has."""
        self.share = max(parts)
        self.counted = parts


class _Shares:
    """Parts of the pool's GPUs, CPUs and memory per branch, in billionths."""

    def __init__(self, waiting: Waiting) -> None:
        self._groups = waiting.state.kept.groups
        self._usage = waiting.state.usage
        total = capacity_of(waiting.state, waiting.pool.pool.name)
        self._total = tuple(max(1, total.get(name, 0)) for name in DIMENSIONS)
        self._asked = np.stack(
            [FINE * waiting.field(field) // whole for field, whole in zip(FIELDS, self._total, strict=True)], axis=1
        )
        """Per job what it asks for, in billionths."""
        self._standings: dict[str, _Standing] = {}
        below: dict[str, list[str]] = {}
        for name in sorted(waiting.state.usage):
            if name != ROOT:
                below.setdefault(_above(name), []).append(name)
        for name in below.get(ROOT, ()):
            self._build(name, below)

    def enter(self, branch: Branch) -> None:
        if branch.name not in self._standings:
            self._standings[branch.name] = _Standing((0, 0, 0), self._weight(branch.name))

    def _build(self, name: str, below: dict[str, list[str]]) -> None:
        """Everybody who holds something, from the users up to the groups of the root."""
        usage = self._usage.get(name, {})
        standing = self._standings[name] = _Standing(
            self._part(tuple(usage.get(dimension, 0) for dimension in DIMENSIONS)), self._weight(name)
        )
        standing.rest = list(standing.parts)
        for child in below.get(name, ()):
            self._build(child, below)
            own = self._standings[child]
            standing.rest = [left - part for left, part in zip(standing.rest, own.parts, strict=True)]
            self._count(name, child, had=0, counted=own.counted)
        self._recount(standing)

    def _weight(self, name: str) -> int:
        group = self._groups.get(name)
        return max(1, group.weight) if group is not None else 1

    def key(self, branch: Branch) -> tuple[int, int]:
        standing = self._standings[branch.name]
        share = standing.share // standing.weight
        return share // (FINE // MILLION), share

    def take(self, leaf: Branch, row: int) -> None:
        more: list[int] = self._asked[row].tolist()
        branch: Branch | None = leaf
        while branch is not None and branch.parent is not None:
            standing = self._standings[branch.name]
            had, counted = standing.share, standing.counted
            one, two, three = standing.parts
            standing.parts = (one + more[0], two + more[1], three + more[2])
            self._recount(standing)
            if branch.parent.parent is not None:
                self._count(branch.parent.name, branch.name, had=had, counted=counted)
            branch = branch.parent

    def _recount(self, standing: _Standing) -> None:
        """How the branch counts: as it is, or with all its children at the least of their shares."""
        counted = standing.parts
        if len(standing.below) > 1:
            least = min(standing.below.values())
            rest, units = standing.rest, standing.units
            counted = (
                max(0, rest[0]) + units[0] * least // FINE,
                max(0, rest[1]) + units[1] * least // FINE,
                max(0, rest[2]) + units[2] * least // FINE,
            )
        standing.counted = counted
        standing.share = max(counted)

    def _count(self, above: str, name: str, *, had: int, counted: Vector) -> None:
        """The branch above sees this one as it now counts, and no longer as it did."""
        own, parent = self._standings[name], self._standings[above]
        units, share, now = parent.units, own.share, own.counted
        if had:
            units[0] -= counted[0] * FINE // had
            units[1] -= counted[1] * FINE // had
            units[2] -= counted[2] * FINE // had
        if share:
            units[0] += now[0] * FINE // share
            units[1] += now[1] * FINE // share
            units[2] += now[2] * FINE // share
            parent.below[name] = share

    def _part(self, amounts: tuple[int, ...]) -> Vector:
        one, two, three = (FINE * amount // total for amount, total in zip(amounts, self._total, strict=True))
        return one, two, three


def _above(name: str) -> str:
    """The group that a group path or user_key is directly below of."""
    group, colon, _ = name.partition(":")
    return group if colon else group.rpartition("/")[0]

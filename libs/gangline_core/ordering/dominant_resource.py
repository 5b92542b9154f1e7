"""Dominant resource fairness: whoever's largest part of any resource is smallest, for its weight, goes next.

Ghodsi et al., NSDI 2011, at every level of the group tree as in Bhattacharya et al., SoCC 2013: for a group, each child
counts as if it had no more than the child that has least, so that a child which can take what nobody else can use does
not make its siblings wait. Children that have nothing yet are not what the others are scaled to.
"""

from collections.abc import Mapping

import numpy as np

from gangline_core.groups import ROOT
from gangline_core.limits.shares import capacity_of
from gangline_core.ordering.scored import Scored
from gangline_core.ordering.turns import Branch, take_turns
from gangline_core.scoring import columns as c
from gangline_core.scoring.waiting import Waiting

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

    __slots__ = ("below", "counted", "least", "parts", "rest", "share", "units", "weight")

    def __init__(self, parts: Vector, weight: int) -> None:
        self.parts = parts
        """What it has, everything below included."""
        self.weight = weight
        self.below: dict[str, int] = {}
        """Share of each child that has anything."""
        self.least = 0
        """The least of these shares; 0 when it has to be looked for."""
        self.units = (0, 0, 0)
        """Sum over these children of what they have, each scaled to a share of 1."""
        self.rest = parts
        """What it has that no child which takes part has."""
        self.share = max(parts)
        self.counted = parts

    def see(self, name: str, child: "_Standing", *, had: int, counted: Vector) -> None:
        """A child counts as it does now, and no longer as `counted` with a share of `had`."""
        one, two, three = self.units
        share = child.share
        if had:
            one -= counted[0] * FINE // had
            two -= counted[1] * FINE // had
            three -= counted[2] * FINE // had
        if share:
            first, second, third = child.counted
            one += first * FINE // share
            two += second * FINE // share
            three += third * FINE // share
            self.below[name] = share
            if had == self.least or share < self.least:
                # Only then may the least be another one; who had more, and still has as much, does not change it.
                self.least = 0
        self.units = (one, two, three)

    def recount(self) -> None:
        """How the branch counts: as it is, or with all its children at the least of their shares."""
        counted = self.parts
        if self.below:
            least = self.least
            if not least:
                least = self.least = min(self.below.values())
            (one, two, three), units = self.rest, self.units
            # Spelled out, since it is counted for every turn of every branch.
            counted = (
                (one if one > 0 else 0) + units[0] * least // FINE,
                (two if two > 0 else 0) + units[1] * least // FINE,
                (three if three > 0 else 0) + units[2] * least // FINE,
            )
        self.counted = counted
        self.share = max(counted)


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
        self._at: list[_Standing] = []
        """Those of the branches that take turns, by the number that each has."""
        below: dict[str, list[str]] = {}
        for name in self._usage:
            if name != ROOT:
                below.setdefault(_above(name), []).append(name)
        for name in below.get(ROOT, ()):
            self._build(name, below)

    def enter(self, branch: Branch) -> None:
        standing = self._standings.get(branch.name)
        if standing is None:
            standing = self._standings[branch.name] = _Standing((0, 0, 0), self._weight(branch.name))
        branch.at = len(self._at)
        self._at.append(standing)

    def _build(self, name: str, below: dict[str, list[str]]) -> _Standing:
        """Everybody who holds something, from the users up to the groups of the root."""
        usage = self._usage.get(name, {})
        standing = self._standings[name] = _Standing(self._part(usage), self._weight(name))
        children = below.get(name)
        if children is None:
            return standing
        one, two, three = standing.parts
        for child in children:
            own = self._build(child, below)
            first, second, third = own.parts
            one, two, three = one - first, two - second, three - third
            standing.see(child, own, had=0, counted=own.counted)
        standing.rest = (one, two, three)
        standing.recount()
        return standing

    def _weight(self, name: str) -> int:
        group = self._groups.get(name)
        return max(1, group.weight) if group is not None else 1

    def key(self, branch: Branch) -> tuple[int, int]:
        standing = self._at[branch.at]
        share = standing.share // standing.weight
        return share // (FINE // MILLION), share

    def take(self, leaf: Branch, row: int) -> None:
        more: list[int] = self._asked[row].tolist()
        gpu, cpu, memory = more
        branch, above = leaf, leaf.parent
        while above is not None:
            standing = self._at[branch.at]
            had, counted = standing.share, standing.counted
            one, two, three = standing.parts
            standing.parts = (one + gpu, two + cpu, three + memory)
            standing.recount()
            if above.parent is not None:
                self._at[above.at].see(branch.name, standing, had=had, counted=counted)
            branch, above = above, above.parent

    def _part(self, amounts: Mapping[str, int]) -> Vector:
        gpu, cpu, memory = self._total
        return (
            FINE * amounts.get("gpu_milli", 0) // gpu,
            FINE * amounts.get("cpu_milli", 0) // cpu,
            FINE * amounts.get("memory_mib", 0) // memory,
        )


def _above(name: str) -> str:
    """The group that a group path or user_key is directly below of."""
    group, colon, _ = name.partition(":")
    return group if colon else group.rpartition("/")[0]

"""Dominant resource fairness: whoever's largest part of any resource is smallest, for its weight, goes next.

Ghodsi et al., NSDI 2011, at every level of the group tree as in Bhattacharya et al., SoCC 2013: for a group, each child
counts as if it had no more than the child that has least, so that a child which can take what nobody else can use does
not make its siblings wait. Children that have nothing yet are not what the others are scaled to.
"""

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
        asked = [waiting.field(field).tolist() for field in FIELDS]
        self._asked: list[tuple[int, ...]] = list(zip(*asked, strict=True))
        self._standings: dict[str, _Standing] = {}

    def enter(self, branch: Branch) -> None:
        if branch.name in self._standings:
            return
        usage = self._usage.get(branch.name, {})
        parts = self._part(tuple(usage.get(name, 0) for name in DIMENSIONS))
        group = self._groups.get(branch.name) if branch.name != ROOT else None
        standing = self._standings[branch.name] = _Standing(parts, max(1, group.weight) if group is not None else 1)
        standing.rest = list(parts)
        if branch.parent is not None:
            above = self._standings[branch.parent.name]
            above.rest = [left - own for left, own in zip(above.rest, parts, strict=True)]
            self._count(branch, 0, (0, 0, 0))

    def key(self, branch: Branch) -> tuple[int, int]:
        standing = self._standings[branch.name]
        share = standing.share // standing.weight
        return share // (FINE // MILLION), share

    def take(self, leaf: Branch, row: int) -> None:
        more = self._part(self._asked[row])
        branch: Branch | None = leaf
        while branch is not None and branch.parent is not None:
            standing = self._standings[branch.name]
            had, counted = standing.share, standing.counted
            one, two, three = standing.parts
            standing.parts = (one + more[0], two + more[1], three + more[2])
            self._recount(standing)
            self._count(branch, had, counted)
            branch = branch.parent

    def _recount(self, standing: _Standing) -> None:
        """How the branch counts: as it is, or with all its children at the least of their shares."""
        standing.counted = standing.parts
        if len(standing.below) > 1:
            least = min(standing.below.values())
            one, two, three = (
                max(0, rest) + units * least // FINE for rest, units in zip(standing.rest, standing.units, strict=True)
            )
            standing.counted = (one, two, three)
        standing.share = max(standing.counted)

    def _count(self, branch: Branch, had: int, counted: Vector) -> None:
        """The parent sees the branch as it now counts, and no longer as it did."""
        assert branch.parent is not None, "the root counts for nobody"
        own, above = self._standings[branch.name], self._standings[branch.parent.name]
        units = above.units
        for k in range(3):
            if had:
                units[k] -= counted[k] * FINE // had
            if own.share:
                units[k] += own.counted[k] * FINE // own.share
        if own.share:
            above.below[branch.name] = own.share
        if not had:
            self._recount(above)

    def _part(self, amounts: tuple[int, ...]) -> Vector:
        one, two, three = (FINE * amount // total for amount, total in zip(amounts, self._total, strict=True))
        return one, two, three

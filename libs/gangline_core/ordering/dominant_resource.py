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


class _Shares:
    """Parts of the pool's GPUs, CPUs and memory per branch, in billionths."""

    def __init__(self, waiting: Waiting) -> None:
        self._groups = waiting.state.kept.groups
        self._usage = waiting.state.usage
        total = capacity_of(waiting.state, waiting.pool.pool.name)
        self._total = tuple(max(1, total.get(name, 0)) for name in DIMENSIONS)
        asked = [waiting.field(field).tolist() for field in FIELDS]
        self._asked: list[tuple[int, ...]] = list(zip(*asked, strict=True))
        self._parts: dict[str, Vector] = {}
        """Of users and of groups, everything below them included, as they are."""
        self._scaled: dict[str, tuple[int, Vector]] = {}
        """Dominant share of each branch as it counts, and its parts scaled to it."""
        self._below: dict[str, dict[str, Branch]] = {}

    def enter(self, branch: Branch) -> None:
        if branch.name not in self._parts:
            usage = self._usage.get(branch.name, {})
            self._parts[branch.name] = self._part(tuple(usage.get(name, 0) for name in DIMENSIONS))

    def key(self, branch: Branch) -> tuple[int, int]:
        share, _ = self._count(branch)
        group = self._groups.get(branch.name) if branch.name != ROOT else None
        weight = max(1, group.weight) if group is not None else 1
        return share * MILLION // (FINE * weight), share // weight

    def take(self, leaf: Branch, row: int) -> None:
        more = self._part(self._asked[row])
        branch: Branch | None = leaf
        while branch is not None:
            one, two, three = self._parts[branch.name]
            self._parts[branch.name] = (one + more[0], two + more[1], three + more[2])
            self._scaled.pop(branch.name, None)
            branch = branch.parent

    def _part(self, amounts: tuple[int, ...]) -> Vector:
        one, two, three = (FINE * amount // total for amount, total in zip(amounts, self._total, strict=True))
        return one, two, three

    def _count(self, branch: Branch) -> tuple[int, Vector]:
        """The branch's dominant share as it counts, and the parts that make it."""
        known = self._scaled.get(branch.name)
        if known is None:
            known = self._scaled[branch.name] = self._recount(branch)
        return known

    def _recount(self, branch: Branch) -> tuple[int, Vector]:
        own = self._parts[branch.name]
        counted = [self._count(child) for child in branch.children.values()]
        having = [(share, parts) for share, parts in counted if share]
        if len(having) < 2:
            return max(own), own
        least = min(share for share, _ in having)
        rest = [own[k] - sum(parts[k] for _, parts in map(self._as_is, branch.children.values())) for k in range(3)]
        scaled = [max(0, rest[k]) + sum(parts[k] * least // share for share, parts in having) for k in range(3)]
        return max(scaled), (scaled[0], scaled[1], scaled[2])

    def _as_is(self, branch: Branch) -> tuple[int, Vector]:
        parts = self._parts[branch.name]
        return max(parts), parts

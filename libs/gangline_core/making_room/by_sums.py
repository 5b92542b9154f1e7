"""What victims cost at least, told by sums alone: the cheapest of them that together free enough.

How a gang fits only the placer can say, but it never fits where less is free than it asks for. So no set that helps
costs less than the cheapest one that frees enough; and where that one helps, it is the cheapest there is. Sums are
whole numbers of one unit, worked out as a covering knapsack, exactly; of victims that free equally much only as many
count as could be needed, the cheapest of them.
"""

from collections.abc import Sequence
from math import gcd

STEPS_MAX = 100_000
"""Steps of one such sum: with more, nothing is worked out."""
Chosen = tuple[int, "Chosen | None"]
"""A victim's number, and those who were chosen before it."""


def cheapest_cover(weights: Sequence[int], freed: Sequence[int], missing: int) -> tuple[int, list[int]] | None:
    """The least weight, and whose it is, that frees so much; None where nobody does or that is not worked out."""
    if missing <= 0:
        return 0, []
    if sum(freed) < missing:
        return None
    unit = gcd(missing, *freed)
    wanted = missing // unit
    able = _that_could_be_needed(weights, freed, unit, wanted)
    if len(able) * wanted > STEPS_MAX:
        return None
    best: list[tuple[int, Chosen | None] | None] = [(0, None), *[None] * wanted]
    """For every sum, the least weight that comes to it, and by whom."""
    for k in able:
        size, weight = freed[k] // unit, weights[k]
        for so_far in range(wanted - 1, -1, -1):
            known = best[so_far]
            if known is None:
                continue
            after = min(wanted, so_far + size)
            both = known[0] + weight
            there = best[after]
            if there is None or both < there[0]:
                best[after] = (both, (k, known[1]))
    found = best[wanted]
    return None if found is None else (found[0], _listed(found[1]))


def _that_could_be_needed(weights: Sequence[int], freed: Sequence[int], unit: int, wanted: int) -> list[int]:
    """Of those that free equally much the cheapest, as many as are enough alone."""
    able: list[int] = []
    counts: dict[int, int] = {}
    for k in sorted(range(len(weights)), key=lambda k: (weights[k], k)):
        size = freed[k] // unit
        if size and counts.get(size, 0) * size < wanted:
            counts[size] = counts.get(size, 0) + 1
            able.append(k)
    return able


def _listed(chosen: Chosen | None) -> list[int]:
    found: list[int] = []
    while chosen is not None:
        k, chosen = chosen
        found.append(k)
    return sorted(found)

"""Which of many things are best put together two by two, where many of them are alike.

Things of one kind are alike, so only how many pairs of each two kinds there are matters: a queue that changes little
asks the same question again and again.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache

from gangline_core.sharing.blossom import matched

MATCHED_MAX = 128
"""Most things that are matched at once: a tenth of a second of processor time, where 512 take more than a minute."""
KNOWN_MAX = 4_096
"""So many answers are kept."""

Kinds = tuple[int, int]
"""Two kinds, the smaller number first; both may be the same."""


def best_pairs(numbers: Sequence[int], weights: Mapping[Kinds, int]) -> dict[Kinds, int]:
    """How many pairs of each two kinds there are in a matching of the largest weight.

    `numbers` says how many things there are of each kind, at most `MATCHED_MAX` in all; `weights` what a pair is worth.
    Pairs of kinds that are not in it, or worth nothing, are not made.

    Raises:
        ValueError: more things than that.
    """
    if sum(numbers) > MATCHED_MAX:
        raise ValueError(f"{sum(numbers)} things to match, at most {MATCHED_MAX}: match parts of them")
    return dict(_pairs(tuple(numbers), tuple(sorted(weights.items()))))


@lru_cache(maxsize=KNOWN_MAX)
def _pairs(numbers: tuple[int, ...], weights: tuple[tuple[Kinds, int], ...]) -> tuple[tuple[Kinds, int], ...]:
    known = dict(weights)
    things = [kind for kind, number in enumerate(numbers) for _ in range(number)]
    worth = [[known.get((min(one, other), max(one, other)), 0) for other in things] for one in things]
    counts: dict[Kinds, int] = {}
    for one, other in enumerate(matched(worth)):
        if one < other:
            kinds = (things[one], things[other])
            counts[kinds] = counts.get(kinds, 0) + 1
    return tuple(sorted(counts.items()))

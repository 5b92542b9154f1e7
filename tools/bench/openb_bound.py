"""More than this no policy can give out in the FGD experiment: a linear programme over all that may be on a card.

Pods may be cut into parts, cards may be of any machine and model, and CPU is one heap: whatever a policy does is
allowed here, so the optimum is a bound from above. What is kept is that the shares on one card may not add up to a
whole: patterns of shares are generated as long as one is worth more than a card costs (Gilmore and Gomory, 1961).
"""

from collections import Counter
from math import gcd

import numpy as np
from msgspec import Struct
from scipy.optimize import linprog  # type: ignore[import-untyped]  # SciPy ships no types

from bench import openb
from gangline_core.spec import GPU_MILLI

TINY = 1e-7
Pattern = tuple[int, ...]
"""How many shares of each size are on one card."""


class Asked(Struct, frozen=True):
    """Pods that ask for the same: so many of `cards` cards, of each `milli`, with this CPU."""

    milli: int
    cards: int
    cpu_milli: int


def bound_percent(name: str, seed: int) -> float:
    """The bound of one list and seed, in per cent of all GPUs."""
    room = openb.machines(seed)
    capacity = int(room.milli.sum())
    coming = openb.arrivals(name, seed=seed, capacity=capacity)
    asked = Counter(Asked(pod.milli, pod.gpus, pod.cpu_milli) for pod in coming if pod.gpus)
    return 100 * most(asked, cards=capacity // GPU_MILLI, cpu_milli=int(room.cpu.sum())) / capacity


def most(asked: Counter[Asked], *, cards: int, cpu_milli: int) -> float:
    """The most thousandths that so many cards and so much CPU give to these pods, parts of pods allowed."""
    kinds = list(asked)
    sizes = sorted({kind.milli for kind in kinds})
    patterns: list[Pattern] = [tuple(GPU_MILLI // size if other == size else 0 for other in sizes) for size in sizes]
    while True:
        value, prices, card_price = _solve(asked, kinds, sizes, patterns, cards=cards, cpu_milli=cpu_milli)
        found, worth = _best_pattern(sizes, prices)
        if worth <= card_price + TINY or found in patterns:
            return value
        patterns.append(found)


def _solve(
    asked: Counter[Asked], kinds: list[Asked], sizes: list[int], patterns: list[Pattern], *, cards: int, cpu_milli: int
) -> tuple[float, list[float], float]:
    """The optimum with these patterns, what a share of each size is worth then, and what a card is worth."""
    width = len(kinds) + len(patterns)
    gain = np.zeros(width)
    gain[: len(kinds)] = [-kind.cards * kind.milli for kind in kinds]
    rows = np.zeros((len(sizes) + 2, width))
    for k, kind in enumerate(kinds):
        rows[sizes.index(kind.milli), k] = kind.cards
        rows[-1, k] = kind.cpu_milli
    for k, pattern in enumerate(patterns):
        rows[: len(sizes), len(kinds) + k] = [-number for number in pattern]
    rows[-2, len(kinds) :] = 1
    limits = [*([0.0] * len(sizes)), float(cards), float(cpu_milli)]
    bounds = [*((0, asked[kind]) for kind in kinds), *([(0, None)] * len(patterns))]
    solved = linprog(gain, A_ub=rows, b_ub=limits, bounds=bounds, method="highs")
    prices = [-float(price) for price in solved.ineqlin.marginals]
    return -float(solved.fun), prices[: len(sizes)], prices[-2]


def _best_pattern(sizes: list[int], prices: list[float]) -> tuple[Pattern, float]:
    """What one card had best hold at these prices: an unbounded knapsack over thousandths."""
    unit = gcd(GPU_MILLI, *sizes)
    room = GPU_MILLI // unit
    best, last = [0.0] * (room + 1), [-1] * (room + 1)
    for free in range(1, room + 1):
        best[free], last[free] = best[free - 1], -1
        for k, size in enumerate(sizes):
            need = size // unit
            if need <= free and best[free - need] + prices[k] > best[free] + TINY:
                best[free], last[free] = best[free - need] + prices[k], k
    counts, free = [0] * len(sizes), room
    while free > 0:
        if last[free] < 0:
            free -= 1
        else:
            counts[last[free]] += 1
            free -= sizes[last[free]] // unit
    return tuple(counts), best[room]

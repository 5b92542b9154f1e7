"""The bound of the FGD experiment is reached where it can be, and passed by nobody."""

import itertools
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.openb_bound import Asked, most


@pytest.mark.parametrize(
    ("pods", "cards", "cpu", "milli"),
    [
        ({Asked(600, 1, 0): 2}, 1, 1, 600),
        ({Asked(600, 1, 0): 2, Asked(400, 1, 0): 1}, 1, 1, 1000),
        ({Asked(600, 1, 0): 2, Asked(400, 1, 0): 1}, 2, 1, 1600),
        ({Asked(1000, 8, 0): 1}, 8, 1, 8000),
        ({Asked(1000, 1, 10): 4}, 4, 20, 2000),
        ({Asked(330, 1, 0): 3}, 1, 1, 990),
    ],
)
def test_the_bound_of_small_clusters(pods, cards, cpu, milli):
    assert most(Counter(pods), cards=cards, cpu_milli=cpu) == pytest.approx(milli)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from([200, 300, 500, 600, 700, 1000]), min_size=1, max_size=6), st.integers(1, 3))
def test_no_way_to_put_shares_on_cards_gives_out_more(shares, cards):
    best = 0
    for places in itertools.product(range(-1, cards), repeat=len(shares)):
        held = [
            sum(share for share, place in zip(shares, places, strict=True) if place == card) for card in range(cards)
        ]
        if max(held) <= 1000:
            best = max(best, sum(held))
    assert most(Counter(Asked(share, 1, 0) for share in shares), cards=cards, cpu_milli=1) >= best - 1e-6

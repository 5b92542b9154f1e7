"""The searches for sizes find what the papers ask for: compared with every possible choice on small clusters."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gangline_core.elasticity.goodput import Grad, Limits, Perf, optimise
from gangline_core.elasticity.pollux import FLOOR, POWER, Bidder, penalty, pollux, speed_ups
from gangline_core.elasticity.sia import LAMBDA, Asker, Choice, solve
from gangline_core.elasticity.sia import POWER as SIA_POWER

PERF = Perf(ac=0.121, bc=0.00568, an=0.0236, bn=0.00634, ar=0.0118, br=0.00317, g=1.14)
LIMITS = Limits(initial=128, batch_max=1280, local_min=64, local_max=256)

BIDDERS = st.builds(
    Bidder,
    sizes=st.sampled_from([(1,), (1, 2), (1, 2, 4), (2, 4)]),
    gpus=st.just(1),
    present=st.integers(0, 4),
    perf=st.sampled_from([None, PERF]),
    grad=st.builds(Grad, sqr=st.sampled_from([0.00136, 0.1]), var=st.sampled_from([0.000502, 0.5])),
    limits=st.just(LIMITS),
    profiled=st.integers(1, 4),
    age_s=st.sampled_from([60, 3600]),
    restarts=st.integers(0, 3),
    cost_s=st.just(30),
)


@settings(max_examples=40, deadline=None)
@given(st.lists(BIDDERS, min_size=1, max_size=3), st.integers(1, 6))
def test_polluxs_power_mean_of_speed_ups_is_as_large_as_can_be(asked: list[Bidder], capacity: int) -> None:
    """OSDI 2021, equation 13 with p = -1, and the re-allocation factor of section 4.2.1."""
    fair = max(1, -(-capacity // len(asked)))

    def fitness(sizes: tuple[int, ...]) -> float:
        terms = []
        for one, size in zip(asked, sizes, strict=True):
            reached = float(speed_ups(one, [size], fair=fair, per_node=4)[0])
            factor = 1.0 if size == one.present else penalty(one)
            terms.append((reached * factor + FLOOR) ** POWER)
        return float(np.mean(terms) ** (1 / POWER))

    chosen = tuple(pollux(asked, capacity=capacity, per_node=4))
    options = [
        [0, *(size for size in one.sizes if size <= max(2 * one.profiled, one.present, one.sizes[0]))] for one in asked
    ]
    able = [sizes for sizes in itertools.product(*options) if sum(sizes) <= capacity]
    assert chosen in able
    assert fitness(chosen) == pytest.approx(max(map(fitness, able)))


@pytest.mark.parametrize(
    ("age_s", "restarts", "factor"), [(0, 0, 0.0), (30, 0, 0.5), (3570, 1, 0.98333), (90, 3, 0.0), (60, 4, 0.0)]
)
def test_a_change_is_worth_less_the_younger_the_job_and_the_more_it_was_moved(
    age_s: int, restarts: int, factor: float
) -> None:
    """Max(age - restarts x 30 s, 0) / (age + 30 s)."""
    one = Bidder(
        sizes=(1,), gpus=1, present=1, perf=None, grad=Grad(), limits=LIMITS, profiled=1,
        age_s=age_s, restarts=restarts, cost_s=30,
    )  # fmt: skip
    assert penalty(one) == pytest.approx(factor, abs=1e-5)


def test_a_speed_up_is_goodput_over_goodput_at_the_fair_share() -> None:
    grad = Grad(sqr=0.00136, var=0.000502)
    one = Bidder(
        sizes=(1, 2, 4, 8), gpus=1, present=1, perf=PERF, grad=grad, limits=LIMITS, profiled=8,
        age_s=3600, restarts=0, cost_s=30,
    )  # fmt: skip
    inside = [float(optimise(PERF, grad, LIMITS, 1, size).goodput[0]) for size in (1, 2, 4)]
    assert speed_ups(one, [0, 1, 2, 4], fair=2, per_node=4).tolist() == pytest.approx(
        [0.0, *(value / inside[1] for value in inside)]
    )


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(BIDDERS, st.sampled_from([(1.0, 1.0), (1.0, 4.0), (2.0, 1.0)])), min_size=1, max_size=3),
    st.integers(0, 4),
    st.integers(1, 4),
)
def test_sias_program_is_solved_to_its_optimum(jobs, slow: int, fast: int) -> None:
    """SOSP 2023, section 3.4: the sum of (r G)^p over choices and of lambda over those left out, p = -0.5."""
    asked = [Asker(bidder, "T4" if bidder.present else "", {"T4": t4, "A100": a100}) for bidder, (t4, a100) in jobs]
    capacity = {"T4": slow, "A100": fast}

    def worths(asker: Asker) -> dict[Choice | None, float]:
        one = asker.bidder
        most = max(2 * one.profiled, one.present, one.sizes[0])
        sizes = [size for size in one.sizes if size <= most]
        scaling = speed_ups(one, sizes, fair=1, per_node=4)
        values = {
            Choice(model, size): speed * float(scale)
            for model, speed in asker.speeds.items()
            for size, scale in zip(sizes, scaling, strict=True)
        }
        least = min(values.values())
        costs: dict[Choice | None, float] = {None: LAMBDA}
        for choice, value in values.items():
            stays = choice == Choice(asker.model, one.present)
            factor = 1.0 if stays else max(penalty(one), 1e-3)
            costs[choice] = (factor * value / least) ** SIA_POWER
        return costs

    tables = [worths(asker) for asker in asked]

    def cost(choices: tuple[Choice | None, ...]) -> float:
        return sum(table[choice] for table, choice in zip(tables, choices, strict=True))

    def fits(choices: tuple[Choice | None, ...]) -> bool:
        return all(
            sum(choice.size for choice in choices if choice is not None and choice.model == model) <= room
            for model, room in capacity.items()
        )

    chosen = tuple(solve(asked, capacity, per_node=4))
    assert fits(chosen)
    able = [choices for choices in itertools.product(*tables) if fits(choices)]
    assert cost(chosen) == pytest.approx(min(map(cost, able)), abs=1e-6)

"""Optimus: its least for everybody, then each step where it takes most off what is left (elasticity/optimus.py)."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.test_elastic_policies import propose, report, running
from tests.make import World, node

from gangline_core.elasticity.goodput import Limits, Perf
from gangline_core.elasticity.optimus import Taker, shares, update_s

PERF = Perf(ac=0.1, bc=0.01, an=0.2, bn=0.01, ar=0.1, br=0.005, g=1.0)


def taker(*left_s: int, gpus: int = 1, sizes: tuple[int, ...] = ()) -> Taker:
    return Taker(
        sizes=sizes or tuple(range(1, len(left_s) + 1)), gpus=gpus, left_ms=tuple(1000 * left for left in left_s)
    )


def test_each_further_gpu_goes_where_it_takes_most_off() -> None:
    # First steps win 50 and 300 s, then the second job's third GPU 100 s, then the first job's second.
    assert shares([taker(100, 50, 40), taker(600, 300, 200)], capacity=3) == [1, 2]
    assert shares([taker(100, 50, 40), taker(600, 300, 200)], capacity=4) == [1, 3]
    assert shares([taker(100, 50, 40), taker(600, 300, 200)], capacity=5) == [2, 3]


def test_whose_next_step_wins_nothing_stays_although_gpus_idle_and_one_after_it_would() -> None:
    assert shares([taker(100, 110, 20)], capacity=8) == [1]


def test_a_step_of_several_gpus_counts_by_what_each_of_them_wins() -> None:
    assert shares([taker(400, 200, sizes=(1, 4)), taker(400, 320)], capacity=5) == [1, 2]
    assert shares([taker(400, 100, sizes=(1, 4)), taker(400, 320)], capacity=5) == [4, 1]


def test_whoever_has_no_room_for_its_least_is_passed_over_and_gets_none() -> None:
    assert shares([taker(9, 8), taker(9, 8, gpus=8), taker(9, 8)], capacity=3) == [2, 0, 1]


@given(st.lists(st.lists(st.integers(1, 50), min_size=1, max_size=4), min_size=1, max_size=3), st.integers(0, 9))
def test_where_every_step_wins_less_than_the_one_before_nothing_is_better(gains, capacity) -> None:
    takers = []
    for steps in gains:
        falling, left = sorted(steps, reverse=True), [1000]
        for gain in falling:
            left.append(left[-1] - gain)
        takers.append(taker(*left))
    chosen = shares(takers, capacity=capacity)
    assert sum(chosen) <= capacity
    if capacity >= len(takers):
        best = min(
            sum(one.left_ms[size - 1] for one, size in zip(takers, sizes, strict=True))
            for sizes in product(*(one.sizes for one in takers))
            if sum(sizes) <= capacity
        )
        assert sum(one.left_ms[size - 1] for one, size in zip(takers, chosen, strict=True)) == best


def test_all_members_together_keep_one_batch_in_as_many_steps_as_memory_asks_for() -> None:
    whole = update_s(PERF, Limits(initial=64, local_max=16, accumulates=True), np.array([1, 1]), np.array([1, 4]))
    assert whole.tolist() == pytest.approx([3 * 0.26 + 0.26, 0.26 + 0.11], abs=1e-6)
    without = update_s(PERF, Limits(initial=64), np.array([1]), np.array([1]))
    assert without.tolist() == pytest.approx([0.1 + 0.64], abs=1e-6)


# --- in the pool --------------------------------------------------------------------------------------------------


def test_gpus_go_to_the_longer_of_two_equal_jobs_and_to_nobody_who_is_about_to_end() -> None:
    world = World(node(gpus=8)).set_policy(elastic="optimus", elastic_interval_s=60)
    long, brief = running(world, size=4), running(world, size=4)
    times = ((1, 100), (2, 50), (4, 25), (8, 13))
    report(world, long, *times, (4, 25), remaining_s=5_000)
    report(world, brief, *times, (4, 25), remaining_s=50)
    world.wait(60)
    assert propose(world) == {long: 7, brief: 1}
    propose(world)
    assert [world.job(job).sizes["worker"] for job in (long, brief)] == [7, 1]
    assert propose(world.wait(600)) == {}


def test_a_size_of_which_the_job_told_is_judged_by_that_and_not_by_the_fit() -> None:
    world = World(node(gpus=8)).set_policy(elastic="optimus", elastic_interval_s=60)
    job = running(world, size=1)
    # Three members are slower than two for it, so two are all it gets; a fit alone would smooth that over.
    report(world, job, (2, 52), (3, 53), (4, 27), (8, 15), (1, 100), remaining_s=5_000)
    world.wait(60)
    assert propose(world) == {job: 2}


def test_whoever_told_nothing_of_its_speed_counts_as_speeding_up_in_step_with_its_size() -> None:
    world = World(node(gpus=8)).set_policy(elastic="optimus", elastic_interval_s=60)
    known, silent = running(world, estimate_s=4_000), running(world, estimate_s=4_000)
    report(world, known, (2, 99), (1, 100), remaining_s=4_000)
    world.wait(60)
    proposed = propose(world)
    assert proposed[silent] > proposed.get(known, 1)

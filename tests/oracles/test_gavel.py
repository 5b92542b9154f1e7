"""Gavel's programs against brute force over a grid, and against the arithmetic of the paper (OSDI 2020, section 4)."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gangline_core.ordering import gavel_lp
from gangline_core.ordering.gavel_lp import Problem

GRID = np.linspace(0, 1, 11)


def problem(
    speeds, *, gpus=None, counts=None, steps=None, elapsed=None, done=None, capacity=(1.0, 1.0), prices=(1.0, 1.0)
) -> Problem:
    rows = len(speeds)
    ones = np.ones(rows)
    return Problem(
        speeds=np.array(speeds, dtype=float),
        gpus=ones if gpus is None else np.array(gpus, dtype=float),
        counts=ones if counts is None else np.array(counts, dtype=float),
        weights=ones,
        steps=ones if steps is None else np.array(steps, dtype=float),
        elapsed=np.zeros(rows) if elapsed is None else np.array(elapsed, dtype=float),
        ranks=np.arange(rows, 0, -1).astype(float),
        capacity=np.array(capacity, dtype=float),
        prices=np.array(prices, dtype=float),
        done=np.zeros(rows) if done is None else np.array(done, dtype=float),
    )


def possible(asked: Problem):
    """Every allocation of the grid for two rows and two models."""
    for one in product(GRID, repeat=4):
        x = np.array(one).reshape(2, 2)
        taken = (asked.gpus * asked.counts) @ x
        if (x.sum(axis=1) <= 1 + 1e-9).all() and (taken <= asked.capacity + 1e-9).all():
            yield x


two_by_two = st.lists(st.lists(st.integers(1, 8), min_size=2, max_size=2), min_size=2, max_size=2)


def is_possible(asked: Problem, x) -> bool:
    taken = (asked.gpus * asked.counts) @ x
    return bool((x >= -1e-9).all() and (x.sum(axis=1) <= 1 + 1e-6).all() and (taken <= asked.capacity + 1e-6).all())


@settings(max_examples=8, deadline=None)
@given(speeds=two_by_two)
def test_no_allocation_gives_the_worst_off_more(speeds):
    asked = problem(speeds)
    scale = asked.gpus / asked.equal_speeds()
    best = max(float(((asked.speeds * y).sum(axis=1) * scale).min()) for y in possible(asked))
    for program in (gavel_lp.max_min, gavel_lp.max_min_only):
        x = program(asked)
        assert is_possible(asked, x)
        assert float(((asked.speeds * x).sum(axis=1) * scale).min()) >= best - 1e-6


@settings(max_examples=8, deadline=None)
@given(speeds=two_by_two, steps=st.lists(st.integers(1, 20), min_size=2, max_size=2))
def test_no_allocation_ends_the_last_job_earlier(speeds, steps):
    asked = problem(speeds, steps=steps)
    x = gavel_lp.makespan(asked)
    assert is_possible(asked, x)
    best = max(float(((asked.speeds * y).sum(axis=1) / asked.steps).min()) for y in possible(asked))
    assert float(((asked.speeds * x).sum(axis=1) / asked.steps).min()) >= best - 1e-6


@settings(max_examples=8, deadline=None)
@given(
    speeds=two_by_two,
    steps=st.lists(st.integers(1, 20), min_size=2, max_size=2),
    elapsed=st.lists(st.integers(0, 20), min_size=2, max_size=2),
    done=st.lists(st.integers(0, 20), min_size=2, max_size=2),
    gpus=st.lists(st.integers(1, 2), min_size=2, max_size=2),
)
def test_no_allocation_makes_the_worst_finish_time_fairer(speeds, steps, elapsed, done, gpus):
    asked = problem(speeds, steps=steps, elapsed=elapsed, done=done, gpus=gpus, capacity=(2.0, 2.0))
    # Alone a job has its part of the GPUs of both models, for as many of them as it needs, and at most all of its time.
    own = np.minimum(1.0, (2.0 / 2 / asked.gpus) * 2) / 2
    alone = (asked.done + asked.steps) / (asked.speeds.sum(axis=1) * own)

    def worst(x) -> float:
        speed = np.maximum((asked.speeds * x).sum(axis=1), 1e-12)
        return float(((asked.elapsed + asked.steps / speed) / alone).max())

    x = gavel_lp.finish_time(asked)
    assert is_possible(asked, x)
    assert worst(x) <= min(worst(y) for y in possible(asked)) + 1e-3


def test_the_best_finish_time_is_found_where_every_aim_comes_only_a_little_nearer():
    """After sixteen steps that each took a quarter off the rest, it was still 0.007 % worse than it could be."""
    asked = problem([[5, 1], [4, 3]], steps=[1, 14], elapsed=[13, 11], done=[16, 7], gpus=[2, 2], capacity=(2.0, 2.0))
    speed = (asked.speeds * gavel_lp.finish_time(asked)).sum(axis=1)
    alone = (asked.done + asked.steps) / (asked.speeds.sum(axis=1) / 2)
    worst = ((asked.elapsed + asked.steps / speed) / alone).max()
    assert worst == pytest.approx(2.428364, abs=2e-6)


def test_who_cannot_be_helped_any_more_takes_nothing_from_the_others():
    """One job is late whatever it has; the two others, on the second GPU, still have all of that."""
    asked = problem([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]], steps=[10, 10, 10], elapsed=[90, 0, 0], done=[1, 0, 0])
    x = gavel_lp.finish_time(asked)
    assert x[0, 0] == pytest.approx(1.0)
    assert x[1:, 1].tolist() == pytest.approx([0.5, 0.5])


@settings(max_examples=8, deadline=None)
@given(speeds=two_by_two)
def test_no_allocation_gives_more_speed_per_price_or_more_to_those_who_came_first(speeds):
    asked = problem(speeds, prices=(3.0, 1.0))
    best = asked.speeds.max(axis=1)

    def per_price(x) -> float:
        paid = float(((asked.gpus * asked.counts)[:, None] * x * asked.prices).sum())
        return float((asked.speeds * x / best[:, None]).sum()) / paid if paid > 1e-9 else 0.0

    def early(x) -> float:
        return float(((asked.speeds * x / best[:, None]).sum(axis=1) * asked.ranks).sum())

    x = gavel_lp.cost(asked)
    assert is_possible(asked, x)
    assert per_price(x) >= max(per_price(y) for y in possible(asked)) - 1e-6
    assert early(gavel_lp.fifo(asked)) >= max(early(y) for y in possible(asked)) - 1e-6


def test_who_gains_from_the_fast_model_gets_it_from_who_does_not():
    """One V100 and one K80; one job is ten times as fast on the V100, to the other both are the same."""
    asked = problem([[10.0, 1.0], [1.0, 1.0]])
    x = gavel_lp.max_min(asked)
    assert x[0, 0] == pytest.approx(1.0, abs=1e-4)
    assert x[1, 1] == pytest.approx(1.0, abs=1e-4), "nobody has less than with an equal part of everything"


def test_water_is_filled_beyond_the_first_who_is_full():
    """A job that can use only the slow model holds the least value; the others still rise together."""
    asked = problem([[0.0, 1.0], [1.0, 0.0], [1.0, 0.0]], capacity=(2.0, 1.0))
    x = gavel_lp.max_min(asked)
    assert x.sum(axis=1) == pytest.approx([1.0, 1.0, 1.0], abs=1e-4)


def test_equal_jobs_as_one_row_get_what_they_get_as_many():
    rows = [[2.0, 1.0], [2.0, 1.0], [2.0, 1.0], [1.0, 1.0]]
    apart = gavel_lp.max_min(problem(rows, capacity=(1.0, 2.0)))
    together = gavel_lp.max_min(problem([rows[0], rows[3]], counts=[3, 1], capacity=(1.0, 2.0)))
    value = (np.array(rows) * apart).sum(axis=1)
    assert value[:3].sum() == pytest.approx(3 * float((np.array(rows[0]) * together[0]).sum()), rel=1e-4)
    assert value[3] == pytest.approx(float(together[1].sum()), rel=1e-4)

"""The goodput model gives the values of AdaptDL and keeps its invariants; a fit finds what is behind reports."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gangline_core.elasticity.fit import fitted
from gangline_core.elasticity.goodput import Grad, Limits, Perf, efficiency, goodput, optimise, throughput
from gangline_core.sizes.progress import Point

# adaptdl/adaptdl/goodput_test.py has the parameters; the values follow from its formulas.
PERF = Perf(ac=0.121, bc=0.00568, an=0.0236, bn=0.00634, ar=0.0118, br=0.00317, g=1.14)
GRAD = Grad(sqr=0.00136, var=0.000502)
LIMITS = Limits(initial=128, batch_max=1280, local_min=64, local_max=256)

PARTS = st.floats(0.0001, 1.0)
PERFS = st.builds(Perf, ac=PARTS, bc=PARTS, an=PARTS, bn=PARTS, ar=PARTS, br=PARTS, g=st.floats(1.0, 10.0))
GRADS = st.builds(Grad, sqr=st.floats(1e-6, 1.0), var=st.floats(1e-6, 1.0))


def test_golden_speed_ups() -> None:
    one = optimise(PERF, GRAD, LIMITS, 1, 1).goodput[0]
    assert one == pytest.approx(150.94, abs=0.01)
    inside = optimise(PERF, GRAD, LIMITS, 1, np.array([2, 4, 8, 12, 16])).goodput / one
    assert inside == pytest.approx([1.728, 1.982, 2.114, 2.138, 2.131], abs=0.001)
    across = optimise(PERF, GRAD, LIMITS, 2, np.array([2, 4, 8, 16])).goodput / one
    assert across == pytest.approx([1.703, 1.935, 2.025, 1.968], abs=0.001)


def test_golden_efficiency_and_throughput() -> None:
    assert efficiency(GRAD, 128, np.array([128, 256, 512, 1280])) == pytest.approx(
        [1, 0.5779, 0.3134, 0.1320], abs=1e-4
    )
    made = throughput(PERF, nodes=1, members=np.array([1, 2, 4, 8]), batch=128, gathered=0)
    assert made == pytest.approx([150.94, 299.86, 597.21, 1183.8], abs=0.01)


def test_without_bounds_the_initial_batch_is_divided_among_the_members() -> None:
    best = optimise(PERF, GRAD, Limits(initial=128), 1, np.array([1, 2, 3, 4, 5]))
    assert best.local.tolist() == [128, 64, 43, 32, 26]
    assert best.gathered.tolist() == [0] * 5


@settings(max_examples=60)
@given(PERFS, GRADS)
def test_the_invariants_of_the_model(perf: Perf, grad: Grad) -> None:
    batches = np.arange(128, 2048, 64)
    worth = efficiency(grad, 128, batches)
    assert np.all((worth > 0) & (worth <= 1 + 1e-9))
    assert np.all(np.diff(worth) <= 1e-9)
    made = throughput(perf, nodes=1, members=4, batch=batches, gathered=0)
    assert np.all(np.diff(made) >= -1e-6)
    members = np.arange(2, 64)
    each = throughput(perf, nodes=1, members=members, batch=32, gathered=0) / members
    assert np.all(np.diff(each) <= 1e-6)
    whole = goodput(perf, grad, 128, nodes=1, members=4, batch=batches, gathered=1)
    total = 4 * batches * 2
    parts = throughput(perf, nodes=1, members=4, batch=batches, gathered=1) * efficiency(grad, 128, total)
    assert np.allclose(whole, parts)


def test_no_gradient_statistics_is_the_case_in_which_batches_are_free() -> None:
    assert efficiency(Grad(), 128, np.array([128, 1024])) == pytest.approx([1, 1])


def reports(*shapes: tuple[int, int, int]) -> tuple[Point, ...]:
    found = []
    for nodes, members, batch in shapes:
        made = float(throughput(PERF, nodes=nodes, members=members, batch=batch, gathered=0))
        found.append(
            Point(nodes=nodes, members=members, batch=batch, gathered=0, step_us=round(members * batch / made * 1e6))
        )
    return tuple(found)


def test_a_fit_explains_what_was_reported_and_foresees_what_was_not() -> None:
    seen = [(1, 1, 64), (1, 1, 128), (1, 2, 64), (1, 4, 64), (1, 4, 128), (2, 8, 64), (2, 8, 128), (4, 16, 64)]
    perf = fitted(reports(*seen))
    for nodes, members, batch in [*seen, (4, 12, 96), (8, 32, 64)]:
        real = float(throughput(PERF, nodes=nodes, members=members, batch=batch, gathered=0))
        guess = float(throughput(perf, nodes=nodes, members=members, batch=batch, gathered=0))
        assert guess == pytest.approx(real, rel=0.1)


def test_what_was_never_seen_costs_nothing_so_that_a_job_is_tried_larger_once() -> None:
    perf = fitted(reports((1, 1, 64), (1, 1, 128)))
    one = float(throughput(perf, nodes=1, members=1, batch=64, gathered=0))
    assert float(throughput(perf, nodes=1, members=4, batch=64, gathered=0)) == pytest.approx(4 * one, rel=0.01)


def test_a_fit_holds_no_digits_in_which_kinds_of_cpus_differ() -> None:
    perf = fitted(reports((1, 1, 64), (1, 2, 64), (1, 4, 32), (2, 8, 64)))
    assert all(
        value == float(f"{value:.4g}") for value in (perf.ac, perf.bc, perf.an, perf.bn, perf.ar, perf.br, perf.g)
    )


def test_equal_reports_give_equal_fits() -> None:
    seen = reports((1, 1, 64), (1, 2, 64), (1, 4, 32))
    fitted.cache_clear()
    first = fitted(seen)
    fitted.cache_clear()
    assert fitted(seen) == first

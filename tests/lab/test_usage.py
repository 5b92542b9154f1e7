"""What pools held, had and left scattered is integrated exactly, however seldom a plot's point is kept."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.lab.simulated import FIFO, run, trace

from gangline_core.cluster import Policy
from gangline_core.groups import Group
from gangline_core.spec import GPU_MILLI
from gangline_lab.compare_page import bucketed
from gangline_lab.metric_words import metrics_lines
from gangline_lab.metrics import measure
from gangline_lab.sim.conditions import Failures
from gangline_lab.sim.engine import RunResult
from gangline_lab.stretches import Stretches


def test_short_jobs_with_long_pauses_are_neither_scattered_nor_holding_in_the_pauses() -> None:
    """300 jobs of 10 s every 600 s on 4 of 8 GPUs: they hold 4 of 8 for a sixtieth of the time."""
    result = run(trace(*((600 * k, 4, 10) for k in range(300))), "1x8xV100")
    metrics = measure(result)
    span_s = 600 * 299 + 10
    assert metrics.fragmentation == pytest.approx(300 * 10 * 4 / (8 * span_s))
    assert metrics.allocation == pytest.approx(300 * 10 * 4 / (8 * span_s))
    points = result.points["default"]
    ends = [point.at for point in points[1:]] + [result.end_ms]
    held = sum(point.held_milli * (end - point.at) for point, end in zip(points, ends, strict=True))
    assert held == pytest.approx(300 * 10_000 * 4_000, rel=1e-3)
    plotted = bucketed(result, result.end_ms, lambda point: point.held_milli / GPU_MILLI)
    assert max(plotted) < 0.2


def test_who_stops_holds_its_gpus_until_it_is_gone() -> None:
    jobs = trace((0, 4, 2000), (300, 4, 20))
    policy = Policy(ordering="least_attained", service_thresholds=(100,), starvation_s=0)
    result = run(jobs, policy=policy, round_s=60, stop_s=600)
    metrics = measure(result)
    assert metrics.preemptions == 1
    held_s = 4 * (2000 + 20 + 600)
    assert metrics.gpu_hours == pytest.approx(held_s / 3600)
    assert metrics.allocation == pytest.approx(held_s / (4 * metrics.makespan_s))
    assert metrics.lost_gpu_hours == pytest.approx(4 * 600 / 3600)


def test_gpus_of_lost_nodes_are_not_there() -> None:
    result = run(
        trace((0, 4, 20_000)), policy=FIFO, checkpoint_s=60, failures=Failures(node_mtbf_hours=1, repair_s=36_000)
    )
    metrics = measure(result)
    assert metrics.losses > 0
    assert metrics.allocation == pytest.approx(1.0)


def test_fairness_counts_only_the_time_in_which_somebody_waited() -> None:
    """Two groups want all of four GPUs; one has them for 100 s, then the other."""
    metrics = measure(run(trace((0, 4, 100), (0, 4, 100), groups=("a", "b"))))
    assert metrics.jain == pytest.approx(0.5)


def test_budgets_are_used_as_accounting_charges_them() -> None:
    """0.6 GPU-hours of a budget of 2 are 0.6, and not one."""
    jobs = trace((0, 4, 540), groups=("a",))
    jobs = replace(jobs, groups=(Group(path="a", budget_gpu_hours=2),))
    metrics = measure(run(jobs))
    assert metrics.budgets == {"a": (pytest.approx(0.6), 2)}
    assert "Budget of a: 0.60 of 2 GPU-hours" in metrics_lines(metrics)


def used(result: RunResult) -> float:
    """GPU thousandths times ms, by the points."""
    points = result.points["default"]
    ends = [point.at for point in points[1:]] + [result.end_ms]
    return sum(point.used_milli * (end - point.at) for point, end in zip(points, ends, strict=True))


def test_gpus_are_at_work_when_a_start_is_paid_and_until_the_work_is_done() -> None:
    """Two jobs of 100 s on 4 GPUs after starts of 50 s each."""
    result = run(trace((0, 4, 100), (0, 4, 100)), start_s=50)
    plotted = bucketed(result, result.end_ms, lambda point: point.used_milli / GPU_MILLI)
    assert used(result) == pytest.approx(2 * 100_000 * 4_000, rel=1e-3)
    assert max(plotted) == pytest.approx(4)
    assert measure(result).utilisation == pytest.approx(2 / 3)


def test_what_was_lost_was_no_work_and_stopping_is_none_so_that_points_come_to_the_runs_own_sum() -> None:
    failing = run(
        trace((0, 4, 20_000)), policy=FIFO, checkpoint_s=600, failures=Failures(node_mtbf_hours=1, repair_s=60)
    )
    assert measure(failing).losses > 0
    policy = Policy(ordering="least_attained", service_thresholds=(100,), starvation_s=0)
    stopping = run(trace((0, 4, 2000), (300, 4, 20)), policy=policy, round_s=60, stop_s=600, start_s=30, restart_s=30)
    for result in (failing, stopping):
        assert used(result) == pytest.approx(sum(job.useful_gpu_ms for job in result.jobs), rel=2e-3)
        assert all(0 <= point.used_milli <= point.held_milli + 1 for point in result.points["default"])


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40), st.integers(1, 9)), max_size=8),
    st.lists(st.integers(0, 40), min_size=2, max_size=8, unique=True),
)
def test_stretches_come_to_the_means_that_counting_each_moment_gives(added, edges) -> None:
    stretches, edges = Stretches(), sorted(edges)
    for begin, end, milli in added:
        stretches.add(begin, end, milli)
    for mean, (low, high) in zip(stretches.means(edges), pairwise(edges), strict=True):
        counted = sum(milli for begin, end, milli in added for at in range(low, high) if begin <= at < end)
        assert mean == pytest.approx(counted / (high - low))

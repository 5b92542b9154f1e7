"""Variants of who may jump (D01) and of groups that have nothing but a limit (C08): over quota, by model, by jobs."""

import pytest
from tests.cases.drive import Drive
from tests.make import gpu_amount, group, node

from gangline_core.reasons import ReasonCode

LAB = {"group": "lab"}


@pytest.mark.parametrize(
    "limit", [gpu_amount(8), gpu_amount(8, "A100"), {"cpu_milli": 8_000}, {"memory_mib": 8 * 1024}, {"jobs": 2}]
)
def test_who_may_jump_below_a_limit_is_who_ends_in_time(limit):
    """As with one node of eight, but the pool has 24 and the limit eight (or two jobs)."""
    drive = Drive(*(node(f"n{k}") for k in range(3)), groups=[group("lab", limit=limit)], policy={"preemption": False})
    by_jobs = "jobs" in limit

    def ask(second: float, units: int, **fields):
        asked = {"gpus": units, "cpus": units, "memory_mib": 1024 * units, "gpu_models": ["A100"], **LAB}
        return drive.ask(second, **asked, **fields)

    ask(0, 6, run=100, limit=100)
    if by_jobs:
        ask(0, 1, run=100, limit=100)
    b = ask(1, 8, run=30, limit=30)
    c, d, e = ask(2, 2, run=50, limit=50), ask(3, 2, run=200, limit=200), ask(4, 1, run=10)
    late = ask(55, 2, run=40, limit=40)
    other = drive.ask(5, gpus=8, run=300, limit=300)
    drive.finish_all()
    assert other.starts == [5], "whoever counts elsewhere is not kept"
    if by_jobs:
        assert b.starts == [100], "the first of the queue has the first place that comes free"
        return
    assert (c.starts, late.starts, b.starts) == ([2], [55], [100])
    assert d.starts[0] >= 130
    assert e.starts[0] >= 100


def test_an_early_end_below_a_limit_brings_the_dated_job_forward():
    drive = Drive(node("n1"), node("n2"), groups=[group("lab", limit=gpu_amount(8))], policy={"preemption": False})
    drive.ask(0, gpus=6, run=60, limit=100, **LAB)
    b = drive.ask(1, gpus=8, run=30, limit=30, **LAB)
    c = drive.ask(2, gpus=2, run=50, limit=50, **LAB)
    drive.until(3)
    assert drive.is_running(c) == [True]
    drive.finish_all()
    assert b.starts == [60]


@pytest.mark.parametrize("dimension", ["gpu_milli", "gpu_milli:A100", "cpu_milli"])
def test_a_group_with_only_a_limit_has_no_claim_in_any_dimension(dimension):
    amount = 4_000
    drive = Drive(
        node("n1", cpus=8),
        groups=[group("q1", limit={dimension: 2 * amount}), group("q2", guaranteed={dimension: amount})],
    )
    asked = {"gpus": 4, "cpus": 4, "gpu_models": ["A100"]}
    first, second = drive.ask(0, group="q1", **asked), drive.ask(1, group="q2", **asked)
    drive.until(2)
    assert drive.is_running(first, second) == [True, True]
    more = drive.ask(3, group="q1", **asked)
    drive.until(10)
    assert (drive.is_running(more), drive.evicted) == ([False], [])
    assert drive.code(more) in {ReasonCode.INSUFFICIENT_GPUS, ReasonCode.GROUP_LIMIT}

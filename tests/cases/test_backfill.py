"""Passing others: only who ends in time or can be pushed away again, and nobody's time limit is touched."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cases.drive import Drive
from tests.make import gpu_amount, group, node

from gangline_core.job import JobState
from gangline_core.reasons import ReasonCode
from gangline_core.spec import ServiceClass


def who_may_jump(*, a_ends: float = 100, c_runs: float = 50) -> tuple[Drive, list]:
    """One node with six of eight GPUs taken until second 100, a whole-node job waiting, and others behind it."""
    drive = Drive(node(), policy={"preemption": False})
    a = drive.ask(0, gpus=6, run=a_ends, limit=100)
    b = drive.ask(1, gpus=8, run=30, limit=30, priority=100)
    c = drive.ask(2, gpus=2, run=c_runs, limit=50)
    d = drive.ask(3, gpus=2, run=200, limit=200)
    e = drive.ask(4, gpus=1, run=10)
    late = drive.ask(50, gpus=2, run=40, limit=40)
    return drive, [a, b, c, d, e, late]


def test_who_ends_in_time_may_jump_and_nobody_else():
    # snakemake/snakemake#301
    drive, (_, b, c, d, e, late) = who_may_jump()
    drive.until(99)
    assert drive.is_waiting(d, e) == [True, True]
    assert drive.code(d) == ReasonCode.RESERVED
    assert drive.state.kept.pools["default"].reservations[0].job == b.id
    drive.finish_all()
    assert (c.starts, c.ended, late.starts, late.ended, b.starts) == ([2], 52, [52], 92, [100])


def test_an_early_end_brings_the_reserved_job_forward():
    drive, (_, b, *_, late) = who_may_jump(a_ends=60)
    drive.finish_all()
    assert (late.ended, b.starts) == (92, [92])


@pytest.mark.parametrize("policy", [{"ordering": "fifo"}, {"ordering": "priority"}, {}])
@pytest.mark.parametrize("priority", [0, 100])
def test_the_rule_holds_under_every_ordering(policy, priority):
    drive = Drive(node(), policy={"preemption": False, **policy})
    drive.ask(0, gpus=6, run=100, limit=100)
    b = drive.ask(1, gpus=8, run=30, limit=30, priority=priority)
    short, long, endless = (
        drive.ask(second, gpus=2, run=50, limit=limit) for second, limit in ((2, 50), (3, 200), (4, 0))
    )
    drive.finish_all()
    assert (short.starts, b.starts) == ([2], [100])
    assert long.starts[0] >= 130
    assert endless.starts[0] >= 130


def test_passing_on_room_that_the_reserved_job_does_not_need_is_free():
    drive = Drive(node("n1"), node("n2", gpus=4))
    drive.ask(0, gpus=6, run=100, limit=100)
    b = drive.ask(1, gpus=8, run=30)
    endless = drive.ask(2, gpus=4)
    drive.finish_all()
    assert (endless.starts, b.starts) == ([2], [100])


@pytest.mark.parametrize("runs", [49, 50, 60])
def test_a_backfilled_jobs_time_limit_stays_its_own(runs):
    # chaos/slurm#43
    drive, (_, b, c, *_) = who_may_jump(c_runs=runs)
    drive.finish_all()
    assert drive.job(c.id).spec.time_limit_s == 50
    assert c.ended == 2 + min(runs, 50)
    assert drive.job(c.id).state == (JobState.SUCCEEDED if runs <= 50 else JobState.TIMED_OUT)
    assert b.starts == [100]


@pytest.mark.parametrize("separate", ["pool", "model"])
def test_a_head_that_waits_for_other_machines_holds_nobody_up(separate):
    # kubernetes-sigs/kueue#8309
    if separate == "pool":
        drive = Drive(node("x", pool="x"), node("y", pool="y"))
        to_x, to_y = {"pool": "x"}, {"pool": "y"}
    else:
        drive = Drive(node("x", model="X"), node("y", model="Y"))
        to_x, to_y = {"gpu_models": ["X"]}, {"gpu_models": ["Y"]}
    drive.ask(0, gpus=8, run=3600, limit=3600, **to_x)
    jx, jy = drive.ask(1, gpus=8, run=10, **to_x), drive.ask(2, gpus=8, run=100, limit=100, **to_y)
    drive.asks_of(4, 3, gpus=1, run=60, limit=60, **to_y)
    large = drive.ask(4, gpus=8, run=60, limit=60, **to_y)
    small = [drive.ask(5 + k, gpus=1, run=60, limit=60, **to_y) for k in range(10)]
    drive.finish_all()
    assert jy.starts == [2]
    assert large.starts == [162], "on Y the order of arrival holds"
    assert sorted(ask.starts[0] for ask in small) == [102] * 4 + [222] * 6
    assert jx.starts == [3600]


@pytest.mark.parametrize("policy", [{}, {"ordering": "fifo"}, {"ordering": "priority"}])
def test_an_endless_stream_of_small_jobs_does_not_starve_a_large_one(policy):
    drive = Drive(node(), policy=policy)
    small = [drive.ask(5 * k, gpus=1, run=60, limit=60) for k in range(120)]
    large = drive.ask(101, gpus=8, run=60, limit=60)
    drive.finish_all()
    assert 180 <= large.starts[0] <= 200
    older = [ask for k, ask in enumerate(small) if 5 * k <= 101]
    assert all(ask.starts[0] <= large.starts[0] for ask in older)
    assert all(drive.job(ask.id).state == JobState.SUCCEEDED for ask in small)


@pytest.mark.parametrize("limit", [0, 60])
@pytest.mark.parametrize("gpus", [4, 8])
def test_the_same_for_small_jobs_whose_end_nobody_knows_and_for_gangs(limit, gpus):
    drive = Drive(node("n1", gpus=4), node("n2", gpus=4))
    for k in range(120):
        drive.ask(5 * k, gpus=1, run=60, limit=limit)
    large = drive.ask(101, tasks=gpus // 2, gpus=2, run=60, limit=limit)
    drive.finish_all()
    assert large.starts[0] <= 260


def test_who_has_to_make_way_anyway_may_pass():
    drive = Drive(node())
    drive.ask(0, gpus=6, run=100, limit=100)
    b = drive.ask(1, gpus=8, run=30, limit=30)
    loose = drive.ask(2, gpus=2, service_class=ServiceClass.OPPORTUNISTIC)
    drive.finish_all()
    assert (loose.starts[0], b.starts) == (2, [100])
    assert len(drive.evicted) == 1


def test_a_limit_higher_up_is_no_reason_to_keep_machines_idle():
    drive = Drive(node(), groups=[group("q", limit=gpu_amount(4)), group("r")])
    drive.ask(0, gpus=4, group="q", run=100, limit=100)
    blocked = drive.ask(1, gpus=4, group="q", run=10)
    other = drive.ask(2, gpus=4, group="r")
    drive.finish_all()
    assert (other.starts, blocked.starts) == ([2], [100])


@settings(max_examples=20)
@given(st.lists(st.tuples(st.integers(1, 8), st.integers(1, 60), st.integers(0, 30)), min_size=2, max_size=10))
def test_where_ends_are_known_the_first_in_line_never_starts_later_because_others_passed(jobs):
    jobs.sort(key=lambda one: one[2])

    def first_blocked(*, backfill: bool) -> float | None:
        drive = Drive(node(), policy={"backfill": backfill, "ordering": "fifo"})
        asks = [drive.ask(at, gpus=gpus, run=run, limit=run) for gpus, run, at in jobs]
        drive.finish_all()
        return next((ask.starts[0] for ask, (*_, at) in zip(asks, jobs, strict=True) if ask.starts[0] > at), None)

    assert first_blocked(backfill=True) == first_blocked(backfill=False)

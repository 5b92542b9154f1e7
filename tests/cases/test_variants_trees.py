"""Public reports about trees of groups: lenders that go, guarantees of nothing, who borrows from whom, zeros."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cases.drive import Drive
from tests.make import gpu_amount, group, node

from gangline_core import facts as f
from gangline_core.door.draft import Draft
from gangline_core.door.removal import check_group_removal
from gangline_core.groups import Group, User, UserClass
from gangline_core.job import JobState
from gangline_core.limits.usage_by_class import recompute
from gangline_core.reasons import ReasonCode
from gangline_core.settings import check_group
from gangline_core.spec import ArraySpec, ServiceClass


def owed(path: str, gpus: float, **fields: Any) -> Group:
    return group(path, guaranteed=gpu_amount(gpus), **fields)


def remove(drive: Drive, path: str) -> None:
    """Take a group out of the tree as an administrator does, letting what runs there end."""
    assert check_group_removal(drive.state, path, drain=True) is None
    for name in [name for name in drive.state.kept.groups if name == path or name.startswith(f"{path}/")]:
        known = drive.state.kept.groups[name]
        drive.tell("admission", f.GroupSet(group=Group(**{**as_fields(known), "closing": True}), by="admin"))


def as_fields(known: Group) -> dict[str, Any]:
    return {name: getattr(known, name) for name in known.__struct_fields__}


# --- C: who lent goes (kubernetes-sigs/kueue#5937) --------------------------------------------------------------------


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("waiting", [0, 3])
def test_a_lender_that_is_taken_out_while_its_guarantee_is_lent_takes_nothing_from_who_runs(
    waiting: int, restart: bool
) -> None:
    drive = Drive(node(gpus=8), groups=[owed("top", 8), owed("top/lender", 4), owed("top/borrower", 4)])
    lent = drive.asks_of(8, 0, gpus=1, group="top/borrower", run=1000, stop=5)
    drive.until(5)
    jobs = drive.asks_of(waiting, 6, gpus=1, group="top/lender", run=50)
    drive.later(6.5, lambda: remove(drive, "top/lender"))
    late = drive.ask(7, gpus=1, group="top/lender")
    if restart:
        drive.later(8, drive.restart)
    drive.until(12)
    assert late.refused is not None
    assert late.refused.code in (ReasonCode.CLOSING, ReasonCode.UNKNOWN_GROUP)
    drive.until(100)
    assert all(ask.ended is not None for ask in jobs), "what was let in before ends"
    assert "top/lender" not in drive.state.kept.groups
    assert (len(drive.evicted), sum(drive.is_running(*lent))) == (waiting, 8)
    drive.finish_all()
    assert recompute(drive.state) == {}


@pytest.mark.parametrize("when", ["starting", "stopping", "growing", "suspended", "array half started"])
def test_a_group_that_is_taken_out_in_the_middle_of_its_jobs_goes_with_the_last_of_them(when: str) -> None:
    # volcano-sh/volcano#5960, #1737: states that nobody leaves any more, use that nobody gives back
    drive = Drive(node(gpus=8), groups=[group("q"), group("q/x"), group("r")])
    job = drive.ask(
        0, tasks=2, minimum=1, maximum=6, gpus=1, group="q/x", start=20, stop=20, run=300,
        array=ArraySpec(ranges=((0, 5, 1),), at_most=2) if when.startswith("array") else None,
    )  # fmt: skip
    drive.until({"starting": 10, "growing": 25}.get(when, 50))
    acts = {
        "stopping": lambda: drive.drop(job),
        "suspended": lambda: drive.tell("admission", f.HoldSet(job=job.id, held=True, by="ada")),
    }
    acts.get(when, lambda: None)()
    drive.until(drive.now + 1)
    remove(drive, "q")
    drive.restart()
    other = drive.ask(60, gpus=8, group="r", run=10)
    drive.until(900)
    if when == "suspended":
        assert "q" in drive.state.kept.groups, "it waits for its job as long as that waits"
        drive.tell("admission", f.HoldSet(job=job.id, held=False, by="ada"))
    drive.until(5000)
    assert not {"q", "q/x"} & drive.state.kept.groups.keys()
    assert other.ended is not None
    assert recompute(drive.state) == {holder: use for holder, use in drive.state.usage.items() if use} == {}


@pytest.mark.parametrize("limit", [{}, {"gpu_milli": 2000}])
def test_a_group_that_is_made_anew_while_its_jobs_still_run_counts_them(limit: dict[str, int]) -> None:
    # volcano-sh/volcano#5960: deleted and made again under its name, it knew nothing of what ran in it
    drive = Drive(node(gpus=8), groups=[group("q", limit=gpu_amount(8))])
    old = drive.asks_of(4, 0, gpus=1, group="q", run=100)
    drive.until(5)
    remove(drive, "q")
    drive.until(6)
    drive.set_group("q", limit=limit)
    late = drive.ask(7, gpus=1, group="q", run=10)
    drive.until(8)
    assert (drive.used("q"), sum(drive.is_running(*old))) == (4 + (not limit), 4)
    assert bool(late.starts) is not bool(limit)
    drive.finish_all()
    assert "q" in drive.state.kept.groups
    assert late.ended is not None


# --- C, E: trees of promises (kubernetes-sigs/kueue#3779, #7016, #5289) -----------------------------------------------


def test_a_promise_of_the_parent_alone_is_taken_back_step_by_step_and_nobody_comes_straight_back() -> None:
    # kubernetes-sigs/kueue#3779 as reported: whoever is evicted is made anew at once
    groups = [owed("g", 3), group("g/q"), group("a"), group("b")]
    drive = Drive(node(gpus=3), groups=groups)
    first = [drive.ask(k, gpus=1, group="a") for k in range(2)] + [drive.ask(2, gpus=0.5, group="b")]
    drive.until(5)
    half = drive.ask(10, gpus=0.5, group="g/q")
    whole = drive.ask(20, gpus=1, group="g/q")
    again = [drive.ask(21 + 3 * k, gpus=0.5, group="b", run=40) for k in range(10)]
    drive.until(400)
    assert drive.is_running(half, whole) == [True, True]
    assert len(drive.evicted) <= 3
    assert circles(drive) == set()
    assert sum(drive.is_running(*first)) + sum(drive.is_running(*again)) >= 1


def circles(drive: Drive) -> set[tuple[int, int]]:
    pairs = {(eviction.victim, eviction.beneficiary) for eviction in drive.evicted}
    return {pair for pair in pairs if pair[::-1] in pairs}


@pytest.mark.parametrize("wanted", [1, 2, 3, 4])
def test_the_sum_of_what_cousins_borrow_never_takes_what_a_branch_is_owed(wanted: int) -> None:
    # kubernetes-sigs/kueue#5289: two borrow from a third, whose own job then was let in beside them
    groups = [owed("ab", 4), owed("ab/a", 2), owed("ab/b", 2), owed("c", 4), group("c/x")]
    drive = Drive(node(gpus=8), groups=groups)
    drive.asks_of(6, 0, gpus=1, group="ab/a", stop=2)
    drive.asks_of(6, 0, gpus=1, group="ab/b", stop=2)
    drive.until(5)
    assert drive.used() == 8
    owner = drive.ask(10, gpus=wanted, group="c/x")
    drive.until(20)
    assert drive.is_running(owner) == [True]
    assert (drive.used("c"), drive.used("ab"), len(drive.evicted)) == (wanted, 8 - wanted, wanted)
    assert min(drive.used("ab/a"), drive.used("ab/b")) >= 2, "nobody goes below what it is owed itself"


@pytest.mark.parametrize("ordering", ["fifo", "weighted", "fair_share", "dominant_resource", "priority"])
def test_twice_as_many_single_jobs_as_there_is_room_for_evict_nobody_under_any_ordering(ordering: str) -> None:
    # volcano-sh/volcano#377
    groups = [group("a"), group("b", weight=3), owed("c", 0)]
    drive = Drive(*(node(f"n{k}", gpus=3) for k in range(4)), groups=groups, policy={"ordering": ordering})
    asks = [drive.ask(k % 3, gpus=1, group="abc"[k % 3], run=50) for k in range(24)]
    drive.finish_all()
    assert drive.evicted == []
    assert max(ask.ended or 0 for ask in asks) <= 110


# --- B, C: zero is zero and absent is no limit (apache/yunikorn-site#423, apache/yunikorn-core#638) -------------------


@pytest.mark.parametrize("holder", ["group", "above", "user", "every user", "class of users"])
@pytest.mark.parametrize("dimension", ["gpu_milli", "gpu_milli:A100", "gpu_memory_mib", "jobs", "device:rdma"])
def test_a_limit_of_nothing_refuses_whoever_asks_for_any_of_it_and_nobody_else(dimension: str, holder: str) -> None:
    none = {dimension: 0}
    fields: dict[str, dict[str, Any]] = {"group": {"limit": none}, "every user": {"user_limit": none}}
    users = {"user": [User(name="ada", group="top/q", limit=none)]}
    of_class = User(name="ada", group="top/q", of_class="students")
    drive = Drive(
        node(devices={"rdma": 8}),
        groups=[group("top", limit=none if holder == "above" else {}), group("top/q", **fields.get(holder, {}))],
        users=users.get(holder, [of_class] if holder.startswith("class") else []),
    )
    if holder.startswith("class"):
        drive.tell("admission", f.ClassSet(user_class=UserClass(name="students", limit=none), by="admin"))
    asks = drive.ask(0, gpus=1, gpu_models=["A100"], devices={"rdma": 1}, group="top/q")
    by_memory = drive.ask(0, gpus=0, gpu_memory_mib=1000, gpu_models=["A100"], devices={"rdma": 1}, group="top/q")
    cpu = drive.ask(1, gpus=0, cpus=1, group="top/q", run=5)
    drive.until(50)
    for ask in (asks, by_memory):
        assert ask.refused is not None or drive.is_waiting(ask) == [True], (dimension, holder)
        assert not ask.starts
    assert bool(cpu.starts) is (dimension != "jobs")
    assert drive.used("top") == 0


@pytest.mark.parametrize("weights", [(0, 1), (1, 0), (0, 0), (1, 1_000_000), (10**9, 1)])
@pytest.mark.parametrize("ordering", ["fair_share", "dominant_resource", "weighted"])
def test_weights_of_nothing_and_beyond_measure_are_refused_or_stop_nobody_for_ever(
    weights: tuple[int, int], ordering: str
) -> None:
    drive = Drive(node(gpus=4), groups=[group("a"), group("b")], policy={"ordering": ordering})
    for path, weight in zip("ab", weights, strict=True):
        wanted = group(path, weight=weight)
        if check_group(drive.state, Draft(), wanted) is None:
            drive.tell("admission", f.GroupSet(group=wanted, by="admin"))
    asks = [drive.ask(k % 2, gpus=1, group="ab"[k % 2], run=20) for k in range(16)]
    drive.finish_all()
    assert all(ask.ended is not None for ask in asks)


# --- B: limits fall below use while things grow, end and come back (apache/yunikorn-core#1068) ------------------------


@settings(max_examples=12, deadline=None)
@given(st.data())
def test_however_limits_of_users_jump_what_runs_goes_on_and_nothing_is_let_in_beyond_the_newest(
    data: st.DataObject,
) -> None:
    drive = Drive(node(gpus=8), groups=[group("q")], users=[User(name="ada", group="q")])
    asks = [
        drive.ask(0, tasks=2, minimum=1, maximum=5, gpus=1, group="q", stop=3, run=400),
        *(drive.ask(10 * k, gpus=1, group="q", run=60, start=4) for k in range(8)),
    ]
    limits = data.draw(st.lists(st.sampled_from([0, 1, 2, 4, 8]), min_size=3, max_size=6))
    for number, most in enumerate(limits):
        user = User(name="ada", group="q", limit=gpu_amount(most))
        drive.later(15 + 25 * number, lambda user=user: drive.tell("admission", f.UserSet(user=user, by="admin")))
    most, used = 8.0, 0.0
    for second in range(0, 20 + 25 * len(limits)):
        drive.until(second + 0.5)
        step, inside = divmod(second - 15, 25)
        if second >= 15 and inside == 0:
            most = limits[step] if step < len(limits) else most
        assert drive.used("q") <= max(most, used), "it only falls until it is within"
        used = drive.used("q")
    assert not drive.evicted
    drive.tell("admission", f.UserSet(user=User(name="ada", group="q"), by="admin"))
    drive.finish_all()
    assert all(ask.refused is not None or ask.ended is not None for ask in asks)


@pytest.mark.parametrize("service_class", list(ServiceClass))
def test_a_guarantee_cut_to_nothing_under_running_work_makes_it_a_borrower_and_nothing_worse(
    service_class: ServiceClass,
) -> None:
    drive = Drive(node(gpus=4), groups=[owed("a", 4), owed("b", 0)])
    runs = drive.asks_of(4, 0, gpus=1, group="a", service_class=service_class, stop=2)
    drive.until(5)
    drive.set_group("a", guaranteed=gpu_amount(0))
    drive.until(50)
    assert (drive.evicted, sum(drive.is_running(*runs))) == ([], 4)
    drive.set_group("b", guaranteed=gpu_amount(2))
    owner = drive.ask(60, gpus=2, group="b")
    drive.until(70)
    assert drive.is_running(owner) == [True]
    assert (len(drive.evicted), drive.used("a")) == (2, 2)
    drive.set_group("a", guaranteed=gpu_amount(2))
    drive.until(200)
    assert len(drive.evicted) == 2, "each has what it is owed"
    assert all(drive.job(ask.id).state in (JobState.RUNNING, JobState.WAITING) for ask in runs)

"""Further public reports, played with this scheduler's words: what another system did wrong, and what holds here."""

from typing import Any

import pytest
from tests.cases.drive import Drive
from tests.make import gpu_amount, group, node, role

from gangline_core import facts as f
from gangline_core.spec import ServiceClass

RECLAIM, PRIORITY, OPPORTUNISTIC = "reclaim", "priority", "opportunistic"


# --- nobody more goes than has to (kubernetes-sigs/kueue#10131 and #1561) ---------------------------------------------


@pytest.mark.parametrize("parts", [1, 4])
@pytest.mark.parametrize("limit", [{}, gpu_amount(8)])
@pytest.mark.parametrize("urgent", ["a", "b"])
def test_of_borrowers_of_unlike_priority_the_lower_ones_go_and_nobody_goes_twice(
    urgent: str, limit: dict[str, int], parts: int
) -> None:
    groups = [group("t", limit=limit), group("t/a"), group("t/b"), group("t/c", guaranteed=gpu_amount(4))]
    drive = Drive(node(gpus=8), groups=groups)
    borrowers = {
        name: drive.asks_of(parts, 0, gpus=4 // parts, group=f"t/{name}", priority=10 * (name == urgent), run=1000)
        for name in "ab"
    }
    owner = drive.ask(10, gpus=4, group="t/c", run=100)
    drive.until(20)
    assert drive.is_running(owner) == [True]
    assert all(drive.is_running(*borrowers[urgent]))
    assert len(drive.evicted) == parts
    drive.finish_all()


def _victim_and_rule(rule: str, drive: Drive, stop: float) -> dict[str, Any]:
    """One of four GPUs that makes way by this rule; what those have in common for whom it does."""
    of = {RECLAIM: "b", PRIORITY: "b", OPPORTUNISTIC: "a"}[rule]
    kind = ServiceClass.OPPORTUNISTIC if rule == OPPORTUNISTIC else ServiceClass.BURSTABLE
    drive.ask(1, gpus=4, group=of, run=1000, stop=stop, service_class=kind)
    return {"level": "high"} if rule == PRIORITY else {}


@pytest.mark.parametrize("later", [0, 1])
@pytest.mark.parametrize("stop", [0, 20])
@pytest.mark.parametrize("rule", [RECLAIM, PRIORITY, OPPORTUNISTIC])
def test_what_one_victim_leaves_beside_its_heir_is_waited_for_before_another_goes(
    rule: str, stop: float, later: float
) -> None:
    drive = Drive(node(gpus=8), groups=[group("a", guaranteed=gpu_amount(4)), group("b")])
    drive.ask(0, gpus=4, group="b", run=1000, stop=stop)
    common = _victim_and_rule(rule, drive, stop)
    heirs = [drive.ask(10 + later * k, gpus=2, group="a", run=100, **common) for k in range(2)]
    drive.until(10 + stop + later)
    assert drive.is_running(*heirs) == [True, True]
    assert [(one.rule, one.beneficiary) for one in drive.evicted] == [(rule, heirs[0].id)]
    drive.finish_all()


def test_what_victims_leave_of_cpus_memory_and_shares_is_waited_for_too() -> None:
    drive = Drive(node(gpus=2, cpus=16))
    for gpus in (1, 1):
        drive.ask(0, gpus=gpus, cpus=8, run=1000, stop=20)
    heirs = [drive.ask(10 + k, gpus=gpus, cpus=2, level="high", run=100) for k, gpus in enumerate((0.5, 0.3, 0.2))]
    drive.until(15)
    assert len(drive.evicted) == 1
    assert not any(drive.is_running(*heirs))
    late = drive.ask(16, gpus=0.2, cpus=2, level="high", run=100)
    drive.until(17)
    assert len(drive.evicted) == 2
    drive.until(40)
    assert all(drive.is_running(*heirs, late))
    drive.finish_all()


def test_an_heir_that_is_cancelled_leaves_its_part_to_the_other_and_to_whom_waits() -> None:
    drive = Drive(node(gpus=8))
    victim = drive.ask(0, gpus=8, run=1000, stop=30)
    first = drive.ask(10, gpus=4, level="high", run=100)
    second = drive.ask(11, gpus=2, level="high", run=100)
    drive.later(20, lambda: drive.drop(first))
    third = drive.ask(21, gpus=6, level="high", run=100)
    drive.until(41)
    assert drive.is_running(second, third) == [True, True]
    assert [one.victim for one in drive.evicted] == [victim.id]
    drive.finish_all()


def test_below_a_limit_what_one_victim_leaves_is_enough_for_two() -> None:
    drive = Drive(*[node(f"n{k}", gpus=8) for k in (1, 2)], groups=[group("q", limit=gpu_amount(8))])
    drive.ask(0, gpus=4, group="q", run=1000, stop=20)
    drive.ask(1, gpus=4, group="q", run=1000, stop=20)
    heirs = [drive.ask(10 + k, gpus=2, group="q", level="high", run=100) for k in range(2)]
    drive.until(35)
    assert drive.is_running(*heirs) == [True, True]
    assert len(drive.evicted) == 1
    drive.finish_all()


# --- numbers that are told (kai-scheduler/KAI-Scheduler#1668) ---------------------------------------------------------


def test_who_asks_by_memory_is_told_what_that_is_of_a_card_below_its_limit() -> None:
    drive = Drive(node(gpus=2, gpu_memory_mib=40_960), groups=[group("q", limit=gpu_amount(1))])
    asks = [drive.ask(0, gpus=0, gpu_memory_mib=20_480, group="q", run=100) for _ in range(3)]
    drive.until(1)
    assert drive.why(asks[2]) == "Group q uses 1 of 1 GPUs; the job needs 0.5 more."


# --- sizes that were asked for (kubernetes-sigs/kueue#9015) -----------------------------------------------------------


def test_a_size_that_was_asked_for_and_may_not_be_yet_is_told_with_its_reason() -> None:
    drive = Drive(node(gpus=8), groups=[group("q", limit=gpu_amount(4))], policy={"elastic_growth": False})
    steps = [role(tasks=3, minimum=3, maximum=9, sizes=(3, 6, 9))]
    job = drive.ask(0, roles=steps, group="q", run=500)
    drive.until(1)
    drive.tell("admission", f.ResizeAsked(job=job.id, role="worker", size=6, by="ada"))
    drive.until(2)
    assert drive.job(job.id).sizes == {"worker": 3}
    limited = "Asked for 6 tasks of worker, has 3: Group q uses 3 of 4 GPUs; the job needs 3 more."
    assert drive.notes(job) == limited
    drive.ask(3, gpus=4, run=30)
    drive.until(3)
    drive.set_group("q")
    drive.until(4)
    assert drive.notes(job) == "Asked for 6 tasks of worker, has 3: there is no room for 3 more."
    drive.until(35)
    assert drive.job(job.id).sizes == {"worker": 6}
    assert drive.notes(job) == ""
    drive.finish_all()


# --- whom a round has no time for (flux-framework/flux-sched#1210) ----------------------------------------------------


def test_of_more_equal_jobs_than_a_round_looks_at_all_are_told_what_keeps_them_back() -> None:
    drive = Drive(node(gpus=8), policy={"candidates_per_shape": 8})
    drive.ask(0, gpus=8, run=100)
    many = drive.asks_of(30, 1, gpus=1, run=10)
    drive.until(2)
    assert {drive.why(one) for one in many} == {"Needs 1 GPU; at its turn 0 of 8 suitable ones were free."}
    drive.finish_all()


def test_hundreds_of_unlike_jobs_for_a_closed_node_keep_nobody_from_an_open_one() -> None:
    drive = Drive(node("n1", labels={"kind": "fat"}), node("n2"), policy={"candidates_max": 100})
    drive.later(0, lambda: drive.drain("n1"))
    for k in range(300):
        drive.ask(1, gpus=1, memory_mib=1000 + k, node_selector={"kind": "fat"}, run=10)
    late = [drive.ask(2, gpus=8, run=10), drive.ask(2, gpus=1, run=10)]
    drive.until(30)
    assert [ask.starts for ask in late] == [[2], [12]]
    drive.drain("n1", drained=False)
    drive.finish_all()


@pytest.mark.parametrize("ordering", ["fifo", "weighted", "fair_share", "priority"])
@pytest.mark.parametrize("who", [{"group": "a"}, {"group": "b", "priority": 5}])
def test_behind_more_jobs_than_a_round_looks_at_who_is_owed_or_more_important_gets_in(
    ordering: str, who: dict[str, Any]
) -> None:
    groups = [group("a", guaranteed=gpu_amount(4)), group("b")]
    drive = Drive(node(gpus=8), groups=groups, policy={"ordering": ordering, "candidates_max": 20})
    drive.asks_of(4, 0, gpus=2, group="b", run=100)
    for k in range(50):
        drive.ask(1, gpus=2, group="b", limit=5000 + k, run=10)
    late = drive.ask(2, gpus=2, run=10, limit=9999, **who)
    drive.until(3)
    assert drive.is_running(late) == [True]
    assert len(drive.evicted) == 1
    drive.finish_all()


def test_behind_more_jobs_than_a_round_looks_at_who_ends_in_time_still_passes() -> None:
    drive = Drive(node(gpus=8), policy={"candidates_max": 20})
    drive.ask(0, gpus=6, run=100, limit=100)
    head = drive.ask(1, gpus=8, run=10, limit=10)
    for k in range(50):
        drive.ask(2, gpus=1, run=10, limit=5000 + k)
    late = [drive.ask(3, gpus=1, run=10, limit=limit) for limit in (50, 60)]
    drive.until(4)
    assert drive.is_running(*late) == [True, True]
    drive.finish_all()
    assert head.starts == [100]


def test_what_a_far_victim_gives_back_below_a_limit_is_counted_for_each_heir_and_keeps_no_other_from_its_room() -> None:
    nodes = [node("n1", gpus=1), node("n2", gpus=1, model="V100"), node("n3", gpus=1, model="H100")]
    drive = Drive(*nodes, groups=[group("q", limit=gpu_amount(2))])
    drive.ask(0, gpus=1, gpu_models=("A100",), group="q", run=1000, stop=30)
    drive.ask(0, gpus=1, gpu_models=("H100",), group="q", run=1000, stop=5)
    near = drive.ask(10, gpus=0.5, gpu_models=("A100",), group="q", level="high", run=100)
    far = drive.ask(11, gpus=0.5, gpu_models=("V100",), group="q", level="high", run=100)
    other = drive.ask(12, gpus=1, gpu_models=("H100",), group="q", level="high", run=100)
    drive.until(20)
    assert drive.is_running(other) == [True]
    assert other.starts == [17]
    drive.until(45)
    assert near.starts == far.starts == [40]
    assert len(drive.evicted) == 2
    drive.finish_all()

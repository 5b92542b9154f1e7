"""The same kinds of trouble in other shapes: gangs that break, leaks of quota, strict order, who evicts whom."""

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cases.drive import Drive
from tests.cases.test_borrowing import owed
from tests.make import gpu_amount, group, node, role

from gangline_core import facts as f
from gangline_core.cluster import LevelRule
from gangline_core.job import JobState
from gangline_core.limits.usage_by_class import recompute
from gangline_core.ordering import ORDERINGS
from gangline_core.reasons import ReasonCode
from gangline_core.spec import ArraySpec

ORDERS = [name for name in ORDERINGS if name != "gavel"]


def singles(*names: str, **fields: Any) -> list[Any]:
    return [node(name, gpus=1, **fields) for name in names]


# --- gangs that break (A) -----------------------------------------------------------------------------------


@pytest.mark.parametrize("ordering", ORDERS)
@pytest.mark.parametrize("repair_s", [0, 600])
def test_under_every_ordering_a_broken_gang_goes_before_a_younger_equal_job(ordering: str, repair_s: int) -> None:
    # A share-based order would put whoever holds nothing first, for ever.
    drive = Drive(*singles("n1", "n2", "n3"), policy={"ordering": ordering}, groups=[group("a"), group("b")])
    gang = drive.ask(0, tasks=3, gpus=1, group="a", repair_s=repair_s, run=1000)
    drive.later(100, lambda: drive.lose("n2"))
    drive.later(150, drive.restart)
    drive.ask(160, gpus=1, group="b", run=2000)
    drive.later(200, lambda: drive.see(node("n2", gpus=1)))
    drive.until(5000)
    held = len(drive.job(gang.id).tasks)
    assert held in (0, 3)
    if repair_s:
        assert gang.ended == 1000
    drive.finish_all()
    assert drive.job(gang.id).state == JobState.SUCCEEDED


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_however_many_members_a_gang_of_two_roles_loses_it_holds_all_or_nothing_afterwards(lost: int) -> None:
    drive = Drive(*[node(f"n{k}", gpus=2) for k in range(4)])
    gang = drive.ask(0, roles=[role("a", tasks=2, gpus=2), role("b", tasks=4, gpus=1)], repair_s=30, stop=4, run=500)
    for number in range(lost):
        drive.later(100 + number, lambda number=number: drive.lose(f"n{number}"))
    small = drive.ask(120, gpus=1, run=5000)
    drive.until(140)
    assert len(drive.job(gang.id).tasks) == 0, "the time for repair is over"
    assert drive.is_running(small) == [True]
    for number in range(lost):
        drive.later(300, lambda number=number: drive.see(node(f"n{number}", gpus=2)))
    drive.until(400)
    assert len(drive.job(gang.id).tasks) in (0, 6)
    drive.finish_all()
    assert gang.ended is not None


@pytest.mark.parametrize("failing", [0, 2, 4])
@pytest.mark.parametrize("retries", [0, 2])
def test_whichever_member_cannot_be_provisioned_all_others_are_given_back(failing: int, retries: int) -> None:
    drive = Drive(*[node(f"n{k}", gpus=1) for k in range(5)], groups=[group("q", limit=gpu_amount(5))])
    gang = drive.ask(0, tasks=5, gpus=1, start=1000, stop=1, retries=retries, group="q")
    other = drive.ask(20, tasks=5, gpus=1, run=10, group="q")

    def refuse() -> None:
        tasks = drive.tasks(gang.id)
        if len(tasks) > failing:
            name = tasks[failing].id
            exited = f.TaskExited(task=name, cause=f.ExitCause.START_FAILED, error="no capacity")
            drive.tell("agent.sim", exited, f.GpusEmpty(tasks=(name,)))

    for attempt in range(retries + 1):
        drive.later(30 + 20 * attempt, refuse)
    drive.until(200)
    assert drive.job(gang.id).state == JobState.FAILED
    assert "no capacity" in drive.why(gang)
    assert other.ended is not None
    assert (drive.used("q"), drive.used()) == (0, 0)


@pytest.mark.parametrize(("core", "helpers", "lost"), [(1, 2, 1), (3, 4, 3), (2, 3, 3)])
def test_stranded_helpers_of_any_number_give_their_room_back_and_the_core_runs_on(
    core: int, helpers: int, lost: int
) -> None:
    drive = Drive(node("home", gpus=core + helpers - lost), *singles(*(f"s{k}" for k in range(lost)), memory_mib=4096))
    parts = [
        role("core", tasks=core, memory_mib=8192),
        role("helper", tasks=helpers, minimum=0, sizes=(helpers,), memory_mib=2048),
    ]
    job = drive.ask(0, roles=parts, repair_s=20, stop=2)
    drive.until(10)
    before = [task.id for task in drive.tasks(job.id) if task.role == "core"]
    for number in range(lost):
        drive.later(50, lambda number=number: drive.lose(f"s{number}"))
    small = drive.ask(60, gpus=1, priority=-1, run=5)
    drive.until(90)
    assert [task.id for task in drive.tasks(job.id) if task.role == "core"] == before
    assert len([task for task in drive.tasks(job.id) if task.role == "helper"]) in (0, helpers)
    assert small.starts or helpers == lost
    assert drive.job(job.id).attempt == 1


# --- leaks of quota (B) -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dimension", ["gpu_milli", "cpu_milli", "memory_mib", "device:rdma"])
@pytest.mark.parametrize("retries", [0, 1])
def test_a_restart_that_misses_its_time_to_start_leaves_no_dimension_taken(dimension: str, retries: int) -> None:
    per = {"gpu_milli": 1000, "cpu_milli": 2000, "memory_mib": 4096, "device:rdma": 1}[dimension]
    drive = Drive(node(devices={"rdma": 8}), groups=[group("q", limit={dimension: 4 * per})])
    shape: dict[str, Any] = {"tasks": 4, "gpus": 1, "cpus": 2, "memory_mib": 4096, "devices": {"rdma": 1}}
    gang = drive.ask(0, **shape, group="q", start=1, retries=1 + retries, start_limit_s=30, run=1000)
    drive.until(50)
    gang.start = 40
    waits = drive.ask(60, **shape, group="q", run=10)
    drive.later(100, lambda: drive.fail(gang))
    seen = set()
    for second in range(100, 400):
        drive.until(second)
        job = drive.job(gang.id)
        seen.add(job.state)
        assert bool(job.tasks) == (job.state in (JobState.STARTING, JobState.RUNNING, JobState.STOPPING))
    assert waits.ended is not None
    assert recompute(drive.state) == {holder: use for holder, use in drive.state.usage.items() if use}
    drive.finish_all()
    assert drive.state.usage.get("q", {}).get(dimension, 0) == 0


@pytest.mark.parametrize("least", [1, 2, 5])
def test_members_that_leave_while_a_gang_assembles_are_counted_out_once(least: int) -> None:
    drive = Drive(node(), groups=[group("q", limit={"gpu_milli": 8000, "cpu_milli": 16_000})])
    gang = drive.ask(0, tasks=6, minimum=least, maximum=6, gpus=1, cpus=2, group="q", start=10, stop=3)
    seen = []
    drive.until(20)
    drive.tell("admission", f.ResizeAsked(job=gang.id, role="worker", size=least, by="ada"))
    for second in range(20, 40):
        drive.until(second)
        seen.append(drive.used("q"))
    assert (seen[0], seen[-1]) == (6, least)
    assert sorted(seen, reverse=True) == seen
    drive.drop(gang)
    drive.finish_all()
    assert drive.used("q") == 0


@settings(max_examples=20)
@given(st.data())
def test_a_growing_job_that_is_killed_while_members_start_never_makes_usage_negative(data: st.DataObject) -> None:
    drive = Drive(node(), groups=[group("q", limit=gpu_amount(8))])
    gang = drive.ask(0, tasks=2, minimum=1, maximum=6, gpus=1, group="q", start=5, stop=2)
    drive.until(data.draw(st.integers(1, 70)))
    acts = [lambda: drive.drop(gang), drive.restart, lambda: drive.until(drive.now + 1)]
    acts += [
        lambda name=task.id: drive.tell("agent.sim", f.GpusEmpty(tasks=(name, name))) for task in drive.tasks(gang.id)
    ]
    for act in data.draw(st.permutations(acts)):
        act()
        drive.check_books()
    drive.drop(gang)
    drive.until(200)
    assert (drive.used("q"), drive.used()) == (0, 0)


# --- lending and order (C, D) -------------------------------------------------------------------------------


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(("owned", "first", "head"), [(4, 1, 4), (6, 4, 5), (8, 2, 7)])
def test_a_head_that_waits_for_its_own_group_lends_all_that_idles(
    owned: int, first: int, head: int, strict: bool
) -> None:
    levels = {"normal": LevelRule(strict=True)} if strict else {}
    groups = [owed("top", owned), owed("top/g", owned), group("e"), group("e/x")]
    drive = Drive(node(gpus=owned), groups=groups, policy={"levels": levels})
    drive.ask(0, tasks=first, gpus=1, group="top/g", run=100)
    waits = drive.ask(1, tasks=head, gpus=1, group="top/g", run=50)
    lent = [drive.ask(2, gpus=1, group="e/x", level="low", stop=1) for _ in range(owned)]
    drive.until(99)
    assert drive.used() == owned, "nothing idles"
    drive.until(102)
    assert drive.is_running(waits) == [True]
    assert sum(drive.is_running(*lent)) == owned - head


@pytest.mark.parametrize("separate", ["models", "labels", "taints"])
def test_strict_order_couples_only_those_who_could_use_the_same_machines(separate: str) -> None:
    fields: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "models": ({"gpu_models": ["X"]}, {"gpu_models": ["Y"]}),
        "labels": ({"node_selector": {"zone": "x"}}, {"node_selector": {"zone": "y"}}),
        "taints": ({"exclude_nodes": ("y",)}, {"exclude_nodes": ("x",)}),
    }
    to_x, to_y = fields[separate]
    drive = Drive(
        node("x", model="X", labels={"zone": "x"}),
        node("y", model="Y", labels={"zone": "y"}),
        policy={"levels": {"normal": LevelRule(strict=True)}, "ordering": "fifo"},
    )
    drive.ask(0, gpus=8, run=3600, limit=3600, **to_x)
    jx, jy = drive.ask(1, gpus=8, run=10, **to_x), drive.ask(2, gpus=8, run=100, limit=100, **to_y)
    large = drive.ask(3, gpus=8, run=60, limit=60, **to_y)
    small = [drive.ask(4 + k, gpus=1, run=10, limit=10, **to_y) for k in range(5)]
    drive.finish_all()
    assert (jy.starts, large.starts, jx.starts) == ([2], [102], [3600])
    assert all(ask.starts == [162] for ask in small), "on Y nobody passes"


@pytest.mark.parametrize(("gpus", "owes", "ends"), [(8, 2, 2), (12, 3, 3), (6, 0, 0)])
def test_beyond_its_guarantee_a_user_waits_for_the_others_jobs_and_is_told_so(gpus: int, owes: int, ends: int) -> None:
    groups = [owed("a", owes) if owes else group("a"), owed("b", owes) if owes else group("b")]
    drive = Drive(node(gpus=gpus), groups=groups)
    drive.asks_of(gpus, 0, gpus=1, group="a")
    late = drive.asks_of(gpus, 1, gpus=1, group="b")
    drive.until(50)
    assert (drive.used("b"), len(drive.evicted)) == (ends, ends)
    waiting = [ask for ask in late if drive.is_waiting(ask) == [True]]
    assert all(drive.code(ask) == ReasonCode.INSUFFICIENT_GPUS for ask in waiting)
    if owes:
        assert all("what goes beyond a guarantee is only lent" in drive.notes(ask) for ask in waiting)
    drive.restart()
    drive.until(100)
    assert len(drive.evicted) == ends


# --- who evicts whom (E) ------------------------------------------------------------------------------------


@settings(max_examples=20)
@given(st.data())
def test_with_arrays_ranges_and_shares_changes_end_too_and_nobody_evicts_each_other(data: st.DataObject) -> None:
    paths = ["a", "a/x", "b", "b/y"]
    groups = [owed("a", 4), owed("a/x", data.draw(st.integers(0, 4))), owed("b", 3), group("b/y")]
    ordering = data.draw(st.sampled_from(ORDERS))
    drive = Drive(node("n1", gpus=4), node("n2", gpus=4), groups=groups, policy={"ordering": ordering})
    shapes: list[dict[str, Any]] = [
        {"gpus": 0.5},
        {"tasks": 3, "minimum": 1, "maximum": 4, "gpus": 1},
        {"gpus": 1, "array": ArraySpec(ranges=((0, 3, 1),), at_most=2)},
        {"tasks": 2, "gpus": 2},
        {"gpus": 0, "gpu_memory_mib": 20_000},
    ]
    for _ in range(data.draw(st.integers(3, 9))):
        drive.ask(
            data.draw(st.sampled_from([0, 5])),
            **data.draw(st.sampled_from(shapes)),
            group=data.draw(st.sampled_from(paths)),
            priority=data.draw(st.integers(0, 2)),
            stop=data.draw(st.sampled_from([0, 4])),
            run=data.draw(st.sampled_from([20, 60])),
        )
    drive.finish_all()
    pairs = {(eviction.victim, eviction.beneficiary) for eviction in drive.evicted}
    assert not {(beneficiary, victim) for victim, beneficiary in pairs} & pairs


@pytest.mark.parametrize("tasks", [1, 2])
def test_one_of_several_victims_that_never_dies_is_given_up_and_a_gang_finds_other_nodes(tasks: int) -> None:
    drive = Drive(*[node(f"n{k}", gpus=2) for k in range(4)])
    stuck = drive.ask(0, gpus=2, stop=10_000_000, grace_s=10)
    others = [drive.ask(0.1, gpus=2, grace_s=10, priority=1, stop=3) for _ in range(3)]
    high = drive.ask(20, tasks=tasks, gpus=2, priority=100)
    drive.until(150)
    assert drive.is_running(high) == [True]
    assert high.starts[0] <= 20 + 10 + 60
    nodes = {task.node for task in drive.tasks(stuck.id)}
    assert not nodes & set(drive.where(high))
    assert sum(drive.is_running(*others)) == 3 - tasks


@settings(max_examples=20)
@given(st.permutations([6, 3, 0, 0]), st.integers(1, 8), st.integers(0, 1000))
def test_whoever_is_most_over_its_share_gives_first_and_nobody_at_its_share(
    over: list[int], wanted: int, seed: int
) -> None:
    shares = [4, 5, 6, 4]
    drive = Drive(
        *[node(f"n{k}", gpus=4) for k in range(9)],
        groups=[*(owed(f"q{k}", share) for k, share in enumerate(shares)), owed("new", 8)],
    )
    number = itertools.count(seed)
    for k, extra in enumerate(over):
        for _ in range(shares[k] + extra):
            drive.ask(next(number) * 7 % 50, gpus=1, group=f"q{k}")
    drive.until(90)
    free = 36 - sum(shares) - sum(over)
    drive.asks_of(wanted, 100, gpus=1, group="new")
    drive.until(150)
    assert drive.used("new") == wanted
    gone = [drive.job(eviction.victim).spec.group for eviction in drive.evicted]
    assert len(gone) == max(0, wanted - free)
    assert all(over[int(path[1])] > 0 for path in gone)
    most = f"q{over.index(6)}"
    assert gone[: min(3, len(gone))] == [most] * min(3, len(gone))


@pytest.mark.parametrize("event", ["node of another", "restart", "victim ends", "limit edit elsewhere"])
def test_a_plan_over_three_kinds_of_nodes_is_kept_whatever_happens_beside_it(event: str) -> None:
    kinds = "XYZ"
    drive = Drive(
        *[node(f"{kind}{k}", model=kind) for kind in kinds for k in range(3)], groups=[group("q"), group("r")]
    )
    for kind in kinds:
        drive.asks_of(3, 0, gpus=8, gpu_models=[kind], stop=60, group="q")
    parts = [role(kind.lower(), tasks=1, gpus=8, gpu_models=[kind]) for kind in kinds]
    high = drive.ask(10, roles=parts, priority=100, group="q")
    drive.until(11)
    [claim] = drive.state.kept.claims.values()
    busy = {place.node for place in claim.placement.tasks}
    idle = next(name for name in ("X0", "X1", "X2") if name not in busy)
    acts = {
        "node of another": lambda: drive.lose(idle),
        "restart": drive.restart,
        "victim ends": lambda: drive.fail(drive.asks[drive.evicted[0].victim], code=0),
        "limit edit elsewhere": lambda: drive.set_group("r", limit=gpu_amount(1)),
    }
    drive.later(20, acts[event])
    for kind in kinds:
        drive.ask(25, gpus=8, gpu_models=[kind], priority=-1, group="q")
    drive.until(69)
    assert [kept.placement for kept in drive.state.kept.claims.values()] == [claim.placement]
    drive.until(71)
    assert high.starts == [70]
    assert len(drive.evicted) == 3


@pytest.mark.parametrize("tasks", [1, 4])
def test_a_gang_that_is_evicted_while_it_starts_is_evicted_once_and_shares_no_device(tasks: int) -> None:
    drive = Drive(*[node(f"n{k}", gpus=1) for k in range(tasks)])
    low = drive.ask(0, tasks=tasks, gpus=1, start=60, stop=2)
    high = drive.ask(5, tasks=tasks, gpus=1, priority=100, run=10)
    later = drive.ask(5.5, gpus=1, priority=100, run=10)
    drive.later(6, drive.restart)
    drive.until(7)
    assert drive.is_running(high) == [True]
    drive.until(200)
    assert [eviction.victim for eviction in drive.evicted] == [low.id]
    assert later.starts == [17]
    assert low.starts

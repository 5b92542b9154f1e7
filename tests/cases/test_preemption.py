"""Making room by force: as few as possible, for somebody who then starts, and never in a circle."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cases.drive import Drive
from tests.make import T0, gpu_amount, group, node, role, spec

from gangline_core import facts as f
from gangline_core.cluster import Pool
from gangline_core.door.edits import JobEdit
from gangline_core.job import JobState
from gangline_core.placement.best_fit import best_fit
from gangline_core.placement.gang import gang_of
from gangline_core.reasons import ReasonCode
from gangline_core.spec import Pausing


def owed(path: str, gpus: float):
    return group(path, guaranteed=gpu_amount(gpus))


def victims(drive: Drive) -> list[int]:
    return [eviction.victim for eviction in drive.evicted]


@pytest.mark.parametrize("ordering", ["fifo", "priority", "weighted"])
@pytest.mark.parametrize("stop", [0, 20])
def test_an_evicted_older_job_does_not_come_straight_back(ordering, stop):
    # kubernetes-sigs/kueue#2821
    drive = Drive(node(gpus=4), groups=[group("a"), group("b"), owed("c", 4)], policy={"ordering": ordering})
    old = drive.ask(0, tasks=4, gpus=1, group="a", stop=stop)
    high = drive.ask(10, tasks=4, gpus=1, group="b", priority=100, run=100)
    drive.until(10 + stop)
    assert drive.is_running(old, high) == [False, True]
    drive.finish_all()
    assert victims(drive) == [old.id]
    assert old.starts == [0, 110 + stop]


def test_a_job_evicted_after_hours_does_not_come_straight_back_either():
    drive = Drive(node(gpus=4), policy={"ordering": "fifo"})
    filler = drive.ask(0, gpus=4, run=5000)
    old = drive.ask(1, tasks=4, gpus=1)
    high = drive.ask(10_000, tasks=4, gpus=1, priority=100, run=5000, stop=5)
    second = drive.ask(10_001, tasks=4, gpus=1, priority=100, run=100)
    drive.finish_all()
    assert (filler.ended, high.starts) == (5000, [10_000])
    assert victims(drive).count(old.id) <= 2
    assert second.starts


@pytest.mark.parametrize("small_limit", [0, 5])
def test_room_that_is_cleared_is_not_taken_by_others(small_limit):
    # kubernetes/kubernetes#54501
    drive = Drive(node())
    drive.asks_of(8, 0, gpus=1, stop=30)
    high = drive.ask(10, gpus=8, priority=100, run=100)
    small = [drive.ask(12 + 2 * k, gpus=1, run=3, limit=small_limit) for k in range(20)]
    drive.finish_all()
    assert high.starts == [40]
    assert all(not 10 <= start < 140 for ask in small for start in ask.starts)
    assert len(drive.evicted) == 8


def test_victims_that_die_at_different_times_leave_their_room_to_the_one_it_is_for():
    drive = Drive(node())
    for k in range(8):
        drive.ask(0, gpus=1, stop=4 * k)
    high = drive.ask(10, tasks=4, gpus=2, priority=100, run=100)
    small = [drive.ask(12 + 2 * k, gpus=1, run=3) for k in range(10)]
    drive.finish_all()
    assert high.starts == [38]
    assert min(ask.starts[0] for ask in small) >= 138


def test_a_claim_ends_with_the_job_it_is_for():
    drive = Drive(node())
    for k in range(8):
        drive.ask(0, gpus=1, stop=25 + k)
    high = drive.ask(10, gpus=8, priority=100)
    small = [drive.ask(12 + 2 * k, gpus=1, run=30, limit=30) for k in range(4)]
    drive.later(20, lambda: drive.drop(high))
    drive.finish_all()
    assert not drive.state.kept.claims
    assert [ask.starts[0] for ask in small] == [35, 36, 37, 38]


def test_a_claim_on_a_node_that_is_lost_is_planned_anew():
    drive = Drive(node("n1", gpus=4), node("n2", gpus=4))
    drive.ask(0, gpus=4, stop=20)
    drive.ask(0, gpus=4, stop=20)
    high = drive.ask(10, gpus=4, priority=100)
    drive.until(15)
    [claim] = drive.state.kept.claims.values()
    target = claim.placement.tasks[0].node
    drive.later(16, lambda: drive.lose(target))
    drive.finish_all()
    assert drive.is_running(high) == [True]
    assert drive.where(high) != [target]


@pytest.mark.parametrize("grace", [5, 30])
def test_a_victim_that_never_dies_is_given_up_and_another_place_is_found(grace):
    # kubernetes/kubernetes#95752
    drive = Drive(node("n1", gpus=4), node("n2", gpus=4))
    stuck = drive.ask(0, gpus=4, stop=10_000_000, grace_s=grace)
    other = drive.ask(0.1, gpus=4, grace_s=grace, priority=1)
    high = drive.ask(10, gpus=4, priority=100)
    drive.until(10 + 2 * grace + 70)
    assert victims(drive) == [stuck.id, other.id]
    assert drive.is_running(high) == [True]
    assert high.starts[0] <= 10 + grace + 60
    assert drive.where(high) == ["n2"]
    late = drive.ask(200, gpus=4)
    drive.until(400)
    assert not late.starts, "what still runs there is not handed out"
    drive.restart()
    drive.until(500)
    assert not late.starts


def test_one_plan_is_kept_until_the_job_starts():
    # SchedMD/slurm#203: partitions are GPU models here
    drive = Drive(*[node(f"x{k}", model="X") for k in range(4)], *[node(f"y{k}", model="Y") for k in range(4)])
    on_x = drive.asks_of(4, 0, gpus=8, gpu_models=["X"], stop=60)
    drive.asks_of(4, 0, gpus=8, gpu_models=["Y"], stop=60)
    high = drive.ask(
        10,
        roles=[role("x", tasks=2, gpus=8, gpu_models=["X"]), role("y", tasks=2, gpus=8, gpu_models=["Y"])],
        priority=100,
    )
    drive.until(11)
    [claim] = drive.state.kept.claims.values()
    gone = [ask for ask in on_x if ask.id in victims(drive)]
    drive.later(20, lambda: drive.fail(gone[0], code=0))
    low = [drive.ask(25, gpus=8, gpu_models=[model], priority=-1) for model in "XY"]
    drive.until(69)
    assert list(drive.state.kept.claims.values()) == [claim]
    drive.finish_all()
    assert high.starts == [70]
    assert len(drive.evicted) == 4
    assert not any(ask.starts for ask in low)


@pytest.mark.parametrize("sizes", [(4, 2, 2), (2, 4, 2), (2, 2, 4)])
def test_what_is_evicted_is_what_was_planned_and_no_more(sizes):
    # apache/yunikorn-core#909
    drive = Drive(node())
    asks = [drive.ask(k, gpus=size) for k, size in enumerate(sizes)]
    high = drive.ask(10, gpus=4, priority=100)
    drive.finish_all()
    freed = [ask.spec.roles[0].resources.whole_gpus for ask in asks if ask.id in victims(drive)]
    assert sum(freed) == 4
    [decided] = [decided for decided in drive.decided if decided.evictions]
    stopped = {task.partition("-")[0] for claim in decided.claims for task in claim.victims}
    assert stopped == {str(victim) for victim in victims(drive)}
    still = [ask for ask in asks if ask.id not in victims(drive)]
    assert all(drive.is_running(high, *still))


def test_the_two_small_ones_go_when_the_large_one_is_protected():
    drive = Drive(node())
    large = drive.ask(0, gpus=4, protected_s=1000)
    small = drive.asks_of(2, 0, gpus=2)
    drive.ask(10, gpus=4, priority=100)
    drive.until(50)
    assert victims(drive) == sorted((ask.id for ask in small), reverse=True)
    assert drive.is_running(large) == [True]


@pytest.mark.parametrize("gpus", range(1, 9))
def test_never_more_than_needed(gpus):
    drive = Drive(node())
    drive.asks_of(8, 0, gpus=1)
    drive.ask(10, gpus=gpus, priority=100)
    drive.finish_all()
    assert len(drive.evicted) == gpus


def test_a_job_that_cannot_be_helped_by_evictions_costs_nobody_anything():
    drive = Drive(node("n1", gpus=4), node("n2", gpus=4))
    drive.ask(0, gpus=2, priority=100)
    drive.ask(0, gpus=2, priority=100)
    low = drive.asks_of(2, 1, gpus=2)
    drive.until(2)
    stuck = drive.ask(5, tasks=2, gpus=4, priority=50)
    drive.finish_all()
    assert not drive.evicted
    assert drive.is_waiting(stuck) == [True]
    assert all(drive.is_running(*low))


def test_a_victim_that_is_still_starting_is_evicted_once():
    # kubernetes/kubernetes#134217
    drive = Drive(node(gpus=1))
    low = drive.ask(0, gpus=1, start=60, stop=2)
    high = drive.ask(5, gpus=1, priority=100)
    drive.until(6)
    assert drive.job(low.id).state == JobState.STOPPING
    drive.finish_all()
    assert (victims(drive), high.starts, low.starts) == ([low.id], [7], [])


def test_who_borrows_most_gives_first_the_youngest_first_and_nobody_at_its_share():
    # armadaproject/armada#5071
    drive = Drive(
        *[node(f"n{k}", gpus=4) for k in range(8)],
        groups=[owed("q1", 8), owed("q2", 8), owed("q3", 10), owed("q4", 6)],
    )
    one = [drive.ask(k, gpus=1, group="q1") for k in range(12)]
    two = [drive.ask(20 + k, gpus=1, group="q2") for k in range(10)]
    three = [drive.ask(40 + k, gpus=1, group="q3") for k in range(10)]
    late = drive.asks_of(6, 100, gpus=1, group="q4")
    drive.finish_all()
    gone = victims(drive)
    assert all(drive.is_running(*late))
    assert (drive.used("q1"), drive.used("q2"), drive.used("q3")) == (8, 8, 10)
    assert set(gone) == {ask.id for ask in (*one[-4:], *two[-2:])}
    assert not {ask.id for ask in three} & set(gone)
    assert gone[0] == one[-1].id


@pytest.mark.parametrize("another", [True, False])
def test_nobody_goes_for_room_that_another_would_then_be_owed(another):
    # Its group lacks what it is guaranteed once it is gone, and who waits there takes over what is cleared.
    drive = Drive(node("n0", gpus=4), groups=[owed("a", 1), group("b")], policy={"ordering": "fifo"})
    drive.ask(0, gpus=1, group="a", limit=30)
    drive.ask(0, gpus=1, group="a", run=20)
    wide = drive.ask(0, tasks=3, gpus=1, group="a")
    waiting = drive.ask(0, gpus=1, group="a") if another else None
    high = drive.ask(0, tasks=4, gpus=1, group="b", priority=1)
    drive.finish_all()
    if waiting is not None:
        assert (victims(drive), wide.starts, waiting.starts, high.starts) == ([], [20], [30], [])
    else:
        assert (victims(drive), wide.starts, high.starts) == ([wide.id], [20], [30])


def test_who_could_be_shrunk_goes_with_all_it_has_and_its_group_keeps_what_it_is_guaranteed():
    # Each could give one of its two GPUs by shrinking, so evicting it was counted as the other one alone.
    drive = Drive(node("n0", gpus=4), groups=[group("a"), owed("c", 2)])
    small = [drive.ask(0, tasks=2, minimum=1, gpus=1, group="c") for _ in range(2)]
    high = drive.ask(10, gpus=4, group="a", priority=1)
    drive.until(600)
    assert (victims(drive), drive.is_running(*small), drive.is_waiting(high)) == ([], [True, True], [True])


def test_nobody_goes_for_room_that_one_who_is_owed_would_take_over_at_the_next_look():
    drive = Drive(node("n0", gpus=4), node("n1", gpus=4), groups=[group("a"), owed("b", 1)])
    low = drive.ask(0, gpus=4, group="a", stop=3)
    drive.ask(0, gpus=4, group="b", priority=2, run=10)
    wide = drive.ask(5, tasks=2, gpus=4, group="a", priority=1)
    small = drive.ask(5, gpus=1, group="b")
    drive.until(600)
    assert (victims(drive), drive.is_running(low), small.starts, drive.is_waiting(wide)) == ([], [True], [10], [True])


@pytest.mark.parametrize("guaranteed", [0, 1])
def test_who_would_be_lent_room_as_a_whole_does_not_begin_before_the_one_it_would_go_for(guaranteed):
    # It fits its own group's guarantee only in part, so it would go for the other as soon as it worked.
    drive = Drive(node("n0", gpus=4), groups=[owed("a", guaranteed) if guaranteed else group("a"), owed("b", 1)])
    wide = drive.ask(0, tasks=4, gpus=1, group="a", priority=1)
    small = drive.ask(0, gpus=1, group="b")
    drive.until(60)
    assert (victims(drive), small.starts, wide.starts) == ([], [0], [])


def test_who_is_owed_its_smallest_size_stands_back_for_nobody_though_it_begins_larger():
    drive = Drive(node("n0", gpus=7), groups=[owed("c", 1), owed("d", 2)])
    drive.ask(0, tasks=3, gpus=2, group="c", priority=1, stop=3)
    small = drive.ask(0, tasks=3, minimum=1, gpus=2, group="d")
    drive.until(1)
    assert small.starts == [0]


@pytest.mark.parametrize("guaranteed", [0, 1])
def test_nor_does_it_on_what_is_being_cleared_for_it(guaranteed):
    drive = Drive(node("n0", gpus=4), groups=[owed("a", guaranteed) if guaranteed else group("a"), owed("b", 1)])
    low = drive.ask(0, gpus=4, stop=10)
    wide = drive.ask(5, gpus=4, group="a", priority=1)
    small = drive.ask(8, gpus=1, group="b")
    drive.until(60)
    assert (victims(drive), small.starts, wide.starts) == ([low.id], [15], [])


def test_priority_and_guarantees_that_point_in_a_circle_come_to_an_end():
    # The lower one has the owed ones go, the higher one takes their room over, and they were owed what that one has.
    drive = Drive(node("n0", gpus=8), groups=[group("a"), owed("c", 2)], policy={"ordering": "weighted"})
    drive.ask(0, tasks=3, minimum=1, gpus=4, group="a", priority=2)
    drive.ask(0, tasks=3, minimum=1, gpus=1, group="c")
    drive.ask(0, tasks=4, gpus=1, group="a")
    drive.ask(0, tasks=2, minimum=1, gpus=1, group="c")
    drive.ask(0, tasks=4, gpus=1, group="a", priority=2)
    drive.ask(0, tasks=4, minimum=1, gpus=4, group="a", priority=1)
    drive.ask(0, tasks=1, gpus=4, group="a", priority=2, stop=3, run=20, limit=30)
    drive.ask(0, tasks=4, minimum=1, gpus=2, group="c", priority=1, stop=3, run=20)
    drive.until(600)
    assert len(victims(drive)) <= 12


@settings(max_examples=25)
@given(st.data())
def test_changes_end_and_nobody_evicts_each_other(data):
    # kubernetes-sigs/kueue#14543
    paths = ["a", "b", "c", "d"][: data.draw(st.integers(2, 4))]
    nodes = data.draw(st.lists(st.sampled_from([2, 4, 8]), min_size=1, max_size=3))
    total = sum(nodes)
    shares = [data.draw(st.integers(0, total // len(paths))) for _ in paths]
    groups = [owed(path, share) if share else group(path) for path, share in zip(paths, shares, strict=True)]
    drive = Drive(
        *[node(f"n{k}", gpus=gpus) for k, gpus in enumerate(nodes)],
        groups=groups,
        policy={"ordering": data.draw(st.sampled_from(["fifo", "priority", "weighted"]))},
    )
    for _ in range(data.draw(st.integers(3, 10))):
        drive.ask(
            data.draw(st.sampled_from([0, 0, 5, 10])),
            tasks=data.draw(st.integers(1, 4)),
            minimum=data.draw(st.sampled_from([None, 1])),
            gpus=data.draw(st.sampled_from([1, 1, 2, 4])),
            group=data.draw(st.sampled_from(paths)),
            priority=data.draw(st.integers(0, 2)),
            stop=data.draw(st.sampled_from([0, 3])),
            run=data.draw(st.sampled_from([None, 20])),
            limit=data.draw(st.sampled_from([0, 30])),
        )
    drive.finish_all()
    pairs = {(eviction.victim, eviction.beneficiary) for eviction in drive.evicted}
    assert not {(beneficiary, victim) for victim, beneficiary in pairs} & pairs


@settings(max_examples=12)
@given(st.data())
def test_what_is_taken_back_comes_from_borrowers_only(data):
    over = data.draw(st.permutations([4, 2, 0]))
    drive = Drive(
        *[node(f"n{k}", gpus=4) for k in range(8)],
        groups=[*(owed(f"q{k}", 26 // 3 - 1) for k in range(3)), owed("new", 6)],
    )
    for k, extra in enumerate(over):
        for _ in range(26 // 3 - 1 + extra):
            drive.ask(data.draw(st.integers(0, 50)), gpus=1, group=f"q{k}")
    filler = 32 - 3 * (26 // 3 - 1) - 6
    drive.asks_of(filler, 60, gpus=1)
    drive.until(90)
    wanted = data.draw(st.lists(st.integers(1, 3), max_size=4))
    drive.later(100, lambda: None)
    for gpus in wanted:
        drive.ask(100, gpus=gpus, group="new")
    drive.finish_all()
    at_share = f"q{over.index(0)}"
    assert all(drive.job(eviction.victim).spec.group != at_share for eviction in drive.evicted)


def test_the_reason_of_an_evicted_job_names_who_it_went_for():
    drive = Drive(node(gpus=1))
    low = drive.ask(0, gpus=1, stop=5)
    high = drive.ask(10, gpus=1, priority=1)
    drive.until(11)
    assert drive.code(low) == ReasonCode.PREEMPTED
    assert f"job {high.id}" in drive.why(low)
    assert drive.code(high) == ReasonCode.WAITING_FOR_VICTIMS


def test_a_cancelled_victim_still_gives_its_room_to_the_job_it_was_evicted_for():
    drive = Drive(node(gpus=1))
    low = drive.ask(0, gpus=1, stop=30)
    high = drive.ask(10, gpus=1, priority=1)
    drive.later(15, lambda: drive.tell("admission", f.CancelRequested(job=low.id, by="ada")))
    thief = drive.ask(16, gpus=1, priority=0, run=1, limit=1)
    drive.finish_all()
    assert (high.starts, thief.starts) == ([40], [])
    assert drive.job(low.id).state == JobState.CANCELLED


@settings(max_examples=25)
@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(1, 4), st.integers(0, 2)), min_size=1, max_size=14),
    st.tuples(st.integers(1, 4), st.integers(1, 8)),
)
def test_without_any_one_of_those_who_go_the_job_would_not_fit(running, wanted):
    # apache/yunikorn-core#937
    drive = Drive(node("n1"), node("n2"), node("n3", gpus=4))
    for tasks, gpus, priority in running:
        drive.ask(0, tasks=tasks, gpus=gpus, priority=priority, stop=1000)
    drive.until(1)
    asked = spec(tasks=wanted[0], gpus=wanted[1], priority=2)
    high = drive.ask(2, tasks=wanted[0], gpus=wanted[1], priority=2)
    drive.until(3)
    gone = victims(drive)
    assert len(gone) == len(set(gone))
    room = drive.state.room("default")
    gang = gang_of(asked, {"worker": wanted[0]}, Pool("default"))
    for kept in gone if high.id in drive.state.kept.claims else ():
        without = room.copy()
        # What is kept for an older job is no room for this one.
        reserved = {place.node for one in drive.state.kept.pools["default"].reservations for place in one.tasks}
        without.close(np.array([machine.id in reserved for machine in room.nodes]))
        for task in (task for other in gone if other != kept for task in drive.tasks(other)):
            without.give(task)
        assert best_fit(without, gang) is None, f"job {kept} went for nothing"


@pytest.mark.parametrize("stop", [0, 3])
def test_who_was_reclaimed_does_not_take_over_the_room_that_is_cleared_for_its_owner(stop):
    # The important borrower is gone at once and asks again, while the other victim takes its time.
    drive = Drive(node(gpus=3), groups=[group("owner", guaranteed=gpu_amount(3)), group("guest")])
    quick = drive.ask(0, tasks=2, gpus=1, priority=50, group="guest", stop=stop, run=100)
    slow = drive.ask(0, gpus=1, group="guest", stop=30, run=100)
    owner = drive.ask(10, tasks=3, gpus=1, group="owner", run=20)
    late = drive.ask(20, tasks=2, gpus=1, priority=99, group="guest", run=5)
    drive.finish_all()
    assert owner.starts == [40]
    assert sorted(eviction.victim for eviction in drive.evicted) == [quick.id, slow.id]
    assert late.starts == [60]


def test_a_more_important_job_of_the_same_group_still_takes_over_its_cleared_room():
    drive = Drive(node(gpus=2), groups=[group("owner", guaranteed=gpu_amount(2)), group("guest")])
    drive.ask(0, gpus=2, group="guest", stop=30, run=100)
    lower = drive.ask(10, gpus=2, group="owner", run=20)
    higher = drive.ask(20, gpus=2, priority=10, group="owner", run=20)
    drive.finish_all()
    assert (higher.starts, lower.starts) == ([40], [60])


@pytest.mark.parametrize("oldest", [False, True])
def test_service_age_and_priority_never_evict_in_a_circle(oldest):
    # The oldest goes before the next, that one before the youngest; only by priority would the youngest go first.
    policy = {"ordering": "least_attained", "oldest_preempts": oldest}
    drive = Drive(node(gpus=2), policy=policy)
    oldest_job = drive.ask(0, gpus=2, run=50)
    drive.ask(5, tasks=2, gpus=1, priority=50, run=50)
    drive.ask(10, gpus=2, priority=10, run=50)
    drive.finish_all()
    assert len(drive.evicted) <= (0 if oldest else 2)
    assert oldest_job.ended is not None


def test_who_was_told_to_pause_and_is_then_evicted_leaves_its_place_for_tasks_too():
    # Paused, it would keep one of three places; the plan knew that it goes whole, the fold did not: without end.
    drive = Drive(node(), policy={"node_tasks_max": 3})
    low = drive.ask(0, gpus=8, pausing=Pausing(), stop=30)
    middle = drive.ask(10, gpus=1, priority=10, run=10)
    high = drive.ask(12, tasks=3, gpus=1, priority=50, run=10)
    drive.until(200)
    assert high.starts
    assert middle.starts
    assert low.starts[0] == 0
    assert drive.is_running(low) == [True]


def test_who_can_use_what_others_leave_takes_nobodys_cleared_room():
    # The large victim leaves both nodes; the more important job came later and needs only what nobody waits for.
    drive = Drive(node("n1"), node("n2", gpus=2))
    large = drive.ask(0, tasks=5, gpus=2, stop=30)
    first = drive.ask(10, tasks=2, gpus=1, priority=10, run=20)
    drive.until(11)
    [claim] = drive.state.kept.claims.values()
    late = drive.ask(20, tasks=2, gpus=1, priority=50, run=20)
    drive.until(21)
    assert drive.state.kept.claims[first.id] == claim
    drive.finish_all()
    assert (first.starts, late.starts) == ([40], [40])
    assert [eviction.victim for eviction in drive.evicted] == [large.id]


def test_a_claim_that_waits_is_not_counted_beside_its_own_victims_against_a_limit():
    # Two claims below one limit: the first was dropped, since the second and its victims were both counted.
    groups = [group("t", limit=gpu_amount(4)), group("t/a"), group("t/b")]
    drive = Drive(node(gpus=4), groups=groups)
    drive.ask(0, gpus=1, group="t/a", stop=10)
    second = drive.ask(0, gpus=3, group="t/a", stop=60, priority=1)
    first = drive.ask(10, gpus=1, priority=50, group="t/b", run=100)
    later = drive.ask(11, gpus=2, priority=50, group="t/b", run=100)
    drive.until(12)
    assert set(drive.state.kept.claims) == {first.id, later.id}
    drive.finish_all()
    assert (first.starts, later.starts) == ([20], [71])
    assert sum(eviction.victim == second.id for eviction in drive.evicted) == 1


@pytest.mark.parametrize("how", ["budget", "begin time"])
def test_no_room_is_kept_for_a_job_that_may_not_start_any_more(how):
    # A claim outlived what its job was allowed: it started from a budget that was used up, or before its time.
    drive = Drive(node(), groups=[group("q", budget_gpu_hours=1), group("r")])
    drive.ask(0, gpus=8, group="r", stop=60)
    high = drive.ask(10, gpus=8, priority=50, group="q", run=100)
    drive.until(20)
    assert high.id in drive.state.kept.claims
    if how == "budget":
        drive.tell("accounting", f.BudgetExhausted(group="q", used_gpu_milli_ms=3_600_000_000, exhausted=True))
    else:
        edit = JobEdit(not_before_ms=T0 + 500_000)
        drive.tell("admission", f.JobEdited(job=high.id, edit=edit, by="ada"))
    drive.until(21)
    assert high.id not in drive.state.kept.claims
    drive.until(400)
    assert not high.starts


def test_who_gave_up_waiting_for_victims_is_told_so_although_no_round_has_it_in_view():
    drive = Drive(node(), policy={"candidates_max": 1})
    drive.ask(0, gpus=8, stop=10_000, grace_s=5, run=10_000)
    high = drive.ask(10, gpus=8, priority=50)
    first = drive.ask(12, gpus=8, priority=50)
    drive.later(13, lambda: drive.tell("admission", f.JobTopped(job=first.id, among="", by="admin")))
    drive.until(30)
    assert drive.code(high) == ReasonCode.WAITING_FOR_VICTIMS
    drive.until(120)
    assert high.id not in drive.state.kept.claims
    # It is told what the one like it in view is.
    assert drive.job(high.id).reason is None
    assert drive.code(high) == drive.code(first) == ReasonCode.INSUFFICIENT_GPUS
    assert drive.is_waiting(first, high) == [True, True]

"""Lending and taking back: a guarantee is owed, nothing else is, and nobody goes for nothing."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cases.drive import Drive
from tests.make import gpu_amount, group, node

from gangline_core.reasons import ReasonCode


def owed(path: str, gpus: float, **fields):
    return group(path, guaranteed=gpu_amount(gpus), **fields)


@pytest.mark.parametrize("order", list(itertools.permutations(("q1", "q2", "q3"), 2)))
def test_two_borrowers_of_one_instant_never_share_the_same_room(order):
    # kubernetes-sigs/kueue#804
    drive = Drive(node(gpus=6), groups=[owed(path, 2) for path in ("q1", "q2", "q3")])
    for path in order:
        drive.ask(0, gpus=2, group=path)
    both = [drive.ask(1, gpus=2, group=path) for path in order]
    drive.until(2)
    assert sorted(drive.is_running(*both)) == [False, True]
    drive.finish_all()


@settings(max_examples=25)
@given(st.lists(st.tuples(st.sampled_from(["q1", "q2", "q3"]), st.integers(1, 3)), max_size=8))
def test_whoever_borrows_the_pool_is_never_over_committed(asks):
    drive = Drive(node("n1", gpus=3), node("n2", gpus=3), groups=[owed(path, 2) for path in ("q1", "q2", "q3")])
    for path, gpus in asks:
        drive.ask(0, gpus=gpus, group=path, run=10)
    drive.finish_all()


def test_within_a_guarantee_is_judged_by_what_is_used_and_asked_together():
    # kubernetes-sigs/kueue#3405
    drive = Drive(node(), groups=[owed("q1", 4), owed("q2", 4), group("q3")])
    drive.ask(0, gpus=4, group="q1")
    lent = drive.asks_of(2, 0, gpus=2, group="q3")
    beyond = drive.ask(10, gpus=2, group="q1")
    within = drive.ask(20, gpus=2, group="q2")
    drive.until(21)
    assert drive.is_running(beyond, within) == [False, True]
    assert len(drive.evicted) == 1
    assert sum(drive.is_running(*lent)) == 1
    drive.finish_all()


@pytest.mark.parametrize("needed", [4, 5, 100])
def test_a_job_that_can_never_fit_is_refused_with_the_number_and_costs_nobody_anything(needed):
    # kubernetes-sigs/kueue#6947
    drive = Drive(node(gpus=3), groups=[owed("a", 3), group("b")])
    lent = drive.ask(0, gpus=1, group="b")
    never = drive.ask(1, tasks=needed, gpus=1, group="a")
    fits = drive.ask(2, tasks=3, gpus=1, group="a")
    drive.finish_all()
    assert never.refused.numbers["needed"] == needed
    assert str(needed) in drive.why(never)
    assert (drive.is_running(fits), len(drive.evicted), drive.is_waiting(lent)) == ([True], 1, [True])


def test_a_job_that_no_longer_can_fit_does_not_block_or_evict():
    drive = Drive(node("n1", gpus=3), node("n2", gpus=1), groups=[owed("a", 3), group("b")])
    lent = drive.ask(0, gpus=1, group="b")
    filler = drive.ask(0, gpus=3, group="a", run=10)
    large = drive.ask(1, tasks=4, gpus=1, group="a")
    drive.later(2, lambda: drive.drain("n2"))
    fits = drive.ask(3, tasks=3, gpus=1, group="a")
    drive.finish_all()
    assert filler.ended == 10
    assert drive.is_waiting(large) == [True]
    assert drive.is_running(fits) == [True]
    assert drive.is_running(lent) == [True], "n2 is drained, not emptied"


@pytest.mark.parametrize("parent_limit", [None, 10])
def test_a_group_within_its_guarantee_gets_into_a_parent_that_a_sibling_filled(parent_limit):
    # volcano-sh/volcano#4825
    limit = {} if parent_limit is None else gpu_amount(parent_limit)
    drive = Drive(
        node(gpus=10),
        groups=[group("p", guaranteed=gpu_amount(10), limit=limit), owed("p/one", 6), owed("p/two", 4)],
    )
    drive.asks_of(10, 0, gpus=1, group="p/one")
    late = drive.ask(10, gpus=4, group="p/two")
    drive.finish_all()
    assert (len(drive.evicted), drive.is_running(late)) == (4, [True])
    assert (drive.used("p/one"), drive.used("p/two")) == (6, 4)


def test_a_head_of_queue_that_cannot_run_yet_does_not_stop_lending():
    # kubernetes-sigs/kueue#4809
    drive = Drive(node(gpus=2), groups=[owed("g", 2), group("e")])
    first = drive.ask(0, gpus=1, group="g", run=100)
    head = drive.ask(1, tasks=2, gpus=1, group="g", run=50)
    lent = drive.ask(2, gpus=1, group="e")
    drive.until(3)
    assert drive.is_running(first, lent) == [True, True]
    drive.until(100)
    assert drive.is_running(head, lent) == [True, False]
    assert len(drive.evicted) == 1
    drive.finish_all()
    assert lent.starts == [2, 150]


def test_lending_also_holds_when_the_head_is_on_many_nodes():
    drive = Drive(*[node(f"n{k}", gpus=1) for k in range(4)], groups=[owed("g", 4), group("e")])
    drive.ask(0, gpus=1, group="g", run=100)
    head = drive.ask(1, tasks=4, gpus=1, group="g")
    lent = drive.asks_of(3, 2, gpus=1, group="e")
    drive.until(3)
    assert all(drive.is_running(*lent))
    drive.until(100)
    assert drive.is_running(head) == [True]


def test_a_group_without_a_guarantee_never_takes_by_force_and_is_not_touched_without_need():
    # apache/yunikorn-core#636
    limit = {"memory_mib": 200_000, "jobs": 50}
    drive = Drive(
        node(gpus=0, memory_mib=200_000),
        groups=[group("q1", limit=limit), group("q2", guaranteed={"memory_mib": 100_000})],
    )
    first = drive.ask(0, gpus=0, memory_mib=100_000, group="q1")
    second = drive.ask(1, gpus=0, memory_mib=100_000, group="q2")
    drive.until(2)
    assert drive.is_running(first, second) == [True, True]
    more = drive.ask(3, gpus=0, memory_mib=50_000, group="q1")
    drive.finish_all()
    assert (drive.is_running(more), drive.evicted) == ([False], [])


def test_a_group_with_only_a_limit_gives_way_to_a_guarantee():
    drive = Drive(
        node(gpus=0, memory_mib=100_000),
        groups=[group("q1", limit={"memory_mib": 200_000}), group("q2", guaranteed={"memory_mib": 100_000})],
    )
    first = drive.ask(0, gpus=0, memory_mib=100_000, group="q1")
    second = drive.ask(1, gpus=0, memory_mib=100_000, group="q2")
    drive.finish_all()
    assert drive.is_running(first, second) == [False, True]
    assert [eviction.rule for eviction in drive.evicted] == ["reclaim"]


def test_a_side_dimension_without_any_promise_makes_nobody_a_victim():
    drive = Drive(node(cpus=64), groups=[group("q1", guaranteed={**gpu_amount(4)}), owed("q2", 4)])
    first = drive.ask(0, gpus=4, cpus=60, group="q1")
    second = drive.ask(1, gpus=4, cpus=8, group="q2")
    drive.finish_all()
    assert drive.is_running(first, second) == [True, False]
    assert (drive.code(second), drive.evicted) == (ReasonCode.INSUFFICIENT_CPU, [])


@pytest.mark.parametrize("gpus", [7, 8, 10, 11])
def test_equal_groups_share_what_does_not_divide_evenly_by_a_fixed_rule(gpus):
    drive = Drive(
        node(gpus=gpus), groups=[group(path) for path in "abc"], policy={"formula": "-10 * share_over_weight"}
    )
    for _ in range(10):
        for path in "abc":
            drive.ask(0, gpus=1, group=path)
    drive.until(1)
    shares = [drive.used(path) for path in "abc"]
    drive.restart()
    drive.set_group("d")
    drive.finish_all()
    assert sum(shares) == gpus
    assert max(shares) - min(shares) == (1 if gpus % 3 else 0)
    assert [drive.used(path) for path in "abc"] == shares
    assert not drive.evicted


def test_a_fair_share_beyond_the_guarantee_is_not_taken_by_force_and_the_reason_says_so():
    # kai-scheduler/KAI-Scheduler#1934: the written policy is that only guarantees are reclaimed
    drive = Drive(node(), groups=[owed("a", 1), owed("b", 1)])
    drive.asks_of(8, 0, gpus=1, group="a")
    late = drive.asks_of(8, 1, gpus=1, group="b")
    drive.finish_all()
    assert (drive.used("a"), drive.used("b"), len(drive.evicted)) == (7, 1, 1)
    waiting = [ask for ask in late if drive.is_waiting(ask) == [True]]
    told = "Group b uses 1 of the 1 GPUs it is guaranteed; what goes beyond a guarantee is only lent"
    assert all(told in drive.notes(ask) for ask in waiting)


def test_an_owner_that_uses_all_it_keeps_to_itself_keeps_nothing_from_its_neighbours():
    # Two of six GPUs are not lent; whoever borrowed beside them was held to the parent's guarantee even then.
    groups = [owed("t", 4), owed("t/b", 4, lend_limit=gpu_amount(2)), group("t/a"), group("c")]
    drive = Drive(node(gpus=6), groups=groups)
    own = drive.ask(0, tasks=2, gpus=1, group="t/b")
    lent = drive.ask(1, tasks=4, gpus=1, group="t/a")
    drive.until(2)
    assert drive.is_running(own, lent) == [True, True]
    drive.drop(own)
    late = drive.ask(3, gpus=1, group="t/a")
    drive.until(4)
    assert drive.code(late) == ReasonCode.NOT_LENT, "what is kept is kept again when it is not used"
    drive.finish_all()


KEEPER = owed("t/a", 4, lend_limit=gpu_amount(0))


@pytest.mark.parametrize("between", [(), ("t",), ("t", "t/b")])
def test_beside_what_a_neighbour_keeps_a_group_borrows_from_everybody(between):
    # kueue's nested cohorts: only what a member does not lend is missing from what all others share
    borrower = "/".join([*between[-1:], "borrower"])
    groups = [owed("t", 8), KEEPER, *(owed(path, 2) for path in between if path != "t"), group(borrower), owed("c", 8)]
    drive = Drive(node("n1"), node("n2"), groups=groups)
    asks = drive.asks_of(13, 0, gpus=1, group=borrower)
    drive.until(1)
    assert (drive.used(borrower), drive.code(asks[-1])) == (12, ReasonCode.NOT_LENT)
    own = drive.asks_of(4, 2, gpus=1, group="t/a")
    drive.until(3)
    assert all(drive.is_running(*own))
    assert not drive.evicted, "what the neighbour kept was free"
    drive.finish_all()


@pytest.mark.parametrize("limit", [{}, gpu_amount(8)], ids=["no limit", "a limit"])
def test_who_is_owed_room_takes_it_from_borrowers_and_not_from_what_a_neighbour_keeps(limit):
    drive = Drive(
        node("n1"), node("n2"), groups=[owed("t", 8, limit=limit), KEEPER, group("t/b"), owed("c", 8), group("d")]
    )
    drive.asks_of(12, 0, gpus=1, group="c")
    owed_now = drive.asks_of(5, 1, gpus=1, group="t/b")
    drive.until(2)
    assert (drive.used("t/b"), drive.used("c"), len(drive.evicted)) == (4, 8, 4)
    assert drive.code(owed_now[-1]) == ReasonCode.NOT_LENT
    own = drive.asks_of(4, 3, gpus=1, group="t/a")
    drive.until(4)
    assert all(drive.is_running(*own))
    assert len(drive.evicted) == 4, "nobody goes for what was kept"
    drive.finish_all()


@pytest.mark.parametrize("terms", [{"preemptible": False}, {"protected_s": 60}], ids=["never goes", "protected"])
def test_what_an_owner_keeps_is_his_though_another_who_is_owed_as_much_has_a_date(terms):
    # The date bound everybody below the root, the owner included: what he kept idled, and he waited for it.
    keeper = owed("a", 4, lend_limit=gpu_amount(0), limit=gpu_amount(8))
    drive = Drive(node(), groups=[keeper, owed("b", 4), group("c")])
    drive.ask(0, gpus=4, group="c", preemptible=False)
    behind = drive.ask(1, gpus=1, group="b")
    owner, beyond = drive.ask(2, tasks=2, gpus=2, group="a", **terms), drive.ask(3, gpus=1, group="a")
    drive.until(4)
    assert drive.is_running(owner, beyond, behind) == [True, False, False]
    drive.finish_all()


@pytest.mark.parametrize("limit", [{}, gpu_amount(100)], ids=["no limit", "a limit beyond all machines"])
def test_while_a_machine_is_emptied_what_is_kept_is_kept_on_the_others(limit):
    drive = Drive(
        node("n1"), node("n2"), groups=[group(limit=limit), owed("a", 4, lend_limit=gpu_amount(0)), group("b")]
    )
    leaving = drive.ask(0, gpus=8, group="b")
    drive.until(1)
    drive.drain(drive.where(leaving)[0])
    asks = drive.asks_of(5, 2, gpus=1, group="b")
    drive.until(3)
    assert (drive.used("b"), drive.code(asks[-1])) == (12, ReasonCode.NOT_LENT)
    drive.finish_all()


def test_no_start_of_an_owner_takes_away_what_was_cleared_for_its_neighbour():
    groups = [owed("t", 4), owed("t/b", 4, lend_limit=gpu_amount(2)), group("t/a"), group("c")]
    drive = Drive(node(gpus=4), groups=groups)
    drive.ask(0, tasks=2, gpus=1, group="t/b")
    low = drive.ask(0, gpus=2, group="t/a", stop=30)
    high = drive.ask(10, gpus=2, group="t/a", priority=50, run=50)
    drive.ask(15, gpus=1, group="t/b", run=50)
    drive.finish_all()
    assert len(high.starts) == 1
    assert drive.evicted[0].victim == low.id


# --- limits far above, and crowds in front ---------------------------------------------------------------------


@pytest.mark.parametrize("above", ["", "t"])
@pytest.mark.parametrize("between", [(), ("a",), ("a", "b")])
def test_a_limit_any_number_of_levels_above_the_borrower_lets_a_guarantee_come_back(above, between):
    paths = [above] if above else []
    for name in between:
        paths.append(f"{paths[-1]}/{name}" if paths else name)
    top = paths[-1] if paths else ""
    below = f"{top}/" if top else ""
    drive = Drive(
        node("n1"),
        node("n2"),
        groups=[
            group(above, limit=gpu_amount(8)),
            *(owed(path, 8) for path in paths if path != above),
            owed(f"{below}owner", 4),
            group(f"{below}borrower"),
        ],
    )
    lent = drive.asks_of(8, 0, gpus=1, group=f"{below}borrower")
    owners = drive.asks_of(4, 10, gpus=1, group=f"{below}owner")
    drive.until(11)
    assert (sum(drive.is_running(*owners)), sum(drive.is_running(*lent)), len(drive.evicted)) == (4, 4, 4)


@pytest.mark.parametrize("crowd", [17, 70])
def test_a_crowd_for_which_nobody_can_make_room_does_not_stand_before_who_is_owed_a_guarantee(crowd):
    drive = Drive(
        node("n1"),
        node("n2"),
        groups=[
            owed("owner", 8),
            group("borrower"),
            owed("at_home", 8),
        ],
    )
    drive.asks_of(8, 0, gpus=1, group="at_home", run=1000)
    drive.asks_of(8, 0, gpus=1, group="borrower", run=1000)
    for k in range(crowd):
        drive.ask(5, gpus=8, cpus=1 + k, group="borrower", priority=3)
    owner = drive.ask(10, gpus=1, group="owner")
    drive.until(11)
    assert (drive.is_running(owner), len(drive.evicted)) == ([True], 1)


@pytest.mark.parametrize("priority", [1, 5])
def test_hopeless_jobs_of_one_group_do_not_keep_another_group_from_pushing_away_lower_priorities(priority):
    drive = Drive(node("n1"), node("n2"), groups=[group("a"), group("b")])
    # Each of the twenty needs both machines whole, and one job there goes for nobody.
    drive.asks_of(15, 0, gpus=1, group="b", run=1000)
    drive.asks_of(1, 0, gpus=1, group="b", run=1000, preemptible=False)
    for k in range(20):
        drive.ask(5, tasks=2, gpus=8, cpus=1 + k, group="a", priority=9)
    small = drive.ask(10, gpus=1, group="b", priority=priority)
    drive.until(11)
    assert (drive.is_running(small), len(drive.evicted)) == ([True], 1)


@pytest.mark.parametrize("first", ["b", "c"])
def test_members_go_from_the_elastic_borrower_that_is_most_over_its_share(first):
    drive = Drive(node("n1"), groups=[owed("a", 4), group("b"), group("c")])
    sizes = {"b": 6, "c": 2}
    jobs = {
        path: drive.ask(0, tasks=sizes[path], minimum=1, maximum=sizes[path], gpus=1, group=path)
        for path in sorted(sizes, key=lambda path: path != first)
    }
    owner = drive.ask(100, gpus=1, group="a")
    drive.until(150)
    assert drive.is_running(owner) == [True]
    assert {path: len(drive.tasks(job.id)) for path, job in jobs.items()} == {"b": 5, "c": 2}

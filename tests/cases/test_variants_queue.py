"""Reports about the queue (A to E, Q) once more where arrays, ranges, weights, pools and shutdowns meet."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cases.drive import Drive
from tests.make import gpu_amount, group, node, role

from gangline_core.job import JobState
from gangline_core.reasons import ReasonCode
from gangline_core.spec import ArraySpec, ServiceClass

# --- A07: a gang above its limit, which is raised in steps (KAI-Scheduler#500) ------------------------------------


@pytest.mark.parametrize("dimension", ["gpus", "jobs", "cpus"])
def test_a_gang_that_waits_for_a_limit_starts_whole_when_that_is_raised_far_enough(dimension: str) -> None:
    def limit(number: int) -> dict[str, int]:
        amounts = {"gpus": gpu_amount(number), "jobs": {"jobs": number // 6 + 1}, "cpus": {"cpu_milli": number * 1000}}
        return amounts[dimension]

    drive = Drive(node("n1"), node("n2"), groups=[group("q", limit=limit(8))])
    drive.asks_of(2 if dimension == "jobs" else 1, tasks=4, gpus=1, group="q")
    gang = drive.ask(1, tasks=6, gpus=1, group="q")
    drive.until(5)
    assert not drive.tasks(gang.id)
    drive.later(10, lambda: drive.set_group("q", limit=limit(9)))
    drive.until(15)
    assert not drive.tasks(gang.id)
    drive.later(20, lambda: drive.set_group("q", limit=limit(24)))
    drive.until(25)
    assert drive.is_running(gang) == [True]


# --- B04: borrowers of two pools below one borrow limit (kueue#804) -----------------------------------------------


def test_borrowers_of_two_pools_of_one_instant_stay_within_what_their_group_may_borrow() -> None:
    groups = [group("q", guaranteed=gpu_amount(2), borrow_limit=gpu_amount(2)), group("rest", guaranteed=gpu_amount(4))]
    drive = Drive(node("n1", gpus=4), node("p1", gpus=4, pool="other"), groups=groups)
    asks = [drive.ask(0, gpus=2, group="q", pool=pool, run=50) for pool in ("default", "other") for _ in range(2)]
    drive.until(10)
    assert drive.used("q") == 4
    drive.finish_all()
    assert all(ask.ended is not None for ask in asks)


# --- C02: the impossible one is elastic (kueue) -------------------------------------------------------------------


@pytest.mark.parametrize("least", [4, 5])
def test_a_range_whose_least_can_never_fit_is_refused_and_costs_the_borrower_nothing(least: int) -> None:
    drive = Drive(node("n1", gpus=3), groups=[group("a", guaranteed=gpu_amount(3)), group("b")])
    drive.ask(0, gpus=1, group="b")
    never = drive.ask(5, roles=[role(tasks=least, minimum=least, maximum=8, gpus=1)], group="a")
    drive.until(20)
    assert never.refused is not None
    assert not drive.evicted
    fits = drive.ask(30, roles=[role(tasks=3, minimum=2, maximum=8, gpus=1)], group="a")
    drive.until(60)
    assert drive.is_running(fits) == [True]
    assert len(drive.evicted) <= 1
    changes = len(drive.log)
    drive.until(400)
    assert len(drive.log) - changes < 5


# --- C04: the child that is over its share can shrink -------------------------------------------------------------


def test_a_sibling_over_its_share_gives_members_and_no_job_when_the_owner_asks_below_a_full_parent() -> None:
    groups = [
        group("top", guaranteed=gpu_amount(10), limit=gpu_amount(10)),
        group("top/one", guaranteed=gpu_amount(6)),
        group("top/two", guaranteed=gpu_amount(4)),
    ]
    drive = Drive(node("n1", gpus=10), groups=groups)
    large = drive.ask(0, roles=[role(tasks=10, minimum=1, maximum=10, gpus=1)], group="top/one")
    drive.until(5)
    assert drive.used("top/one") == 10
    owner = drive.ask(10, gpus=4, group="top/two")
    drive.until(30)
    assert drive.is_running(large, owner) == [True, True]
    assert (drive.used("top/one"), drive.used("top/two")) == (6, 4)
    assert not drive.evicted


# --- D05: the small ones are elements of one array ----------------------------------------------------------------


@pytest.mark.parametrize(("at_most", "latest"), [(6, 101 + 300 + 2 * 60), (0, 300 // 8 * 60 + 2 * 60)])
def test_elements_of_a_long_array_do_not_starve_a_job_that_needs_the_whole_node(at_most: int, latest: int) -> None:
    """Elements that may wait all at once are all older, and go first; those beyond a cap come later."""
    drive = Drive(node("n1"), policy={"starvation_s": 300})
    drive.ask(0, gpus=1, run=60, limit=60, grace_s=0, array=ArraySpec(ranges=((1, 300, 1),), at_most=at_most))
    large = drive.ask(101, gpus=8, run=100, limit=100, grace_s=0)
    drive.until(2_600)
    assert large.starts
    assert large.starts[0] <= latest


# --- D07: weights that do not divide ------------------------------------------------------------------------------


@given(weights=st.lists(st.integers(1, 5), min_size=2, max_size=4), gpus=st.integers(4, 9))
@settings(max_examples=20, deadline=None)
def test_groups_of_any_weights_fill_all_gpus_by_a_fixed_rule(weights: list[int], gpus: int) -> None:
    def shares() -> list[float]:
        groups = [group(f"g{k}", weight=weight) for k, weight in enumerate(weights)]
        drive = Drive(node("n1", gpus=gpus), groups=groups, policy={"ordering": "dominant_resource"})
        for k in range(len(weights)):
            drive.asks_of(10, gpus=1, group=f"g{k}")
        drive.until(5)
        drive.restart()
        drive.until(100)
        assert not drive.evicted
        return [drive.used(f"g{k}") for k in range(len(weights))]

    first = shares()
    assert sum(first) == gpus
    assert shares() == first
    for mine, weight in zip(first, weights, strict=True):
        for other, theirs in zip(first, weights, strict=True):
            assert (mine - 1) / weight <= other / theirs or mine == 0 or other == 10


# --- D08: what is told to whoever waits for more than its guarantee -----------------------------------------------


def test_above_its_guarantee_a_group_waits_for_the_others_and_its_array_is_told_so() -> None:
    groups = [group("a", guaranteed=gpu_amount(1)), group("b", guaranteed=gpu_amount(1))]
    drive = Drive(node("n1"), groups=groups)
    drive.asks_of(8, gpus=1, group="a")
    drive.until(5)
    drive.ask(10, gpus=1, group="b", array=ArraySpec(ranges=((1, 8, 1),)))
    drive.until(20)
    assert (drive.used("a"), drive.used("b")) == (7, 1)
    assert len(drive.evicted) == 1


# --- E01: the evicted one is an array -----------------------------------------------------------------------------


def test_elements_that_made_way_do_not_come_straight_back_though_they_are_older() -> None:
    groups = [group("a"), group("b"), group("c", guaranteed=gpu_amount(4))]
    drive = Drive(node("n1", gpus=4), groups=groups, policy={"ordering": "fifo"})
    drive.ask(0, gpus=1, run=500, group="a", array=ArraySpec(ranges=((1, 4, 1),)))
    drive.until(5)
    high = drive.ask(10, tasks=4, gpus=1, priority=100, run=200, group="b")
    drive.until(150)
    assert drive.is_running(high) == [True]
    assert len(drive.evicted) == 4
    drive.finish_all()
    assert len(drive.evicted) == 4


# --- E07: room on several nodes, and a cancelled heir -------------------------------------------------------------


@pytest.mark.parametrize("cancel", [False, True])
def test_room_that_becomes_free_bit_by_bit_is_the_gangs_or_after_its_cancel_the_small_ones(cancel: bool) -> None:
    drive = Drive(node("n1", gpus=4), node("n2", gpus=4))
    for k in range(8):
        drive.ask(0, gpus=1, stop=5 + 4 * k, grace_s=60)
    gang = drive.ask(10, tasks=2, gpus=4, priority=100)
    small = [drive.ask(11 + 2 * k, gpus=1, run=30, limit=30) for k in range(10)]
    if cancel:
        drive.later(20, lambda: drive.drop(gang))
    drive.until(60)
    started = [ask for ask in small if ask.starts]
    if cancel:
        assert started
        assert min(ask.starts[0] for ask in started) <= 25
    else:
        assert gang.starts
        assert not started
    assert len(drive.evicted) == 8


# --- E08: nowhere else to go --------------------------------------------------------------------------------------


def test_behind_a_victim_that_never_dies_nobody_gets_its_room_and_the_others_are_served_elsewhere() -> None:
    drive = Drive(node("n1", gpus=4), node("n2", gpus=4, model="V100"))
    stuck = drive.ask(0, gpus=4, gpu_models=["A100"], stop=100_000, grace_s=10)
    drive.until(5)
    high = drive.ask(10, gpus=4, gpu_models=["A100"], priority=100)
    other = drive.ask(11, gpus=4, run=50)
    drive.until(300)
    assert drive.is_running(high) == [False]
    assert other.starts
    assert drive.where(stuck) == ["n1"]
    assert len([one for one in drive.evicted if one.victim == stuck.id]) == 1
    assert drive.code(high) not in (ReasonCode.NOT_YET_CONSIDERED, ReasonCode.WAITING_FOR_VICTIMS)


# --- E10: who is most over its share, by weights ------------------------------------------------------------------


def test_of_three_groups_over_their_shares_by_four_two_and_nothing_those_over_give_and_the_youngest_first() -> None:
    names = {"x": 8, "y": 6, "z": 4}
    groups = [*(group(name, guaranteed=gpu_amount(4)) for name in names), group("new", guaranteed=gpu_amount(6))]
    drive = Drive(node("n1", gpus=9), node("n2", gpus=9), groups=groups)
    jobs = {name: [drive.ask(k, gpus=1, group=name, grace_s=0) for k in range(many)] for name, many in names.items()}
    drive.until(20)
    heirs = [drive.ask(30 + k, gpus=2, group="new") for k in range(3)]
    drive.until(60)
    assert drive.is_running(*heirs) == [True] * 3
    gone = {one.victim for one in drive.evicted}
    by_name = {name: [k for k, ask in enumerate(own) if ask.id in gone] for name, own in jobs.items()}
    assert {name: len(own) for name, own in by_name.items()} == {"x": 4, "y": 2, "z": 0}
    assert by_name["x"] == [4, 5, 6, 7], "the youngest"
    assert by_name["y"] == [4, 5]


# --- E14: an elastic victim whose members are still starting ------------------------------------------------------


def test_a_gang_that_starts_slowly_in_part_is_sent_away_once_and_its_heir_shares_no_device() -> None:
    drive = Drive(node("n1", gpus=4))
    low = drive.ask(0, tasks=4, gpus=1, start=60)
    high = drive.ask(5, tasks=2, gpus=2, priority=100, run=20)
    drive.until(30)
    assert high.starts
    assert len([one for one in drive.evicted if one.victim == low.id]) == 1
    drive.until(200)
    assert drive.is_running(low) == [True]


# --- Q04, Q05: what is charged ------------------------------------------------------------------------------------


@pytest.mark.parametrize("service_class", [ServiceClass.BURSTABLE, ServiceClass.OPPORTUNISTIC])
def test_who_is_sent_away_before_it_started_leaves_books_that_hold(service_class: str) -> None:
    drive = Drive(node("n1", gpus=4))
    drive.ask(0, gpus=4, start=30, stop=3, service_class=service_class)
    drive.ask(10, gpus=4, priority=100, run=40)
    drive.until(400)
    drive.check_books()
    assert len(drive.evicted) == 1


# --- A04: the gang's node is back late, and a higher one came -----------------------------------------------------


def test_a_broken_gang_waits_behind_a_more_important_job_and_before_every_equal_one() -> None:
    drive = Drive(*(node(f"n{k}", gpus=1) for k in range(3)))
    gang = drive.ask(0, tasks=3, gpus=1)
    drive.until(50)
    drive.later(100, lambda: drive.lose("n2"))
    equal = drive.ask(110, tasks=3, gpus=1, run=10)
    high = drive.ask(111, tasks=3, gpus=1, priority=5, run=30)
    drive.later(200, lambda: drive.see(node("n2", gpus=1)))
    drive.until(220)
    assert drive.is_running(high) == [True]
    drive.until(300)
    assert drive.is_running(gang) == [True]
    assert not equal.starts
    assert drive.job(equal.id).state == JobState.WAITING

"""Public reports as a stranger would try them again: two nodes for one, users for groups, arrays and gangs for jobs."""

import random

import pytest
from tests.cases.drive import Ask, Drive
from tests.make import gpu_amount, group, node

from gangline_core import facts as f
from gangline_core.cluster import Node
from gangline_core.groups import User
from gangline_core.spec import ArraySpec, Dependency


def nodes(count: int, gpus: int = 8) -> list[Node]:
    return [node(f"n{number}", gpus=gpus) for number in range(1, count + 1)]


def elements(drive: Drive, array: Ask) -> list[Ask]:
    return [ask for job, ask in drive.asks.items() if job in drive.state.kept.jobs and drive.job(job).array == array.id]


# --- quotas (B04, B07, B16, C04, C07) ---------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_of_three_borrowers_of_one_instant_as_many_start_as_there_is_to_lend_and_the_owner_gets_it_back(
    seed: int,
) -> None:
    drive = Drive(node(gpus=8), groups=[group(name, guaranteed=gpu_amount(2)) for name in "abcd"])
    for name in "abc":
        drive.ask(0, gpus=2, group=name, run=1000)
    late = [drive.ask(10, gpus=1, group=name, run=1000) for name in random.Random(seed).sample("abc", 3)]
    owner = drive.ask(20, gpus=2, group="d", run=10)
    drive.until(15)
    assert sum(drive.is_running(*late)) == 2
    drive.until(21)
    assert drive.is_running(owner) == [True]
    assert len(drive.evicted) == 2
    drive.finish_all()


def test_elements_that_failed_for_good_give_their_share_back_and_those_tried_again_take_it_once() -> None:
    drive = Drive(node(gpus=10), groups=[group("q", limit=gpu_amount(10))])
    array = drive.ask(0, array=ArraySpec(ranges=((0, 9, 1),)), gpus=1, group="q", run=1000, retries=1)
    waits = drive.ask(1, gpus=4, group="q", run=50)
    drive.until(10)
    failing = elements(drive, array)[:4]
    for attempt in range(2):
        for one in failing:
            if drive.is_running(one) == [True]:
                drive.fail(one)
        drive.until(11 + attempt)
    assert drive.is_running(waits) == [True]
    assert drive.used("q") == 10
    drive.finish_all()


def test_a_users_limit_that_was_lowered_below_their_jobs_survives_a_restart_and_stops_none_of_them() -> None:
    drive = Drive(node(gpus=16), groups=[group("q")], users=[User("ada", "q", limit=gpu_amount(8))])
    running = [drive.ask(0, gpus=gpus, group="q", run=run) for gpus, run in ((3, 100), (3, 200), (2, 300))]
    drive.until(10)
    drive.tell("admission", f.UserSet(user=User("ada", "q", limit=gpu_amount(4)), by="admin"))
    waits = drive.ask(11, gpus=1, group="q", run=10)
    drive.restart()
    drive.until(150)
    assert drive.is_running(*running) == [False, True, True]
    assert drive.why(waits) == "User ada uses 5 of 4 GPUs; the job needs 1 more."
    drive.finish_all()
    assert waits.starts == [200]


def test_below_a_full_parent_two_leaves_of_three_take_back_what_they_are_owed_and_no_more() -> None:
    groups = [group("p", limit=gpu_amount(10), guaranteed=gpu_amount(10))]
    groups += [group(f"p/{name}", guaranteed=gpu_amount(owed)) for name, owed in (("a", 6), ("b", 3), ("c", 1))]
    drive = Drive(node(gpus=16), groups=groups)
    drive.asks_of(10, 0, gpus=1, group="p/a", run=10_000)
    owed = [drive.ask(10, gpus=3, group="p/b", run=100), drive.ask(10, gpus=1, group="p/c", run=100)]
    drive.until(12)
    assert drive.is_running(*owed) == [True, True]
    assert (len(drive.evicted), drive.used("p/a")) == (4, 6)
    drive.finish_all()


def test_what_idles_behind_a_head_that_waits_for_its_own_group_is_lent_and_one_of_two_borrowers_gives_it_back() -> None:
    drive = Drive(node(gpus=4), groups=[group("g", guaranteed=gpu_amount(4)), group("e")])
    drive.ask(0, gpus=2, group="g", run=100, limit=100)
    head = drive.ask(1, gpus=3, group="g", run=50)
    borrowers = [drive.ask(2, gpus=1, group="e", run=1000) for _ in range(2)]
    drive.until(5)
    assert drive.is_running(*borrowers) == [True, True]
    drive.until(101)
    assert (head.starts, len(drive.evicted)) == ([100], 1)
    drive.finish_all()


# --- order and room (D01, D05, E07) -----------------------------------------------------------------------------------


def test_elements_of_an_array_fill_the_gap_before_a_gang_of_two_nodes_and_none_that_would_delay_it() -> None:
    drive = Drive(*nodes(2), policy={"preemption": False})
    for _ in range(2):
        drive.ask(0, gpus=6, run=100, limit=100)
    gang = drive.ask(1, tasks=2, gpus=8, priority=100, run=50, limit=50)
    array = drive.ask(2, array=ArraySpec(ranges=((0, 3, 1),)), gpus=1, run=50, limit=50)
    too_long, endless = drive.ask(3, gpus=2, run=200, limit=200), drive.ask(4, gpus=1, run=10)
    drive.until(60)
    assert [one.starts for one in elements(drive, array)] == [[2]] * 4
    assert [too_long.starts, endless.starts] == [[], []]
    drive.finish_all()
    assert gang.starts == [100]


def test_a_gang_of_two_nodes_is_not_starved_by_small_jobs_of_which_nobody_says_how_long_they_run() -> None:
    drive = Drive(*nodes(2, gpus=4))
    for number in range(200):
        drive.ask(3 * number, gpus=1, run=30)
    gang = drive.ask(61, tasks=2, gpus=4, run=20, limit=20)
    drive.finish_all()
    assert gang.starts[0] <= 200


@pytest.mark.parametrize("cancelled_at", [None, 20])
def test_room_cleared_on_two_nodes_is_the_gangs_until_it_starts_or_gives_up(cancelled_at: int | None) -> None:
    drive = Drive(*nodes(2, gpus=4))
    drive.asks_of(8, 0, gpus=1, run=None, stop=30)
    gang = drive.ask(10, tasks=2, gpus=4, priority=100, run=50)
    small = [drive.ask(10 + 2 * number, gpus=1, run=5) for number in range(1, 15)]
    if cancelled_at is not None:
        drive.later(cancelled_at, lambda: drive.drop(gang))
    drive.until(45)
    if cancelled_at is None:
        assert gang.starts == [40]
    assert any(one.starts for one in small) == (cancelled_at is not None)


# --- chains and two obstacles at once (Q05, K04, B16) -----------------------------------------------------------------


def test_who_follows_a_capped_array_and_who_follows_them_waited_for_nothing_but_those_before() -> None:
    drive = Drive(node(gpus=4))
    array = drive.ask(0, array=ArraySpec(ranges=((0, 3, 1),), at_most=2), gpus=1, run=100)
    drive.until(1)
    second = drive.ask(2, gpus=4, run=50, after=[Dependency(job=array.id)])
    drive.until(3)
    third = drive.ask(4, gpus=1, run=10, after=[Dependency(job=second.id)])
    drive.finish_all()
    assert (second.starts, third.starts) == ([200], [250])
    assert [drive.job(one.id).waited_ms for one in (second, third)] == [0, 0]


@pytest.mark.parametrize("drained_first", [True, False])
def test_of_a_drained_node_and_a_lowered_limit_each_is_told_in_its_turn_and_the_gang_starts_when_both_are_gone(
    drained_first: bool,
) -> None:
    drive = Drive(*nodes(2), groups=[group("g", limit=gpu_amount(16))])
    drive.ask(0, gpus=8, group="g", run=100)
    gang = drive.ask(1, tasks=2, gpus=8, group="g", run=50)
    drive.until(2)
    acts = [lambda: drive.drain("n2"), lambda: drive.set_group("g", limit=gpu_amount(8))]
    for act in acts if drained_first else reversed(acts):
        act()
    drive.until(110)
    assert drive.why(gang) == "Group g uses 0 of 8 GPUs; the job needs 16 more."
    drive.set_group("g", limit=gpu_amount(16))
    drive.until(120)
    assert drive.why(gang) == "Needs 16 GPUs; at its turn 8 of 8 suitable ones were free."
    drive.drain("n2", drained=False)
    drive.finish_all()
    assert gang.starts == [120]

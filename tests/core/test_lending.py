"""Lending: what a group is guaranteed and does not use works for others, and comes back member by member.

The scenes are those of the capacity scheduling plugin (pkg/capacityscheduling and its integration tests in
kubernetes-sigs/scheduler-plugins), with members of elastic jobs in place of pods.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.make import World, gpu_amount, group, node, spec

from gangline_core import elasticity
from gangline_core.ids import JobId


def world(*nodes, own: int = 4, other: int = 4, most: int = 8) -> World:
    groups = [
        group("a", guaranteed=gpu_amount(own), limit=gpu_amount(most)),
        group("b", guaranteed=gpu_amount(other), limit=gpu_amount(most)),
    ]
    return World(*(nodes or (node("n1", gpus=4), node("n2", gpus=4))), groups=groups).set_policy(elastic="lending")


def job(made: World, group: str, size: int, *where: str, wants: int = 0, **fields) -> JobId:
    terms = {"gpus": 1, "tasks": wants or size, "minimum": 1, "maximum": 8, "group": group, **fields}
    asked = made.submit(spec(**terms))
    made.place(asked, *where, sizes={"worker": size})
    made.start(asked)
    return asked


def turn(made: World) -> dict[int, int]:
    """What is proposed now, given as far as it can be."""
    made.wait(120)
    facts = elasticity.propose(made.state, "default", made.at)
    if facts:
        made.tell("elastic.default", *facts)
        made.settle()
    return {fact.job: fact.size for fact in facts}


def sizes(made: World, *jobs: JobId) -> list[int]:
    return [made.job(one).sizes["worker"] for one in jobs]


def test_what_another_group_does_not_use_is_lent_up_to_the_limit() -> None:
    made = world(most=6)
    one = job(made, "a", 2, "n1")
    turn(made)
    assert sizes(made, one) == [6]


def test_borrowed_members_leave_when_their_owner_can_use_them_whatever_the_priorities() -> None:
    # test t1: borrowed p3 makes way, although it is as important
    made = world()
    borrower = job(made, "a", 7, "n1", "n1", "n1", "n1", "n2", "n2", "n2", priority=100)
    owner = job(made, "b", 1, "n2")
    assert turn(made) == {borrower: 4, owner: 4}
    turn(made)
    assert sizes(made, borrower, owner) == [4, 4]
    assert turn(made) == {}


def test_no_group_falls_below_its_guarantee_and_no_job_below_its_least() -> None:
    # the over-min test is repeated before each removal
    made = world(own=6, other=4)
    borrower = job(made, "a", 7, "n1", "n1", "n1", "n1", "n2", "n2", "n2")
    owner = job(made, "b", 1, "n2")
    turn(made)
    turn(made)
    assert sizes(made, borrower, owner) == [6, 2]
    least = world()
    whole = job(least, "a", 7, "n1", "n1", "n1", "n1", "n2", "n2", "n2", minimum=7, maximum=8, wants=7)
    other = job(least, "b", 1, "n2")
    assert turn(least) == {}
    assert sizes(least, whole, other) == [7, 1]


def test_beyond_its_guarantee_a_job_takes_only_from_less_important_ones_of_its_own_group() -> None:
    # victims, ns1{min 50, used 50}: only own lower p1; ns2's high p2 and mid p3 stay
    made = world(own=2, other=2, most=8)
    low = job(made, "a", 3, "n1", wants=1)
    high = job(made, "a", 1, "n1", wants=3, priority=10, maximum=3)
    stranger = job(made, "b", 4, "n2", priority=-5)
    turn(made)
    turn(made)
    assert sizes(made, low, high, stranger) == [1, 3, 4]


def test_of_those_that_may_give_the_least_important_gives_first_and_no_more_than_is_needed() -> None:
    # victims, ns2{min 50, used 100: p2 high, p3 mid}: p3 goes
    made = world(node("n1", gpus=8), own=3, other=1)
    important = job(made, "b", 3, "n1", priority=10)
    humble = job(made, "b", 4, "n1")
    owner = job(made, "a", 1, "n1", maximum=3)
    turn(made)
    turn(made)
    assert sizes(made, important, humble, owner) == [3, 2, 3]


def test_members_on_several_machines_are_taken_at_once() -> None:
    # tests t4 and t6 leave everything as it is there, because victims would be on two nodes
    made = world(node("n1", gpus=2), node("n2", gpus=2), node("n3", gpus=2), own=4, other=1)
    borrower = job(made, "b", 5, "n1", "n1", "n2", "n2", "n3")
    owner = job(made, "a", 1, "n3", sizes=[1, 4], maximum=4)
    assert turn(made) == {borrower: 2, owner: 4}
    turn(made)
    assert sizes(made, borrower, owner) == [2, 4]


def test_nobody_gives_anything_that_the_owner_could_not_use() -> None:
    # eviction without benefit: scheduler-plugins' single node rule, kube-batch #376
    made = world(node("n1", gpus=4), node("n2", gpus=4, model="H100"), own=1, other=7)
    borrower = job(made, "a", 4, "n1", gpu_models=["A100"])
    owner = job(made, "b", 4, "n2", gpu_models=["H100"], wants=4)
    assert turn(made) == {}
    assert sizes(made, borrower, owner) == [4, 4]


def test_one_borrowed_member_goes_where_two_groups_share_five_gpus() -> None:
    # scheduler-plugins #683: A{min 4, max 5} uses 5, B{min 1, max 5} asks for 1 and waits for ever there
    made = world(node("n1", gpus=5), own=4, other=1, most=5)
    borrower = job(made, "a", 5, "n1", maximum=5)
    late = made.submit(spec(gpus=1, group="b"))
    made.settle()
    assert made.job(late).state == "running"
    assert sizes(made, borrower) == [4]


def test_a_group_without_a_guarantee_gives_everything_back_but_its_least() -> None:
    # scheduler-plugins #211: A{min 0, max 4} borrowed, B{min 2, max 4} never gets it back there
    made = world(node("n1", gpus=4), own=0, other=4, most=4)
    borrower = job(made, "a", 3, "n1", maximum=4)
    owner = job(made, "b", 1, "n1", maximum=4)
    turn(made)
    turn(made)
    assert sizes(made, borrower, owner) == [1, 3]


@settings(max_examples=20, deadline=None)
@given(
    st.integers(0, 6),
    st.integers(0, 6),
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 3), st.integers(-1, 1)), min_size=1, max_size=5),
)
def test_lending_comes_to_rest_and_takes_nothing_that_is_guaranteed(own: int, other: int, jobs) -> None:
    made = world(own=own, other=other)
    room = ["n1"] * 4 + ["n2"] * 4
    live = []
    for name, size, priority in jobs:
        if len(room) >= size:
            live.append(job(made, name, size, *(room.pop(0) for _ in range(size)), priority=priority))
    before = {
        name: sum(made.job(one).sizes["worker"] for one in live if made.job(one).spec.group == name) for name in "ab"
    }
    seen = [turn(made) for _ in range(8)]
    assert seen[-3:] == [{}] * 3
    after = {
        name: sum(made.job(one).sizes["worker"] for one in live if made.job(one).spec.group == name) for name in "ab"
    }
    for name, guaranteed in (("a", own), ("b", other)):
        assert after[name] >= min(before[name], guaranteed)


@pytest.mark.parametrize("turns", [1, 5])
def test_without_anything_from_outside_nothing_moves(turns: int) -> None:
    made = world()
    job(made, "a", 5, "n1", "n1", "n1", "n1", "n2")
    job(made, "b", 2, "n2")
    for _ in range(3):
        turn(made)
    assert [turn(made) for _ in range(turns)] == [{}] * turns

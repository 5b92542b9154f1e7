"""Public reports with all mixed that other variants keep apart: slices beside shares, arrays of gangs, two pools."""

import itertools
from typing import Any

import pytest
from msgspec.structs import replace
from tests.cases.drive import Ask, Drive
from tests.cases.test_variants_places import slice_of
from tests.cases.test_variants_room import whose_room
from tests.make import gpu_amount, group, node, role

from gangline_core.cluster import Gpu, Node
from gangline_core.groups import User
from gangline_core.limits.usage_by_class import recompute
from gangline_core.spec import ArraySpec, Elastic, ResizeKind


def sliced(name: str, *, cut: int = 1, whole: int = 0, **fields: Any) -> Node:
    """A machine whose first cards are cut into slices and whose others are whole."""
    gpus = [
        Gpu(index=k, model="A100", memory_mib=40_960, uuid=f"{name}-{k}", mig="a100-40gb" if k < cut else "")
        for k in range(cut + whole)
    ]
    return replace(node(name, gpus=cut + whole, **fields), gpus=tuple(gpus))


def elements(drive: Drive, array: Ask) -> list[Ask]:
    return [ask for job, ask in drive.asks.items() if job in drive.state.kept.jobs and drive.job(job).array == array.id]


def size(drive: Drive, ask: Ask, name: str = "worker") -> int:
    return drive.job(ask.id).sizes.get(name, 0)


# --- A: gangs -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_elements_of_arrays_of_gangs_and_a_gang_take_the_cluster_in_turns(order: tuple[int, ...]) -> None:
    # volcano-sh/volcano#3373: every element is a gang that needs every card
    drive = Drive(*(node(f"n{k}", gpus=4) for k in range(3)))
    kinds = [
        {"tasks": 3, "gpus": 4, "array": ArraySpec(ranges=((0, 2, 1),))},
        {"tasks": 6, "gpus": 2, "array": ArraySpec(ranges=((5, 6, 1),), at_most=1)},
        {"roles": [role("a", tasks=2, gpus=4), role("b", tasks=4, gpus=1)]},
    ]
    for k in order:
        drive.ask(0, run=60, user=f"u{k}", **kinds[k])
    drive.until(1)
    held = [len(drive.job(job).tasks) for job in drive.state.kept.jobs if drive.job(job).tasks]
    assert len(held) == 1
    drive.until(100)
    drive.restart()
    drive.finish_all()
    ended = [ask.ended for ask in drive.asks.values() if ask.ended is not None]
    assert max(ended) == 360, "three, two and one of 60 s, one after the other"


def test_a_gang_of_slices_starts_whole_or_not_at_all() -> None:
    drive = Drive(sliced("n1", cut=1, whole=1), sliced("n2", cut=1))
    gang = [role("big", tasks=2, gpus=0), role("one", tasks=1, gpus=1)]
    gang[0] = replace(slice_of("4g.20gb")[0], name="big", count=2, min_count=2, max_count=2)
    first, second = (drive.ask(0, roles=gang, run=50) for _ in range(2))
    drive.until(1)
    assert sorted(len(drive.job(ask.id).tasks) for ask in (first, second)) == [0, 3]
    assert {name for name in drive.where(first if drive.job(first.id).tasks else second)} == {"n1", "n2"}
    drive.finish_all()
    assert sorted([first.ended, second.ended]) == [50, 100]


# --- B: quotas ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("cut", [2, 4, 6])
def test_a_lowered_limit_leaves_elastic_jobs_and_arrays_running_and_lets_neither_grow(cut: int, restart: bool) -> None:
    # apache/yunikorn-core#1068
    drive = Drive(node(gpus=16), groups=[group("q", limit=gpu_amount(8))])
    grown = drive.ask(0, tasks=2, minimum=1, maximum=16, gpus=1, group="q", run=5000)
    array = drive.ask(0, gpus=1, group="q", run=100, array=ArraySpec(ranges=((0, 9, 1),), at_most=4))
    drive.until(10)
    assert drive.used("q") == 8
    before = size(drive, grown)
    drive.set_group("q", limit=gpu_amount(cut))
    if restart:
        drive.restart()
    drive.until(50)
    assert drive.used("q") <= 8
    assert size(drive, grown) <= before
    running = len([one for one in elements(drive, array) if drive.is_running(one) == [True]])
    drive.until(99)
    assert running == 8 - before, "what runs is left alone"
    drive.until(101)
    assert drive.used("q") <= max(cut, before)
    drive.finish_all()
    assert recompute(drive.state) == {}


@pytest.mark.parametrize("how", ["code", "cancel", "lost"])
def test_elements_that_are_gangs_give_back_whole_and_once(how: str) -> None:
    # kubernetes-sigs/kueue#13482, ray-project/ray#18872
    drive = Drive(*(node(f"n{k}", gpus=4) for k in range(3)), groups=[group("q", limit=gpu_amount(12))])
    array = drive.ask(0, tasks=2, gpus=2, group="q", run=1000, array=ArraySpec(ranges=((0, 2, 1),)))
    late = drive.ask(5, tasks=2, gpus=2, group="q", run=10)
    drive.until(9)
    assert drive.is_waiting(late) == [True]
    victim = elements(drive, array)[1]
    match how:
        case "code":
            drive.later(10, lambda: drive.fail(victim))
        case "cancel":
            drive.later(10, lambda: drive.drop(victim))
        case "lost":
            drive.later(10, lambda: drive.lose(drive.where(victim)[0]))
    drive.until(12)
    if how == "lost":
        assert drive.used("q") <= 12
    else:
        assert late.starts == [10]
    drive.finish_all()
    assert recompute(drive.state) == {}


@pytest.mark.parametrize("seed", range(6))
def test_borrowers_of_slices_and_shares_of_one_instant_stay_within_what_is_lent(seed: int) -> None:
    # kubernetes-sigs/kueue#804
    owed = [group(path, guaranteed=gpu_amount(1)) for path in ("a", "b", "c")]
    drive = Drive(sliced("n1", cut=1, whole=2), groups=owed)
    asks = [
        {"roles": slice_of("7g.40gb"), "group": "a"},
        {"gpus": 1, "group": "a"},
        {"gpus": 0.5, "group": "b"},
        {"gpus": 0.75, "group": "b"},
        {"roles": slice_of("3g.20gb"), "group": "b"},
        {"gpus": 1, "group": "b"},
    ]
    for k in range(6):
        drive.ask(0, **asks[(k * 5 + seed) % 6])
    drive.until(1)
    assert drive.used() <= 3
    assert drive.used("b") <= 3 - min(1, drive.used("a"))
    drive.close()


# --- C, E: who makes way ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("needed", [1, 2, 3])
def test_a_borrower_that_can_shrink_gives_what_is_owed_and_is_not_sent_away(needed: int) -> None:
    # kubernetes-sigs/kueue#3405, with an elastic borrower
    owed = [group("one", guaranteed=gpu_amount(4)), group("two", guaranteed=gpu_amount(4)), group("three")]
    drive = Drive(node(gpus=8), groups=owed)
    drive.ask(0, tasks=4, gpus=1, group="one")
    borrower = drive.ask(1, tasks=2, minimum=1, maximum=4, gpus=1, group="three")
    drive.until(5)
    assert size(drive, borrower) == 4
    within = drive.ask(20, gpus=needed, group="two")
    beyond = drive.ask(30, gpus=4, group="one")
    drive.until(40)
    assert drive.is_running(within, borrower) == [True, True]
    assert drive.is_waiting(beyond) == [True]
    assert (size(drive, borrower), drive.evicted) == (4 - needed, [])


@pytest.mark.parametrize("ordering", ["fifo", "fair_share", "weighted"])
def test_an_array_that_can_never_fit_its_kind_of_card_kills_nobody(ordering: str) -> None:
    # kubernetes-sigs/kueue#6947: three H100 and many others
    owed = [group("a", guaranteed=gpu_amount(3, "H100")), group("b")]
    machines = [node("h", gpus=3, model="H100"), node("x", gpus=8), node("y", gpus=8)]
    drive = Drive(*machines, groups=owed, policy={"ordering": ordering})
    borrower = drive.ask(0, gpus=1, gpu_models=["H100"], group="b", run=9000)
    never = drive.ask(1, tasks=4, gpus=1, gpu_models=["H100"], group="a")
    array = drive.ask(2, tasks=4, gpus=1, gpu_models=["H100"], group="a", array=ArraySpec(ranges=((0, 3, 1),)))
    fits = drive.ask(3, tasks=3, gpus=1, gpu_models=["H100"], group="a", run=50)
    drive.until(20)
    assert never.refused is not None
    assert array.refused is not None
    assert drive.is_running(fits) == [True]
    assert [eviction.victim for eviction in drive.evicted] == [borrower.id]
    drive.finish_all()
    assert len(drive.evicted) == 1


@pytest.mark.parametrize("cancel", [None, 20])
@pytest.mark.parametrize("restart", [None, 15])
def test_slices_cleared_for_a_larger_one_are_not_taken_by_those_who_keep_coming(
    cancel: int | None, restart: int | None
) -> None:
    # kubernetes/kubernetes#54501
    drive = Drive(sliced("n1"))
    first = [drive.ask(0, roles=slice_of("1g.5gb"), stop=30) for _ in range(7)]
    high = drive.ask(10, roles=slice_of("7g.40gb"), priority=100)
    small = [drive.ask(12 + 2 * k, roles=slice_of("1g.5gb")) for k in range(20)]
    if cancel is not None:
        drive.later(cancel, lambda: drive.drop(high))
    if restart is not None:
        drive.later(restart, drive.restart)
    drive.until(300)
    assert drive.is_running(high) == [cancel is None]
    whose_room(drive, high, small=small, first=first, most=7)


@pytest.mark.parametrize("kept", ["3g.20gb", "1g.5gb"])
def test_only_slices_that_stand_in_the_way_go(kept: str) -> None:
    # apache/yunikorn-core#909: on one card the room of one slice is in the way, on the other it is not
    drive = Drive(sliced("n1"), sliced("n2"))
    old = [drive.ask(0, roles=slice_of("4g.20gb"), protected_s=10_000) for _ in range(2)]
    filler = [drive.ask(1 + k, roles=slice_of("1g.5gb"), stop=2) for k in range(3)]
    filler.append(drive.ask(15, roles=slice_of("3g.20gb"), stop=2))
    drive.until(20)
    assert all(drive.is_running(*old, *filler))
    high = drive.ask(30, roles=slice_of(kept), priority=9)
    drive.until(60)
    assert drive.is_running(high) == [True]
    assert [drive.job(one.victim).spec.roles[0].resources.mig for one in drive.evicted] == [kept]
    drive.finish_all()


def test_a_victim_that_starts_slowly_and_can_shrink_is_made_smaller_once() -> None:
    # kubernetes/kubernetes#134217
    drive = Drive(node(gpus=4))
    slow = drive.ask(0, tasks=4, minimum=2, maximum=4, gpus=1, start=60, stop=1)
    high = drive.ask(5, gpus=2, priority=100)
    drive.until(30)
    assert drive.is_running(high) == [True]
    drive.until(100)
    assert drive.is_running(slow, high) == [True, True]
    assert (len(drive.evicted) + len(drive.shrunk), size(drive, slow)) == (1, 2)


# --- D: order ---------------------------------------------------------------------------------------------------


def test_a_whole_card_of_slices_is_not_starved_by_an_endless_stream_of_small_ones() -> None:
    # kubernetes-sigs/kueue#8309
    drive = Drive(sliced("n1"))
    small = [drive.ask(10 * k, roles=slice_of("1g.5gb"), run=60, limit=60) for k in range(100)]
    big = drive.ask(101, roles=slice_of("7g.40gb"), run=60, limit=60)
    drive.until(1000)
    assert big.starts
    assert big.starts[0] <= 200
    drive.finish_all()
    assert all(ask.starts for ask in small)


@pytest.mark.parametrize("names", list(itertools.permutations(("x", "y", "z"))))
def test_three_equal_groups_with_pairs_share_what_does_not_divide_by_a_rule_that_a_restart_keeps(
    names: tuple[str, ...],
) -> None:
    # koordinator-sh/koordinator#2393: five pairs for three
    drive = Drive(
        node("n1", gpus=4),
        node("n2", gpus=6),
        groups=[group(name) for name in names],
        policy={"ordering": "fair_share"},
    )
    for name in names:
        drive.asks_of(10, 0, gpus=2, group=name)
    drive.until(10)
    held = {name: drive.used(name) for name in names}
    assert sorted(held.values()) == [2, 4, 4]
    drive.restart()
    drive.until(3600)
    assert {name: drive.used(name) for name in names} == held
    assert drive.evicted == []


@pytest.mark.parametrize("head", ["gang", "array", "elastic"])
def test_a_strict_head_in_one_pool_holds_up_nobody_in_another(head: str) -> None:
    # kubernetes-sigs/kueue#8309
    drive = Drive(
        node("n1", gpus=4, pool="x"), node("n2", gpus=4, pool="y"), policy={"backfill": False, "preemption": False}
    )
    drive.ask(0, gpus=4, pool="x", run=3600)
    kinds: dict[str, dict[str, Any]] = {
        "gang": {"tasks": 2, "gpus": 2},
        "array": {"gpus": 4, "array": ArraySpec(ranges=((0, 3, 1),))},
        "elastic": {"tasks": 3, "minimum": 3, "maximum": 4, "gpus": 1},
    }
    stuck = drive.ask(1, pool="x", priority=50, **kinds[head])
    free = drive.ask(2, gpus=4, pool="y")
    drive.until(10)
    assert drive.is_running(free) == [True]
    assert not drive.is_running(stuck)[0]


# --- F, H, I: places ----------------------------------------------------------------------------------------------


def test_whole_cards_and_shares_stay_off_cards_that_are_cut_into_slices() -> None:
    drive = Drive(sliced("n1", cut=2, whole=2))
    whole = [drive.ask(0, gpus=1) for _ in range(3)]
    half = [drive.ask(1, gpus=0.5) for _ in range(2)]
    drive.until(5)
    assert sum(drive.is_running(*whole)) == 2
    assert drive.is_running(*half) == [False, False]
    assert all(index >= 2 for ask in whole for _, gpus in drive.gpus(ask) for index in gpus)
    small = [drive.ask(10, roles=slice_of("3g.20gb")) for _ in range(5)]
    drive.until(20)
    assert sum(drive.is_running(*small)) == 4
    assert drive.used() == pytest.approx(2 + 4 * 0.428)


@pytest.mark.parametrize("same", [True, False])
def test_a_gang_of_one_model_over_two_roles_is_not_pieced_together(same: bool) -> None:
    # opendatahub-io/opendatahub-operator#3331
    drive = Drive(node("a", gpus=8, model="h200"), node("b", gpus=8, model="h200"), node("c", gpus=8, model="h100"))
    roles = [role("x", tasks=2, gpus=8), role("y", tasks=8, gpus=1)]
    gang = drive.ask(0, roles=roles, same_model=same)
    drive.until(5)
    assert (gang.refused is None) is not same
    two = drive.ask(6, roles=[role("x", tasks=1, gpus=8), role("y", tasks=8, gpus=1)], same_model=True)
    if not same:
        drive.drop(gang)
    drive.until(10)
    assert set(drive.where(two)) == {"a", "b"}


def test_quota_of_a_user_for_what_no_machine_has_costs_the_others_of_the_group_nothing() -> None:
    # kubernetes-sigs/kueue#4329
    users = [User(group="q", name="ada", limit=gpu_amount(8)), User(group="q", name="bob", limit=gpu_amount(8))]
    machines = [node("n1", gpus=4), node("n2", gpus=4, model="T4"), sliced("n3", cut=2)]
    drive = Drive(*machines, groups=[group("q", limit=gpu_amount(8))], users=users)
    never = drive.ask(0, gpus=8, group="q", user="ada")
    odd = drive.ask(1, tasks=5, gpus=1, gpu_models=["T4"], group="q", user="ada")
    ones = [drive.ask(2, gpus=1, group="q", user="bob") for _ in range(8)]
    drive.until(10)
    assert never.refused is not None
    assert odd.refused is not None
    assert all(drive.is_running(*ones))


# --- J, K: sizes and machines -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [ResizeKind.RESTART, ResizeKind.TORCHRUN, ResizeKind.SIGNAL])
def test_two_roles_in_steps_come_to_rest_and_a_small_neighbour_moves_neither(kind: ResizeKind) -> None:
    # ray-project/ray#62128
    drive = Drive(node("n1", gpus=8), node("n2", gpus=3))
    roles = [
        role("a", tasks=3, minimum=3, maximum=9, sizes=[3, 6, 9], gpus=1),
        role("b", tasks=2, minimum=2, maximum=4, sizes=[2, 4], gpus=1),
    ]
    job = drive.ask(0, roles=roles, elastic=Elastic(kind=kind))
    for minute in range(60):
        drive.until(60 * minute)
    seen = (size(drive, job, "a"), size(drive, job, "b"))
    assert sum(seen) <= 11
    changes = len(drive.shrunk) + sum(len(one.growths) for one in drive.decided)
    for minute in range(60, 120):
        drive.until(60 * minute)
    assert (size(drive, job, "a"), size(drive, job, "b")) == seen
    assert len(drive.shrunk) + sum(len(one.growths) for one in drive.decided) == changes
    for k in range(6):
        drive.ask(7300 + 600 * k, gpus=1, run=100)
    drive.until(12_000)
    assert not drive.evicted


@pytest.mark.parametrize("back", [110, None])
def test_a_node_of_slices_and_shares_that_blinks_loses_nobody(back: int | None) -> None:
    # armadaproject/armada#4390
    machine = sliced("n1", cut=1, whole=3)
    bare = replace(machine, gpus=())
    drive = Drive(machine)
    jobs = [
        drive.ask(0, roles=slice_of("3g.20gb")),
        drive.ask(0, gpus=0.5),
        drive.ask(0, gpus=0.25),
        drive.ask(0, gpus=1),
    ]
    waiting = drive.ask(5, gpus=2)
    drive.until(50)
    drive.later(100, lambda: drive.see(bare))
    if back is not None:
        drive.later(back, lambda: drive.see(machine))
    drive.later(105, drive.restart)
    drive.until(109)
    assert all(drive.is_running(*jobs))
    assert drive.is_running(waiting) == [False]
    assert not drive.evicted
    if back is not None:
        drive.until(130)
        drive.drop(waiting)
        small = drive.ask(140, gpus=1)
        drive.until(150)
        assert all(drive.is_running(*jobs, small))


def test_a_job_of_slices_that_grows_when_its_node_closes_comes_back_with_what_it_declared() -> None:
    # kubernetes-sigs/kueue#15399
    drive = Drive(sliced("n1"), sliced("n2"), groups=[group("q")])
    asked = replace(slice_of("1g.5gb")[0], count=2, min_count=1, max_count=14)
    job = drive.ask(0, roles=[asked], group="q", stop=1)
    drive.until(10)
    assert size(drive, job) == 14
    drive.later(20, lambda: drive.lose("n2"))
    drive.until(60)
    assert drive.is_running(job) == [True]
    assert 1 <= size(drive, job) <= 7
    drive.later(70, lambda: drive.see(sliced("n2")))
    drive.until(4000)
    assert size(drive, job) == 14

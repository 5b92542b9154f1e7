"""Public reports about room, told in other shapes: shares and roles that make way, moves, quotas, links, racks."""

from itertools import permutations

import pytest
from tests.cases.drive import Ask, Drive
from tests.cases.test_fractions import by_memory, two_cards
from tests.cases.test_topology import RACK, racks
from tests.make import World, group, node, role, spec

from gangline_core import facts as f
from gangline_core.ids import NodeId
from gangline_core.making_room.moves import plan_moves
from gangline_core.reasons import ReasonCode
from gangline_core.spec import TopologyWish


def victims(drive: Drive) -> list[int]:
    return [eviction.victim for eviction in drive.evicted]


# --- who makes way (E) --------------------------------------------------------------------------------------


@pytest.mark.parametrize("parts", list(permutations((0.5, 0.25, 0.25))))
def test_of_shares_on_one_card_the_two_small_ones_go_when_the_large_one_is_protected(parts):
    # apache/yunikorn-core#909 with parts of a card
    drive = Drive(node(gpus=1))
    asks = [drive.ask(k, gpus=part, protected_s=1000 if part == 0.5 else 0, stop=3) for k, part in enumerate(parts)]
    drive.until(9)
    high = drive.ask(10, gpus=0.5, priority=100)
    drive.until(30)
    small = {ask.id for ask, part in zip(asks, parts, strict=True) if part < 0.5}
    assert set(victims(drive)) == small
    assert all(drive.is_running(high, *(ask for ask in asks if ask.id not in small)))


@pytest.mark.parametrize("free", [0, 1])
def test_a_gang_of_two_roles_evicts_for_the_role_that_lacks_room_alone(free):
    drive = Drive(node("big", gpus=4, cpus=8), node("small", gpus=0, cpus=8))
    long = [drive.ask(k, gpus=2, cpus=1) for k in range(2 - free)]
    idle = drive.ask(3, gpus=0, cpus=4)
    drive.until(9)
    roles = [role("worker", tasks=2, gpus=1, cpus=1), role("server", tasks=2, gpus=0, cpus=2)]
    high = drive.ask(10, roles=roles, priority=50)
    drive.until(40)
    assert drive.is_running(high, idle) == [True, True]
    assert len(victims(drive)) == 1 - free
    assert sum(drive.is_running(*long)) == 1


@pytest.mark.parametrize("level", ["rack", "node"])
def test_who_needs_one_domain_empties_the_cheapest_domain_and_no_other(level):
    # four domains full of work of different age
    machines = [node(f"n{k}", gpus=4, labels={RACK: f"r{k // 2}"}) for k in range(4)]
    drive = Drive(*machines)
    old = [drive.ask(k, gpus=4, stop=2) for k in range(4)]
    drive.until(50)
    for ask in old[2:]:
        drive.drop(ask)
    young = [drive.ask(51, gpus=4, stop=2) for _ in range(2)]
    drive.until(59)
    tasks = 4 if level == "rack" else 2
    high = drive.ask(60, tasks=tasks, gpus=2, topology=level, priority=9)
    drive.until(90)
    assert drive.is_running(high) == [True]
    assert all(drive.is_running(*old[:2]))
    assert set(victims(drive)) <= {ask.id for ask in young}
    assert len(victims(drive)) == tasks // 2


def whose_room(drive: Drive, high: Ask, *, small: list[Ask], first: list[Ask], most: int) -> None:
    """Room that was cleared until 40 s is that of whom it was for, unless that one went: then it is for all."""
    if drive.is_running(high) == [True]:
        assert high.starts == [40]
        assert not any(ask.starts for ask in small)
    else:
        assert not high.starts
        assert sum(drive.is_running(*small, *first)) == most, "those who were told to go have gone"
        assert any(ask.starts for ask in small)


@pytest.mark.parametrize("cancel", [None, 20])
@pytest.mark.parametrize("nodes", [2, 3])
def test_room_of_shares_cleared_on_several_nodes_is_not_taken_by_those_who_keep_coming(cancel, nodes):
    # kubernetes/kubernetes#54501 with halves of cards on several nodes
    drive = Drive(*(node(f"n{k}", gpus=2) for k in range(nodes)))
    first = drive.asks_of(4 * nodes, 0, gpus=0.5, stop=30)
    high = drive.ask(10, tasks=nodes, gpus=2, priority=100)
    small = [drive.ask(12 + 2 * k, gpus=0.5) for k in range(20)]
    if cancel is not None:
        drive.later(cancel, lambda: drive.drop(high))
    drive.until(300)
    assert drive.is_running(high) == [cancel is None]
    whose_room(drive, high, small=small, first=first, most=4 * nodes)


@pytest.mark.parametrize("sick", [1, 2])
def test_never_for_a_gang_that_still_would_not_fit_where_a_card_is_sick(sick):
    drive = Drive(*(node(f"n{k}", gpus=4) for k in range(2)))
    drive.asks_of(8, 0, gpus=1)
    drive.until(2)
    for k in range(sick):
        drive.tell("telemetry", f.GpuFailed(node=NodeId(f"n{k}"), gpu=0, problem="xid 79"))
    drive.until(5)
    before = len(drive.evicted)
    stuck = drive.ask(10, tasks=2, gpus=4, priority=100)
    drive.until(60)
    assert drive.is_waiting(stuck) == [True]
    assert len(drive.evicted) == before


# --- gangs and guarantees (A, C) ----------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [4000, 5500])
def test_a_gang_of_roles_and_shares_above_its_limit_starts_no_member(limit):
    # kai-scheduler/KAI-Scheduler#500: 4 x 1 and 4 x 0.5 are 6 GPUs
    drive = Drive(node(gpus=8), groups=[group("q", limit={"gpu_milli": limit})])
    roles = [role("worker", tasks=4, gpus=1), role("small", tasks=4, gpus=0.5)]
    gang = drive.ask(0, roles=roles, group="q")
    drive.until(5)
    assert gang.refused is not None
    assert "6" in drive.why(gang)
    assert drive.used() == 0
    drive.set_group("q", limit={"gpu_milli": 6000})
    again = drive.ask(10, roles=roles, group="q")
    drive.until(15)
    assert drive.is_running(again) == [True]
    assert len(drive.tasks(again.id)) == 8


@pytest.mark.parametrize(("owed", "asked", "gone"), [(3000, 3, 3), (2000, 2, 2), (4000, 1, 1)])
def test_exactly_as_much_as_is_owed_and_asked_is_taken_back_from_borrowers(owed, asked, gone):
    # volcano-sh/volcano#4825 with single cards and other parts
    drive = Drive(
        node(gpus=8),
        groups=[
            group("p"),
            group("p/one", guaranteed={"gpu_milli": 8000 - owed}),
            group("p/two", guaranteed={"gpu_milli": owed}),
        ],
    )
    borrowed = drive.asks_of(8, 0, gpus=1, group="p/one")
    drive.until(9)
    job = drive.ask(10, tasks=asked, gpus=1, group="p/two")
    drive.until(60)
    assert drive.is_running(job) == [True]
    assert len(victims(drive)) == gone
    assert sum(drive.is_running(*borrowed)) == 8 - gone


def test_an_impossible_job_of_an_owner_is_passed_and_the_possible_one_costs_one_borrower_once():
    # kubernetes-sigs/kueue#6947 with 5 GPUs on two nodes: a gang of 2 x 3 never fits 3 + 2
    drive = Drive(
        node("n1", gpus=3),
        node("n2", gpus=2),
        groups=[group("a", guaranteed={"gpu_milli": 5000}), group("b")],
    )
    borrower = drive.ask(0, gpus=3, group="b")
    drive.until(4)
    never = drive.ask(5, tasks=2, gpus=3, group="a")
    fits = drive.ask(6, gpus=3, group="a")
    drive.until(500)
    assert never.refused is not None
    assert drive.is_running(fits) == [True]
    assert victims(drive) == [borrower.id]


# --- fragments (F) ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "moves"), [("shares", 2), ("gang", 1)])
def test_shares_and_gangs_are_moved_as_few_as_can_be_and_the_reason_tells_both_numbers(kind, moves):
    # volcano-sh/volcano#3948 with halves of cards, and with a gang that moves whole
    world = World(*(node(f"n{k}", gpus=2) for k in range(3)))
    if kind == "shares":
        for k in range(3):
            world.submit_running(spec(gpus=0.5), (f"n{k}", [0]))
            world.submit_running(spec(gpus=0.5), (f"n{k}", [1]))
    else:
        world.submit_running(spec(tasks=2, gpus=1), "n0", "n1")
        world.submit_running(spec(gpus=1, preemptible=False), "n2")
        world.submit_running(spec(gpus=1, preemptible=False), "n1")
    waiting = world.submit(gpus=2)
    world.round()
    plan = plan_moves(world.state, world.job(waiting), world.at)
    assert len(plan.moves) == moves
    assert world.reason(waiting) in (ReasonCode.FRAGMENTED_GPUS, ReasonCode.INSUFFICIENT_GPUS)
    assert world.state.stopping_tasks == {}


@pytest.mark.parametrize(("replicas", "most", "hosts"), [(7, 3, 3), (9, 4, 3), (5, 5, 1), (6, 1, 6)])
def test_a_bounded_spread_of_any_numbers_uses_as_few_nodes_as_it_may(replicas, most, hosts):
    # volcano-sh/volcano#5078
    drive = Drive(*(node(f"n{k}", gpus=8) for k in range(8)))
    wish = TopologyWish(spread_level="node", spread_most=most)
    service = drive.ask(0, tasks=replicas, gpus=1, topology=wish)
    training = drive.ask(1, tasks=8 - hosts, gpus=8) if hosts < 8 else None
    drive.until(2)
    assert len(set(drive.where(service))) == hosts
    assert all(drive.where(service).count(name) <= most for name in drive.where(service))
    assert drive.is_running(training) == [True]


@pytest.mark.parametrize("level", ["nvlink", "node", "rack"])
def test_quota_for_what_no_domain_has_is_not_held_and_others_of_the_group_run(level):
    # kubernetes-sigs/kueue#4329: the sum suffices, no domain does
    machines = [node(f"n{k}", gpus=4, islands=[0, 0, 1, 1], labels={RACK: f"r{k // 2}"}) for k in range(4)]
    drive = Drive(*machines, groups=[group("q", limit={"gpu_milli": 16_000})])
    size = {"nvlink": 3, "node": 5, "rack": 9}[level]
    large = drive.ask(0, tasks=size, gpus=1, topology=level, group="q")
    small = drive.asks_of(16, 1, gpus=1, group="q")
    drive.until(5)
    assert large.refused is not None
    assert large.refused.code == ReasonCode.NEVER_FITS_TOPOLOGY
    assert all(drive.is_running(*small))


# --- links and racks (G) ------------------------------------------------------------------------------------


@pytest.mark.parametrize("links", list(permutations((0, 1, 1, 0)))[:6])
@pytest.mark.parametrize("gone", [0, 1])
def test_a_pair_that_was_released_is_given_again_whole_on_a_node_of_four(links, gone):
    # NVIDIA/k8s-device-plugin#546
    drive = Drive(node(gpus=4, islands=list(links)))
    pairs = [drive.ask(k, gpus=2) for k in range(2)]
    drive.until(5)
    drive.drop(pairs[gone])
    again = drive.ask(10, gpus=2)
    drive.until(15)
    [(_, cards)] = drive.gpus(again)
    assert links[cards[0]] == links[cards[1]]


@pytest.mark.parametrize("singles", range(1, 8))
def test_singles_fill_islands_of_four_so_that_fours_find_whole_ones(singles):
    # NVIDIA/k8s-device-plugin#1193 with islands of four on two nodes
    drive = Drive(*(node(f"n{k}", gpus=8, islands=[0, 1, 0, 1, 0, 1, 0, 1]) for k in range(2)))
    drive.asks_of(singles, 0, gpus=1)
    fours = [drive.ask(5, gpus=4, topology="nvlink") for _ in range((16 - singles) // 4)]
    drive.until(9)
    assert all(drive.is_running(*fours))


@pytest.mark.parametrize(
    ("members", "gpus", "fits"), [(17, 4, True), (18, 4, True), (19, 4, False), (36, 2, True), (73, 1, False)]
)
def test_a_rack_of_eighteen_is_filled_to_the_last_card_and_the_rest_is_told_never(members, gpus, fits):
    # kai-scheduler/KAI-Scheduler#1217
    drive = Drive(*racks(r1=18, r2=18))
    first = drive.ask(0, tasks=16, gpus=4, topology="rack")
    gang = drive.ask(1, tasks=members, gpus=gpus, topology="rack")
    drive.until(5)
    if not fits:
        assert gang.refused.code == ReasonCode.NEVER_FITS_TOPOLOGY
        return
    assert {name.partition("-")[0] for name in drive.where(gang)} & {
        name.partition("-")[0] for name in drive.where(first)
    } == set()


# --- parts of cards (H) -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("card", "share"), [(24_576, 1_000), (81_559, 7_000), (46_068, 2_000), (15_360, 5_121)])
def test_a_card_is_filled_with_equal_shares_and_then_to_the_last_mib(card, share):
    # kai-scheduler/KAI-Scheduler#416
    drive = Drive(two_cards(card))
    fit, rest = divmod(card, share)
    asks = [drive.ask(0, **by_memory(share)) for _ in range(fit + 1)]
    drive.until(1)
    assert sum(drive.is_running(*asks)) == fit
    if rest:
        over, exact = drive.ask(2, **by_memory(rest + 1)), drive.ask(3, **by_memory(rest))
        drive.until(4)
        assert drive.is_running(over, exact) == [False, True]


@pytest.mark.parametrize(("cards", "part", "rest"), [(4, 0.2, 0.8), (3, 0.35, 0.65), (5, 0.05, 0.95)])
def test_whole_cards_take_those_nobody_shares_and_the_shared_one_is_filled_up(cards, part, rest):
    # "1 GPU" and "4 of 20 shares" on one card
    drive = Drive(node(gpus=cards))
    first = drive.ask(0, gpus=part)
    whole = [drive.ask(1, gpus=1) for _ in range(cards)]
    fills = drive.ask(2, gpus=rest)
    more = drive.ask(3, gpus=0.001)
    drive.until(4)
    assert sum(drive.is_running(*whole)) == cards - 1
    assert drive.gpus(fills) == drive.gpus(first)
    assert drive.is_waiting(more) == [True]

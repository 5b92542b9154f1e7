"""Where shares of GPUs go, and gangs that ask for a level of the topology."""

import itertools

import pytest
from msgspec.structs import replace
from tests.core.test_placement import BLOCK, RACK, Place, nodes_of, where
from tests.make import node, role, spec

from gangline_core.cluster import Gpu
from gangline_core.reasons import ReasonCode
from gangline_core.spec import TopologyWish

# --- shares ---------------------------------------------------------------------------------------------------


def test_twenty_three_shares_of_2000_mib_fit_a_card_of_46068_and_not_one_more():
    place = Place(node("n1", gpus=1, gpu_memory_mib=46_068))
    asked = spec(gpus=0, gpu_memory_mib=2_000, cpus=0)
    placed = [place.seat(asked) for _ in range(24)]
    assert [seats is not None for seats in placed] == [True] * 23 + [False]
    assert place.seat(gpus=0, gpu_memory_mib=69, cpus=0) is None
    assert place.seat(gpus=0, gpu_memory_mib=68, cpus=0) is not None


def test_two_sizes_of_card_in_one_node_are_told_apart():
    gpus = (Gpu(index=0, model="T4", memory_mib=10_240), Gpu(index=1, model="T4", memory_mib=20_480))
    place = Place(replace(node("n1", gpus=2), gpus=gpus))
    assert where(place.seat(gpus=0, gpu_memory_mib=15_360)) == [("n1", [1])]
    assert place.seat(gpus=0, gpu_memory_mib=15_360) is None
    assert where(place.seat(gpus=0, gpu_memory_mib=8_192)) == [("n1", [0])]
    assert place.why(gpus=0, gpu_memory_mib=25_600).code == ReasonCode.INSUFFICIENT_GPU_MEMORY


def test_whole_cards_and_shares_are_two_readings_of_one_ledger():
    place = Place(node("n1"))
    [(_, [shared])] = where(place.seat(gpus=0.2))
    whole = [where(place.seat(gpus=1))[0][1][0] for _ in range(7)]
    assert shared not in whole
    assert place.seat(gpus=1) is None
    assert where(place.seat(gpus=0.8)) == [("n1", [shared])]
    assert place.seat(gpus=0.05) is None


@pytest.mark.parametrize("parts", [[0.1, 0.9], [0.1] * 10, [0.33, 0.33, 0.34], [0.7, 0.2, 0.1]])
def test_shares_that_add_up_to_one_card_fit_it(parts):
    for order in set(itertools.permutations(parts)) if len(parts) < 5 else [parts]:
        place = Place(node("n1", gpus=1))
        seats = [place.seat(gpus=part, cpus=0, memory_mib=0) for part in order]
        assert all(seats)
        assert place.room.milli.tolist() == [[0]]
        for one in seats:
            place.leave(*one.tasks)
        assert where(place.seat(gpus=1)) == [("n1", [0])]


def test_a_gang_of_shares_finds_cards_of_one_node():
    place = Place(node("n1", gpus=4, memory_mib=262_144))
    roles = [role("a", gpus=0.1, memory_mib=123_904), role("b", tasks=2, gpus=0.9)]
    assert place.seat(spec(roles=roles)) is not None


def test_a_share_by_memory_is_charged_by_the_card_it_lands_on():
    place = Place(node("n1", gpus=1, gpu_memory_mib=16_384), node("n2", gpus=1, gpu_memory_mib=81_920))
    shares = [place.seat(gpus=0, gpu_memory_mib=20_480).tasks[0] for _ in range(3)]
    assert {task.node for task in shares} == {"n2"}
    assert [task.gpus[0].milli for task in shares] == [250] * 3
    half = place.seat(gpus=0.5).tasks[0]
    assert half.node == "n1"
    assert half.gpus[0].memory_mib == 8_192


def test_a_share_goes_to_the_fullest_card_that_still_fits():
    place = Place(node("n1", gpus=2), node("n2", gpus=2))
    place.seat(gpus=0.5)
    assert where(place.seat(gpus=0.3)) == [("n1", [0])]
    assert where(place.seat(gpus=0.3)) == [("n1", [1])]
    assert where(place.seat(gpus=0.2)) == [("n1", [0])]


# --- topology -------------------------------------------------------------------------------------------------


def test_a_whole_rack_gang_never_mixes_racks():
    racks = [node(f"{rack}-{k:02d}", gpus=4, labels={RACK: rack}) for rack in ("r1", "r2") for k in range(18)]
    place = Place(*racks)
    first = place.seat(gpus=4, tasks=16, topology="rack")
    second = place.seat(gpus=4, tasks=16, topology="rack")
    assert {name.split("-")[0] for name in nodes_of(first)} == {"r1"}
    assert {name.split("-")[0] for name in nodes_of(second)} == {"r2"}
    assert first.level == "rack"
    assert place.seat(gpus=4, tasks=4, topology="rack") is None
    assert place.seat(gpus=4, tasks=4) is not None


def test_eighteen_of_eighteen_fit_and_nineteen_never_do():
    place = Place(*(node(f"n{k:02d}", gpus=4, labels={RACK: "r1"}) for k in range(18)))
    assert place.seat(gpus=4, tasks=19, topology="rack") is None
    assert place.seat(gpus=4, tasks=18, topology="rack") is not None


def test_the_tightest_domain_that_fits_is_taken():
    sizes = {"a": 3, "b": 2, "c": 4}
    place = Place(*(node(f"{r}{k}", labels={RACK: r}) for r, count in sizes.items() for k in range(count)))
    assert {name[0] for name in nodes_of(place.seat(gpus=8, tasks=2, topology="rack"))} == {"b"}
    assert {name[0] for name in nodes_of(place.seat(gpus=8, tasks=2, topology="rack"))} == {"a"}


def test_a_preferred_level_is_left_only_when_it_cannot_hold_the_gang():
    place = Place(*(node(f"{rack}{k}", gpus=4, labels={RACK: rack, BLOCK: "x"}) for rack in "ab" for k in range(2)))
    wish = TopologyWish(required="block", preferred="rack")
    near = place.seat(spec(gpus=4, tasks=2, topology=wish))
    assert near.level == "rack"
    place.leave(*near.tasks)
    far = place.seat(spec(gpus=4, tasks=3, topology=wish))
    assert far.level == "block"


def test_nodes_without_the_label_are_in_no_domain():
    place = Place(node("n1"), node("n2", labels={RACK: "r"}))
    assert nodes_of(place.seat(gpus=8, topology="rack")) == ["n2"]
    assert place.seat(gpus=8, topology="rack") is None
    assert place.why(gpus=8, topology="rack").code == ReasonCode.INSUFFICIENT_GPUS


def test_a_required_node_holds_every_role():
    place = Place(node("n1", gpus=4), node("n2", gpus=8))
    roles = [role("worker", tasks=3, gpus=2), role("chief", gpus=1)]
    seats = place.seat(spec(roles=roles, topology="node"))
    assert set(nodes_of(seats)) == {"n2"}
    assert place.seat(spec(roles=roles, topology="node")) is None


def test_a_required_island_holds_the_whole_gang():
    place = Place(node("n1", islands=[0, 0, 1, 1, 1, 1, 2, 2]))
    assert [gpus for _, gpus in where(place.seat(gpus=2, tasks=2, topology="nvlink"))] == [[2, 3], [4, 5]]
    assert place.seat(gpus=2, tasks=2, topology="nvlink") is None
    assert [gpus for _, gpus in where(place.seat(gpus=1, tasks=2, topology="nvlink"))] == [[0], [1]]


def test_a_required_socket_holds_the_whole_gang():
    place = Place(node("n1", islands=[0, 0, 1, 1, 2, 2, 3, 3], sockets=[0, 0, 0, 0, 1, 1, 1, 1]))
    place.seat(gpus=1)
    assert [gpus for _, gpus in where(place.seat(gpus=2, tasks=2, topology="socket"))] == [[4, 5], [6, 7]]


def test_the_topology_placer_keeps_close_without_being_asked():
    nodes = [node(f"{rack}{k}", gpus=4, labels={RACK: rack}) for rack in "abc" for k in range(2)]
    place = Place(*nodes, placer="topology")
    place.seat(gpus=4)
    assert place.seat(gpus=4, tasks=2).level == "rack"
    assert place.seat(gpus=2, tasks=2).level == "nvlink"


def test_spread_uses_as_many_nodes_as_there_are_and_then_doubles_up():
    place = Place(*(node(f"n{k}") for k in range(3)), placer="spread")
    assert nodes_of(place.seat(gpus=1, tasks=3)) == ["n0", "n1", "n2"]
    assert sorted(nodes_of(place.seat(gpus=1, tasks=5))) == ["n0", "n0", "n1", "n1", "n2"]

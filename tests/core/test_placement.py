"""Where gangs go: whole or not at all, links kept whole, models in order, topology honoured."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.make import World, node, role, spec, state_with

from gangline_core import facts as f
from gangline_core.cluster import Gpu, Pool, Taint
from gangline_core.facts import TaskPlacement
from gangline_core.limits.quota import minimum_sizes
from gangline_core.placement import PLACERS, search
from gangline_core.placement.gang import Gang, Seats, gang_of
from gangline_core.placement.why_not import why_not
from gangline_core.reasons import ReasonCode, hint, sentence
from gangline_core.spec import JobSpec, Toleration, TopologyWish

RACK = "topology.gangline.dev/rack"
BLOCK = "topology.gangline.dev/block"


class Place:
    """A room that fills up as gangs are seated in it."""

    def __init__(self, *nodes, placer="best_fit"):
        self.room = state_with(*nodes).room("default").copy()
        self.placer = PLACERS[placer]

    def gang(self, asked: JobSpec) -> Gang:
        return gang_of(asked, {r.name: r.count for r in asked.roles}, Pool(name="default"))

    def seat(self, asked: JobSpec | None = None, **fields) -> Seats | None:
        seats = self.placer(self.room, self.gang(asked or spec(**fields)))
        for task in seats.tasks if seats else ():
            self.room.take(task)
        return seats

    def leave(self, *tasks: TaskPlacement) -> None:
        for task in tasks:
            self.room.give(task)

    def why(self, asked: JobSpec | None = None, **fields):
        return why_not(
            self.room, gang_of(asked or spec(**fields), minimum_sizes(asked or spec(**fields)), Pool("default"))
        )


def where(seats: Seats | None) -> list[tuple[str, list[int]]]:
    assert seats is not None
    return [(task.node, [share.index for share in task.gpus]) for task in seats.tasks]


def nodes_of(seats: Seats | None) -> list[str]:
    return [name for name, _ in where(seats)]


# --- whole GPUs and links -------------------------------------------------------------------------------------


def test_linked_pairs_stay_together_even_when_they_are_not_neighbours():
    islands = [0, 1, 0, 1, 2, 2, 3, 3]
    place = Place(node("n1", islands=islands))
    pairs = [place.seat(gpus=2) for _ in range(4)]
    for seats in pairs:
        [(_, gpus)] = where(seats)
        assert islands[gpus[0]] == islands[gpus[1]]
    second = pairs[1]
    place.leave(*second.tasks)
    assert where(place.seat(gpus=2)) == where(second)


def test_singles_fill_broken_pairs_first():
    place = Place(node("n1", islands=[0, 0, 1, 1, 2, 2, 3, 3]))
    singles = [where(place.seat(gpus=1))[0][1][0] for _ in range(4)]
    assert sorted(singles) == [0, 1, 2, 3]
    doubles = [where(place.seat(gpus=2))[0][1] for _ in range(2)]
    assert sorted(doubles) == [[4, 5], [6, 7]]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 7), max_size=60))
def test_after_singles_came_and_went_a_double_gets_a_whole_pair_if_there_is_one(steps):
    islands = [0, 0, 1, 1, 2, 2, 3, 3]
    place, held = Place(node("n1", islands=islands)), []
    for step in steps:
        if step < len(held) and step % 2:
            place.leave(*held.pop(step).tasks)
        elif (seats := place.seat(gpus=1)) is not None:
            held.append(seats)
    free = place.room.milli[0].tolist()
    whole = [k for k in range(4) if free[2 * k] == free[2 * k + 1] == 1000]
    seats = place.seat(gpus=2)
    if whole:
        [(_, gpus)] = where(seats)
        assert islands[gpus[0]] == islands[gpus[1]]
    elif sum(free) >= 2000:
        assert seats is not None


def test_only_arrivals_leave_as_many_whole_pairs_as_possible():
    place = Place(node("n1", islands=[0, 0, 1, 1, 2, 2, 3, 3]))
    for taken in range(1, 9):
        place.seat(gpus=1)
        free = place.room.milli[0].tolist()
        whole = sum(free[2 * k] == free[2 * k + 1] == 1000 for k in range(4))
        assert whole == (8 - taken) // 2


def test_one_bad_gpu_per_pair_does_not_stop_two_singles():
    gpus = tuple(Gpu(index=k, model="A100", memory_mib=40_960, island=k // 2, healthy=k % 2 == 0) for k in range(4))
    place = Place(replace(node("n1", gpus=4), gpus=gpus))
    wish = TopologyWish(preferred="nvlink")
    assert sorted(gpus for _, gpus in where(place.seat(spec(gpus=1, tasks=2, topology=wish)))) == [[0], [2]]


def test_a_required_pair_waits_until_its_gpu_is_repaired():
    gpus = tuple(Gpu(index=k, model="A100", memory_mib=40_960, island=k // 2, healthy=k % 2 == 0) for k in range(4))
    sick = replace(node("n1", gpus=4), gpus=gpus)
    asked = spec(gpus=1, tasks=2, topology="nvlink")
    place = Place(sick)
    assert place.seat(asked) is None
    assert place.why(asked).code == ReasonCode.TOPOLOGY
    cured = replace(sick, gpus=tuple(replace(gpu, healthy=True) if gpu.index == 1 else gpu for gpu in gpus))
    assert where(Place(cured).seat(asked)) == [("n1", [0]), ("n1", [1])]


def test_four_of_eight_stay_on_one_socket_and_use_up_whole_islands():
    place = Place(node("n1", islands=[0, 0, 1, 1, 2, 2, 3, 3], sockets=[0, 0, 0, 0, 1, 1, 1, 1]))
    place.seat(gpus=1)
    [(_, gpus)] = where(place.seat(gpus=4))
    assert gpus == [4, 5, 6, 7]


def test_a_single_goes_to_the_fullest_node():
    place = Place(node("n1"), node("n2"), node("n3"))
    place.seat(gpus=5)
    assert nodes_of(place.seat(gpus=1)) == ["n1"]
    assert nodes_of(place.seat(gpus=4)) == ["n2"]
    assert nodes_of(place.seat(gpus=2)) == ["n1"]
    assert nodes_of(place.seat(gpus=8)) == ["n3"]


def test_a_node_with_linked_gpus_is_better_than_a_fuller_one_without():
    place = Place(node("n1", gpus=4, islands=[0, 0, 1, 1]), node("n2", gpus=4, islands=[0, 0, 1, 1]))
    place.seat(gpus=2)
    first = place.seat(gpus=1)
    assert nodes_of(first) == ["n1"]
    place.leave(*first.tasks)
    place.room.take(TaskPlacement(role="x", index=0, node="n1", gpus=first.tasks[0].gpus))
    assert nodes_of(place.seat(gpus=2)) == ["n2"]


# --- gangs ----------------------------------------------------------------------------------------------------


def test_a_gang_is_placed_whole_or_not_at_all():
    place = Place(node("n1"), node("n2"))
    assert place.seat(gpus=8, tasks=3) is None
    assert place.room.free.tolist() == [8, 8]
    assert sorted(nodes_of(place.seat(gpus=8, tasks=2))) == ["n1", "n2"]


def test_a_failed_search_leaves_the_room_as_it_was():
    place = Place(node("n1", cpus=10), node("n2", cpus=10))
    before = (place.room.cpu.tolist(), place.room.milli.tolist(), place.room.fullness.tolist(), list(place.room.total))
    roles = [role("worker", tasks=2, gpus=4, cpus=5), role("server", tasks=3, gpus=0, cpus=5)]
    assert place.seat(spec(roles=roles)) is None
    after = (place.room.cpu.tolist(), place.room.milli.tolist(), place.room.fullness.tolist(), list(place.room.total))
    assert before == after


def test_a_gang_takes_as_few_nodes_as_it_can():
    place = Place(node("n1"), node("n2"), node("n3"))
    place.seat(gpus=6)
    assert set(nodes_of(place.seat(gpus=1, tasks=8))) == {"n2"}
    assert sorted(nodes_of(place.seat(gpus=1, tasks=10))) == ["n1", "n1", *["n3"] * 8]


def test_several_roles_go_together():
    place = Place(node("n1", cpus=16), node("n2", cpus=16))
    roles = [
        role("chief", tasks=1, gpus=1, cpus=4),
        role("worker", tasks=2, gpus=7, cpus=8),
        role("ps", gpus=0, cpus=4),
    ]
    seats = place.seat(spec(roles=roles))
    assert [task.role for task in seats.tasks] == ["chief", "worker", "worker", "ps"]
    assert place.room.cpu.min() >= 0
    assert place.room.free.tolist() == [0, 1] or place.room.free.tolist() == [1, 0]


def test_ranks_follow_topology_inside_a_role():
    racks = {"n1": "b", "n2": "a", "n3": "b", "n4": "a"}
    place = Place(*(node(name, labels={RACK: rack}) for name, rack in racks.items()))
    seats = place.seat(gpus=8, tasks=4)
    assert nodes_of(seats) == ["n2", "n4", "n1", "n3"]
    assert [task.index for task in seats.tasks] == [0, 1, 2, 3]


# --- models, labels, taints, other resources ------------------------------------------------------------------


def test_models_are_tried_in_the_order_of_preference():
    place = Place(node("n1", model="V100"), node("n2", model="A100"))
    asked = spec(gpus=8, gpu_models=["A100", "V100"])
    assert nodes_of(place.seat(asked)) == ["n2"]
    assert nodes_of(place.seat(asked)) == ["n1"]
    assert place.seat(asked) is None


def test_a_gang_gets_one_model_when_any_single_one_has_room():
    place = Place(node("n1", model="V100"), node("n2", model="A100"), node("n3", model="A100"))
    asked = spec(gpus=8, tasks=2, gpu_models=["V100", "A100"])
    assert sorted(nodes_of(place.seat(asked))) == ["n2", "n3"]


def test_models_are_mixed_only_when_no_single_one_has_room():
    place = Place(node("n1", model="h200"), node("n2", model="h200"), node("n3", model="h100"))
    assert Place(*place.room.nodes).seat(gpus=8, tasks=2, gpu_models=["h100"]) is None
    assert nodes_of(Place(*place.room.nodes).seat(gpus=8, tasks=2, gpu_models=["h200"])) == ["n1", "n2"]
    assert nodes_of(place.seat(gpus=8, tasks=3)) == ["n1", "n2", "n3"]


def test_models_match_exactly_but_in_any_case():
    place = Place(node("n1", model="H100-NVL"))
    assert place.seat(gpus=1, gpu_models=["h100"]) is None
    assert nodes_of(place.seat(gpus=1, gpu_models=["h100-nvl"])) == ["n1"]


def test_without_a_preference_the_common_model_goes_first():
    place = Place(node("n1", model="rare"), node("n2", model="plenty"), node("n3", model="plenty"))
    assert nodes_of(place.seat(gpus=1)) == ["n2"]


def test_whole_gpus_can_ask_for_a_least_memory():
    place = Place(node("n1", gpu_memory_mib=16_000), node("n2", gpu_memory_mib=80_000))
    assert nodes_of(place.seat(gpus=2, gpu_memory_mib=20_000)) == ["n2"]


def test_labels_and_taints_decide_who_may_take_it():
    place = Place(
        node("n1", drained=True),
        node("n2", taints=["maintenance"]),
        node("n3", problem="no driver"),
        node("n4"),
        node("n5", labels={"zone": "b"}),
    )
    assert nodes_of(place.seat(gpus=8)) == ["n4"]
    assert nodes_of(place.seat(gpus=4, tolerations=(Toleration(key="maintenance"),), node_selector={})) == ["n2"]
    assert nodes_of(place.seat(gpus=4, node_selector={"zone": "b"})) == ["n5"]
    reason = place.why(gpus=1, node_selector={"zone": "c"})
    assert reason.code == ReasonCode.NO_ELIGIBLE_NODE
    assert reason.numbers["unmatched"] == 5


def test_who_waits_for_sick_machines_reads_that_they_are_sick_and_not_lost():
    world, asked = World(node("n1"), node("n2", problem="no driver"), node("n3")), spec(gpus=1)
    world.tell("telemetry", f.NodeLost(node="n1", silent_ms=30_000))
    gang = gang_of(asked, minimum_sizes(asked), Pool("default"))
    world.tell("telemetry", f.NodeQuarantined(node="n3", problem="starts fail here"))
    sick = why_not(world.state.room("default"), gang)
    assert sentence(sick).endswith("0 drained, 1 lost, 2 sick, 0 tainted, 0 do not match.")
    assert "gangline resume NODE" in hint(sick, job=1)
    plain = Place(node("n1", drained=True)).why(gpus=1)
    assert "sick" not in sentence(plain) + hint(plain, job=1)


def test_a_toleration_with_a_value_accepts_only_that_value():
    tainted = node("n1")
    place = Place(replace(tainted, taints=(Taint(key="team", value="a"),)))
    assert place.seat(gpus=1, tolerations=(Toleration(key="team", value="b"),)) is None
    assert place.seat(gpus=1, tolerations=(Toleration(key="team", value="a"),)) is not None


def test_a_gpu_that_fits_is_not_enough_when_memory_is_missing():
    place = Place(node("n1", memory_mib=2048), node("n3", gpus=1, memory_mib=100_000))
    assert nodes_of(place.seat(gpus=1, memory_mib=4096)) == ["n3"]
    assert nodes_of(place.seat(gpus=2, memory_mib=1024)) == ["n1"]


def test_other_devices_are_counted():
    place = Place(node("n1", devices={"rdma": 1}), node("n2", devices={"rdma": 2}))
    assert nodes_of(place.seat(gpus=1, devices={"rdma": 2})) == ["n2"]
    assert place.seat(gpus=1, devices={"rdma": 2}) is None
    reason = place.why(gpus=1, devices={"rdma": 2})
    assert reason.code == ReasonCode.INSUFFICIENT_DEVICES
    assert reason.numbers == {"needed": 2, "device": "rdma", "free": 1}


def test_cpu_jobs_leave_gpu_nodes_alone_while_others_have_room():
    place = Place(node("n1", cpus=8), node("n2", gpus=0, cpus=8))
    assert nodes_of(place.seat(gpus=0, cpus=8)) == ["n2"]
    assert nodes_of(place.seat(gpus=0, cpus=8)) == ["n1"]


# --- properties -----------------------------------------------------------------------------------------------

_RESOURCES = st.fixed_dictionaries(
    {
        "gpus": st.sampled_from([0, 0.25, 0.5, 1, 2, 3, 4, 8]),
        "tasks": st.integers(1, 5),
        "cpus": st.integers(0, 20),
        "memory_mib": st.sampled_from([0, 1000, 200_000]),
    }
)
_LEVELS = st.sampled_from(["", "", "nvlink", "socket", "node", "rack", "block"])


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(
            _RESOURCES, _LEVELS, st.sampled_from(list(PLACERS)), st.sampled_from([(), ("A100",), ("V100", "A100")])
        ),
        min_size=1,
        max_size=12,
    ),
    st.integers(0, 5),
)
def test_nothing_is_over_booked_and_required_levels_hold(asks, seed):
    nodes = [
        node(
            f"n{k}",
            gpus=[8, 4, 2, 0][(k + seed) % 4],
            model=["A100", "V100"][k % 2],
            cpus=32,
            islands=[0, 0, 1, 1, 2, 2, 3, 3][: [8, 4, 2, 0][(k + seed) % 4]],
            sockets=[0, 0, 0, 0, 1, 1, 1, 1][: [8, 4, 2, 0][(k + seed) % 4]],
            labels={RACK: f"r{k // 2}", BLOCK: f"b{k // 4}"},
        )
        for k in range(6)
    ]
    place = Place(*nodes)
    ladder = ("nvlink", "socket", "node", "rack", "block", "")
    for fields, level, placer, models in asks:
        asked = spec(**fields, gpu_models=models, topology=level)
        seats = PLACERS[placer](place.room, place.gang(asked))
        again = PLACERS[placer](place.room, place.gang(asked))
        assert seats == again, "equal inputs must give equal seats"
        if seats is None:
            assert place.why(asked).code
            continue
        assert len(seats.tasks) == fields["tasks"]
        if level and not (fields["gpus"] == 0 and level in ("nvlink", "socket")):
            assert ladder.index(seats.level) <= ladder.index(level)
        for task in seats.tasks:
            place.room.take(task)
        for array in (place.room.cpu, place.room.memory, place.room.milli, place.room.gpu_memory):
            assert int(array.min()) >= 0
        counted = place.room.copy()
        counted.count_all()
        assert counted.whole.tolist() == place.room.whole.tolist()
        assert counted.total == place.room.total
        assert counted.fullness.tolist() == place.room.fullness.tolist()
        assert counted.linked.tolist() == place.room.linked.tolist()


@pytest.mark.parametrize(
    ("large", "small", "gpus"),
    [(large, small, gpus) for large in (9, 12, 16) for small in (4, 8) for gpus in (1, 2, 4, 8) if gpus <= small],
)
def test_a_task_leaves_a_node_whole_that_holds_more_than_the_usual_tasks(large, small, gpus):
    """Nothing is known of the pool yet: a node of more than eight GPUs stays for whom no other node holds."""
    for names in (("n1", "n2"), ("n2", "n1")):
        world = World(node(names[0], gpus=large), node(names[1], gpus=small))
        job = world.submit(gpus=gpus)
        world.round()
        assert [task.node for task in world.state.tasks_of(world.job(job))] == [names[1]]


# --- what is not looked at ----------------------------------------------------------------------------------


def test_who_lacks_one_seat_of_many_is_refused_by_one_sum(monkeypatch) -> None:
    """No seat is chosen where too few are there, nor is the pool tried where it is one block that was tried."""
    in_block = {BLOCK: "b0"}
    place = Place(
        *(node(name, gpus=0, cpus=1, labels={**in_block, RACK: "r1"}) for name in ("n1", "n2", "n3")),
        node("n4", gpus=0, cpus=1, labels={**in_block, RACK: "r2"}),
        placer="topology",
    )
    chosen, tried = [], []
    seat_alone, seat_all = search.seat_alone, search._seat_all
    monkeypatch.setattr(search, "seat_alone", lambda *args, **more: chosen.append(args) or seat_alone(*args, **more))
    monkeypatch.setattr(search, "_seat_all", lambda *args, **more: tried.append(args) or seat_all(*args, **more))
    spread = TopologyWish(spread_level="rack", spread_most=2)
    assert place.seat(tasks=4, gpus=0, cpus=1, topology=spread) is None
    assert (len(chosen), len(tried)) == (0, 1)
    assert len(nodes_of(place.seat(tasks=3, gpus=0, cpus=1, topology=spread))) == 3
    assert (len(chosen), len(tried)) == (3, 2)

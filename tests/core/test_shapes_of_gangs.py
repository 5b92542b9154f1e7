"""How gangs stand: slices, spread, switches, network cards, MIG slices, one model, excluded nodes."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.core.test_placement import RACK, Place, nodes_of, where
from tests.make import World, node, role, spec

from gangline_core.cluster import Nic, Pool
from gangline_core.door.never_fits import never_fits
from gangline_core.elasticity import propose
from gangline_core.placement import PLACERS, thorough, why_together
from gangline_core.placement.shaped import keeps_shape
from gangline_core.reasons import ReasonCode, sentence
from gangline_core.room.inventory import Inventory
from gangline_core.room.mig import GEOMETRIES, best_start, how_many
from gangline_core.spec import Resources, Role, TopologyWish


def switched(id="n1", *, nics=(), **fields):
    """Eight GPUs, two per switch, two switches per socket."""
    machine = node(id, sockets=[0] * 4 + [1] * 4, **fields)
    gpus = tuple(replace(gpu, switch=gpu.index // 2) for gpu in machine.gpus)
    return replace(machine, gpus=gpus, nics=tuple(Nic(name=f"mlx5_{k}", socket=k // 2, switch=k) for k in nics))


def cut(id="n1", *, cards=1, geometry="a100-40gb", **fields):
    """A node whose first cards are cut by MIG."""
    machine = node(id, **fields)
    return replace(machine, gpus=tuple(replace(g, mig=geometry) if g.index < cards else g for g in machine.gpus))


def sliced(profile, **fields):
    """A job of one MIG slice per task."""
    milli = {"1g": 142, "2g": 285, "3g": 428, "4g": 571, "7g": 1000}[profile[:2]]
    need = Resources(gpu_milli=milli, mig=profile, cpu_milli=1000)
    tasks = fields.pop("tasks", 1)
    worker = Role(name="worker", count=tasks, min_count=tasks, max_count=tasks, resources=need, command=("true",))
    return spec(roles=[worker], **fields)


def verdict(asked, *nodes):
    found = never_fits(Inventory(nodes), Pool(name="default"), asked)
    return None if found is None else (sentence(found[0]), found[1])


# --- switches and network cards -------------------------------------------------------------------------------


def test_two_gpus_come_from_one_switch_and_whole_switches_stay_whole():
    place = Place(switched())
    assert where(place.seat(gpus=1)) == [("n1", [0])]
    assert where(place.seat(gpus=2)) == [("n1", [2, 3])]
    assert where(place.seat(gpus=1)) == [("n1", [1])]


def test_a_required_switch_is_kept_and_not_taken_for_granted_where_nobody_told_it():
    assert Place(switched()).seat(gpus=2, topology="switch").level in ("nvlink", "switch")
    assert Place(switched()).seat(gpus=4, topology="switch") is None
    assert Place(node()).seat(gpus=2, topology="switch") is None
    assert "switch" in verdict(spec(gpus=4, topology="switch"), switched())[0]


def test_who_asks_for_a_network_card_nearby_gets_gpus_of_such_a_switch():
    asked = spec(roles=[role(gpus=2)])
    near = replace(asked, roles=(replace(asked.roles[0], resources=replace(asked.roles[0].resources, near_nic=True)),))
    place = Place(switched(nics=[2]))
    assert where(place.seat(near)) == [("n1", [4, 5])]
    assert place.seat(near) is None
    assert "network card" in verdict(near, switched())[0]
    assert verdict(near, switched(nics=[0])) is None


# --- MIG ------------------------------------------------------------------------------------------------------


def test_slices_begin_where_the_card_allows_it():
    place = Place(cut(gpus=1))
    starts = [place.seat(sliced("1g.5gb")).tasks[0].gpus[0].slots for _ in range(7)]
    assert sorted(slots.bit_length() - 1 for slots in starts) == list(range(7))
    assert place.seat(sliced("1g.5gb")) is None


def test_two_halves_fit_a_card_and_a_third_does_not_however_much_compute_is_left():
    place = Place(cut(gpus=1))
    halves = [place.seat(sliced("3g.20gb")) for _ in range(3)]
    assert [seats and seats.tasks[0].gpus[0].slots for seats in halves] == [0xF0, 0x0F, None]


def test_a_small_slice_leaves_the_large_one_its_start():
    place = Place(cut(gpus=1))
    place.seat(sliced("1g.5gb"))
    assert place.seat(sliced("4g.20gb")).tasks[0].gpus[0].slots == 0x0F


def test_whole_gpus_and_shares_never_land_on_a_cut_card_nor_slices_on_a_whole_one():
    place = Place(cut(gpus=2))
    assert where(place.seat(gpus=1)) == [("n1", [1])]
    assert place.seat(gpus=0.5) is None
    assert where(place.seat(sliced("7g.40gb"))) == [("n1", [0])]
    assert Place(node()).seat(sliced("1g.5gb")) is None


def test_a_profile_no_card_has_can_never_fit_and_says_so():
    assert verdict(sliced("1g.10gb"), node()) == (
        "One task needs 1 1g.10gb slice; the largest node has 0.",
        "roles[0].mig",
    )
    assert verdict(sliced("1g.5gb", tasks=8), cut(gpus=1)) == (
        "The job needs 8 places for tasks of 0.142 GPUs (role worker); the pool has 7.",
        "roles[0].tasks",
    )


def test_booking_the_same_slots_twice_is_refused_and_given_back_slots_are_free_again():
    world = World(cut(gpus=1))
    first = world.submit(sliced("3g.20gb"))
    world.round()
    second = world.submit(sliced("4g.20gb"))
    world.round()
    world.start(first, second)
    slots = [world.tasks(one)[0].gpus[0].slots for one in (first, second)]
    assert slots[0] & slots[1] == 0
    third = world.submit(sliced("4g.20gb"))
    world.round()
    assert world.reason(third) == ReasonCode.INSUFFICIENT_SLICES
    assert sentence(world.job(third).reason) == "Needs 1 MIG slice 4g.20gb; the cut cards have room for 0."
    world.finish(second)
    world.round()
    assert world.tasks(third)[0].gpus[0].slots == slots[1]


@given(st.sampled_from(sorted(GEOMETRIES)), st.data())
def test_slices_that_come_and_go_never_overlap_and_leave_an_empty_card(geometry, data):
    known = GEOMETRIES[geometry]
    free, held = known.all_free, []
    for _ in range(data.draw(st.integers(1, 20))):
        if held and data.draw(st.booleans()):
            free += held.pop(data.draw(st.integers(0, len(held) - 1)))
            continue
        profile = data.draw(st.sampled_from(sorted(known.profiles)))
        slots = best_start(geometry, profile, free)
        assert (slots is not None) == (how_many(geometry, profile, free) > 0)
        if slots is not None:
            assert slots in known.profiles[profile].masks
            assert free & slots == slots
            free -= slots
            held.append(slots)
    assert free + sum(held) == known.all_free


# --- slices and spread ----------------------------------------------------------------------------------------


def racks(count, per_rack, **fields):
    return [node(f"r{r}n{k}", labels={RACK: f"r{r}"}, **fields) for r in range(count) for k in range(per_rack)]


def test_each_slice_stands_in_one_rack_and_the_gang_may_be_larger_than_any():
    wish = TopologyWish(slice_tasks=4, slice_level="rack")
    place = Place(*racks(3, 6, gpus=1))
    seats = place.seat(tasks=12, gpus=1, topology=wish)
    by_slice = [{name[:2] for name in nodes_of(seats)[k : k + 4]} for k in (0, 4, 8)]
    assert all(len(found) == 1 for found in by_slice)
    # Two tasks are left in each rack: enough in sum for a slice, but in no rack.
    assert place.seat(tasks=4, gpus=1, topology=wish) is None


def test_single_tasks_stay_inside_an_island_each():
    wish = TopologyWish(slice_tasks=1, slice_level="nvlink")
    machine = node(islands=[0, 0, 0, 1, 1, 1, 2, 2])
    seats = Place(machine).seat(tasks=3, gpus=2, topology=wish)
    assert where(seats) == [("n1", [0, 1]), ("n1", [3, 4]), ("n1", [6, 7])]
    assert Place(machine).seat(tasks=4, gpus=2, topology=wish) is None
    assert Place(machine).seat(tasks=4, gpus=2) is not None


def test_a_bounded_spread_packs_up_to_its_bound():
    wish = TopologyWish(spread_level="node", spread_most=4)
    seats = Place(*(node(f"n{k:02}") for k in range(12))).seat(tasks=8, gpus=1, topology=wish)
    assert Counter(nodes_of(seats)) == {"n00": 4, "n01": 4}


def test_a_spread_over_racks_counts_every_role():
    wish = TopologyWish(spread_level="rack", spread_most=2)
    asked = spec(roles=[role("a", tasks=2), role("b", tasks=2)], topology=wish)
    seats = Place(*racks(2, 2)).seat(asked)
    assert Counter(name[:2] for name in nodes_of(seats)) == {"r0": 2, "r1": 2}
    assert Place(*racks(1, 4)).seat(asked) is None


@pytest.mark.parametrize(
    ("wish", "words", "field"),
    [
        (TopologyWish(slice_tasks=4, slice_level="rack"), "4 tasks inside one rack; the pool has 3", "topology.slices"),
        (TopologyWish(spread_level="rack"), "at most 1 task in one rack; the pool has 2", "topology.spread"),
        (TopologyWish(spread_level="nowhere"), "the pool has 0", "topology.spread"),
    ],
)
def test_a_shape_no_empty_cluster_could_hold_is_refused_with_the_number(wish, words, field):
    told, where_told = verdict(spec(tasks=4, gpus=1, topology=wish), *racks(2, 3, gpus=1))
    assert words in told
    assert where_told == field


@settings(max_examples=80, deadline=None)
@given(
    st.integers(1, 3),
    st.sampled_from(["rack", "node", "nvlink", "socket"]),
    st.integers(1, 4),
    st.sampled_from(["", "rack", "node"]),
    st.integers(1, 4),
    st.lists(st.integers(0, 8), min_size=6, max_size=6),
    st.integers(1, 2),
    st.sampled_from(["best_fit", "default", "topology", "buddy", "bisection", "spread"]),
    st.sampled_from(["", "node", "socket"]),
)
def test_whatever_is_seated_keeps_its_shape(unit, level, slices, spread, most, taken, gpus, placer, required):
    nodes = [
        node(
            f"n{k}",
            islands=[0, 0, 1, 1, 2, 2, 3, 3] if k % 2 else [0, 0, 0, 0, 1, 1, 2, 2],
            sockets=[0] * 4 + [1] * 4,
            labels={RACK: f"r{k // 2}"} if k < 5 else {},
        )
        for k in range(6)
    ]
    place = Place(*nodes, placer=placer)
    for k, count in enumerate(taken):
        for _ in range(count):
            place.seat(gpus=1, node_selector={}, exclude_nodes=tuple(f"n{j}" for j in range(6) if j != k))
    wish = TopologyWish(slice_tasks=unit, slice_level=level, spread_level=spread, spread_most=most)
    asked = spec(tasks=unit * slices, gpus=gpus, topology=replace(wish, required=required))
    before = place.room.milli.copy()
    seats = place.seat(asked)
    if seats is None:
        assert place.why(asked).code
        assert (place.room.milli == before).all()
        return
    assert keeps_shape(place.room.layout, place.gang(asked), seats.tasks)
    assert (place.room.milli >= 0).all()
    if required:
        sockets = {
            (task.node, share.index // 4 if required == "socket" else 0) for task in seats.tasks for share in task.gpus
        }
        assert len(sockets) == 1


@pytest.mark.parametrize("placer", ["best_fit", "default", "topology", "buddy", "bisection"])
@pytest.mark.parametrize("required", ["", "socket"])
def test_a_slice_that_no_island_holds_waits_though_its_socket_has_room(placer, required):
    machine = node("n1", gpus=8, islands=[0, 0, 1, 1, 2, 2, 3, 3], sockets=[0] * 4 + [1] * 4)
    pair = TopologyWish(slice_tasks=2, slice_level="nvlink", required=required)
    place = Place(machine, placer=placer)
    assert place.seat(spec(tasks=2, gpus=2, topology=pair)) is None
    seats = place.seat(spec(tasks=2, gpus=1, topology=pair))
    (first, second) = (share.index for task in seats.tasks for share in task.gpus)
    assert first // 2 == second // 2


# --- one model, excluded nodes ----------------------------------------------------------------------------------


def test_any_but_the_same_model_is_not_mixed_and_never_fits_where_no_model_has_enough():
    nodes = [node("a"), node("b"), node("c", model="H100")]
    mixed, same = spec(tasks=3, gpus=8), spec(tasks=3, gpus=8, same_model=True)
    assert Place(*nodes).seat(mixed) is not None
    assert Place(*nodes).seat(same) is None
    assert verdict(mixed, *nodes) is None
    assert verdict(same, *nodes) == ("The job needs 24 GPUs of one model; the pool has 16.", "same_model")
    assert verdict(spec(tasks=2, gpus=8, same_model=True), *nodes) is None


def test_slices_over_several_models_start_when_each_is_of_one():
    """Two racks, each with two GPUs of either model: no model has four, but each slice of two has its own."""
    nodes = [
        node(f"{rack}{model}{k}", gpus=1, model=model, labels={RACK: rack})
        for rack in ("r1", "r2")
        for k, model in enumerate(("A", "B", "A", "B"))
    ]
    wish = TopologyWish(slice_tasks=2, slice_level="rack")
    asked = spec(tasks=8, gpus=1, topology=wish)
    assert verdict(asked, *nodes) is None
    world = World(*nodes)
    job = world.submit(asked)
    world.settle()
    tasks = sorted(world.tasks(job), key=lambda task: task.rank)
    slices = [{task.node[:3] for task in tasks[k : k + 2]} for k in range(0, 8, 2)]
    assert sorted(map(sorted, slices)) == [["r1A"], ["r1B"], ["r2A"], ["r2B"]]


def test_slices_that_no_model_fills_are_refused_at_the_door():
    nodes = [
        node(f"{rack}{model}", gpus=1, model=model, labels={RACK: rack}) for rack in ("r1", "r2") for model in "AB"
    ]
    wish = TopologyWish(slice_tasks=2, slice_level="rack")
    told, field = verdict(spec(tasks=2, gpus=1, topology=wish), *nodes)
    assert told == (
        "The job needs 2 places for tasks of its role in slices of 2 inside one rack, each on one model; "
        "the pool has 0."
    )
    assert field == "topology.slices"
    assert verdict(spec(tasks=2, gpus=1), *nodes) is None


def test_roles_that_never_stand_side_by_side_are_refused_with_the_number_that_is_too_large():
    nodes = [node("n1", gpus=4, labels={RACK: "r1"}), node("n2", gpus=4, labels={RACK: "r2"})]
    beside = [role("a", gpus=3), role("b", gpus=3), role("c", gpus=2)]
    assert verdict(spec(roles=beside), *nodes) == (
        "The job needs 3 places for tasks of all roles side by side; the pool has 2.",
        "roles",
    )
    assert verdict(spec(roles=beside[:2]), *nodes) is None
    level = [role("a", gpus=2, cpus=40), role("b", gpus=1, cpus=30)]
    assert verdict(spec(roles=level, topology="rack"), *nodes) == (
        "The job needs 2 places for tasks of all roles side by side inside one rack; the pool has 1.",
        "topology.required",
    )
    assert verdict(spec(gpus=0, cpus=40, tasks=2, topology="rack"), *nodes) == (
        "The job needs 2 places for tasks of its role inside one rack; the pool has 1.",
        "topology.required",
    )
    assert verdict(spec(roles=level), *nodes) is None
    apart = TopologyWish(spread_level="rack", spread_most=1, required="node")
    assert verdict(spec(roles=beside[:2], topology=apart), *nodes)[1] in ("topology.required", "topology.spread")


def test_excluded_nodes_and_models_are_left_alone():
    place = Place(node("a"), node("b"), node("c", model="H100"))
    assert nodes_of(place.seat(gpus=8, exclude_nodes=("a",))) == ["b"]
    asked = spec(gpus=1)
    need = replace(asked.roles[0].resources, exclude_models=("A100",))
    assert nodes_of(place.seat(replace(asked, roles=(replace(asked.roles[0], resources=need),)))) == ["c"]
    assert verdict(spec(gpus=8, exclude_nodes=("a",)), node("a"), node("b", gpus=4)) is not None


def test_a_job_that_grows_keeps_its_spread():
    wish = TopologyWish(spread_level="node", spread_most=1)
    world = World(node("n1"), node("n2"))
    job = world.submit(spec(roles=[role(tasks=1, minimum=1, maximum=4)], topology=wish))
    world.settle()
    for proposal in propose(world.state, "default", world.at):
        world.tell("elastic.default", proposal)
    world.settle()
    assert Counter(task.node for task in world.tasks(job)) in (Counter({"n1": 1}), Counter({"n1": 1, "n2": 1}))


def test_roles_of_a_gang_are_tried_in_other_orders_when_the_first_leaves_no_room():
    nodes = [node("n1", gpus=4, cpus=4), node("n2", gpus=2, cpus=64)]
    for placer in ("default", "best_fit", "topology", "spread"):
        world = World(*nodes)
        world.set_policy(placement=placer)
        job = world.submit(roles=(role("a", gpus=2, cpus=1), role("b", tasks=2, gpus=1, cpus=16)))
        world.settle()
        assert {(task.role, task.node) for task in world.tasks(job)} == {("a", "n1"), ("b", "n2")}


@pytest.mark.parametrize("placer", sorted(PLACERS))
def test_roles_that_fill_every_core_and_gpu_are_seated_whoever_places(placer):
    """Machines of 11, 17, 12 and 20 cores are filled exactly; task after task, in whatever order, ends beside it."""
    sizes = [(2, 11), (2, 17), (4, 12), (4, 20)]
    nodes = [node(f"n{k}", gpus=gpus, cpus=cpus) for k, (gpus, cpus) in enumerate(sizes)]
    roles = [role("a", tasks=6, gpus=2, cpus=3), role("b", tasks=6, gpus=0, cpus=3), role("c", tasks=6, gpus=0, cpus=4)]
    place = Place(*nodes, placer=placer)
    assert place.seat(spec(roles=roles)) is not None
    assert place.room.cpu.tolist() == [0, 0, 0, 0]
    assert Place(*nodes[:3], node("n3", gpus=4, cpus=19), placer=placer).seat(spec(roles=roles)) is None


def test_of_roles_in_each_others_way_it_is_told_how_many_tasks_fit_together():
    world = World(node("n1", gpus=4), node("n2", gpus=4))
    job = world.submit(roles=(role("a", gpus=3), role("b", gpus=3), role("c", gpus=2)))
    world.settle()
    assert world.tasks(job) == []
    assert sentence(world.job(job).reason) == (
        "Needs 3 places for all of its roles side by side; "
        "at most 2 fit together, though each role alone would find room."
    )
    by_cpu = world.submit(roles=(role("a", gpus=1, cpus=60), role("b", gpus=1, cpus=40), role("c", gpus=2, cpus=40)))
    world.settle()
    assert sentence(world.job(by_cpu).reason) == (
        "Needs 60 CPUs per task; at most 64 are free where it could run: room for 2 of 3 tasks."
    )


def test_a_level_is_told_with_what_lacks_inside_it_and_never_with_enough():
    """GPUs of one role, GPUs of all, or how many tasks stand side by side there: what was counted."""
    nodes = [
        node("n1", gpus=8, cpus=8, labels={RACK: "r1"}, islands=[0] * 6 + [1] * 2),
        node("n2", gpus=8, cpus=8, labels={RACK: "r2"}, islands=[0] * 4 + [1] * 4),
    ]

    def told(level, *roles):
        return sentence(Place(*nodes).why(spec(roles=roles, topology=level)))

    assert told("nvlink", role("a", gpus=8, cpus=1), role("b", gpus=0, cpus=1)) == (
        "Needs 8 GPUs for role a inside one nvlink; at its turn at most 6 were free in one (n1)."
    )
    assert told("rack", role("a", gpus=5, cpus=1), role("b", gpus=4, cpus=1)) == (
        "Needs 9 GPUs inside one rack; at its turn at most 8 were free in one (r1)."
    )
    assert told("rack", role("a", gpus=4, cpus=3, tasks=2), role("b", gpus=0, cpus=3)) == (
        "Needs 3 places for all of its roles side by side inside one rack; "
        "at most 2 fit together, though each role alone would find room (r1)."
    )
    assert told("rack", role("a", gpus=0, cpus=4, tasks=3), role("b", gpus=1, cpus=1)) == (
        "Needs 3 places for role a inside one rack; at its turn at most 2 were free in one (r1)."
    )


def test_a_shape_is_told_by_the_role_that_lacks_places_or_by_all():
    nodes = [node(f"n{k}", gpus=4, cpus=8, labels={RACK: f"r{k // 2}"}) for k in range(4)]
    in_racks = TopologyWish(slice_tasks=2, slice_level="node")
    asked = spec(roles=[role("a", tasks=2, gpus=1, cpus=1), role("b", tasks=4, gpus=3, cpus=1)], topology=in_racks)
    told = "Needs 4 places for role b in slices of 2 inside one node; there are 0 now."
    assert sentence(Place(*nodes).why(asked)) == told
    apart = TopologyWish(spread_level="rack", spread_most=1)
    asked = spec(roles=[role("a", gpus=1, cpus=1), role("b", tasks=2, gpus=1, cpus=1)], topology=apart)
    told = (
        "Needs 3 places for all of its roles side by side with at most 1 in one rack; "
        "at most 2 fit together, though each role alone would find room."
    )
    assert sentence(Place(*nodes).why(asked)) == told


def test_a_search_that_was_given_up_says_so(monkeypatch):
    monkeypatch.setattr(thorough, "WORK_MAX", 1)
    monkeypatch.setattr(why_together, "WORK_MAX", 1)
    place = Place(node("n1", gpus=4), node("n2", gpus=4))
    asked = spec(roles=(role("a", gpus=3), role("b", gpus=3), role("c", gpus=2)))
    assert place.seat(asked) is None
    told = "Needs 3 places for all of its roles side by side; whether there are so many was not found out in 1 steps."
    assert sentence(place.why(asked)) == told

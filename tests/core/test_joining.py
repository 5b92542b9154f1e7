"""Nodes that come and go change what is free as if it had been worked out anew, without the others being looked at."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.make import World, node, spec

from gangline_core.cluster import NodeUse
from gangline_core.room.capacity import Room
from gangline_core.room.inventory import Inventory
from gangline_core.state import State

FIELDS = (
    "places",
    "cpu",
    "memory",
    "free",
    "fullness",
    "linked",
    "switched",
    "socketed",
    "milli",
    "gpu_memory",
    "whole",
)
LAYOUT = ("kind", "memory", "uncut", "island", "switch", "socket", "island_size", "works", "has_gpus")


def machine(number: int):
    kind = number % 4
    gpus = [8, 4, 8, 0][kind]
    return node(
        f"n{number:02d}",
        gpus=gpus,
        model=["A100", "A100", "V100", "A100"][kind],
        islands=[0, 0, 1, 1, 2, 2, 3, 3][:gpus],
        devices={"rdma": 2} if kind == 0 else {},
        labels={"zone": f"z{number % 3}"},
    )


def anew(state: State) -> Room:
    room = Room.of(state.nodes_of("default"), state.kept.pools["default"].policy.node_tasks_max)
    for one in room.nodes:
        room.refresh(one, state.use.get(one.id, NodeUse(len(one.gpus))))
    return room


def assert_equal(own: Room, other: Room) -> None:
    assert own.nodes == other.nodes
    assert own.layout.kinds == other.layout.kinds
    assert own.layout.row == other.layout.row
    assert list(own.layout.by_number.items()) == list(other.layout.by_number.items())
    assert own.layout.width == other.layout.width
    assert own.layout.has_switches == other.layout.has_switches
    assert own.total == other.total
    assert own.crowded == other.crowded
    for field in FIELDS:
        assert np.array_equal(getattr(own, field), getattr(other, field)), field
    for field in LAYOUT:
        assert np.array_equal(getattr(own.layout, field), getattr(other.layout, field)), field
    assert {name: free.tolist() for name, free in own.devices.items()} == {
        name: free.tolist() for name, free in other.devices.items()
    }
    codes = own.layout.domains("zone"), other.layout.domains("zone")
    assert codes[0][0].tolist() == codes[1][0].tolist()
    assert [own.layout.cards(row) for row in range(len(own.nodes))] == [
        other.layout.cards(row) for row in range(len(own.nodes))
    ]


steps = st.lists(
    st.one_of(
        st.tuples(st.just("join"), st.integers(0, 15)),
        st.tuples(st.just("leave"), st.integers(0, 15)),
        st.tuples(st.just("sick"), st.integers(0, 15)),
        st.tuples(st.just("another card"), st.integers(0, 15)),
        st.tuples(st.just("work"), st.integers(1, 3)),
        st.tuples(st.just("look"), st.just(0)),
    ),
    min_size=1,
    max_size=25,
)


@settings(max_examples=120, deadline=None)
@given(steps)
def test_what_is_free_follows_every_node_that_comes_or_goes(moves):
    world = World(*(machine(k) for k in (1, 4, 6, 7)))
    state = world.state
    assert_equal(state.room("default"), anew(state))
    for what, number in moves:
        name = machine(number).id
        known = state.kept.nodes.get(name)
        if what == "join":
            state.put_node(machine(number))
        elif what == "leave" and known is not None:
            state.put_node(replace(known, pool="elsewhere"))
        elif what == "sick" and known is not None and known.gpus:
            first, *rest = known.gpus
            state.put_node(replace(known, gpus=(replace(first, healthy=not first.healthy), *rest)))
        elif what == "another card" and known is not None and known.gpus:
            cards = tuple(replace(gpu, model="V100" if gpu.model == "A100" else "A100") for gpu in known.gpus)
            state.put_node(replace(known, gpus=cards))
        elif what == "work":
            world.submit(spec(gpus=number))
            world.round()
        else:
            assert_free_is_equal(state)
    assert_free_is_equal(state)


def assert_free_is_equal(state: State) -> None:
    own, other = state.room("default"), anew(state)
    if own.layout.kinds == other.layout.kinds:
        assert_equal(own, other)
    else:
        # A node that changed its cards may have left a kind behind that nobody has any more.
        assert own.free.tolist() == other.free.tolist()
        assert sum(own.total) == sum(other.total)


def test_a_node_that_joins_leaves_the_others_alone():
    world = World(*(machine(k) for k in range(8)))
    before = world.state.room("default")
    looks = list(before.look)
    world.state.put_node(machine(8))
    after = world.state.room("default")
    assert after is not before
    assert after.layout.looks is before.layout.looks
    assert after.look[:8] == looks
    assert_equal(after, anew(world.state))


def test_whether_a_machine_is_well_is_nothing_to_what_the_pool_could_hold():
    world = World(*(machine(k) for k in range(4)))
    known = world.state.inventory("default")
    first = world.state.kept.nodes["n00"]
    sick = replace(
        first, drained=True, problem="no driver", gpus=(replace(first.gpus[0], healthy=False), *first.gpus[1:])
    )
    world.state.put_node(sick)
    assert world.state.inventory("default") is known
    assert [stock.count for stock in Inventory(world.state.nodes_of("default")).stocks()] == [
        stock.count for stock in known.stocks()
    ]
    for changed in (
        replace(first, cpu_milli=1),
        replace(first, labels={"zone": "elsewhere"}),
        replace(first, gpus=first.gpus[1:]),
        replace(first, pool="elsewhere"),
        machine(9),
    ):
        known = world.state.inventory("default")
        world.state.put_node(changed)
        assert world.state.inventory("default") is not known

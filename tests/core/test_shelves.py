"""What is remembered between decisions changes none of them: orders of nodes, looks of nodes, seats on nodes."""

from functools import partial

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.make import node, spec

from gangline_core.cluster import NodeUse, Pool
from gangline_core.placement import PLACERS, placer_for
from gangline_core.placement.devices import NodeView, seat_alone
from gangline_core.placement.gang import Gang, gang_of
from gangline_core.placement.models import acceptable
from gangline_core.room.beside import Beside
from gangline_core.room.capacity import Room

ASKS = [
    spec(gpus=1, cpus=2),
    spec(gpus=2, cpus=1),
    spec(gpus=0.5, cpus=1),
    spec(gpus=0.3, cpus=2, gpu_models=("A100",)),
    spec(gpus=0, cpus=3),
    spec(gpus=1, cpus=1, gpu_models=("V100", "A100")),
]
GANG = spec(gpus=2, cpus=1, tasks=2)


def gang(number: int) -> Gang:
    asked = ASKS[number]
    return gang_of(asked, {r.name: r.count for r in asked.roles}, Pool(name="default"))


def fresh_room() -> Room:
    """Nodes of several builds, two of each, so that some look alike and some do not."""
    nodes = [
        node(
            f"n{k}",
            gpus=[4, 4, 2, 0][k // 2],
            model=["A100", "V100", "A100", "A100"][k // 2],
            cpus=12,
            islands=[0, 0, 1, 1][: [4, 4, 2, 0][k // 2]],
            sockets=[0, 0, 1, 1][: [4, 4, 2, 0][k // 2]],
        )
        for k in range(8)
    ]
    room = Room.of(nodes, 6)
    for one in nodes:
        room.refresh(one, NodeUse(len(one.gpus)))
    return room


def forgetful(room: Room) -> Room:
    """A room that is free of the same and remembers nothing, not even what its layout worked out."""
    twin = Room.of(room.nodes, room.tasks_max)
    for one in room.nodes:
        twin.refresh(one, NodeUse(len(one.gpus)))
    for own, other in ((twin.cpu, room.cpu), (twin.memory, room.memory), (twin.places, room.places)):
        own[:] = other
    twin.milli[:], twin.gpu_memory[:] = room.milli, room.gpu_memory
    twin.count_all()
    return twin


moves = st.lists(
    st.one_of(
        st.tuples(st.just("place"), st.integers(0, len(ASKS) - 1)),
        st.tuples(st.just("give back"), st.integers(0, 20)),
        st.tuples(st.just("next round"), st.booleans()),
        st.tuples(st.just("in thought"), st.integers(0, len(ASKS) - 1)),
        st.tuples(st.just("drain"), st.integers(0, 7)),
    ),
    min_size=1,
    max_size=30,
)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(["best_fit", "topology", "default", "fgd"]), moves)
def test_a_decision_with_a_memory_is_the_decision_without_one(name, steps):
    """Round after round, on a room that lives on and on copies of it, each decision is made again from nothing."""
    base = fresh_room()
    place = placer_for(name, Beside())
    room, kept, held = base.copy(), {}, []
    for what, number in steps:
        if what in ("place", "in thought"):
            asked = kept.setdefault(number, gang(number))
            seats = place(room, asked)
            assert seats == placer_for(name, Beside())(forgetful(room), gang(number))
            for task in seats.tasks if seats is not None and what == "place" else ():
                room.take(task)
                held.append(task)
        elif what == "give back" and held:
            room.give(held.pop(number % len(held)))
        elif what == "next round":
            # What the round placed is booked in the room that lives on; or the round was for nothing.
            if number:
                base = _booked(base, held)
            else:
                held = [task for task in held if _is_booked(base, task)]
                base = _booked(base, held)
            room, kept = base.copy(), {}
        elif what == "drain":
            before = base.nodes[number]
            base.refresh(replace(before, drained=not before.drained), _use(base, held, before.id))
            base = _booked(base, held)
            room = base.copy()


def _use(base: Room, held, name: str) -> NodeUse:
    row = base.layout.row[name]
    use = NodeUse(len(base.nodes[row].gpus))
    for task in held:
        if task.node == name:
            use.cpu_milli += task.cpu_milli
            use.memory_mib += task.memory_mib
            use.tasks[len(use.tasks)] = None
            for share in task.gpus:
                use.gpu_milli[share.index] += share.milli
                use.gpu_memory_mib[share.index] += share.memory_mib
    return use


def _booked(base: Room, held) -> Room:
    for one in list(base.nodes):
        base.refresh(one, _use(base, held, one.id))
    return base


def _is_booked(base: Room, task) -> bool:
    return base.cpu[base.layout.row[task.node]] < base.nodes[base.layout.row[task.node]].cpu_milli


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(ASKS) - 1), st.booleans()), min_size=1, max_size=30))
def test_counts_that_follow_looks_are_the_counts_of_a_count(steps):
    room, held = fresh_room().copy(), []
    place = partial(PLACERS["best_fit"], room)
    for number, gives in steps:
        if gives and held:
            room.give(held.pop(0))
        elif (seats := place(gang(number))) is not None:
            room.take(seats.tasks[0])
            held.append(seats.tasks[0])
        counted = forgetful(room)
        for field in ("whole", "free", "fullness", "linked", "switched", "socketed", "milli", "gpu_memory"):
            assert np.array_equal(getattr(room, field), getattr(counted, field)), field
        assert room.total == counted.total


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, len(ASKS) - 1), min_size=1, max_size=20), st.booleans())
def test_a_seat_that_is_remembered_is_the_seat_that_a_view_gives(numbers, emptiest):
    room = fresh_room().copy()
    for number in numbers:
        need = gang(number).needs[0]
        kinds = tuple(k for own in acceptable(room.layout, need).values() for k in own) if need.wants_gpu else ()
        seats = [
            (
                seat_alone(room, row, need, kinds, index=0, emptiest=emptiest),
                NodeView(room, row).seat(need, kinds, 0, emptiest=emptiest),
            )
            for row in range(8)
        ]
        assert all(own == viewed for own, viewed in seats)
        if (found := next((own for own, _ in seats if own is not None), None)) is not None:
            room.take(found)

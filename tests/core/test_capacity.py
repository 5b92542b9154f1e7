"""The picture of free room is always what the nodes have less what is taken."""

import numpy as np
from msgspec.structs import replace
from tests.make import World, node, spec

from gangline_core.cluster import Gpu
from gangline_core.facts import TaskPlacement
from gangline_core.ids import NodeId
from gangline_core.job import GpuShare, TaskState
from gangline_core.reserving.releases import UNKNOWN_MS, expected_end_ms
from gangline_core.room.capacity import Room
from gangline_core.room.holdings import give_lines, lines_of, take_lines
from gangline_core.room.ports import FIRST_PORT, LAST_PORT, Ports
from gangline_core.spec import Toleration


def place(at: str, *gpus: int, cpu: int = 1000, **devices: int) -> TaskPlacement:
    shares = tuple(GpuShare(index=k, milli=1000, memory_mib=40_960) for k in gpus)
    return TaskPlacement(
        role="w", index=0, node=NodeId(at), gpus=shares, cpu_milli=cpu, memory_mib=1024, devices=dict(devices)
    )


def picture(room: Room) -> tuple:
    return (
        room.cpu.tolist(),
        room.memory.tolist(),
        room.milli.tolist(),
        room.gpu_memory.tolist(),
        room.whole.tolist(),
        room.total,
        room.free.tolist(),
        room.linked.tolist(),
        room.socketed.tolist(),
        room.fullness.tolist(),
        room.places.tolist(),
        sorted(room.crowded),
        {name: free.tolist() for name, free in room.devices.items()},
    )


def test_the_room_follows_every_task():
    world = World(node("n1"), node("n2"))
    assert world.state.room("default").free.tolist() == [8, 8]
    job = world.submit_running(spec(gpus=3), "n2")
    assert world.state.room("default").free.tolist() == [8, 5]
    world.finish(job)
    assert world.state.room("default").free.tolist() == [8, 8]


def test_nodes_come_change_and_move_between_pools():
    world = World(node("n2"))
    assert [n.id for n in world.state.room("default").nodes] == ["n2"]
    world.see(node("n1", gpus=2, model="V100"))
    assert [n.id for n in world.state.room("default").nodes] == ["n1", "n2"]
    assert world.state.room("default").free.tolist() == [2, 8]
    world.see(replace(node("n2"), pool="other"))
    assert [n.id for n in world.state.room("default").nodes] == ["n1"]
    assert [n.id for n in world.state.room("other").nodes] == ["n2"]


def test_a_sick_gpu_is_no_room_and_a_well_one_is_again():
    machine = node("n1", gpus=2)
    world = World(machine)
    world.state.room("default")
    sick = replace(machine, gpus=(machine.gpus[0], replace(machine.gpus[1], healthy=False)))
    world.state.put_node(sick)
    assert world.state.room("default").free.tolist() == [1]
    world.state.put_node(machine)
    assert world.state.room("default").free.tolist() == [2]


def test_a_closed_node_that_carries_too_much_has_no_room_once_one_of_many_leaves():
    """The pool took fewer tasks per node than ran there: closing the node made it look merely full."""
    world = World(node("n1"))
    for _ in range(5):
        world.submit_running(spec(gpus=1), "n1")
    world.set_policy(node_tasks_max=3)
    room = world.state.room("default").copy()
    assert room.places.tolist() == [-2]
    room.close(np.array([True]))
    room.give(world.tasks(1)[0])
    assert room.places.tolist() == [-1]
    assert room.free.tolist() == [1]


def test_what_is_taken_and_given_back_leaves_no_trace():
    world = World(node("n1", devices={"rdma": 2}), node("n2"))
    room = world.state.room("default").copy()
    before = picture(room)
    tasks = [place("n1", 0, 3, rdma=1), place("n2", 7), place("n2", cpu=5000)]
    for task in tasks:
        room.take(task)
    assert room.free.tolist() == [6, 7]
    assert room.devices["rdma"].tolist() == [1, 0]
    for task in tasks:
        room.give(task)
    assert picture(room) == before


def test_many_at_once_are_the_same_as_one_by_one():
    nodes = [node(f"n{k:02d}", islands=[0, 0, 1, 1, 2, 2, 3, 3], devices={"rdma": 4}) for k in range(40)]
    world = World(*nodes)
    one_by_one, at_once = world.state.room("default").copy(), world.state.room("default").copy()
    before = picture(at_once)
    tasks = [place(f"n{k:02d}", k % 8, (k + 1) % 8, rdma=k % 2) for k in range(40)]
    tasks += [place("n03", cpu=700), place("elsewhere", 0)]
    for task in tasks:
        one_by_one.take(task)
    lines = lines_of(at_once.layout, tasks)
    take_lines(at_once, lines)
    assert picture(at_once) == picture(one_by_one)
    give_lines(at_once, lines[:3])
    give_lines(at_once, lines[3:])
    assert picture(at_once) == before


def test_a_copy_changes_alone():
    world = World(node("n1"))
    room = world.state.room("default")
    twin = room.copy()
    twin.take(place("n1", 0))
    assert (room.free.tolist(), twin.free.tolist()) == ([8], [7])


def test_closed_nodes_have_nothing_free():
    world = World(node("n1"), node("n2"))
    room = world.state.room("default").copy()
    room.close(room.layout.suits({}, ()) & (room.free > 0))
    assert room.free.tolist() == [0, 0]
    assert room.total == [0]


def test_rooms_are_lowered_to_what_was_free_before():
    world = World(node("n1"))
    room = world.state.room("default").copy()
    room.take(place("n1", 0, 1))
    before = room.rows([0])
    room.give(place("n1", 0, 1))
    room.take(place("n1", 5))
    room.lower_to(before)
    assert [k for k, milli in enumerate(room.milli[0].tolist()) if not milli] == [0, 1, 5]
    assert room.free.tolist() == [5]


def test_labels_and_taints_are_asked_once_and_forgotten_when_they_change():
    machine = node("n1", taints=["x"], labels={"zone": "a"})
    world = World(machine)
    layout = world.state.room("default").layout
    assert layout.suits({"zone": "a"}, (Toleration(key="x"),)).tolist() == [True]
    assert layout.suits({"zone": "a"}, ()).tolist() == [False]
    world.see(replace(machine, taints=(), labels={"zone": "b"}))
    layout = world.state.room("default").layout
    assert layout.suits({"zone": "a"}, ()).tolist() == [False]
    assert layout.suits({"zone": "b"}, ()).tolist() == [True]


def test_kinds_are_told_apart_by_model_and_memory():
    gpus = (Gpu(index=0, model="T4", memory_mib=16), Gpu(index=1, model="t4", memory_mib=16))
    world = World(replace(node("n1", gpus=2), gpus=gpus), node("n2", gpus=1, model="T4", gpu_memory_mib=24))
    room = world.state.room("default")
    assert [(kind.model, kind.memory_mib) for kind in room.layout.kinds] == [("t4", 16), ("t4", 24)]
    assert room.total == [2, 1]


def test_ends_are_expected_by_limit_then_estimate_then_not_at_all():
    world = World(node("n1"))
    limited = world.submit_running(spec(gpus=1, time_limit_s=100, estimate_s=10), "n1")
    estimated = world.submit_running(spec(gpus=1, estimate_s=10), "n1")
    endless = world.submit_running(spec(gpus=1, grace_s=7), "n1")

    def end(job):
        task = world.tasks(job)[0]
        return expected_end_ms(task, world.job(job))

    assert end(limited) == world.at + 100_000
    assert end(estimated) == world.at + 10_000
    assert end(endless) == UNKNOWN_MS
    world.wait(3).cancel(endless)
    assert end(endless) == world.at + 7_000
    task = replace(world.tasks(endless)[0], state=TaskState.LOST)
    assert expected_end_ms(task, world.job(endless)) == UNKNOWN_MS


def test_the_lowest_free_port_is_found_again_and_again():
    ports = Ports()
    for k in range(5):
        assert ports.lowest_free("a") == FIRST_PORT + k
        ports.take(f"a:{FIRST_PORT + k}")
    ports.give(f"a:{FIRST_PORT + 3}")
    ports.give(f"a:{FIRST_PORT + 1}")
    assert ports.lowest_free("a") == FIRST_PORT + 1
    assert ports.lowest_free("b") == FIRST_PORT
    ports.take(f"a:{FIRST_PORT + 1}")
    assert ports.lowest_free("a") == FIRST_PORT + 3


def test_a_decision_gives_out_ports_without_touching_the_books():
    ports = Ports()
    ports.take(f"a:{FIRST_PORT}")
    round_one = ports.overlay()
    assert [round_one.next("a") for _ in range(2)] == [FIRST_PORT + 1, FIRST_PORT + 2]
    assert ports.overlay().next("a") == FIRST_PORT + 1


def test_when_every_port_is_in_use_the_first_is_given_again():
    ports = Ports()
    for port in range(FIRST_PORT, LAST_PORT + 1):
        ports.take(f"a:{port}")
    assert ports.overlay().next("a") == FIRST_PORT


def test_odd_endpoints_take_no_port():
    ports = Ports()
    ports.take("")
    ports.take("host:0")
    ports.give("host:0")
    assert ports.lowest_free("host") == FIRST_PORT

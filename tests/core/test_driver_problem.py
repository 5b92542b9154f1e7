"""What a driver says against a GPU ends with its word; what telemetry found stays until telemetry takes it back."""

from msgspec.structs import replace
from tests.make import World, node

from gangline_core import facts as f
from gangline_core.cluster import Gpu, Node


def with_problem(machine: Node, problem: str) -> Node:
    """The machine as its description says it, with the driver's word against its first GPU."""
    first = replace(machine.gpus[0], healthy=not problem, problem=problem, driver_problem=problem)
    return replace(machine, gpus=(first, *machine.gpus[1:]))


def first_gpu(world: World) -> Gpu:
    """The first GPU as the log has it."""
    return world.state.kept.nodes["n1"].gpus[0]


def test_a_drivers_problem_goes_when_the_driver_no_longer_says_so():
    machine = node("n1", gpus=2)
    world = World(with_problem(machine, "tainted"))
    assert (first_gpu(world).healthy, first_gpu(world).is_failed) == (False, False)
    world.see(machine)
    assert first_gpu(world).healthy


def test_what_telemetry_found_stays_through_every_word_of_the_driver():
    machine = node("n1", gpus=2)
    world = World(machine)
    world.tell("telemetry", f.GpuFailed(node="n1", gpu=0, problem="Xid 79"))
    world.see(with_problem(machine, "tainted"))
    assert (first_gpu(world).problem, first_gpu(world).is_failed) == ("Xid 79", True)
    world.tell("telemetry", f.GpuHealthy(node="n1", gpu=0))
    assert (first_gpu(world).healthy, first_gpu(world).problem) == (False, "tainted")
    world.see(machine)
    assert first_gpu(world).healthy


def test_a_gpu_that_its_driver_tainted_may_still_fail():
    machine = node("n1", gpus=2)
    world = World(with_problem(machine, "tainted"))
    world.tell("telemetry", f.GpuFailed(node="n1", gpu=0, problem="Xid 79"))
    world.see(machine)
    assert (first_gpu(world).healthy, first_gpu(world).problem) == (False, "Xid 79")

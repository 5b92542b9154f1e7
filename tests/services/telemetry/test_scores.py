"""From samples to where jobs go: mean, deviation and age of loads reach placement, and silence is never a zero."""

import pytest
from tests.make import World, node, spec

from gangline_core import facts as f
from gangline_core.cluster import LOAD_STALE_MS
from gangline_gateway.show import node_view
from gangline_telemetry.busy import Busy
from gangline_telemetry.config import Config
from gangline_wire.samples import NodeSample


def measured(world: World, **cpu: tuple[int | None, ...]) -> World:
    """A summary of these CPU percentages per node, told as telemetry tells it."""
    busy = Busy(Config(), 0.0)
    for name, percents in cpu.items():
        for percent in percents:
            busy.hear(
                NodeSample(
                    node=name,
                    at=world.at,
                    cpu_percent=percent,
                    memory_used_mib=None if percent is None else 100,
                    memory_total_mib=1000,
                )
            )
    world.tell("telemetry", *busy.summaries(world.state, 60.0))
    return world


def where(world: World) -> str:
    job = world.submit(spec(gpus=0, cpus=1))
    world.settle()
    return world.tasks(job)[0].node


def fleet(placement: str) -> World:
    return World(node("n1", gpus=0), node("n2", gpus=0)).set_policy(placement=placement)


def test_of_two_nodes_with_equal_means_the_restless_one_is_avoided() -> None:
    world = measured(fleet("load_risk"), n1=(10, 90, 10, 90), n2=(50, 50, 50, 50))
    loads = world.state.kept.loads
    assert (loads["n1"].cpu_mean, loads["n1"].cpu_deviation, loads["n1"].samples) == (50, 40, 4)
    assert (loads["n2"].cpu_mean, loads["n2"].cpu_deviation) == (50, 0)
    assert where(world) == "n2"
    assert where(measured(fleet("load_risk"), n2=(10, 90, 10, 90), n1=(50, 50, 50, 50))) == "n1"


def test_a_load_counts_until_it_is_too_old_and_then_nodes_are_judged_by_what_was_asked_for() -> None:
    world = measured(fleet("load_risk"), n1=(90, 90), n2=(20, 20))
    assert where(world) == "n2"
    fresh = measured(fleet("load_risk"), n1=(90, 90), n2=(20, 20)).wait(LOAD_STALE_MS / 1000 - 1)
    assert where(fresh) == "n2"
    stale = measured(fleet("load_risk"), n1=(90, 90), n2=(20, 20)).wait(LOAD_STALE_MS / 1000 + 1)
    assert where(stale) == "n1", "both are empty by what was asked for, and the first by name is taken"


@pytest.mark.parametrize("placement", ["load_risk", "target_load"])
def test_a_node_that_nobody_measured_is_not_taken_for_idle(placement: str) -> None:
    """An idle reading wins over a busy one; a missing reading is what the node's tasks asked for, here most of it."""
    for silent in ((), (None, None)):
        world = fleet(placement)
        filled = world.submit_running(spec(gpus=0, cpus=30), "n1")
        assert world.tasks(filled)[0].node == "n1"
        world = measured(world, n1=silent, n2=(35, 35))
        load = world.state.kept.loads.get("n1")
        assert load is None or (load.cpu_mean, load.cpu_deviation) == (-1, -1)
        assert where(world) == "n2"


def test_a_mean_without_a_deviation_is_no_measurement_of_risk() -> None:
    world = fleet("load_risk")
    alone = f.UtilisationSummary(node="n1", gpu_percent=None, memory_mib=None, samples=1, cpu_percent=95)
    world.tell("telemetry", alone)
    assert where(world) == "n1"
    world = fleet("load_risk")
    both = f.UtilisationSummary(
        node="n1",
        gpu_percent=None,
        memory_mib=None,
        samples=9,
        cpu_percent=95,
        cpu_deviation=1,
        memory_percent=95,
        memory_deviation=1,
    )
    world.tell("telemetry", both)
    assert where(world) == "n2"


def test_a_nodes_page_shows_its_load_with_age_and_what_is_not_known_as_not_known() -> None:
    world = measured(fleet("load_risk"), n1=(40, 60))
    shown = node_view(world.state, world.state.kept.nodes["n1"]).load
    assert shown is not None
    assert (shown.cpu_mean, shown.cpu_deviation, shown.memory_mean, shown.at_ms) == (50, 10, 10, world.at)
    assert (shown.gpu_mean, shown.gpu_deviation) == (None, None)
    assert node_view(world.state, world.state.kept.nodes["n2"]).load is None

"""Gangs, queues, priority, reclaim and dominant shares as kube-batch's own tests and reports have them."""

import pytest
from tests.make import World, group, node
from tests.oracles.played import Played, name_of, table

from gangline_core.ordering import order

TABLE = table("kube_batch")
MILLION = 1_000_000


@pytest.mark.parametrize("case", TABLE["shares"], ids=name_of)
def test_a_dominant_share_is_the_largest_part_of_any_resource(case):
    there, holds = case["of"], case["holds"]
    machine = node(
        "n1", gpus=there["gpu_milli"] // 1000, cpus=there["cpu_milli"] // 1000, memory_mib=there["memory_mib"]
    )
    world = World(machine, groups=[group("q")]).set_policy(ordering="dominant_resource")
    if any(holds.values()):
        held = {
            "gpus": holds["gpu_milli"] // 1000,
            "cpus": holds["cpu_milli"] // 1000,
            "memory_mib": holds["memory_mib"],
        }
        world.run(world.submit(group="q", **held), "n1")
    job = world.job(world.submit(group="q", gpus=0, cpus=0))
    ordered = order(world.state, world.state.kept.pools["default"], [job], world.at)
    [candidate] = ordered.candidates
    assert candidate.terms[ordered.terms.index("dominant_share")] == -round(case["share"] * MILLION)


@pytest.mark.parametrize("case", TABLE["scenarios"], ids=name_of)
def test_who_runs_in_the_end(case):
    Played(case).prove()

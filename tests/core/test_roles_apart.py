"""Roles of one gang that may be on different nodes: each where it may be, all of them or none."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.make import World, node, role, spec, state_with

from gangline_core.cluster import Pool
from gangline_core.door.never_fits import never_fits
from gangline_core.facts import ResizeProposed
from gangline_core.placement import PLACERS
from gangline_core.placement.gang import gang_of
from gangline_core.placement.why_not import why_not
from gangline_core.reasons import ReasonCode
from gangline_core.room.inventory import Inventory
from gangline_core.shapes import ask_key
from gangline_core.spec import JobSpec, Role, Toleration

CPU, GPU = {"kind": "cpu"}, {"kind": "gpu"}
POOL = Pool(name="default")
WHOLE_ONLY = frozenset({"numa_least", "numa_most", "numa_balanced"})
"""They put tasks on one socket, which is a wish of their own."""


def launcher(**where) -> Role:
    return replace(role("launcher", tasks=1, gpus=0, cpus=1), **where)


def workers(count: int = 2, gpus: int = 4, **where) -> Role:
    return replace(role("worker", tasks=count, gpus=gpus, cpus=1), **where)


def seated(nodes, asked: JobSpec, placer: str = "default") -> dict[str, list[str]] | None:
    room = state_with(*nodes).room("default").copy()
    before = (room.milli.tobytes(), room.cpu.tobytes())
    seats = PLACERS[placer](room, gang_of(asked, {r.name: r.count for r in asked.roles}, POOL))
    assert (room.milli.tobytes(), room.cpu.tobytes()) == before
    if seats is None:
        return None
    found: dict[str, list[str]] = {one.name: [] for one in asked.roles}
    for task in seats.tasks:
        found[task.role].append(task.node)
    return found


MACHINES = (
    node("c1", gpus=0, cpus=4, labels=CPU),
    node("g1", gpus=4, cpus=64, labels=GPU, taints=["gpu"]),
    node("g2", gpus=4, cpus=64, labels=GPU, taints=["gpu"]),
)
TOLERATES = (Toleration(key="gpu"),)


@pytest.mark.parametrize("placer", sorted(PLACERS))
def test_a_launcher_goes_to_cpu_nodes_and_its_workers_to_gpu_nodes_whoever_places(placer):
    asked = spec(roles=(launcher(node_selector=CPU), workers(node_selector=GPU, tolerations=TOLERATES)))
    found = seated(MACHINES, asked, placer)
    assert found == {"launcher": ["c1"], "worker": ["g1", "g2"]} or found == {
        "launcher": ["c1"],
        "worker": ["g2", "g1"],
    }


@pytest.mark.parametrize("placer", sorted(PLACERS))
def test_a_role_never_stands_where_only_the_other_may(placer):
    asked = spec(roles=(launcher(node_selector=CPU), workers(3, 1, node_selector=GPU, tolerations=TOLERATES)))
    assert seated(MACHINES[1:], asked, placer) is None, "there is no node for the launcher"
    assert seated(MACHINES[:1], asked, placer) is None, "there is no node for the workers"
    unlike = spec(roles=(launcher(node_selector=CPU), workers(2, 4, node_selector=GPU)))
    assert seated(MACHINES, unlike, placer) is None, "the workers do not tolerate the taint"


def test_a_role_that_says_nothing_is_where_the_job_says():
    asked = spec(
        node_selector=GPU, tolerations=TOLERATES, roles=(launcher(node_selector=CPU, tolerations=()), workers())
    )
    assert seated(MACHINES, asked) == {"launcher": ["c1"], "worker": ["g1", "g2"]}
    without = spec(
        node_selector=GPU, roles=(launcher(node_selector={}, tolerations=()), workers(tolerations=TOLERATES))
    )
    assert seated(MACHINES, without) == {"launcher": ["c1"], "worker": ["g1", "g2"]}


def test_what_all_roles_say_alike_is_asked_like_what_the_job_says():
    alike = spec(
        roles=(launcher(node_selector=GPU, tolerations=TOLERATES), workers(node_selector=GPU, tolerations=TOLERATES))
    )
    gang = gang_of(alike, {"launcher": 1, "worker": 2}, POOL)
    assert (gang.selector, gang.tolerations) == (GPU, TOLERATES)
    assert all(need.where is None for need in gang.needs)


def test_jobs_whose_roles_differ_in_that_are_not_alike():
    plain = spec(roles=(launcher(), workers()))
    assert ask_key(plain) != ask_key(spec(roles=(launcher(node_selector=CPU), workers())))
    assert ask_key(plain) != ask_key(spec(roles=(launcher(), workers(tolerations=TOLERATES))))


def test_the_reason_is_that_of_the_role_which_finds_no_node():
    asked = spec(roles=(launcher(node_selector={"kind": "arm"}), workers(node_selector=GPU, tolerations=TOLERATES)))
    room = state_with(*MACHINES).room("default").copy()
    reason = why_not(room, gang_of(asked, {"launcher": 1, "worker": 2}, POOL))
    assert reason.code == ReasonCode.NO_ELIGIBLE_NODE
    assert reason.numbers["unmatched"] == 3
    many = spec(roles=(launcher(node_selector=CPU), workers(3, node_selector=GPU, tolerations=TOLERATES)))
    reason = why_not(room, gang_of(many, {"launcher": 1, "worker": 3}, POOL))
    assert (reason.code, reason.numbers["needed"], reason.numbers["total"]) == (ReasonCode.INSUFFICIENT_GPUS, 12, 8)


def test_the_door_refuses_a_role_that_its_own_nodes_can_never_hold():
    inventory = Inventory(MACHINES, 110)
    fits = spec(roles=(launcher(node_selector=CPU), workers(node_selector=GPU, tolerations=TOLERATES)))
    assert never_fits(inventory, POOL, fits) is None
    large = spec(roles=(replace(role("launcher", gpus=0, cpus=8), node_selector=CPU), workers(node_selector=GPU)))
    verdict = never_fits(inventory, POOL, large)
    assert verdict is not None
    assert verdict[1] == "roles[0].cpus"


def test_a_round_places_such_a_gang_and_its_members_grow_where_they_may():
    elastic = replace(role("worker", tasks=1, minimum=1, maximum=2, gpus=4), node_selector=GPU, tolerations=TOLERATES)
    world = World(node("x1", gpus=4, cpus=64), *MACHINES)
    job = world.submit(spec(roles=(launcher(node_selector=CPU), elastic)))
    world.round()
    assert [task.node for task in world.tasks(job)] == ["c1", "g1"]
    world.start(job)
    world.tell("elastic.default", ResizeProposed(pool="default", job=job, role="worker", size=2))
    world.round()
    assert [task.node for task in world.tasks(job)] == ["c1", "g1", "g2"], "and not the node that says nothing"


@st.composite
def scenes(draw):
    nodes = [
        node(
            f"n{k}",
            gpus=draw(st.integers(0, 4)),
            cpus=draw(st.integers(1, 8)),
            labels={"zone": draw(st.sampled_from("ab"))},
        )
        for k in range(draw(st.integers(2, 5)))
    ]
    roles = tuple(
        replace(
            role(f"r{k}", tasks=draw(st.integers(1, 3)), gpus=draw(st.integers(0, 2)), cpus=draw(st.integers(1, 3))),
            node_selector={"zone": zone},
        )
        for k, zone in enumerate("ab")
    )
    return nodes, spec(roles=roles)


@settings(max_examples=150, deadline=None)
@given(scenes(), st.sampled_from(sorted(set(PLACERS) - WHOLE_ONLY - {"bisection", "buddy", "cells"})))
def test_roles_on_nodes_of_their_own_fit_exactly_when_each_fits_alone(scene, placer):
    nodes, asked = scene
    together = seated(nodes, asked, placer)
    alone = [seated(nodes, spec(roles=(one,)), placer) for one in asked.roles]
    if together is None:
        assert None in alone
    else:
        zone = {one.id: one.labels["zone"] for one in nodes}
        assert {zone[name] for name in together["r0"]} == {"a"}
        assert {zone[name] for name in together["r1"]} == {"b"}

"""No node is given more tasks than it takes, however little each of them asks for."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.make import World, node, role, spec

from gangline_core.door.admission import judge_submit
from gangline_core.door.draft import Draft
from gangline_core.ids import NodeId
from gangline_core.job import JobState
from gangline_core.placement import PLACERS
from gangline_core.reasons import ReasonCode, hint, sentence
from gangline_core.room.capacity import Room
from gangline_core.telling.rejections import rejected

TINY = {"gpus": 0, "cpus": 0, "memory_mib": 0}


def on(world: World, name: str) -> int:
    return len(world.state.use[NodeId(name)].tasks)


def test_thousands_of_tiny_tasks_fill_nodes_only_up_to_the_cap_and_the_rest_say_why():
    world = World(node("n1"), node("n2")).set_policy(node_tasks_max=100)
    world.submit(*(spec(**TINY) for _ in range(250)))
    world.settle()
    assert (on(world, "n1"), on(world, "n2")) == (100, 100)
    waiting = world.in_state(JobState.WAITING)
    assert len(waiting) == 50
    reason = world.job(waiting[0]).reason
    assert reason is not None
    assert (reason.code, reason.numbers) == (ReasonCode.INSUFFICIENT_PLACES, {"needed": 1, "free": 0, "most": 100})
    assert "at most 100 tasks" in sentence(reason)
    assert "node_tasks_max" in hint(reason, job=1)


def test_a_default_cap_holds_without_any_setting():
    world = World(node("n1"))
    most = world.state.kept.pools["default"].policy.node_tasks_max
    job = world.submit(spec(tasks=most, **TINY))
    other = world.submit(spec(**TINY))
    world.settle()
    assert world.job(job).state == JobState.RUNNING
    assert world.job(other).state == JobState.WAITING


def test_tasks_that_end_make_places_again():
    world = World(node("n1")).set_policy(node_tasks_max=2)
    jobs = [world.submit(spec(**TINY)) for _ in range(3)]
    world.settle()
    assert [world.job(job).state for job in jobs] == [JobState.RUNNING, JobState.RUNNING, JobState.WAITING]
    world.finish(jobs[0])
    world.settle()
    assert world.job(jobs[2]).state == JobState.RUNNING


def test_a_lowered_cap_lets_what_runs_go_on_and_starts_nothing_more():
    world = World(node("n1"))
    jobs = [world.submit(spec(**TINY)) for _ in range(5)]
    world.settle()
    world.set_policy(node_tasks_max=2)
    late = world.submit(spec(**TINY))
    world.settle()
    assert all(world.job(job).state == JobState.RUNNING for job in jobs)
    assert world.job(late).state == JobState.WAITING
    for job in jobs[:4]:
        world.finish(job)
    world.settle()
    assert world.job(late).state == JobState.RUNNING


def test_a_raised_cap_starts_who_waits():
    world = World(node("n1")).set_policy(node_tasks_max=1)
    jobs = [world.submit(spec(**TINY)) for _ in range(3)]
    world.settle()
    world.set_policy(node_tasks_max=3)
    world.settle()
    assert all(world.job(job).state == JobState.RUNNING for job in jobs)


def test_a_gang_that_no_caps_allow_is_refused_at_the_door_with_the_number_of_places():
    world = World(node("n1"), node("n2")).set_policy(node_tasks_max=10)
    asked = spec(tasks=21, **TINY)
    judged = judge_submit(world.state, Draft(), specs=[asked], submit_id="s", by="ada", trace="", at=world.at)
    (_, reason, field) = judged.refusals[0]
    assert (reason.code, reason.numbers["needed"], reason.numbers["largest"]) == (
        ReasonCode.NEVER_FITS_CLUSTER,
        21,
        20,
    )
    assert field == "roles[0].tasks"


def test_a_node_that_takes_none_is_no_room_although_its_gpus_are_free():
    full, small = replace(node("n2"), tasks_max=0), node("n3", gpus=1)
    world = World(full, small)
    first, second = world.submit(spec(gpus=1)), world.submit(spec(gpus=2))
    world.settle()
    assert [task.node for task in world.tasks(first)] == ["n3"]
    assert world.job(second).state == JobState.WAITING
    assert world.job(second).reason.code == ReasonCode.INSUFFICIENT_PLACES
    causes, _ = rejected(world.state, world.job(second).spec, world.job(second).spec.roles[0])
    assert causes["as many tasks as a node takes"][0] == 1


def test_a_full_node_is_cleared_for_a_job_that_matters_more():
    world = World(node("n1")).set_policy(node_tasks_max=2)
    low = [world.submit(spec(priority=0, **TINY)) for _ in range(2)]
    world.settle()
    high = world.submit(spec(priority=100, **TINY))
    world.settle()
    assert world.job(high).state == JobState.RUNNING
    assert sum(world.job(job).state == JobState.RUNNING for job in low) == 1


@pytest.mark.parametrize("placement", sorted(PLACERS))
@settings(max_examples=12, deadline=None)
@given(
    sizes=st.lists(st.tuples(st.integers(1, 7), st.sampled_from([0, 0, 1, 0.5]), st.sampled_from([0, 1])), max_size=8),
    cap=st.integers(1, 6),
)
def test_whatever_places_no_node_gets_more_and_nothing_is_voided(placement, sizes, cap):
    nodes = [node("n1"), replace(node("n2"), tasks_max=3), node("n3", gpus=0)]
    world = World(*nodes).set_policy(node_tasks_max=cap, placement=placement)
    for count, gpus, cpus in sizes:
        world.submit(spec(roles=[role(tasks=count, gpus=gpus, cpus=cpus), role("b", gpus=0, cpus=0)]))
    world.settle()
    assert [on(world, name) <= min(cap, most) for name, most in (("n1", 9), ("n2", 3), ("n3", 9))] == [True] * 3
    assert not any(
        job.reason and job.reason.code == ReasonCode.PLACEMENT_VOIDED for job in world.state.kept.jobs.values()
    )
    known, fresh = world.state.room("default"), Room.of(nodes, cap)
    for machine in world.state.nodes_of("default"):
        fresh.refresh(machine, world.state.use[machine.id])
    assert (known.places.tolist(), known.crowded) == (fresh.places.tolist(), fresh.crowded)

"""Who goes on where it stopped moves to faster GPUs once they are free and nobody waits for them."""

from typing import Any

import pytest
from tests.make import World, gpu_amount, group, node, spec

from gangline_core import elasticity
from gangline_core import facts as f
from gangline_core.job import JobState
from gangline_core.spec import Elastic, ResizeKind

SPEEDS = {"speed_v100": 1.0, "speed_h100": 3.0}


def slow_one(asked: dict[str, Any], **policy: Any) -> tuple[World, int, int]:
    """A job on V100 that would be faster on H100, which another one has; two hours later that one is over."""
    world = World(
        node("v0", gpus=4, model="V100"),
        node("z0", gpus=4, model="H100"),
        groups=[group("few", limit=gpu_amount(1, "H100"))],
    )
    if policy:
        world.set_policy(**policy)
    other = world.submit_running(spec(gpus=4, name="other"), "z0")
    job = world.submit_running(
        spec(**{"gpus": 2, "name": "train", "attributes": SPEEDS, "checkpoints": True} | asked), "v0"
    )
    return world, job, other


def proposals(world: World) -> list[f.ResizeProposed]:
    return [one for one in elasticity.propose(world.state, "default", world.at) if isinstance(one, f.ResizeProposed)]


def test_it_moves_when_they_are_free_and_then_stays() -> None:
    world, job, other = slow_one({})
    assert proposals(world.wait(7200)) == [], "there is no room"
    world.finish(other)
    [proposal] = proposals(world)
    assert (proposal.job, proposal.model, proposal.size, proposal.why) == (job, "h100", 1, "faster on h100")
    world.tell("elastic.default", proposal)
    world.settle()
    assert {task.node for task in world.tasks(job)} == {"z0"}
    moved = world.job(job)
    assert (moved.state, moved.attempt, moved.retries_used, moved.preemptions, moved.losses) == (
        JobState.RUNNING,
        2,
        0,
        0,
        0,
    )
    world.finish(world.submit_running(spec(gpus=1), "v0"))
    assert proposals(world.wait(7200)) == [], "it is where it is fastest"
    world.finish(job)
    assert not world.state.kept.affinities.runs.keys() & {"default|:ada|train|2000"}, "no run was the whole work"


@pytest.mark.parametrize(
    ("asked", "policy"),
    [
        pytest.param({"checkpoints": False}, {}, id="it would begin anew"),
        pytest.param({"attributes": {}}, {}, id="nothing is known"),
        pytest.param({"attributes": {"speed_v100": 1.0, "speed_h100": 1.05}}, {}, id="it is as fast here"),
        pytest.param({"attributes": {"speed_v100": 2.0}}, {}, id="it is slower there"),
        pytest.param({"gpu_models": ("V100",)}, {}, id="it does not accept them"),
        pytest.param({"estimate_s": 7_230}, {}, id="it is soon over"),
        pytest.param({"group": "few"}, {}, id="a limit"),
        pytest.param({}, {"model_affinity": False}, id="the policy leaves it"),
        pytest.param({}, {"elastic_growth": False}, id="nothing running is changed"),
        pytest.param(
            {"elastic": Elastic(kind=ResizeKind.RESTART, cost_s=100_000)}, {}, id="it costs more than it wins"
        ),
    ],
)
def test_who_wins_nothing_by_it_or_may_not_stays(asked: dict[str, Any], policy: dict[str, Any]) -> None:
    world, _, other = slow_one(asked, **policy)
    world.wait(7200).finish(other)
    found = proposals(world)
    if not found or asked.get("group") != "few":
        assert found == []
        return
    world.tell("elastic.default", *found)
    world.settle()
    assert not world.in_state(JobState.STOPPING), "the round that would move it looks at its limits"
    assert {task.gpu_model for task in world.tasks(found[0].job)} == {"V100"}


def test_a_run_that_has_just_begun_is_left_alone() -> None:
    world, _, other = slow_one({"estimate_s": 50_000})
    world.wait(300).finish(other)
    assert proposals(world) == []
    world.finish(world.submit_running(spec(gpus=1), "v0"))
    assert proposals(world.wait(400)) != []


def test_who_waits_has_them_first() -> None:
    world, _, other = slow_one({})
    world.submit(spec(gpus=4, name="next", gpu_models=("H100",)))
    world.wait(7200).finish(other)
    world.settle()
    assert proposals(world) == []


def test_what_jobs_like_it_took_tells_as_well() -> None:
    world, job, other = slow_one({"attributes": {}})
    for name, seconds in (("v0", 3600), ("z0", 900)) * 3:
        if name == "z0" and world.job(other).state == JobState.RUNNING:
            world.finish(other)
        like = world.submit_running(spec(gpus=2, name="train-9", checkpoints=True), name)
        world.wait(seconds).finish(like)
    [proposal] = proposals(world)
    assert (proposal.job, proposal.model) == (job, "h100")

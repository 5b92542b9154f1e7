"""Who goes on where it stopped moves to faster GPUs once they are free and nobody waits for them."""

from collections.abc import Sequence
from typing import Any

import pytest
from tests.make import World, gpu_amount, group, node, spec

from gangline_core import cycle, elasticity
from gangline_core import facts as f
from gangline_core.groups import Group
from gangline_core.ids import JobId, NodeId
from gangline_core.job import JobState
from gangline_core.reserving.windows import Window
from gangline_core.spec import PODS, Elastic, ResizeKind

SPEEDS = {"speed_v100": 1.0, "speed_h100": 3.0}


def slow_one(asked: dict[str, Any], groups: Sequence[Group] = (), **policy: Any) -> tuple[World, int, int]:
    """A job on V100 that would be faster on H100, which another one has; two hours later that one is over."""
    world = World(
        node("v0", gpus=4, model="V100"),
        node("z0", gpus=4, model="H100"),
        groups=[group("few", limit=gpu_amount(1, "H100")), *groups],
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
    assert (proposal.job, proposal.model, proposal.size, proposal.why) == (job, "h100", 1, "faster on H100")
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
        pytest.param({"gpu_models": ("V100", "H100")}, {}, id="it names the one it is on first"),
        pytest.param({"estimate_s": 7_230}, {}, id="it is soon over"),
        pytest.param({"group": "few"}, {}, id="a limit"),
        pytest.param({"preemptible": False}, {}, id="nobody is to stop it"),
        pytest.param({"protected_s": -1}, {}, id="it is protected"),
        pytest.param({"protected_s": 7_201}, {}, id="it is protected still"),
        pytest.param({"stays": 1}, {}, id="its tasks stay"),
        pytest.param({"labels": {PODS: "a b"}}, {}, id="its pods do not come again"),
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


@pytest.mark.parametrize(("protected_s", "from_s"), [(0, 600), (900, 900)])
def test_a_run_that_outlasts_that_moves_though_nothing_else_happens(protected_s: int, from_s: int) -> None:
    world, job, other = slow_one({"estimate_s": 50_000, "protected_s": protected_s})
    began_ms = world.job(job).started_ms
    assert elasticity.next_move_ms(world.state, "default", world.at) is None, "nothing is free for it"
    world.wait(300).finish(other)
    world.tell("elastic.default", f.ResizeProposed(pool="default", job=job, role="worker", size=1, why="as it is"))
    world.settle()
    assert not elasticity.is_stirred(world.state, "default", world.at), "all that happened was answered"
    assert elasticity.next_move_ms(world.state, "default", world.at) == began_ms + 1000 * from_s
    assert proposals(world.wait(from_s - 301)) == []
    assert proposals(world.wait(1)) != []
    assert elasticity.next_move_ms(world.state, "default", world.at) is None
    world.set_policy(elastic_growth=False)
    world.at -= 1000
    assert elasticity.next_move_ms(world.state, "default", world.at) is None


@pytest.mark.parametrize(
    ("guaranteed", "moves"),
    [
        pytest.param(gpu_amount(2, "V100"), False, id="of what it is on"),
        pytest.param(gpu_amount(1, "V100"), False, id="of a part of that"),
        pytest.param(gpu_amount(2, "A100"), True, id="of others"),
        pytest.param(gpu_amount(2), True, id="of any model"),
        pytest.param(gpu_amount(2, "V100") | gpu_amount(2, "H100"), True, id="of both"),
    ],
)
def test_it_does_not_leave_what_its_group_is_guaranteed(guaranteed: dict[str, int], moves: bool) -> None:
    world, _, other = slow_one({"group": "own"}, groups=[group("own", guaranteed=guaranteed)])
    assert bool(proposals(world.wait(7200).finish(other))) == moves, "there, others could have it evicted"


def test_nor_does_it_where_its_group_is_promised_that_while_it_is_about_to() -> None:
    world, job, other = slow_one({"group": "own"}, groups=[group("own")])
    [proposal] = proposals(world.wait(7200).finish(other))
    world.tell("elastic.default", proposal)
    world.tell("admission", f.GroupSet(group=group("own", guaranteed=gpu_amount(2, "V100")), by="admin"))
    world.settle()
    assert {task.node for task in world.tasks(job)} == {"v0"}
    assert world.job(job).attempt == 1


def test_it_does_not_move_where_models_cost_differently() -> None:
    world, _, other = slow_one({"attributes": {"speed_h100": 3.0}})
    world.state.kept.prices.update({"h100": 3_000})
    world.wait(7200).finish(other)
    assert proposals(world) == [], "who pays chooses"
    world.state.kept.prices.update({"h100": 1_000})
    assert proposals(world) != []


def test_who_names_models_best_first_moves_to_one_named_before() -> None:
    world, job, other = slow_one({"gpu_models": ("h100", "V100")})
    [proposal] = proposals(world.wait(7200).finish(other))
    assert (proposal.job, proposal.model) == (job, "h100")


def test_it_is_not_stopped_when_its_budget_would_not_let_it_begin_again() -> None:
    world, job, other = slow_one({"group": "few", "gpus": 1})
    [proposal] = proposals(world.wait(7200).finish(other))
    spent = f.BudgetExhausted(group="few", used_gpu_milli_ms=1)
    world.tell("elastic.default", proposal)
    opened = cycle.open_round(world.state, "default", world.at)
    assert opened is not None
    world.tell("queue.default", opened)
    decided = cycle.decide_round(world.state, "default", world.at)
    assert decided.restarts
    world.tell("accounting", spent)
    world.tell("placement.default", decided)
    assert world.job(job).state == JobState.RUNNING, "it was used up between the decision and its message"
    world.settle()
    world.finish(world.submit_running(spec(gpus=1, name="more"), "v0"))
    assert proposals(world.wait(7200)) == []


@pytest.mark.parametrize("deadline_s", [9_000, 9_010, 9_029])
def test_it_is_not_stopped_when_its_deadline_would_not_let_it_begin_again(deadline_s: int) -> None:
    world, _, other = slow_one({"estimate_s": 9_000})
    late, _, last = slow_one({"estimate_s": 9_000, "deadline_ms": world.at + deadline_s * 1000})
    assert proposals(world.wait(7200).finish(other)) != []
    assert proposals(late.wait(7200).finish(last)) == [], "it is done in time where it is"
    soon, _, last = slow_one({"estimate_s": 9_000, "deadline_ms": late.at - (7200 - 9_030) * 1000})
    assert proposals(soon.wait(7200).finish(last)) != [], "what it has done it need not do again"


def test_it_does_not_move_into_a_window() -> None:
    world, _, other = slow_one({"time_limit_s": 50_000})
    start_ms = world.at + 30_000_000
    window = Window("bios", "default", start_ms, start_ms + 3_600_000, nodes=(NodeId("z0"),))
    world.tell("admission", f.WindowSet(window=window, by="root"))
    world.wait(7200).finish(other)
    assert proposals(world) == []
    world.tell("admission", f.WindowRemoved(name="bios", by="root"))
    assert proposals(world) != []


@pytest.mark.parametrize(
    ("what", "state", "attempt", "place"),
    [
        pytest.param(f.NodeLost(node=NodeId("z0"), silent_ms=30_000), JobState.RUNNING, 2, {"v0"}, id="lost there"),
        pytest.param(f.NodeLost(node=NodeId("v0"), silent_ms=30_000), JobState.RUNNING, 2, {"z0"}, id="lost here"),
        pytest.param(f.GpuFailed(node=NodeId("v0"), gpu=0, problem="Xid 79"), JobState.RUNNING, 2, {"z0"}, id="sick"),
        pytest.param(
            f.WindowSet(window=Window("bios", "default", 0, 1 << 50, nodes=(NodeId("z0"),)), by="root"),
            JobState.RUNNING,
            2,
            {"v0"},
            id="a window",
        ),
        pytest.param(f.CancelRequested(job=JobId(2), by="ada"), JobState.CANCELLED, 1, set[str](), id="cancelled"),
        pytest.param(f.HoldSet(job=JobId(2), held=True, by="ada"), JobState.SUSPENDED, 1, set[str](), id="held"),
    ],
)
def test_what_comes_between_costs_it_no_more_than_that_start(
    what: f.Fact, state: JobState, attempt: int, place: set[str]
) -> None:
    world, job, other = slow_one({})
    world.wait(7200).finish(other)
    world.tell("elastic.default", *proposals(world))
    world.round()
    assert world.job(job).state == JobState.STOPPING
    is_seen = isinstance(what, f.NodeLost | f.GpuFailed)
    world.tell("telemetry" if is_seen else "admission", what)
    world.settle()
    moved = world.job(job)
    assert (moved.state, moved.attempt, {task.node for task in world.tasks(job)}) == (state, attempt, place)
    assert (moved.retries_used, moved.preemptions, moved.losses) == (0, 0, 0)
    assert not world.state.kept.claims


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

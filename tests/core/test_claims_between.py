"""What came between a decision to clear room and its fold: nobody goes for a job that could not start afterwards."""

import pytest
from tests.make import T0, World, gpu_amount, group, node, spec

from gangline_core import cycle
from gangline_core.door.edits import JobEdit
from gangline_core.facts import BudgetExhausted, Fact, GroupSet, JobEdited, RoundDecided, WindowSet
from gangline_core.ids import JobId, NodeId
from gangline_core.job import JobState
from gangline_core.reserving.windows import Window


def decided_claim(world: World) -> tuple[JobId, JobId, RoundDecided]:
    """A decision that clears room for a more important job of the group `lab`, and was not told yet."""
    world.set_policy(ordering="priority", starvation_s=0)
    low = world.submit_running(spec(gpus=4, group="lab", grace_s=30), "n1")
    high = world.submit(gpus=4, group="lab", priority=1)
    return low, high, decided(world.wait(1), high)


def decided(world: World, *claims: JobId) -> RoundDecided:
    """The decision of a round that was opened now; it makes these claims."""
    opened = cycle.open_round(world.state, "default", world.at)
    assert opened is not None
    world.tell("queue.default", opened)
    found = cycle.decide_round(world.state, "default", world.at)
    assert tuple(claim.job for claim in found.claims) == claims
    return found


@pytest.mark.parametrize(
    "fact",
    [
        GroupSet(group=group("lab", limit=gpu_amount(3)), by="root"),
        GroupSet(group=group("lab", limit={"jobs": 0}), by="root"),
        BudgetExhausted(group="lab", used_gpu_milli_ms=1),
        JobEdited(job=JobId(2), edit=JobEdit(pool="other"), by="root"),
        WindowSet(window=Window("bios", "default", T0, 1 << 50, nodes=(NodeId("n1"),)), by="root"),
    ],
    ids=["limit", "jobs", "budget", "pool", "window"],
)
def test_nobody_goes_for_a_job_that_is_kept_out_since_the_decision(fact: Fact) -> None:
    """The victim stopped, and the next round dropped the claim: its work was lost for nobody."""
    world = World(node("n1", gpus=4), node("p1", pool="other"), groups=[group("lab")])
    low, high, decision = decided_claim(world)
    world.tell("admission", fact)
    assert world.tell("placement.default", decision).voided == [high]
    assert high not in world.state.kept.claims
    assert world.job(low).state == JobState.RUNNING


@pytest.mark.parametrize("limit", [gpu_amount(4), {"jobs": 1}], ids=["limit", "jobs"])
def test_a_limit_that_holds_once_the_victims_are_gone_voids_no_claim(limit: dict[str, int]) -> None:
    world = World(node("n1", gpus=4), groups=[group("lab")])
    low, high, decision = decided_claim(world)
    world.tell("admission", GroupSet(group=group("lab", limit=limit), by="root"))
    assert world.tell("placement.default", decision).voided == []
    assert world.job(low).state == JobState.STOPPING
    world.settle()
    assert world.job(high).tasks


def test_what_older_claims_will_use_counts_for_a_limit_that_was_lowered() -> None:
    """Each of the two would fit the new limit alone: the older one keeps its claim, nobody goes for the other."""
    world = World(node("n1", gpus=4), node("n2", gpus=4), groups=[group("lab"), group("b")])
    world.set_policy(ordering="priority", starvation_s=0)
    lows = [world.submit_running(spec(gpus=4, group="b", grace_s=30), name) for name in ("n1", "n2")]
    first = world.submit(gpus=4, group="lab", priority=2)
    world.wait(1).round()
    second = world.submit(gpus=4, group="lab", priority=1)
    decision = decided(world.wait(1), second)
    world.tell("admission", GroupSet(group=group("lab", limit=gpu_amount(4)), by="root"))
    assert world.tell("placement.default", decision).voided == [second]
    assert list(world.state.kept.claims) == [first]
    assert sorted(world.job(low).state for low in lows) == [JobState.RUNNING, JobState.STOPPING]
    world.settle()
    assert world.job(first).tasks
    assert not world.job(second).tasks

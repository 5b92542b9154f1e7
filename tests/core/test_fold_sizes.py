"""The fold of changing sizes, of evictions and of the room that they clear for somebody."""

from msgspec.structs import replace
from tests.core.test_fold import claim_for, decide, exits
from tests.make import SECOND, World, node, spec

from gangline_core import facts as f
from gangline_core.ids import JobId, NodeId, TaskId
from gangline_core.job import GpuShare, JobState
from gangline_core.limits.usage_by_class import recompute
from gangline_core.reasons import Reason, ReasonCode

# --- elastic --------------------------------------------------------------------------------------------------


def elastic(world: World, *, size: int, **fields) -> JobId:
    asked = spec(gpus=1, tasks=size, minimum=1, maximum=8, **fields)
    return world.submit_running(asked, "n1")


def test_growth_adds_members_and_shrinking_takes_them_away():
    world = World(node())
    job = elastic(world, size=2)
    share = GpuShare(index=5, milli=1000, memory_mib=40_960)
    place = f.TaskPlacement(role="worker", index=2, node=NodeId("n1"), gpus=(share,), cpu_milli=1000, memory_mib=1024)
    decide(world, growths=(f.Growth(job=job, attempt=1, tasks=(place,)),))
    assert (world.job(job).state, world.job(job).sizes) == (JobState.RESIZING, {"worker": 3})
    assert [task.rank for task in world.tasks(job)] == [0, 1, 2]
    world.start(job)
    assert world.job(job).state == JobState.RUNNING
    decide(world, shrinks=(f.Shrink(job=job, tasks=(TaskId("1-1-worker-2"),), beneficiary=JobId(9)),))
    assert (world.job(job).state, world.job(job).sizes) == (JobState.RESIZING, {"worker": 2})
    world.stop_all()
    assert world.job(job).state == JobState.RUNNING
    assert len(world.tasks(job)) == 2


def test_the_name_of_a_member_that_left_is_never_used_again():
    world = World(node())
    job = elastic(world, size=3)
    decide(world, shrinks=(f.Shrink(job=job, tasks=(TaskId("1-1-worker-2"),), beneficiary=JobId(9)),))
    world.stop_all()
    share = GpuShare(index=2, milli=1000, memory_mib=40_960)
    place = f.TaskPlacement(role="worker", index=2, node=NodeId("n1"), gpus=(share,), cpu_milli=1000, memory_mib=1024)
    step = decide(world, growths=(f.Growth(job=job, attempt=1, tasks=(place,)),))
    assert step.voided == [job]
    assert world.job(job).next_index == {"worker": 3}
    step = decide(world, growths=(f.Growth(job=job, attempt=1, tasks=(replace(place, index=3),)),))
    assert not step.voided


def test_a_leaving_member_may_end_as_it_likes():
    world = World(node())
    job = elastic(world, size=3)
    leaving = TaskId("1-1-worker-2")
    decide(world, shrinks=(f.Shrink(job=job, tasks=(leaving,), beneficiary=JobId(9)),))
    world.exit(leaving, code=137)
    assert world.job(job).state == JobState.RESIZING
    world.empty(leaving)
    assert world.job(job).state == JobState.RUNNING


def test_a_shrink_after_members_finished_still_lets_the_job_be_cancelled():
    world = World(node())
    job = elastic(world, size=6)
    done = exits(world, job)[1:4]
    world.exit(*done)
    world.empty(*done)
    decide(world, shrinks=(f.Shrink(job=job, tasks=(TaskId("1-1-worker-5"),), beneficiary=JobId(9)),))
    world.cancel(job)
    world.stop_all()
    assert world.job(job).state == JobState.CANCELLED
    assert recompute(world.state) == {}


# --- preemption and claims ------------------------------------------------------------------------------------


def test_an_evicted_job_goes_back_to_the_queue_and_keeps_what_it_waited():
    world = World(node())
    victim = world.submit(gpus=8)
    world.wait(30).run(victim, "n1")
    winner = world.submit(gpus=8, priority=5)
    claim = claim_for(world, winner, ("n1", range(8)), victims=tuple(exits(world, victim)))
    decide(world, evictions=(f.Eviction(job=victim, beneficiary=winner, rule="priority"),), claims=(claim,))
    assert world.job(victim).state == JobState.STOPPING
    assert world.reason(winner) == ReasonCode.WAITING_FOR_VICTIMS
    world.stop_all()
    back = world.job(victim)
    assert (back.state, back.preemptions, back.retries_used) == (JobState.WAITING, 1, 0)
    assert back.waited_ms == 30 * SECOND
    assert back.reason == Reason(ReasonCode.PREEMPTED, {"job": winner, "rule": "priority"})


def test_no_victim_stops_when_its_beneficiary_was_cancelled_before_the_decision_arrived():
    world = World(node())
    victim = world.submit_running(spec(gpus=8), "n1")
    winner = world.submit(gpus=8)
    claim = claim_for(world, winner, ("n1", range(8)), victims=tuple(exits(world, victim)))
    world.cancel(winner)
    decide(world, evictions=(f.Eviction(job=victim, beneficiary=winner, rule="priority"),), claims=(claim,))
    assert world.job(victim).state == JobState.RUNNING
    assert not world.state.kept.claims


def test_no_victim_stops_when_the_room_would_not_do_any_more():
    world = World(node("n1"), node("n2"))
    victim = world.submit_running(spec(gpus=8), "n1")
    winner = world.submit(gpus=8, tasks=2)
    claim = claim_for(world, winner, ("n1", range(8)), ("n2", range(8)), victims=tuple(exits(world, victim)))
    world.tell("telemetry", f.NodeLost(node=NodeId("n2"), silent_ms=30_000))
    step = decide(world, evictions=(f.Eviction(job=victim, beneficiary=winner, rule="priority"),), claims=(claim,))
    assert step.voided == [winner]
    assert world.job(victim).state == JobState.RUNNING


def test_a_claim_is_gone_when_its_job_is_cancelled_or_held():
    for act in (f.CancelRequested(job=JobId(2), by="a"), f.HoldSet(job=JobId(2), held=True, by="a")):
        world = World(node())
        victim = world.submit_running(spec(gpus=8), "n1")
        winner = world.submit(gpus=8)
        claim = claim_for(world, winner, ("n1", range(8)), victims=tuple(exits(world, victim)))
        decide(world, evictions=(f.Eviction(job=victim, beneficiary=winner, rule="priority"),), claims=(claim,))
        assert world.state.kept.claims
        world.tell("admission", act)
        assert not world.state.kept.claims

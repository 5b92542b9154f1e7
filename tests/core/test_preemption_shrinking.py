"""Elastic jobs give members before anybody is evicted."""

from tests.core.test_preemption import evicted
from tests.make import World, node, spec

from gangline_core import facts as f
from gangline_core.ids import JobId, NodeId, TaskId
from gangline_core.job import GpuShare, JobState
from gangline_core.spec import ServiceClass

# --- shrinking ------------------------------------------------------------------------------------------------


def elastic_world(size: int = 8, **fields) -> tuple[World, JobId]:
    world = World(node("n1"))
    job = world.submit_running(spec(gpus=1, tasks=size, minimum=2, maximum=8, **fields), "n1")
    return world, job


def test_elastic_jobs_shrink_before_anybody_is_evicted():
    world, job = elastic_world(6)
    low = world.submit_running(spec(gpus=2, level="low"), "n1")
    waits = world.submit(gpus=4)
    decided = world.round()
    assert evicted(decided) == []
    assert [(s.job, s.beneficiary, len(s.tasks)) for s in decided.shrinks] == [(job, waits, 4)]
    world.settle()
    assert world.job(job).sizes == {"worker": 2}
    assert {world.job(one).state for one in (job, low, waits)} == {JobState.RUNNING}


def test_no_more_members_go_than_needed_and_the_highest_ranks_go_first():
    world, job = elastic_world()
    world.submit(gpus=2)
    [shrink] = world.round().shrinks
    assert shrink.tasks == ("1-1-worker-6", "1-1-worker-7")
    assert world.job(job).state == JobState.RESIZING


def test_members_that_have_not_started_go_before_those_that_work():
    world = World(node("n1"))
    job = world.submit_running(spec(gpus=1, tasks=2, minimum=1, maximum=8), "n1")
    places = tuple(
        f.TaskPlacement(
            role="worker",
            index=k,
            node=NodeId("n1"),
            gpus=(GpuShare(index=k, milli=1000, memory_mib=40_960),),
            cpu_milli=1000,
            memory_mib=1024,
        )
        for k in range(2, 8)
    )
    growth = f.Growth(job=job, attempt=1, tasks=places)
    world.tell("placement.default", f.RoundDecided(pool="default", round=0, growths=(growth,)))
    for started in (TaskId("1-1-worker-6"), TaskId("1-1-worker-7")):
        world.tell("agent.sim", f.TaskStarted(task=started))
    world.submit(gpus=4)
    [shrink] = world.round().shrinks
    assert shrink.tasks == tuple(f"1-1-worker-{k}" for k in (2, 3, 4, 5))


def test_a_shrunk_job_keeps_an_allowed_size():
    world = World(node("n1"))
    asked = spec(gpus=1, tasks=8, minimum=2, maximum=8, sizes=[2, 5, 8])
    job = world.submit_running(asked, "n1")
    world.submit(gpus=1)
    [shrink] = world.round().shrinks
    assert len(shrink.tasks) == 3
    assert world.job(job).sizes == {"worker": 5}


def test_shrinking_can_be_switched_off():
    world, _ = elastic_world()
    world.set_policy(shrink=False)
    world.submit(gpus=2)
    assert world.round().shrinks == ()


def test_nobody_shrinks_when_that_would_not_be_enough():
    world, _ = elastic_world()
    world.submit(gpus=7)
    assert world.round().shrinks == ()


def test_opportunistic_jobs_make_nobody_shrink():
    world, _ = elastic_world()
    world.submit(gpus=2, service_class=ServiceClass.OPPORTUNISTIC)
    assert world.round().shrinks == ()


def test_evicting_an_elastic_job_takes_all_of_it_and_frees_each_member_once():
    world, job = elastic_world(8, level="low")
    high = world.submit(gpus=8)
    decided = world.round()
    assert evicted(decided) == [job]
    assert decided.shrinks == ()
    assert len(decided.claims[0].victims) == 8
    world.settle()
    assert world.job(high).state == JobState.RUNNING

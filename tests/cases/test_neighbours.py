"""On a shared machine the only fence between GPUs is a variable: whoever steps over it is seen, told, and stopped.

Parsl/parsl#2740, NVIDIA/pyxis#5, NVIDIA/pyxis#47.
"""

from msgspec.structs import replace
from tests.make import World, node, spec

from gangline_core import facts as f
from gangline_core.cluster import Policy
from gangline_core.job import JobState
from gangline_core.reasons import ReasonCode
from gangline_recorder.events import public_events
from gangline_telemetry.trespass import LOOKS, Trespass
from gangline_wire.samples import GpuSample, NodeSample


def two_neighbours(*, stops: bool = False) -> tuple[World, str, str]:
    """A machine of two GPUs with a job on each, and the names of their tasks."""
    world = World(node("n1", gpus=2))
    if stops:
        pool = world.state.kept.pools["default"]
        policy = replace(pool.policy, stop_trespassers=True)
        world.tell("admission", f.PolicySet(pool="default", policy=policy, by="admin"))
    first, second = world.submit_running(spec(gpus=1), "n1"), world.submit_running(spec(gpus=1), "n1")
    return world, world.tasks(first)[0].id, world.tasks(second)[0].id


def look(world: World, watch: Trespass, *on_gpus: tuple[str, ...]) -> list[f.Fact]:
    """One sample that shows these tasks on the GPUs, and what is told of it."""
    gpus = tuple(GpuSample(index=k, tasks=tasks) for k, tasks in enumerate(on_gpus))
    watch.hear(world.state, NodeSample(node="n1", at=world.at, gpus=gpus))
    return watch.judge(world.state)


def test_a_job_on_its_neighbours_gpu_is_told_once_however_long_it_stays() -> None:
    world, mine, theirs = two_neighbours()
    watch = Trespass()
    told = [fact for _ in range(LOOKS + 5) for fact in look(world, watch, (mine,), (mine, theirs))]
    (fact,) = told
    assert fact == f.GpuTrespassed(job=world.state.kept.tasks[mine].job, attempt=1, task=mine, node="n1", gpu=1)
    step = world.tell("telemetry", fact)
    assert world.job(fact.job).state == JobState.RUNNING, "a pool that says nothing stops nobody"
    (event,) = public_events(world.state, world.log[-1], step)
    assert (event.event, event.job) == ("Trespassed", fact.job)


def test_where_the_pool_says_so_it_ends_with_the_reason_and_its_neighbour_goes_on() -> None:
    world, mine, theirs = two_neighbours(stops=True)
    watch = Trespass()
    (fact,) = [fact for _ in range(LOOKS) for fact in look(world, watch, (mine,), (mine, theirs))]
    world.tell("telemetry", fact)
    assert world.job(fact.job).state == JobState.STOPPING
    assert world.reason(fact.job) == ReasonCode.TRESPASSED
    assert world.job(world.state.kept.tasks[theirs].job).state == JobState.RUNNING


def test_whoever_is_on_its_own_gpu_or_was_elsewhere_for_a_moment_is_left_alone() -> None:
    world, mine, theirs = two_neighbours()
    watch = Trespass()
    for _ in range(4):
        for _ in range(LOOKS - 1):
            assert look(world, watch, (theirs,), (mine,)) == []
        for _ in range(LOOKS + 1):
            assert look(world, watch, (mine,), (theirs,)) == []


def test_processes_of_nobody_known_and_of_tasks_that_are_gone_tell_nothing_of_any_job() -> None:
    world, mine, _ = two_neighbours()
    watch = Trespass()
    for _ in range(LOOKS + 2):
        assert look(world, watch, ("9-1-worker-0",), ("",)) == []
    for _ in range(LOOKS):
        watch.hear(world.state, NodeSample(node="n1", at=world.at, gpus=(GpuSample(index=1, tasks=(mine,)),)))
    world.finish(world.state.kept.tasks[mine].job)
    assert watch.judge(world.state) == []


def test_a_policy_stops_nobody_unless_it_is_told_to() -> None:
    assert not Policy().stop_trespassers

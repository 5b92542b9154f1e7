"""What is told at the end of a round is what one more round would say, though others started after a refusal."""

from tests.make import World, node, spec

from gangline_core.facts import Refusal, TaskPaused
from gangline_core.ids import JobId
from gangline_core.job import JobState
from gangline_core.reasons import ReasonCode
from gangline_core.spec import Pausing, ServiceClass


def behind_a_reservation(*, small: int) -> tuple[World, JobId, JobId]:
    """One waits for two nodes, one that wants a node may not pass it, and one of these starts in the same room."""
    world = World(node("n1", gpus=8), node("n2", gpus=8))
    world.set_policy(ordering="fifo", starvation_s=0)
    world.submit(gpus=8, time_limit_s=1000)
    world.settle()
    first = world.submit(gpus=8, tasks=2)
    late = world.submit(gpus=8)
    world.submit(gpus=small, time_limit_s=60)
    world.settle()
    assert world.reason(first) == ReasonCode.INSUFFICIENT_GPUS
    return world, first, late


def one_more(world: World) -> tuple[Refusal, ...]:
    """What another round tells of those who wait."""
    decided = world.round()
    assert decided is not None
    assert decided.placements == ()
    return decided.refusals


def test_who_may_not_pass_and_then_finds_no_room_is_told_of_the_room() -> None:
    world, _, late = behind_a_reservation(small=2)
    told = world.job(late).reason
    assert told is not None
    assert (told.code, told.numbers["needed"], told.numbers["free"]) == (ReasonCode.INSUFFICIENT_GPUS, 8, 6)
    assert one_more(world) == ()


def test_who_may_not_pass_into_room_that_is_left_is_told_of_the_reservation() -> None:
    world, first, late = behind_a_reservation(small=9)
    told = world.job(late).reason
    assert told is not None
    assert (told.code, told.numbers["job"]) == (ReasonCode.RESERVED, first)
    assert one_more(world) == ()


def test_what_is_lacking_is_told_anew_where_those_who_start_later_take_so_much_that_it_is_something_else() -> None:
    world = World(node("n1", gpus=8), node("n2", gpus=8))
    world.set_policy(ordering="fifo", starvation_s=0, backfill_depth=0)
    world.submit(gpus=4)
    world.settle()
    large = world.submit(gpus=5, tasks=2)
    assert world.round() is not None
    assert world.reason(large) == ReasonCode.SHAPE, "enough are free, and not in one place"
    world.submit(gpus=4)
    world.settle()
    assert world.reason(large) == ReasonCode.INSUFFICIENT_GPUS
    assert one_more(world) == ()


def test_an_equal_job_that_is_refused_after_the_start_is_told_what_lacks_then() -> None:
    world = World(node("n1", gpus=8), node("n2", gpus=8))
    world.set_policy(ordering="fifo", starvation_s=0, backfill_depth=0)
    world.submit(gpus=4)
    world.settle()
    first = world.submit(gpus=5, tasks=2)
    world.submit(gpus=4)
    second = world.submit(gpus=5, tasks=2)
    world.settle()
    assert [world.reason(job) for job in (first, second)] == [ReasonCode.INSUFFICIENT_GPUS] * 2
    assert one_more(world) == ()


def test_what_is_free_since_a_paused_job_waits_on_for_another_is_looked_at_anew_for_an_equal_one() -> None:
    world = World(node("n1", gpus=4), node("n2", gpus=4))
    world.set_policy(ordering="fifo", starvation_s=0, backfill_depth=0)
    weak = world.submit_running(
        spec(gpus=4, service_class=ServiceClass.OPPORTUNISTIC, pausing=Pausing(gpu_memory_mib=0)), "n1"
    )
    blocker = world.submit_running(spec(gpus=4), "n2")
    strong = world.submit(gpus=4)
    decided = world.round()
    assert decided is not None
    assert [one.job for one in decided.pauses] == [weak]
    for task in world.tasks(weak):
        world.tell("agent.sim", TaskPaused(task=task.id))
    world.settle()
    assert world.job(strong).state == JobState.RUNNING
    jobs = [world.submit(gpus=4, tasks=2) for _ in range(2)]
    world.settle()
    world.finish(strong, blocker)
    world.settle()
    assert world.job(jobs[0]).state == JobState.RUNNING
    assert world.reason(jobs[1]) == ReasonCode.INSUFFICIENT_GPUS
    assert one_more(world) == ()


def test_what_is_free_is_told_as_it_is_after_those_who_start_later_in_the_round() -> None:
    world = World(node("n1", gpus=8), node("n2", gpus=8))
    world.set_policy(ordering="fifo", starvation_s=0, backfill_depth=0)
    large = world.submit(gpus=8, tasks=3)
    world.submit(gpus=2)
    world.settle()
    told = world.job(large).reason
    assert told is not None
    assert (told.numbers["needed"], told.numbers["free"]) == (24, 14)
    assert one_more(world) == ()

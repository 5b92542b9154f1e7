"""A gang that was given room but does not come up gives it back; waiting in the queue is held against nobody."""

from tests.make import World, node

from gangline_core.facts import TaskStarted
from gangline_core.job import JobState
from gangline_core.late_starts import late_starts
from gangline_core.reasons import ReasonCode, sentence
from gangline_core.wake import next_wake_ms


def test_a_gang_of_which_one_member_never_starts_gives_its_room_back_and_is_tried_again():
    world = World(node("n1", gpus=1), node("n2", gpus=1))
    gang = world.submit(tasks=2, gpus=1, start_limit_s=60, retries=1)
    world.round()
    world.tell("agent.sim", TaskStarted(task=world.tasks(gang)[0].id))
    assert world.state.kept.pools["default"].decided_at + 60_000 == next_wake_ms(world.state, "default", world.at)
    world.wait(59)
    assert late_starts(world.state, "default", world.at) == []
    assert world.round() is None
    world.wait(1)
    assert world.round().late_starts == (gang,)
    assert world.job(gang).state == JobState.STOPPING
    world.stop_all()
    assert (world.job(gang).state, world.job(gang).retries_used) == (JobState.WAITING, 1)
    world.round()
    world.wait(60)
    world.round()
    world.stop_all()
    assert world.job(gang).state == JobState.FAILED
    assert sentence(world.job(gang).reason).startswith("Only 0 of 2 tasks had started 60 s after")
    assert world.state.usage.get("", {}) == {}


def test_the_pools_limit_counts_where_the_job_has_none_and_zero_waits_for_ever():
    world = World(node())
    world.set_policy(start_limit_s=30)
    job = world.submit(gpus=1)
    world.round()
    world.wait(30)
    assert late_starts(world.state, "default", world.at) == [job]
    world.set_policy(start_limit_s=0)
    assert late_starts(world.state, "default", world.at) == []


def test_the_limit_counts_from_the_moment_room_is_given():
    world = World(node("n1", gpus=1))
    first = world.submit(gpus=1, start_limit_s=30)
    second = world.submit(gpus=1, start_limit_s=30)
    world.round()
    world.start(first).wait(2_400)
    world.finish(first)
    world.round()
    assert late_starts(world.state, "default", world.at) == []
    world.start(second)
    assert world.job(second).state == JobState.RUNNING
    assert world.reason(second) != ReasonCode.START_LIMIT

"""What a job has waited is the time it waited, however often it lost its machines; its age is another thing."""

from tests.make import World, node, spec

from gangline_core import facts as f
from gangline_core.cluster import LevelRule, Pool
from gangline_core.job import JobState
from gangline_core.ordering import order
from gangline_core.scoring.ageing import since_ms, waited_ms
from gangline_core.scoring.levels import level_now
from gangline_core.wake import next_wake_ms

LEVELS = {"normal": LevelRule(to="high", after_wait_s=3600)}


def lose(world: World, job: int) -> None:
    """It loses its machine; its room is free at once."""
    [task] = world.tasks(job)
    world.tell("agent.sim", f.TaskExited(task=task.id, cause=f.ExitCause.PROCESS_LOST, exit_code=None))
    world.empty(task.id)


def test_a_job_that_is_placed_again_at_once_after_each_loss_has_waited_for_nothing() -> None:
    world = World(node())
    job = world.submit_running(spec(gpus=1), "n1")
    for _ in range(4):
        world.wait(1000)
        lose(world, job)
        world.settle()
    assert (world.job(job).state, world.job(job).losses) == (JobState.RUNNING, 4)
    assert world.job(job).waited_ms == 0


def test_waits_between_losses_add_up_and_run_time_is_none() -> None:
    world = World(node())
    job = world.wait(5).submit(spec(gpus=1))
    world.wait(30)
    for _ in range(3):
        world.run(job, "n1")
        world.wait(1000)
        lose(world, job)
        world.wait(10)
    assert waited_ms(world.state, world.job(job), world.at) == 60_000
    assert since_ms(world.state, world.job(job)) == world.job(job).submitted_ms, "its age is what it always was"


def test_no_job_is_promoted_for_having_run() -> None:
    world = World(node(gpus=2)).set_policy(ordering="priority", levels=LEVELS)
    pool = Pool(name="default", levels={"normal": 1, "high": 5})
    world.tell("admission", f.PoolSet(pool=pool, by="admin"))
    job = world.submit_running(spec(gpus=1), "n1")
    world.wait(7200)
    lose(world, job)
    policy = world.state.kept.pools["default"].policy
    assert level_now(world.state, world.job(job), policy, world.at) == "normal"
    other = world.submit(spec(gpus=1, level="high"))
    world.set_policy(ordering="weighted", formula="level", levels=LEVELS)
    ordered = order(world.state, world.state.kept.pools["default"], world.waiting(), world.at)
    assert {one.job: one.score // 1_000_000 for one in ordered.candidates} == {other: 5, job: 1}
    world.wait(3599)
    assert level_now(world.state, world.job(job), policy, world.at) == "normal"
    world.wait(1)
    assert level_now(world.state, world.job(job), policy, world.at) == "high"


def test_the_queue_wakes_when_a_lost_job_has_waited_long_enough_to_move() -> None:
    world = World(node(gpus=1)).set_policy(ordering="fifo", starvation_s=0, levels=LEVELS)
    job = world.submit_running(spec(gpus=1), "n1")
    world.wait(7200)
    lose(world, job)
    world.submit_running(spec(gpus=1), "n1")
    world.round()
    assert next_wake_ms(world.state, "default", world.at) == world.job(job).queued_ms + 3_600_000

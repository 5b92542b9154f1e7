"""A date that is told can be kept: no job is dated on a node from which a window keeps it by then."""

from tests.make import T0, World, node, spec

from gangline_core import facts as f
from gangline_core.ids import JobId, NodeId
from gangline_core.job import JobState
from gangline_core.reserving.windows import Window


def busy(*ends_s: int) -> tuple[World, list[JobId]]:
    """Machines of one GPU each, n1 and so on, on which somebody works until these seconds."""
    world = World(*(node(f"n{k}", gpus=1) for k, _ in enumerate(ends_s, start=1)))
    world.set_policy(preemption=False)
    return world, [
        world.submit_running(spec(gpus=1, time_limit_s=end), f"n{k}") for k, end in enumerate(ends_s, start=1)
    ]


def keep(world: World, start_s: int, end_s: int, *nodes: str) -> None:
    window = Window("maint", "default", T0 + 1000 * start_s, T0 + 1000 * end_s, nodes=tuple(map(NodeId, nodes)))
    world.tell("admission", f.WindowSet(window=window, by="root"))


def dates(world: World) -> list[tuple[JobId, int, str]]:
    found = world.state.kept.pools["default"].reservations
    return [(one.job, (one.start_ms - T0) // 1000, one.tasks[0].node) for one in found]


def test_a_job_is_dated_on_the_node_that_is_open_to_it_then_and_the_other_is_left_to_who_is_over_in_time():
    world, (first, second) = busy(100, 200)
    keep(world, 120, 180, "n1")
    job = world.submit(spec(gpus=1, time_limit_s=40, grace_s=0))
    world.settle()
    assert dates(world) == [(job, 200, "n2")]
    world.wait(100).finish(first)
    short = world.submit(spec(gpus=1, time_limit_s=15, grace_s=0))
    world.settle()
    assert world.job(short).state == JobState.RUNNING
    world.wait(100).finish(short, second).settle()
    assert world.job(job).state == JobState.RUNNING


def test_nothing_is_kept_for_a_job_that_no_node_is_open_to_when_there_is_room():
    world, (first,) = busy(100)
    keep(world, 120, 180)
    job = world.submit(spec(gpus=1, time_limit_s=40, grace_s=0))
    short = world.submit(spec(gpus=1, time_limit_s=15, grace_s=0))
    world.settle()
    assert dates(world) == [(short, 100, "n1")]
    world.wait(100).finish(first).settle()
    assert (world.job(job).state, world.job(short).state) == (JobState.WAITING, JobState.RUNNING)
    world.wait(80).finish(short).settle()
    assert world.job(job).state == JobState.RUNNING


def test_a_window_at_a_time_that_nobody_knows_takes_no_date_away():
    world, _ = busy(0)
    day_s = 86_400
    keep(world, day_s - 100, day_s + 100)
    job = world.submit(spec(gpus=1, time_limit_s=40, grace_s=0))
    world.settle()
    assert dates(world) == [(job, day_s, "n1")]

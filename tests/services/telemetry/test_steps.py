"""What a step takes is told without the noise of single steps, so trials of sizes are kept for what they are worth."""

from collections.abc import Callable
from random import Random

import pytest
from msgspec.structs import replace
from tests.core.test_causes import numbers, running, turn
from tests.make import World, node, role, spec

from gangline_core import facts as f
from gangline_core.ids import JobId
from gangline_core.job import JobState
from gangline_core.sizes.progress import POINTS_MAX, Point, Progress
from gangline_core.spec import Elastic, ResizeKind, Resources, ServiceClass
from gangline_telemetry.progress import Stories
from gangline_telemetry.steps import SAID_MAX, Steps, middle
from gangline_wire.samples import JobReport, Samples

MEETS = Elastic(kind=ResizeKind.TORCHRUN)


def point(step_us: int, members: int = 2, **fields: int) -> Point:
    return Point(nodes=1, members=members, batch=fields.get("batch", 32), gathered=0, step_us=step_us)


def said(job: JobId, task: str, step_us: int, members: int, number: int) -> Samples:
    progress = Progress(step=number, points=(point(step_us, members),))
    report = JobReport(job=job, attempt=1, task=task, progress=progress)
    return Samples(agent="sim", nodes=(), reports=(report,))


def told(stories: Stories, world: World, now_s: float) -> list[Point]:
    """What reaches the log, which folds it."""
    facts = [fact for fact in stories.judge(world.state, now_s) if isinstance(fact, f.ProgressReported)]
    if facts:
        world.tell("telemetry", *facts)
    return [one for fact in facts for one in fact.progress.points]


def test_the_middle_is_what_outliers_do_not_move() -> None:
    assert middle([7]) == 7
    assert middle([10, 20]) == 15
    assert middle([100, 101, 99, 100, 9_000_000, 1, 100, 100]) == 100


def test_what_is_remembered_of_a_job_is_bounded() -> None:
    steps = Steps()
    for number in range(10 * SAID_MAX):
        steps.hear([point(number, batch=1 + number % (3 * POINTS_MAX))])
        steps.hear([point(number)])
    assert len(steps._said) <= POINTS_MAX
    assert max(len(one.times_us) for one in steps._said.values()) <= SAID_MAX


def test_the_log_hears_the_middle_of_all_steps_of_a_shape() -> None:
    world = World(node())
    job = world.submit_running(spec(gpus=1, tasks=2), "n1")
    stories, [task, _] = Stories(), [task.id for task in world.tasks(job)]
    stories.hear(said(job, task, 100, 2, 1), world.state, 0.0)
    assert told(stories, world, 0.0) == [point(100)]
    for number, step_us in enumerate((130, 90, 110, 5_000), start=2):
        stories.hear(said(job, task, step_us, 2, number), world.state, float(number))
    assert told(stories, world, 31.0) == [point(113)]


def test_beside_somebody_else_the_log_hears_how_the_owner_fares_now() -> None:
    world = World(node(gpus=1))
    owns = Resources(gpu_milli=1000, gpu_memory_most_mib=20_000, cpu_milli=1000)
    beside = Resources(beside=True, gpu_memory_mib=8_000, cpu_milli=1000)
    owner = world.submit(spec(roles=[replace(role(), resources=owns)]))
    world.settle()
    stories, [task] = Stories(), [task.id for task in world.tasks(owner)]
    for number in range(20):
        stories.hear(said(owner, task, 100, 1, number), world.state, 0.0)
    assert told(stories, world, 0.0) == [point(100, 1)]
    guest = world.submit(spec(roles=[replace(role(), resources=beside)], service_class=ServiceClass.OPPORTUNISTIC))
    world.settle()
    assert world.job(guest).state == JobState.RUNNING
    for number in range(20, 23):
        stories.hear(said(owner, task, 150, 1, number), world.state, 10.0)
    assert told(stories, world, 40.0) == [point(150, 1)]


def trials(seed: int, seconds: Callable[[int], float], *, noise: float = 0.2) -> tuple[World, JobId]:
    """Forty minutes under Gandiva's policy of a job that reports each step, with noise."""
    chance, world = Random(seed), World(node(gpus=8)).set_policy(elastic="grow_shrink", elastic_interval_s=60)
    job, stories, next_s = running(world, 4, elastic=MEETS, minimum=2, maximum=8), Stories(), 0.0
    for second in range(2400):
        world.wait(1)
        members = [task.id for task in world.tasks(job)]
        while next_s <= second:
            step_s = seconds(len(members))
            shown_us = int(1e6 * step_s * (1 + noise * chance.uniform(-1, 1)))
            stories.hear(said(job, members[0], shown_us, len(members), int(10 * next_s)), world.state, float(second))
            next_s += step_s
        told(stories, world, float(second))
        if second % 10 == 0:
            turn(world)
    return world, job


@pytest.mark.parametrize("seed", range(4))
def test_a_growth_that_helps_by_a_little_is_kept_though_steps_are_noisy(seed: int) -> None:
    # Each member more is worth nine tenths of itself: from seven to eight an eighth, beside noise of a fifth.
    world, job = trials(seed, lambda members: 1.0 + 0.02 * members)
    assert world.job(job).sizes == {"worker": 8}
    assert numbers(world, job) == 4, "one change for each step, none taken back"


@pytest.mark.parametrize("seed", range(4))
def test_a_growth_that_does_not_help_is_taken_back_once_though_steps_are_noisy(seed: int) -> None:
    # Beyond five members each step takes longer by more than the members do.
    world, job = trials(seed, lambda members: 1.0 if members <= 5 else 0.26 * members)
    assert world.job(job).sizes == {"worker": 5}
    assert numbers(world, job) == 3, "grown, tried, and taken back"

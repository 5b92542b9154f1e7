"""Reports full of noise move nobody's size for ever, and what failed is not tried again because the job reports."""

from random import Random

import pytest
from tests.core.test_causes import numbers, running, turn
from tests.make import World, node

from gangline_core import facts as f
from gangline_core.ids import JobId
from gangline_core.sizes.news import Known, is_news
from gangline_core.sizes.progress import Point, Progress
from gangline_core.spec import Elastic, ResizeKind

POLICIES = ("adaptive", "goodput", "sia", "band", "grow_shrink", "idle_fill", "deadlines")
MEETS = Elastic(kind=ResizeKind.TORCHRUN)


def report(
    world: World, job: JobId, seconds: float, *, batch: int = 32, grad_var: int = 20_000, step: int = -1
) -> None:
    members = world.job(job).sizes.get("worker", 0)
    if members:
        point = Point(nodes=1, members=members, batch=batch, gathered=0, step_us=int(seconds * 1e6))
        said = Progress(points=(point,), grad_sqr=1000, grad_var=grad_var, step=step)
        world.tell("telemetry", f.ProgressReported(job=job, progress=said))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("begin", [3, 6])
@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_a_demand_of_seven_with_gangs_of_three_is_one_change_at_most_although_the_job_reports_with_noise(
    policy: str, begin: int, noise: float
) -> None:
    chance, world = Random(3), World(node(gpus=7)).set_policy(elastic=policy)
    job = running(world, begin, minimum=3, maximum=6, sizes=[3, 6], elastic=MEETS)
    for _ in range(60):
        world.wait(60)
        report(world, job, 0.1 * (1 + noise * chance.random()))
        turn(world)
    assert numbers(world, job) <= 1


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("noise", [0.2])
def test_equal_jobs_that_report_with_noise_come_to_rest(policy: str, noise: float) -> None:
    chance, world = Random(1), World(node(gpus=8)).set_policy(elastic=policy)
    jobs = [running(world, 1, elastic=MEETS, attributes={"batch_size": 128, "batch_size_max": 1024}) for _ in range(3)]
    changes = []
    for _ in range(120):
        world.wait(60)
        for job in jobs:
            size = world.job(job).sizes.get("worker", 1)
            seconds = (0.05 + 0.5 / size + 0.01 * size) * (1 + noise * (2 * chance.random() - 1))
            var = int(20_000 * (1 + noise * (2 * chance.random() - 1)))
            report(world, job, seconds, batch=max(1, 128 // size), grad_var=var)
        turn(world)
        changes.append(sum(numbers(world, job) for job in jobs))
    assert changes[-1] == changes[60], "nothing moves after the first hour"


def test_a_gang_that_never_meets_starts_anew_once_although_it_reports_after_each_start() -> None:
    world = World(node(gpus=4))
    job = running(world, elastic=Elastic(kind=ResizeKind.TORCHRUN, confirm_s=60))
    for number in range(20):
        report(world, job, 0.1, step=number)
        turn(world, start=False)
        world.start(job)
        world.wait(61)
        turn(world, start=False)
        world.stop_all()
        world.settle()
    assert world.job(job).attempt <= 2


def test_growth_that_does_not_start_is_tried_ever_later_while_causes_come() -> None:
    world = World(node(gpus=4))
    job = running(world, elastic=Elastic(kind=ResizeKind.TORCHRUN, start_s=60))
    for number in range(240):
        world.see(node("n1", gpus=4, labels={"turn": str(number)}))
        report(world, job, 0.1, step=number)
        turn(world, start=False)
        world.wait(60)
        turn(world, start=False)
        world.stop_all()
    assert world.job(job).sizes == {"worker": 2}
    assert 4 <= numbers(world, job) <= 9, "after 1, 2, 4, ... minutes, within four hours"


def said(**fields: object) -> Progress:
    return Progress(points=(Point(1, 2, 32, 0, 100_000),), grad_sqr=100, grad_var=1000, remaining_s=3600, **fields)


@pytest.mark.parametrize(
    ("after_s", "change", "news"),
    [
        (60, {"step": 5, "permille": 30, "remaining_s": 3540}, False),
        (60, {"points": (Point(1, 2, 32, 0, 130_000),)}, False),
        (60, {"points": (Point(1, 2, 32, 0, 160_000),)}, True),
        (60, {"points": (Point(1, 2, 32, 0, 60_000),)}, True),
        (60, {"points": (Point(1, 4, 32, 0, 100_000),)}, True),
        (60, {"points": (Point(1, 2, 64, 0, 100_000),)}, True),
        (60, {"grad_var": 1400}, False),
        (60, {"grad_var": 1600}, True),
        (60, {"grad_sqr": 0}, True),
        (1800, {"remaining_s": 1800}, False),
        (1800, {"remaining_s": 2700}, True),
        (1800, {"remaining_s": 900}, True),
        (3600, {"remaining_s": 50}, False),
    ],
)
def test_only_what_a_report_tells_anew_is_a_cause(after_s: int, change: dict[str, object], news: bool) -> None:
    before = said()
    values = {name: getattr(before, name) for name in Progress.__struct_fields__} | change
    assert is_news(Known(said=before, at=0), Progress(**values), after_s * 1000) == news

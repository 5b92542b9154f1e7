"""Under every policy for sizes, elastic gangs of all kinds among others pass through all oracles."""

import pytest
from tests.cases.drive import Drive
from tests.make import gpu_amount, group, node
from tests.sim.test_oracles import watched

from gangline_core import facts as f
from gangline_core.elasticity import POLICIES
from gangline_core.sizes.progress import Point, Progress
from gangline_core.spec import Elastic, ResizeKind


def crowd(policy: str) -> Drive:
    """Elastic gangs of two groups, rigid jobs that come and go, nodes that are lost, settings that change, reports."""
    groups = [group("a", guaranteed=gpu_amount(5)), group("b", guaranteed=gpu_amount(5)), group("c")]
    drive = Drive(node("n1"), node("n2", gpus=4), groups=groups, policy={"elastic": policy, "elastic_interval_s": 5})
    gangs = [
        drive.ask(
            2 * k,
            gpus=1,
            tasks=2,
            minimum=1,
            maximum=6,
            sizes=[1, 2, 4, 6] if k % 2 else (),
            group="ab"[k % 2],
            run=300,
            priority=k % 3,
            elastic=Elastic(kind=kind),
        )
        for k, kind in enumerate(ResizeKind)
    ]
    for k in range(8):
        drive.ask(20 + 11 * k, gpus=1 + k % 3, group="abc"[k % 3], run=15, stop=k % 3, priority=k % 5)

    def report(number: int) -> None:
        for ask in gangs:
            job = drive.job(ask.id)
            size = job.sizes.get("worker", 0)
            if job.ended_ms == 0 and size:
                point = Point(1, size, 32, 0, 100_000 + 9_000 * size + 1_000 * number)
                said = Progress(points=(point,), grad_sqr=1_000_000, grad_var=9_000_000, remaining_s=200)
                drive.tell("telemetry", f.ProgressReported(job=job.id, progress=said))

    for number, second in enumerate((15, 40, 70, 130, 190)):
        drive.later(second, lambda number=number: report(number))
    drive.later(50, lambda: drive.lose("n2"))
    drive.later(80, lambda: drive.see(node("n2", gpus=4)))
    drive.later(110, lambda: drive.set_group("a", guaranteed=gpu_amount(2)))
    drive.finish_all()
    return drive


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_a_crowd_of_elastic_gangs_passes_through_the_oracles(policy: str) -> None:
    drive = crowd(policy)
    assert len(watched(drive).messages) == len(drive.log)
    causes: dict[int, int] = {}
    for message in drive.log:
        for fact in message.facts:
            if isinstance(fact, f.ResizeProposed):
                assert fact.because >= causes.get(fact.job, 0)
                causes[fact.job] = fact.because
    assert causes, "nobody was ever resized"

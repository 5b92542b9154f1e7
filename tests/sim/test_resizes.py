"""A change of size in the whole platform, in virtual time: it comes to its end whichever service dies in its middle."""

from pathlib import Path

import pytest
from tests.cases.house import House, ask, house
from tests.make import role

from dollhouse.loop import live
from gangline_core.job import JobState, ResizeStage
from gangline_core.sizes.resizing import OVER
from gangline_core.spec import Elastic, ResizeKind


def gang(kind: ResizeKind, **attributes: float):
    terms = Elastic(kind=kind, notice_s=20, confirm_s=60, start_s=120)
    return ask(run=5000, roles=[role(tasks=2, minimum=2, maximum=6)], elastic=terms, attributes=attributes)


def resize(world: House, job: int):
    return world.state.kept.jobs[job].resize  # type: ignore[index]  # ids are numbers here


@pytest.mark.parametrize("victim", ["elastic", "placement", "queue", "telemetry", "fleet"])
@pytest.mark.parametrize("kind", [ResizeKind.TORCHRUN, ResizeKind.RESTART])
def test_a_service_that_dies_in_the_middle_of_a_change_does_not_stop_it(tmp_path: Path, kind, victim) -> None:
    live(crash_story(tmp_path, kind, victim))


async def crash_story(tmp_path: Path, kind: ResizeKind, victim: str) -> None:
    async with house(tmp_path, {"fleet": {"n1": 8}}) as world:
        (job,) = await world.submit(gang(kind, safe_time_s=5, join_time_s=5))
        await world.until(lambda _: resize(world, job) is not None)
        await world.crash(victim)
        await world.clock.sleep(3)
        world.restart(victim)
        await world.until(lambda _: world.is_in(job, JobState.RUNNING) and resize(world, job).stage in OVER, 300)
        assert resize(world, job).stage == ResizeStage.SETTLED
        assert world.state.kept.jobs[job].sizes == {"worker": 6}
        # Another one comes and wants half of the room: the gang shrinks, and both run.
        (other,) = await world.submit(ask(run=5000, gpus=4))
        await world.until(lambda _: resize(world, job).number == 2)
        await world.crash(victim)
        await world.clock.sleep(3)
        world.restart(victim)
        await world.reached(job, other, within_s=400)
        await world.until(lambda _: resize(world, job).stage in OVER, 300)
        assert world.state.kept.jobs[job].retries_used == 0


def test_a_gang_that_never_says_that_it_met_starts_anew_and_loses_no_retry(tmp_path: Path) -> None:
    live(silent_story(tmp_path))


async def silent_story(tmp_path: Path) -> None:
    async with house(tmp_path, {"fleet": {"n1": 8}}) as world:
        (job,) = await world.submit(gang(ResizeKind.TORCHRUN, join_time_s=-1))
        await world.until(
            lambda _: resize(world, job) is not None and resize(world, job).stage == ResizeStage.FAILED, 300
        )
        await world.until(lambda _: world.is_in(job, JobState.RUNNING, JobState.RESIZING), 60)
        assert world.state.kept.jobs[job].attempt == 2
        assert world.state.kept.jobs[job].retries_used == 0

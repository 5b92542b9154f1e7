"""Whichever service dies in whichever stage of a change of size, the change comes to its end and nobody loses a try."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cases.house import House, ask, house
from tests.make import role

from dollhouse.loop import live
from gangline_core.job import Job, JobState, ResizeStage
from gangline_core.sizes.resizing import OVER
from gangline_core.spec import Elastic, ResizeKind
from gangline_core.state import State
from gangline_wire.requests import SetSize

VICTIMS = ("admission", "queue", "placement", "elastic", "telemetry", "accounting", "recorder", "fleet")
GONE_S = 3
Stage = Callable[[State, Job], bool]


def in_stage(stage: ResizeStage) -> Stage:
    return lambda state, job: job.resize is not None and job.resize.stage == stage


STAGES: dict[str, Stage] = {
    "asked": lambda state, job: bool(job.asked),
    "proposed": lambda state, job: job.id in state.kept.pools["default"].proposals,
    "noticed": in_stage(ResizeStage.NOTICED),
    "applying": in_stage(ResizeStage.APPLYING),
    "confirming": in_stage(ResizeStage.CONFIRMING),
    "settled": in_stage(ResizeStage.SETTLED),
}
"""What a change goes through; a kind of job does not stop at all of them."""
SEEN = {
    ResizeKind.TASKS: {"asked", "proposed", "noticed", "applying", "settled"},
    ResizeKind.TORCHRUN: {"asked", "proposed", "noticed", "applying", "confirming", "settled"},
    ResizeKind.SIGNAL: {"asked", "proposed", "noticed", "applying", "confirming", "settled"},
    ResizeKind.RESTART: {"asked", "proposed", "noticed", "applying", "confirming", "settled"},
}


@pytest.mark.parametrize("kind", ResizeKind)
@pytest.mark.parametrize("victim", VICTIMS)
def test_a_change_ends_well_whichever_service_dies_in_any_of_its_stages(tmp_path: Path, kind, victim) -> None:
    live(story(tmp_path, kind, victim))


async def story(folder: Path, kind: ResizeKind, victim: str) -> None:
    seen = set()
    async with house(folder, {"fleet": {"n1": 8}}) as world:
        # A policy of its own would grow it beside what is asked for by hand.
        confirm_s = 0 if kind == ResizeKind.TASKS else 60
        terms = Elastic(kind=kind, notice_s=20, confirm_s=confirm_s, start_s=120)
        takes = {"safe_time_s": 4, "join_time_s": 4, "stop_time_s": 2}
        (job,) = await world.submit(
            ask(run=100_000, roles=[role(tasks=2, minimum=2, maximum=6)], elastic=terms, attributes=takes)
        )
        await world.until(lambda state: is_at(state, job, 6), 300)
        for name in SEEN[kind]:
            for size in (2, 6):
                if await struck(world, job, size, name, victim):
                    seen.add(name)
        kept = world.state.kept.jobs[job]
        assert (kept.retries_used, kept.resize.failures) == (0, 0)
    assert seen == SEEN[kind]


async def struck(world: House, job: int, size: int, name: str, victim: str) -> bool:
    """Change the size, and have the victim die in this stage; False when there was no such stage."""
    number = world.state.kept.jobs[job].resize.number
    await world.ask(SetSize(job=job, size=size, by="ann"))
    reached = []

    def is_there(state: State) -> bool:
        kept = state.kept.jobs[job]
        is_this = name in ("asked", "proposed") or kept.resize.number > number
        if is_this and STAGES[name](state, kept):
            reached.append(True)
        return bool(reached) or (kept.resize.number > number and kept.resize.stage in OVER)

    await world.until(is_there, 300)
    await world.crash(victim)
    await world.clock.sleep(GONE_S)
    world.restart(victim)
    await world.until(lambda state: is_at(state, job, size), 400)
    return bool(reached)


def is_at(state: State, job: int, size: int) -> bool:
    """True when the job works at this size, and no change is under way."""
    kept = state.kept.jobs[job]
    is_over = kept.resize is not None and kept.resize.stage in OVER
    return is_over and kept.state == JobState.RUNNING and kept.sizes == {"worker": size} and len(kept.tasks) == size

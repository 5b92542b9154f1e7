"""All services together on an in-memory bus and a virtual clock: hours pass in milliseconds."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.make import role, spec

import gangline_accounting.app
import gangline_accounting.config
import gangline_admission.app
import gangline_admission.config
import gangline_agent.app
import gangline_agent.config
import gangline_elastic.app
import gangline_elastic.config
import gangline_placement.app
import gangline_placement.config
import gangline_queue.app
import gangline_queue.config
import gangline_recorder.app
import gangline_recorder.config
import gangline_telemetry.app
import gangline_telemetry.config
from dollhouse.loop import live
from dollhouse.world import World
from gangline_core.job import ENDS, JobState
from gangline_core.limits.usage_by_class import recompute

NODES = "sn,cpu_milli,memory_mib,gpu,model\n" + "".join(f"n{k},64000,262144,8,V100M32\n" for k in range(4))
ROOMS = ("admission", "queue", "placement", "elastic", "accounting", "telemetry", "recorder", "agent")


@asynccontextmanager
async def opened(tmp_path: Path) -> AsyncIterator[World]:
    """Not a fixture: time is virtual only inside a test."""
    nodes = tmp_path / "nodes.csv"
    nodes.write_text(NODES)
    async with World() as house:
        house.start(
            "admission",
            gangline_admission.app.run,
            gangline_admission.config.Config(first_group="lab", first_user="ann"),
        )
        house.start("queue", gangline_queue.app.run, gangline_queue.config.Config())
        house.start("placement", gangline_placement.app.run, gangline_placement.config.Config())
        house.start("elastic", gangline_elastic.app.run, gangline_elastic.config.Config())
        house.start("accounting", gangline_accounting.app.run, gangline_accounting.config.Config())
        house.start("telemetry", gangline_telemetry.app.run, gangline_telemetry.config.Config())
        house.start(
            "recorder",
            gangline_recorder.app.run,
            gangline_recorder.config.Config(archive_dir=str(tmp_path / "archive")),
        )
        house.start(
            "agent",
            gangline_agent.app.run,
            gangline_agent.config.Config(name="fleet", simulate=str(nodes), data_dir=str(tmp_path / "agent")),
        )
        await house.until(lambda state: len(state.kept.nodes) == 4)
        yield house
        house.check()
        assert recompute(house.state) == {path: used for path, used in house.state.usage.items() if used}


def test_a_gang_runs_from_submit_to_released_gpus_and_is_charged_once(tmp_path: Path) -> None:
    live(gang_story(tmp_path))


async def gang_story(tmp_path: Path) -> None:
    async with opened(tmp_path) as world:
        gang = spec(group="lab", user="ann", roles=[role(tasks=4, gpus=8)], attributes={"run_time_s": 3600})
        (job,) = await world.submit(gang)
        await world.until(lambda state: state.kept.jobs[job].state == JobState.RUNNING, within_s=5)
        assert world.state.usage["lab"]["gpu_milli"] == 32_000
        await world.until(lambda state: state.kept.jobs[job].state == JobState.SUCCEEDED, within_s=4000)
        await world.until(lambda state: not state.kept.uncharged and state.kept.charged.get("lab", 0) > 0)
        hours = world.state.kept.charged["lab"] / 3_600_000 / 1000
        assert 32 <= hours < 32.1
        assert not world.state.kept.tasks


@pytest.mark.parametrize("room", ROOMS)
def test_a_crash_of_any_service_loses_no_job_and_doubles_none(tmp_path: Path, room: str) -> None:
    live(crash_story(tmp_path, room))


async def crash_story(tmp_path: Path, room: str) -> None:
    async with opened(tmp_path) as world:
        jobs = [
            *await world.submit(
                *(spec(group="lab", user="ann", gpus=1, attributes={"run_time_s": 50}) for _ in range(40))
            )
        ]
        for _ in range(3):
            await world.crash(room)
            await world.clock.sleep(2)
            world.restart(room)
            jobs += await world.submit(spec(group="lab", user="ann", gpus=8, attributes={"run_time_s": 20}))
            await world.clock.sleep(7)
        await world.until(lambda state: all(state.kept.jobs[job].state in ENDS for job in jobs), within_s=600)
        ends = {job: world.state.kept.jobs[job] for job in jobs}
        assert {end.state for end in ends.values()} == {JobState.SUCCEEDED}
        assert {end.attempt for end in ends.values()} == {1}

"""A platform in a dollhouse for one story: every service in as many copies as asked for, and one agent per fleet."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct
from tests.make import spec

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
from dollhouse.world import Run, World
from gangline_core.job import JobState
from gangline_core.limits.usage_by_class import recompute
from gangline_core.spec import JobSpec

DECIDING = ("admission", "queue", "placement", "elastic", "accounting", "telemetry")


class House(World):
    """The world with the words of the cases."""

    def is_in(self, job: int, *states: JobState) -> bool:
        """True when the job stands there now."""
        return self.state.kept.jobs[job].state in states  # type: ignore[index]  # ids are numbers here

    async def reached(self, *jobs: int, state: JobState = JobState.RUNNING, within_s: float = 60) -> None:
        """Wait until all of these jobs stand there."""
        await self.until(lambda _: all(self.is_in(job, state) for job in jobs), within_s)

    def nodes_of(self, job: int) -> list[str]:
        """Where a job's tasks are."""
        kept = self.state.kept
        return [kept.tasks[task].node for task in kept.jobs[job].tasks]  # type: ignore[index]  # plain numbers and names will do in a story

    def prove_books(self) -> None:
        """Usage is the sum over what lives, and nothing is over its capacity."""
        self.check()
        state = self.state
        assert recompute(state) == {path: used for path, used in state.usage.items() if used}
        for node, use in state.use.items():
            assert all(0 <= milli <= 1000 for milli in use.gpu_milli), node


@asynccontextmanager
async def house(
    folder: Path, fleets: Mapping[str, Mapping[str, int]], *, copies: int = 1, agent: Mapping[str, Any] | None = None
) -> AsyncIterator[House]:
    """A running house; `fleets` gives GPUs per node per agent. To be opened inside `live`."""
    async with House() as world:
        for kind, run, config in services(folder):
            for copy in range(copies if kind in DECIDING else 1):
                world.start(kind if copy == 0 else f"{kind}-{copy + 1}", run, config)
        for name, nodes in fleets.items():
            listed = folder / f"{name}.csv"
            rows = [f"{node},64000,262144,{gpus},V100M32" for node, gpus in nodes.items()]
            listed.write_text("\n".join(["sn,cpu_milli,memory_mib,gpu,model", *rows]) + "\n")
            settings = {"name": name, "simulate": str(listed), "data_dir": str(folder / name), **(agent or {})}
            world.start(name, gangline_agent.app.run, gangline_agent.config.Config(**settings))
        await world.until(lambda state: len(state.kept.nodes) == sum(map(len, fleets.values())))
        yield world
        world.prove_books()


def services(folder: Path) -> list[tuple[str, Run, Struct]]:
    """Every service with its settings."""
    return [
        (
            "admission",
            gangline_admission.app.run,
            gangline_admission.config.Config(first_group="lab", first_user="ann"),
        ),
        ("queue", gangline_queue.app.run, gangline_queue.config.Config()),
        ("placement", gangline_placement.app.run, gangline_placement.config.Config()),
        ("elastic", gangline_elastic.app.run, gangline_elastic.config.Config()),
        ("accounting", gangline_accounting.app.run, gangline_accounting.config.Config()),
        ("telemetry", gangline_telemetry.app.run, gangline_telemetry.config.Config()),
        ("recorder", gangline_recorder.app.run, gangline_recorder.config.Config(archive_dir=str(folder / "archive"))),
    ]


def ask(*, run: float = 60, **fields: Any) -> JobSpec:
    """A job of the house's one group that runs so long."""
    attributes = {"run_time_s": run, **fields.pop("attributes", {})}
    return spec(group="lab", user="ann", attributes=attributes, **fields)

"""Reports about agents that are cut off or restarted (K01, K07) in other shapes: gangs, stages, lengths, repeats."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.cases.house import House, ask, house

from dollhouse.loop import live
from dollhouse.world import Run
from gangline_agent.app import carry
from gangline_agent.config import Config
from gangline_agent.fleet import read
from gangline_agent.nodes import Fleet
from gangline_agent.reporter import Reporter
from gangline_agent.runner import Phase
from gangline_agent.simulated import SimulatedRunner
from gangline_core.job import JobState
from gangline_core.spec import Elastic, Pausing, ResizeKind
from gangline_kit.service import Site
from gangline_wire.requests import CancelJob, SetHold, SetSize

FLEETS = {"one": {"n1": 2}, "two": {"n2": 2}, "three": {"n3": 2}}
WORKS = (Phase.STARTING, Phase.RUNNING)


def seen_agent(folder: Path, name: str, runners: dict[str, SimulatedRunner]) -> tuple[Run, Config]:
    """The agent of one fleet, whose runner can be looked at; a dead one's programs live on until somebody looks."""
    config = Config(name=name, simulate=str(folder / f"{name}.csv"), data_dir=str(folder / name))

    async def run(site: Site, settings: Config) -> None:
        nodes = read(settings.simulate, agent=name, pool="default")
        reporter = Reporter(site, settings, Fleet(nodes))
        runner = runners[name] = SimulatedRunner(site.clock, reporter.changed, confirm=reporter.met)
        await carry(site, settings, reporter, runner, renew=lambda: None)

    return run, config


def twice(runners: dict[str, SimulatedRunner], job: int) -> set[str]:
    """Ranks of a job of which two programs work at this moment, wherever, or whose attempts mix."""
    working = [
        str(name).split("-") for runner in runners.values() for name, local in runner.known.items()
        if local.phase in WORKS and str(name).startswith(f"{job}-")
    ]  # fmt: skip
    ranks = Counter("-".join(parts[2:]) for parts in working)
    return {rank for rank, number in ranks.items() if number > 1}


@pytest.mark.parametrize("kind", [None, ResizeKind.TASKS, ResizeKind.TORCHRUN, ResizeKind.RESTART], ids=str)
@pytest.mark.parametrize(("cuts", "quietly"), [((45,), False), ((120,), True), ((25, 60), False), ((33, 33, 33), True)])
def test_however_often_and_long_one_of_a_gangs_machines_is_cut_off_no_member_ever_works_twice(
    tmp_path: Path, kind: ResizeKind | None, cuts: tuple[int, ...], quietly: bool
) -> None:
    live(cut_gang(tmp_path, kind, cuts, quietly))


async def cut_gang(folder: Path, kind: ResizeKind | None, cuts: tuple[int, ...], quietly: bool) -> None:
    runners: dict[str, SimulatedRunner] = {}
    async with house(folder, FLEETS) as world:
        for name in FLEETS:
            await world.crash(name)
            world.start(name, *seen_agent(folder, name, runners))
        await world.clock.sleep(5)
        sizes: dict[str, Any] = {} if kind is None else {"minimum": 2, "maximum": 4, "elastic": Elastic(kind=kind)}
        (job,) = await world.submit(ask(run=5000, tasks=4, gpus=1, attributes={"stop_time_s": 5}, grace_s=10, **sizes))
        await world.reached(job)
        for length_s in cuts:
            name = {"n1": "one", "n2": "two", "n3": "three"}[world.nodes_of(job)[-1]]
            world.cut(name, quietly=quietly)
            for _ in range(length_s * 2):
                await world.clock.sleep(0.5)
                assert twice(runners, job) == set()
            world.heal(name)
            for _ in range(60):
                await world.clock.sleep(0.5)
                assert twice(runners, job) == set()
        await world.reached(job)
        found = world.state.kept.jobs[job]
        assert found.retries_used == 0
        assert found.losses <= 2 * len(cuts), "as many as were lost, two of them at once"
        lasting = [task for task in world.state.kept.tasks.values() if task.job == job]
        assert {task.attempt for task in lasting} == {found.attempt}, "what the cut one reports late changes nothing"


STAGES = ("starting", "stopping", "growing", "shrinking", "paused", "standing")


@pytest.mark.parametrize("away_s", [2, 17])
@pytest.mark.parametrize("stage", STAGES)
def test_an_agent_that_restarts_at_any_stage_of_its_tasks_loses_none_and_starts_none_again(
    tmp_path: Path, stage: str, away_s: int
) -> None:
    live(restart_at(tmp_path, stage, away_s))


async def restart_at(folder: Path, stage: str, away_s: int) -> None:
    async with house(folder, {"one": {"n1": 6}}) as world:
        asked = ask(
            run=400, tasks=3, minimum=1, maximum=6, gpus=1, grace_s=30, sizes=[1, 3, 5],
            attributes={"stop_time_s": 12 if stage in ("stopping", "shrinking") else 0},
            elastic=Elastic(kind=ResizeKind.TORCHRUN, notice_s=4), pausing=Pausing(notice_s=3),
        )  # fmt: skip
        (job,) = await world.submit(asked)
        if stage == "starting":
            await world.reached(job, state=JobState.STARTING)
        else:
            await world.reached(job)
            await world.clock.sleep(1)
            await begin(world, job, stage)
        await world.crash("one")
        await world.clock.sleep(away_s)
        assert not any(node.lost for node in world.state.kept.nodes.values())
        world.restart("one")
        await settle(world, job, stage)
        found = world.state.kept.jobs[job]
        assert (found.attempt, found.losses, found.retries_used) == (1, 0, 0)


async def begin(world: House, job: int, stage: str) -> None:
    """Bring the job to the stage at which its agent dies."""
    match stage:
        case "stopping":
            await world.ask(CancelJob(job=job, by="ann"))
        case "growing" | "shrinking":
            size = 5 if stage == "growing" else 1
            await world.ask(SetSize(job=job, role="worker", size=size, by="ann"))
        case _:
            await world.ask(SetHold(job=job, held=True, by="ann", pause=True))
    await world.clock.sleep(6 if stage == "standing" else 1)


async def settle(world: House, job: int, stage: str) -> None:
    """Let it come to its end, and look at what became of it."""
    match stage:
        case "stopping":
            await world.reached(job, state=JobState.CANCELLED, within_s=60)
        case "growing" | "shrinking":
            size = 5 if stage == "growing" else 1
            await world.until(lambda state: state.kept.jobs[job].sizes == {"worker": size}, 60)
            await world.reached(job, within_s=60)
        case "paused" | "standing":
            await world.until(
                lambda state: all(state.kept.tasks[name].working for name in state.kept.jobs[job].tasks), 60
            )
            await world.ask(SetHold(job=job, held=False, by="ann"))
            await world.reached(job, within_s=60)
        case _:
            await world.reached(job, within_s=60)

"""Machines that are cut off, silent, slow, ill, or count their GPUs wrongly; after public reports, in our words."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.cases.house import ask, house
from tests.make import World, node, spec

from dollhouse.loop import live
from dollhouse.world import Run
from gangline_agent.app import carry
from gangline_agent.config import Config
from gangline_agent.fleet import read
from gangline_agent.nodes import Fleet
from gangline_agent.reporter import Reporter
from gangline_agent.simulated import SimulatedRunner
from gangline_core import facts as f
from gangline_core.cluster import Gpu, Node
from gangline_core.ids import NodeId
from gangline_core.job import JobState
from gangline_core.reasons import ReasonCode
from gangline_gateway.show import node_view
from gangline_kit.service import Site

FLEETS = {"one": {"n1": 4}, "two": {"n2": 4}}


# --- cut off (kubernetes/kubernetes#30972, skypilot-org/skypilot#10155) -----------------------------------------


@pytest.mark.parametrize("quietly", [False, True], ids=["cut", "swallowed"])
def test_a_job_on_a_cut_off_node_is_over_there_before_it_begins_elsewhere(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, quietly: bool
) -> None:
    live(cut_story(tmp_path, caplog, quietly))


async def cut_story(tmp_path: Path, caplog: pytest.LogCaptureFixture, quietly: bool) -> None:
    async with house(tmp_path, FLEETS) as world:
        (job,) = await world.submit(ask(run=1000, gpus=4, attributes={"stop_time_s": 30}))
        await world.reached(job)
        first = world.nodes_of(job)
        agent = "one" if first == ["n1"] else "two"
        await world.clock.sleep(5)
        cut_s = world.clock.monotonic_s()
        world.cut(agent, quietly=quietly)
        while "stopping 1 tasks" not in caplog.text:
            await world.clock.sleep(0.1)
        assert world.clock.monotonic_s() - cut_s < 22, "the agent gives up early enough for the grace that is left"
        await world.until(lambda _: world.is_in(job, JobState.RUNNING) and world.nodes_of(job) != first, 60)
        assert world.clock.monotonic_s() - cut_s > 29
        second = world.state.kept.jobs[job]
        assert (second.attempt, second.losses, second.retries_used) == (2, 1, 0)
        # What the first run held is not handed out before its agent has said that nothing is left.
        (other,) = await world.submit(ask(gpus=4))
        await world.clock.sleep(30)
        assert world.is_in(other, JobState.WAITING)
        world.heal(agent)
        await world.reached(other)
        assert world.nodes_of(other) == first
        assert world.state.kept.jobs[job].attempt == 2
        assert world.is_in(job, JobState.RUNNING)


def test_a_job_whose_agent_has_long_patience_with_the_bus_is_over_there_before_it_begins_elsewhere(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    live(patient_story(tmp_path, caplog))


async def patient_story(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with house(tmp_path, FLEETS, agent={"bus_lost_s": 60.0}) as world:
        (job,) = await world.submit(ask(run=1000, gpus=4, attributes={"stop_time_s": 30}))
        await world.reached(job)
        [first] = world.nodes_of(job)
        await world.clock.sleep(5)
        cut_s = world.clock.monotonic_s()
        world.cut("one" if first == "n1" else "two", quietly=True)
        await world.until(lambda state: not state.kept.nodes[NodeId(first)].takes_work, 40)
        assert world.is_in(job, JobState.RUNNING)
        await world.until(lambda _: world.is_in(job, JobState.RUNNING) and world.nodes_of(job) != [first], 60)
        assert "stopping 1 tasks" in caplog.text
        assert world.clock.monotonic_s() - cut_s > 68, "its grace was over as well"


def test_silence_that_ends_in_time_harms_nothing_however_often_it_comes(tmp_path: Path) -> None:
    live(blips_story(tmp_path))


async def blips_story(tmp_path: Path) -> None:
    async with house(tmp_path, FLEETS) as world:
        jobs = await world.submit(ask(run=20_000, gpus=4), ask(run=20_000, gpus=4))
        await world.reached(*jobs)
        for length_s in (17, 5, 17, 5, 12):
            for agent in FLEETS:
                world.cut(agent, quietly=length_s == 5)
            await world.clock.sleep(length_s)
            for agent in FLEETS:
                world.heal(agent)
            await world.clock.sleep(20)
        assert all(world.is_in(job, JobState.RUNNING) for job in jobs)
        assert {world.state.kept.jobs[job].attempt for job in jobs} == {1}


def test_when_nobody_can_be_heard_it_is_the_listeners_trouble(tmp_path: Path) -> None:
    live(deaf_story(tmp_path))


async def deaf_story(tmp_path: Path) -> None:
    async with house(tmp_path, FLEETS) as world:
        (job,) = await world.submit(ask(run=5000, gpus=4))
        await world.reached(job)
        for quietly in (False, True):
            world.cut("telemetry", quietly=quietly)
            await world.clock.sleep(90)
            world.heal("telemetry")
            await world.clock.sleep(40)
        world.freeze("telemetry")
        await world.clock.sleep(90)
        world.thaw("telemetry")
        await world.clock.sleep(40)
        assert world.is_in(job, JobState.RUNNING)
        assert world.state.kept.jobs[job].attempt == 1
        assert not any(known.lost for known in world.state.kept.nodes.values())


def test_whoever_is_cut_off_itself_calls_nobody_lost(tmp_path: Path) -> None:
    live(unanswered_story(tmp_path))


async def unanswered_story(tmp_path: Path) -> None:
    """Its word was written when it was heard again, and what still ran began a second time elsewhere."""
    async with house(tmp_path, FLEETS) as world:
        (job,) = await world.submit(ask(run=1000, gpus=4))
        await world.reached(job)
        world.cut("telemetry", quietly=True)
        await world.clock.sleep(40)
        world.heal("telemetry")
        await world.clock.sleep(60)
        assert (world.state.kept.jobs[job].attempt, world.state.kept.jobs[job].state) == (1, JobState.RUNNING)
        assert not any(one.lost for one in world.state.kept.nodes.values())


def test_every_members_machine_is_watched_and_not_only_the_first(tmp_path: Path) -> None:
    live(one_of_four_story(tmp_path))


async def one_of_four_story(tmp_path: Path) -> None:
    # skypilot-org/skypilot#825
    fleets = {f"agent{k}": {f"n{k}": 8} for k in range(5)}
    async with house(tmp_path, fleets) as world:
        (job,) = await world.submit(ask(run=1000, tasks=4, gpus=8))
        await world.reached(job)
        third = world.nodes_of(job)[2]
        await world.crash(f"agent{third[1:]}")
        await world.until(lambda state: state.kept.jobs[job].attempt == 2, 60)
        await world.reached(job)
        assert third not in world.nodes_of(job)
        assert len(set(world.nodes_of(job))) == 4


# --- agents that come back (kubernetes/kubernetes#118559) ---------------------------------------------------------


def test_an_agent_that_is_away_for_a_while_finds_its_tasks_running(tmp_path: Path) -> None:
    live(agent_restart_story(tmp_path))


async def agent_restart_story(tmp_path: Path) -> None:
    async with house(tmp_path, {"one": {"n1": 6}}) as world:
        done = await world.submit(ask(run=10, gpus=1), ask(run=10, gpus=1))
        jobs = await world.submit(*(ask(run=300, gpus=1) for _ in range(4)))
        await world.reached(*done, state=JobState.SUCCEEDED)
        await world.crash("one")
        await world.clock.sleep(20)
        assert not world.state.kept.nodes[NodeId("n1")].lost
        world.restart("one")
        await world.reached(*jobs, state=JobState.SUCCEEDED, within_s=400)
        ended = [world.state.kept.jobs[job] for job in (*done, *jobs)]
        assert {job.attempt for job in ended} == {1}
        assert all(300 <= (job.ended_ms - job.started_ms) / 1000 < 325 for job in ended[2:])


class Slow(Fleet):
    """Nodes whose devices answer late, or not at all."""

    def __init__(self, site: Site, nodes: Sequence[Node], *, takes_s: float) -> None:
        super().__init__(nodes)
        self.site = site
        self.takes_s = takes_s

    async def refresh(self, known: Mapping[NodeId, Node]) -> None:
        await self.site.clock.sleep(self.takes_s)


def slow_agent(folder: Path, found: list[Slow], *, takes_s: float) -> tuple[Run, Config]:
    """An agent of the nodes of fleet "one" whose devices take this long."""
    config = Config(name="one", simulate=str(folder / "one.csv"), data_dir=str(folder / "one"))

    async def run(site: Site, settings: Config) -> None:
        nodes = read(Path(settings.simulate), agent="one", pool="default")
        found.append(Slow(site, nodes, takes_s=takes_s))
        reporter = Reporter(site, settings, found[-1])
        await carry(site, settings, reporter, SimulatedRunner(site.clock, reporter.changed), renew=lambda: None)

    return run, config


def test_a_node_whose_devices_are_found_slowly_is_not_lost_meanwhile(tmp_path: Path) -> None:
    live(slow_discovery_story(tmp_path))


async def slow_discovery_story(tmp_path: Path) -> None:
    async with house(tmp_path, {"one": {"n1": 4}}) as world:
        (job,) = await world.submit(ask(run=300, gpus=4))
        await world.reached(job)
        await world.crash("one")
        world.start("one", *slow_agent(tmp_path, [], takes_s=50))
        await world.reached(job, state=JobState.SUCCEEDED, within_s=400)
        assert world.state.kept.jobs[job].attempt == 1
        assert len(world.state.kept.nodes[NodeId("n1")].gpus) == 4


def test_a_node_whose_devices_stop_answering_takes_no_work_and_keeps_what_runs(tmp_path: Path) -> None:
    live(silent_devices_story(tmp_path))


async def silent_devices_story(tmp_path: Path) -> None:
    # NVIDIA/k8s-device-plugin#1641
    async with house(tmp_path, {"one": {"n1": 4}}) as world:
        (job,) = await world.submit(ask(run=300, gpus=2))
        await world.reached(job)
        await world.crash("one")
        found: list[Slow] = []
        world.start("one", *slow_agent(tmp_path, found, takes_s=0))
        await world.clock.sleep(5)
        found[0].takes_s = 100
        await world.until(lambda state: "do not answer" in state.kept.nodes[NodeId("n1")].problem, 30)
        (late,) = await world.submit(ask(run=10, gpus=1))
        await world.clock.sleep(20)
        assert world.is_in(late, JobState.WAITING)
        assert world.is_in(job, JobState.RUNNING)
        found[0].takes_s = 0
        await world.reached(late, within_s=120)
        assert world.state.kept.jobs[job].attempt == 1


# --- a task that cannot be killed (kubernetes/kubernetes#95752) ---------------------------------------------------


def test_a_victim_that_never_dies_costs_its_node_and_not_the_job_that_needs_room(tmp_path: Path) -> None:
    live(undead_story(tmp_path))


async def undead_story(tmp_path: Path) -> None:
    async with house(tmp_path, {"one": {"n1": 4}, "two": {"n2": 4}}) as world:
        undead = {"stop_time_s": -1}
        (stuck,) = await world.submit(ask(run=9000, gpus=4, attributes=undead, grace_s=10, priority=-5))
        await world.reached(stuck)
        (other,) = await world.submit(ask(run=9000, gpus=4, grace_s=10))
        await world.reached(other)
        where, elsewhere = world.nodes_of(stuck)[0], world.nodes_of(other)[0]
        (urgent,) = await world.submit(ask(run=100, gpus=4, priority=100))
        await world.until(lambda state: bool(state.stopping_tasks), 10)
        await world.reached(urgent, within_s=90)
        assert world.nodes_of(urgent) == [elsewhere]
        assert world.is_in(stuck, JobState.STOPPING)
        await world.until(lambda state: state.kept.nodes[NodeId(where)].problem != "", 60)
        assert "does not end" in world.state.kept.nodes[NodeId(where)].problem
        # Nothing is ever placed beside it, not even what asks for no GPU.
        (small,) = await world.submit(ask(run=10, gpus=0))
        await world.reached(small)
        assert world.nodes_of(small) == [elsewhere]


# --- GPUs that are counted wrongly (volcano-sh/volcano#1818, armadaproject/armada#4390) ---------------------------


def blinking(held: tuple[int, ...] = (4, 1, 1, 1, 1)) -> tuple[World, list[int]]:
    world = World(node("n1"))
    return world, [world.submit_running(spec(gpus=size), "n1") for size in held]


def test_a_node_that_reports_no_gpus_for_a_moment_loses_no_job_and_gets_none() -> None:
    world, jobs = blinking((4, 1, 1, 1))
    waiting = world.submit(gpus=1, at=world.at)
    big = world.submit(gpus=2)
    world.see(node("n1", gpus=0)).wait(1)
    world.round()
    assert [world.job(job).state for job in jobs] == [JobState.RUNNING] * 4
    assert world.job(waiting).state == JobState.WAITING
    world.see(node("n1")).wait(9)
    world.round()
    assert world.job(waiting).state == JobState.STARTING
    assert world.job(big).state == JobState.WAITING
    assert [task.gpus[0].index for task in world.tasks(waiting)] == [7]


@pytest.mark.parametrize("left", range(8))
def test_fewer_gpus_than_are_held_are_no_room_and_no_reason_to_kill(left: int) -> None:
    world, (holder,) = blinking((8,))
    world.see(node("n1", gpus=left))
    told = node_view(world.state, world.state.kept.nodes[NodeId("n1")]).why
    assert told.startswith(f"GPUs {left}")
    more = [world.submit(gpus=size) for size in (0.5, 1, 6)]
    world.round()
    world.see(node("n1", gpus=left, labels={"zone": "b"}))
    world.round()
    assert [world.job(job).state for job in more] == [JobState.WAITING] * 3
    assert all(world.reason(job) is not None for job in more)
    assert world.job(holder).state == JobState.RUNNING
    assert world.state.usage[""]["gpu_milli"] == 8000
    # When the holder is gone, what is really there is given away, and no more than that.
    world.finish(holder)
    world.wait(1).round()
    held = {share.index for job in more for task in world.tasks(job) for share in task.gpus}
    assert held <= set(range(left))
    assert world.job(more[1]).state == (JobState.STARTING if left >= 2 else world.job(more[1]).state)


def test_a_gpu_named_dead_hits_only_the_job_on_it() -> None:
    world, jobs = blinking()
    victim = next(task for task in world.tasks(jobs[0]))
    index = victim.gpus[0].index
    world.tell("telemetry", f.GpuFailed(node=NodeId("n1"), gpu=index, problem="XID 79"))
    assert [world.job(job).state for job in jobs] == [JobState.STOPPING, *[JobState.RUNNING] * 4]
    world.stop_all()
    world.wait(1).round()
    assert world.job(jobs[0]).state == JobState.WAITING
    assert world.reason(jobs[0]) in (ReasonCode.INSUFFICIENT_GPUS, ReasonCode.GPU_FAILED)


def test_one_ill_node_stops_no_other() -> None:
    # Indexes with gaps, a card without a name, one node that shrinks while its neighbour has room.
    odd = node("n0", gpus=2)
    gaps = tuple(Gpu(index=k, model="", memory_mib=0) for k in (3, 7))
    world = World(odd, node("n1"))
    held = world.submit_running(spec(gpus=2), "n0")
    world.see(node("n0", gpus=0), node("n1"))
    world.tell("agent.sim", f.NodeSeen(node=replace(odd, gpus=gaps)))
    job = world.submit(gpus=8)
    world.wait(1).round()
    assert [task.node for task in world.tasks(job)] == ["n1"]
    assert world.job(held).state == JobState.RUNNING


# --- closed machines are no room (kubernetes-sigs/kueue#3401) ------------------------------------------------------


def test_only_what_takes_work_is_room() -> None:
    world = World(node("n1"), node("n2", taints=["maintenance"]), node("n3"), node("n4"))
    running = world.submit_running(spec(gpus=4), "n1")
    world.tell("admission", f.DrainSet(node=NodeId("n1"), drained=True, by="root"))
    world.tell("telemetry", f.NodeLost(node=NodeId("n3"), silent_ms=30_000))
    big = world.submit(gpus=8)
    world.round()
    assert [task.node for task in world.tasks(big)] == ["n4"]
    more = world.submit(gpus=4)
    world.round()
    assert world.job(more).state == JobState.WAITING
    assert world.job(running).state == JobState.RUNNING
    world.tell("admission", f.DrainSet(node=NodeId("n1"), drained=False, by="root"))
    world.round()
    assert [task.node for task in world.tasks(more)] == ["n1"]

"""Reports about sizes, machines and sensors once more in other shapes: whoever mends only the case fails here."""

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import asdict, replace
from tests.cases.drive import Drive
from tests.cases.house import ask, house
from tests.cases.test_elastic import size, sizes_seen
from tests.make import World, group, node, spec
from tests.services.agent.test_nvml import Driver, FakeError, LostError, NoLibraryError, Shape

from dollhouse.loop import live
from gangline_agent import machine
from gangline_agent.nodes import Machine
from gangline_agent.nvml import Nvml
from gangline_core import facts as f
from gangline_core.ids import NodeId
from gangline_core.job import JobState
from gangline_core.reasons import ReasonCode, sentence
from gangline_kit.service import Site
from gangline_telemetry.busy import Busy
from gangline_telemetry.config import Config
from gangline_telemetry.health import Watch
from gangline_wire import subjects
from gangline_wire.codec import encode
from gangline_wire.samples import GpuSample, NodeSample, Samples

# --- J: sizes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("step", "room"), [(2, 7), (4, 11), (5, 13)])
def test_whatever_the_step_a_job_comes_to_rest_below_the_room_and_small_neighbours_do_not_move_it(
    step: int, room: int
) -> None:
    drive = Drive(node(gpus=room))
    whole = room // step * step
    asked = drive.ask(0, tasks=step, minimum=step, maximum=3 * step, sizes=[step, 2 * step, 3 * step], gpus=1)
    for k in range(12):
        drive.ask(30 + 40 * k, gpus=1, run=10)
    drive.until(1200)
    assert size(drive, asked) == whole
    assert len([change for change in sizes_seen(drive) if change]) <= 2
    drive.finish_all()


@pytest.mark.parametrize("dimension", ["gpu_milli", "cpu_milli", "memory_mib"])
def test_growth_that_any_limit_forbids_leaves_a_job_what_it_has(dimension: str) -> None:
    per = {"gpu_milli": 1000, "cpu_milli": 2000, "memory_mib": 1024}[dimension]
    drive = Drive(node(), groups=[group("q", limit={dimension: 4 * per})])
    asked = drive.ask(0, tasks=3, minimum=1, maximum=8, sizes=[1, 3, 5, 8], gpus=1, cpus=2, memory_mib=1024, group="q")
    drive.until(10)
    for second, wanted in ((20, 5), (30, 8), (40, 5)):
        drive.invented.add("elastic")
        drive.tell("elastic.default", f.ResizeProposed(pool="default", job=asked.id, role="worker", size=wanted))
        drive.restart()
        drive.until(second)
        assert (size(drive, asked), len(asked.starts)) == (3, 1)
        assert drive.state.usage["q"][dimension] == 3 * per
    drive.set_group("q", limit={dimension: 8 * per})
    drive.until(60)
    assert size(drive, asked) == 8
    assert len(asked.starts) == 1


def test_a_job_that_loses_its_node_while_it_grows_comes_back_at_any_size_it_declared() -> None:
    drive = Drive(node("n1", gpus=8), node("n2", gpus=3))
    asked = drive.ask(0, tasks=4, minimum=1, maximum=8, gpus=1, start=5)
    drive.until(6)
    assert drive.job(asked.id).state == JobState.RESIZING
    drive.lose("n1")
    drive.finish_all()
    assert size(drive, asked) == 3, "all that the other node has"
    assert drive.is_running(asked) == [True]
    assert {task.node for task in drive.tasks(asked.id)} == {"n2"}


# --- K: machines ------------------------------------------------------------------------------------------------------


def test_nodes_that_blink_together_lose_no_job_and_cards_in_another_order_keep_their_numbers() -> None:
    world = World(*(node(f"n{k}") for k in range(4)))
    jobs = [world.submit_running(spec(gpus=size), f"n{k}") for k, size in enumerate((8, 4, 1, 0.5))]
    world.see(*(node(f"n{k}", gpus=0) for k in range(4))).wait(1)
    waits = world.submit(gpus=1)
    world.round()
    assert [world.job(job).state for job in jobs] == [JobState.RUNNING] * 4
    assert world.job(waits).state == JobState.WAITING
    world.see(*(node(f"n{k}") for k in range(4))).wait(1)
    world.round()
    assert world.job(waits).state == JobState.STARTING
    whole = Nvml(Driver()).read()
    known = machine.describe((), whole).gpus
    order = [7, 3, 0, 1, 2, 6, 5, 4]
    turned = Nvml(Driver(DeviceGetUUID=lambda gpu: f"GPU-{order[gpu]}".encode())).read()
    found = machine.describe(known, turned)
    assert [gpu.uuid for gpu in found.gpus] == [gpu.uuid for gpu in known]
    assert [order[found.devices[k]] for k in range(8)] == list(range(8)), "programs get the card that they were given"


async def test_a_driver_that_cannot_start_or_changes_under_the_agent_closes_the_node_and_kills_nobody() -> None:
    driver = Driver(4, Init=FakeError("Unknown Error"))
    here = Machine(
        name="n1",
        pool="default",
        address="127.0.0.1",
        labels={},
        folder="/",
        source=Nvml(driver),
        monotonic_s=lambda: 0.0,
    )
    world = World(node("n1", gpus=4))
    running = world.submit_running(spec(gpus=2), "n1")

    async def look() -> str:
        await here.refresh(world.state.kept.nodes)
        [described] = here.described
        world.tell("agent.sim", f.NodeSeen(node=replace(described, agent="sim")))
        return described.problem

    known = replace(world.state.kept.nodes[NodeId("n1")], gpus=machine.describe((), Nvml(Driver(4)).read()).gpus)
    world.tell("agent.sim", f.NodeSeen(node=known))
    for trouble in ("Unknown Error", "Driver/library version mismatch"):
        driver.answers["Init" if trouble == "Unknown Error" else "DeviceGetCount"] = FakeError(trouble)
        assert trouble in await look()
        waits = world.submit(gpus=1)
        world.wait(1).round()
        assert world.job(waits).state == JobState.WAITING
        assert world.job(running).state == JobState.RUNNING
        driver.answers |= {"Init": None, "DeviceGetCount": 4}
        assert await look() == "", "no restart of ours was needed"
        world.wait(1).round()
        assert world.job(waits).state == JobState.STARTING
        world.start(waits)
        world.finish(waits)


async def sick(site: Site, config: NodeSample) -> None:
    """The voice of the node's own agent: one card falls off the bus."""
    agent = {"n1": "one", "n2": "two"}[config.node]
    await site.bus.publish(subjects.samples(agent), encode(Samples(agent=agent, nodes=(config,))))
    await site.clock.sleep(1e6)


def test_a_card_that_falls_off_the_bus_is_left_out_its_gang_starts_elsewhere_whole_and_the_owner_reads_one_sentence(
    tmp_path: Path,
) -> None:
    live(closed_loop_story(tmp_path))


async def closed_loop_story(tmp_path: Path) -> None:
    async with house(tmp_path, {"one": {"n1": 2}, "two": {"n2": 2}}) as world:
        (job,) = await world.submit(ask(run=1000, tasks=2, gpus=1, retries=1))
        await world.reached(job)
        [bad] = set(world.nodes_of(job))
        voice = NodeSample(node=bad, at=0, gpus=(GpuSample(index=0, xids=(79,)),))
        world.start("voice", sick, voice)
        reasons: list[str] = []

        def is_elsewhere(state: Any) -> bool:
            found = state.kept.jobs[job]
            if found.reason is not None:
                reasons.append(sentence(found.reason))
            return found.attempt == 2 and found.state == JobState.RUNNING

        await world.until(is_elsewhere, 60)
        kept = world.state.kept
        assert kept.nodes[bad].gpus[0].problem == "Xid 79: the card has fallen off the bus"
        assert f"GPU 0 of node {bad} failed." in reasons
        assert set(world.nodes_of(job)) == {"n1", "n2"} - {bad}, "whole, and none of it where the card is"
        assert kept.jobs[job].retries_used == 0
        assert kept.nodes[bad].gpus[1].healthy, "its neighbour goes on"


# --- L: sensors -------------------------------------------------------------------------------------------------------

NONSENSE = st.one_of(
    st.sampled_from([None, "[N/A]", "", -1, 1 << 64, math.nan, math.inf, True, b"\xff", [], (), {}, object()]),
    st.integers(),
    st.floats(),
    st.lists(st.integers(), max_size=5),
    st.sampled_from([
        FakeError("Not Supported"), FakeError(""), LostError("GPU is lost"), OSError(5, "I/O"), TypeError("x"),
        ValueError("x"), AttributeError("x"), IndexError("x"), ZeroDivisionError("x"),
    ]),
    st.builds(lambda value: Shape(gpu=value, used=value, total=value, memory=value), st.integers()),
)  # fmt: skip
ASKED = [
    "DeviceGetComputeRunningProcesses",
    "DeviceGetCurrentClocksEventReasons",
    "DeviceGetEncoderUtilization",
    "DeviceGetFieldValues",
    "DeviceGetMaxMigDeviceCount",
    "DeviceGetMemoryInfo",
    "DeviceGetMigDeviceHandleByIndex",
    "DeviceGetMigMode",
    "DeviceGetName",
    "DeviceGetNvLinkState",
    "DeviceGetP2PStatus",
    "DeviceGetPciInfo",
    "DeviceGetPcieThroughput",
    "DeviceGetPowerUsage",
    "DeviceGetRemappedRows",
    "DeviceGetTemperature",
    "DeviceGetTotalEccErrors",
    "DeviceGetUtilizationRates",
    "EventSetCreate",
    "EventSetWait_v2",
    "GpmQueryDeviceSupport",
    "GpmSampleAlloc",
    "GpmSampleGet",
    "SystemGetCudaDriverVersion",
    "SystemGetDriverVersion",
]


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.sampled_from(ASKED), NONSENSE, min_size=1, max_size=8))
def test_whatever_a_driver_answers_every_card_is_told_and_every_number_can_be_one(answers: dict[str, Any]) -> None:
    nvml = Nvml(Driver(3, **answers))
    for _ in range(2):
        reading = nvml.read()
        assert [gpu.uuid for gpu in reading.gpus] == ["GPU-0", "GPU-1", "GPU-2"]
        encode(Samples(agent="a", nodes=(NodeSample(node="n", at=0, gpus=reading.samples),)))
        for sample in reading.samples:
            numbers = {name: value for name, value in asdict(sample).items() if isinstance(value, int)}
            assert all(0 <= value < 1 << 62 for value in numbers.values()), numbers


@given(st.lists(st.tuples(st.integers(0, 100) | st.none(), st.integers(0, 100) | st.none()), min_size=30, max_size=60))
def test_nobody_loses_gpus_for_values_that_are_absent_whatever_else_was_measured(pairs: list[tuple[Any, Any]]) -> None:
    world = World(node("n1", gpus=2)).set_policy(min_utilisation_percent=5, min_utilisation_s=1200)
    world.submit_running(spec(gpus=2), "n1")
    busy, seen = Busy(Config(), 0.0), list[int]()
    for number, pair in enumerate(pairs):
        gpus = tuple(GpuSample(index=k, utilisation_percent=value) for k, value in enumerate(pair))
        busy.hear(NodeSample(node="n1", at=0, gpus=gpus))
        facts = busy.summaries(world.state, 60.0 * (number + 1))
        known = [value for value in pair if value is not None]
        seen += [sum(known) // len(known)] if known else []
        for fact in facts:
            if isinstance(fact, f.JobReclaimed):
                assert len(seen) >= 20, "twenty minutes of values, not of time"
                assert sum(seen[-20:]) // 20 < 5
            elif isinstance(fact, f.UtilisationSummary):
                assert (fact.gpu_percent is None) == (not known)


def test_a_machine_without_a_driver_stays_a_node_and_is_judged_by_nobody() -> None:
    reading = Nvml(Driver(Init=NoLibraryError("none"))).read()
    assert (reading.gpus, reading.problem) == ((), "")
    world = World(node("n1", gpus=0))
    watch = Watch(Config(), 0.0)
    watch.hear(NodeSample(node="n1", at=0), 1.0, world.state)
    assert watch.judge(world.state, 2.0) == ()
    assert world.reason(world.submit(gpus=1)) in (None, ReasonCode.NEVER_FITS_CLUSTER)

"""A card that failed comes back only after the administrator's test ended well on it, with nobody on it meanwhile."""

import sys
from pathlib import Path

import pytest
from tests.make import World, node, spec

from gangline_agent.card_tests import WAITS, CardTests
from gangline_core import facts as f
from gangline_telemetry.config import Config
from gangline_telemetry.health import Watch
from gangline_wire.samples import GpuSample, NodeSample

PASSES = f"{sys.executable} -c 'import sys; open(sys.argv[1], \"a\").write(sys.argv[2])' {{folder}}/ran {{index}},"
WELL = (GpuSample(index=0), GpuSample(index=1))


class Time:
    """Seconds that pass when told to."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def failed(world: World, gpu: int = 0) -> None:
    world.tell("telemetry", f.GpuFailed(node="n1", gpu=gpu, problem="Xid 79: the card has fallen off the bus"))


async def run_due(tests: CardTests, world: World, samples: tuple[GpuSample, ...] = WELL) -> list[str]:
    """Test whatever is due; what the samples say then."""
    known = world.state.kept.nodes["n1"]
    tests.look(world.state, known, samples)
    for index, gpu in sorted(tests._due.items()):  # the loop that runs them never ends
        await tests.test(gpu, index + 4)
    tests.look(world.state, known, samples)
    return [tests.marked(sample).problem for sample in samples]


async def test_a_failed_card_is_tested_by_the_drivers_number_and_is_well_when_the_test_ended_well(
    tmp_path: Path,
) -> None:
    world, time = World(node("n1", gpus=2)), Time()
    tests = CardTests(PASSES.replace("{folder}", str(tmp_path)), every_s=60, monotonic_s=time)
    assert await run_due(tests, world) == ["", ""], "nobody tests cards that are well"
    failed(world)
    tests.look(world.state, world.state.kept.nodes["n1"], WELL)
    assert [tests.marked(sample).problem for sample in WELL] == [WAITS, ""]
    assert await run_due(tests, world) == ["", ""]
    time.now_s = 1000
    await run_due(tests, world)
    assert (tmp_path / "ran").read_text() == "4,", "once is enough"
    world.tell("telemetry", f.GpuHealthy(node="n1", gpu=0))
    await run_due(tests, world)
    failed(world)
    await run_due(tests, world)
    assert (tmp_path / "ran").read_text() == "4,4,", "a card that fails again is tested again"


@pytest.mark.parametrize(
    ("program", "says"),
    [
        ("sh -c 'echo first; echo row 7 is bad; exit 3'", "its test ended with 3: row 7 is bad"),
        ("/nowhere/test {index}", "its test cannot be run"),
    ],
)
async def test_a_test_that_fails_or_cannot_be_run_keeps_the_card_away_and_is_run_again_on_its_timer(
    program: str, says: str
) -> None:
    world, time = World(node("n1", gpus=2)), Time()
    tests = CardTests(program, every_s=60, monotonic_s=time)
    failed(world)
    watch = Watch(Config(retest_s=10, healthy_samples=1), 0.0)
    for second in range(0, 200, 5):
        time.now_s = float(second)
        said = await run_due(tests, world)
        assert said[0].startswith(says)
        gpus = tuple(tests.marked(sample) for sample in WELL)
        watch.hear(NodeSample(node="n1", at=0, gpus=gpus), time.now_s, world.state)
        assert not [fact for fact in watch.judge(world.state, time.now_s) if isinstance(fact, f.GpuHealthy)]
    assert tests._tried[0].at_s == 180, "at 0, 60, 120 and 180 s"  # nothing else says when


async def test_a_card_that_somebody_is_on_or_that_does_not_answer_is_not_tested(tmp_path: Path) -> None:
    world, time = World(node("n1", gpus=2)), Time()
    tests = CardTests(PASSES.replace("{folder}", str(tmp_path)), every_s=60, monotonic_s=time)
    job = world.submit_running(spec(gpus=1), ("n1", [0]))
    failed(world)
    assert await run_due(tests, world) == [WAITS, ""]
    world.stop_all()
    assert not world.tasks(job)
    lost = (GpuSample(index=0, problem="GPU is lost"), GpuSample(index=1))
    assert await run_due(tests, world, lost) == ["GPU is lost", ""]
    assert not (tmp_path / "ran").exists()
    assert await run_due(tests, world) == ["", ""]


async def test_without_a_program_the_drivers_word_is_all_there_is() -> None:
    world = World(node("n1", gpus=2))
    failed(world)
    assert await run_due(CardTests("", every_s=60, monotonic_s=Time()), world) == ["", ""]

"""What drivers say instead of numbers, and what becomes of it on the way to the log; after public reports."""

import logging
from typing import Any

import pytest
from tests.make import World, node, spec
from tests.services.agent.test_nvml import Driver, FakeError, LostError, Shape

from gangline_agent.machine import describe
from gangline_agent.nvml import Nvml
from gangline_agent.senses import Reading
from gangline_core import facts as f
from gangline_core.job import JobState
from gangline_telemetry.config import Config
from gangline_telemetry.health import Watch
from gangline_wire.codec import CodecError, decode
from gangline_wire.samples import GpuSample, NodeSample, Samples

NONSENSE: list[Any] = [
    "[N/A]", "[Not Supported]", "N/A", "[Unknown Error]", "ERR!", "[GPU is lost]", "", None, float("nan"), -1, 1 << 64,
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), AttributeError("no such function"), OSError(5, "I/O error"),
    TypeError("bad argument"), FakeError("Unknown Error"),
]  # fmt: skip
FIELDS = {
    "DeviceGetUtilizationRates": (lambda value: Shape(gpu=value), "utilisation_percent"),
    "DeviceGetMemoryInfo": (lambda value: Shape(total=value, used=value), "memory_used_mib"),
    "DeviceGetPowerUsage": (lambda value: value, "power_milliwatts"),
    "DeviceGetTemperature": (lambda value: value, "temperature_celsius"),
}


def broken(function: str, value: Any) -> Reading:
    """A reading in which one GPU of eight answers so."""
    good = Driver().answers[function]
    wrap = FIELDS[function][0]
    bad = value if isinstance(value, Exception) else wrap(value)
    return Nvml(Driver(**{function: lambda gpu, *_: bad if gpu == 3 else good})).read()


# --- text where a number was expected (enkore/i3pystatus#776) ------------------------------------------------------


@pytest.mark.parametrize("function", FIELDS)
@pytest.mark.parametrize("value", NONSENSE, ids=str)
def test_nonsense_is_an_absent_value_of_one_gpu_and_nothing_more(function: str, value: Any) -> None:
    reading = broken(function, value)
    field = FIELDS[function][1]
    assert len(reading.samples) == 8
    assert not reading.problem
    assert getattr(reading.samples[3], field) is None
    others = [name for _, name in FIELDS.values() if name != field]
    assert all(getattr(reading.samples[3], name) is not None for name in others)
    assert all(getattr(reading.samples[k], field) is not None for k in range(8) if k != 3)


@pytest.mark.parametrize("function", ["DeviceGetUUID", "DeviceGetName", "DeviceGetHandleByIndex"])
@pytest.mark.parametrize("error", [LostError("GPU is lost"), OSError(5, "I/O"), AttributeError("gone")], ids=repr)
def test_a_gpu_that_does_not_even_say_who_it_is_takes_no_other_with_it(function: str, error: Exception) -> None:
    good = Driver().answers[function]
    driver = Driver(**{function: lambda gpu: error if gpu == 3 else good(gpu) if callable(good) else good})
    reading = Nvml(driver).read()
    assert len(reading.samples) == 8
    assert sum(bool(sample.uuid) and not sample.problem for sample in reading.samples) >= 7


@pytest.mark.parametrize("function", ["DeviceGetUUID", "DeviceGetName"])
@pytest.mark.parametrize("value", NONSENSE, ids=str)
def test_a_card_that_says_nonsense_for_who_it_is_stays_who_it_was_and_no_other_appears(
    function: str, value: Any
) -> None:
    driver = Driver()
    nvml, good = Nvml(driver), driver.answers[function]
    known = describe((), nvml.read()).gpus
    odd = {function: lambda gpu: value if gpu == 3 else good(gpu) if callable(good) else good}
    driver.answers |= odd
    assert describe(known, nvml.read()).gpus == known
    first = describe((), Nvml(Driver(**odd)).read()).gpus
    assert len(first) == 8 - (function == "DeviceGetUUID")
    assert {gpu.model for gpu in first} <= {"H100-80GB-HBM3", "unknown"}


@pytest.mark.parametrize("value", [*(one for one in NONSENSE if not isinstance(one, Exception)), 10**9], ids=str)
def test_a_count_of_cards_that_is_none_is_a_driver_that_says_nothing(value: Any) -> None:
    known = describe((), Nvml(Driver()).read()).gpus
    found = describe(known, Nvml(Driver(DeviceGetCount=value)).read())
    assert (found.gpus, bool(found.problem)) == (known, True)


CUT = {
    "DeviceGetMigMode": [1, 1],
    "DeviceGetMaxMigDeviceCount": 7,
    "DeviceGetMigDeviceHandleByIndex": lambda card, k: (card, k) if k < 3 else FakeError("Not Found"),
    "DeviceGetGpuInstanceId": lambda handle: handle[1] + 7,
    "DeviceGetUUID": lambda gpu: f"MIG-{gpu[0]}-{gpu[1]}" if isinstance(gpu, tuple) else f"GPU-{gpu}",
    "DeviceGetName": lambda gpu: "NVIDIA H100 MIG 1g.10gb" if isinstance(gpu, tuple) else "NVIDIA H100 80GB HBM3",
    "DeviceGetMemoryInfo": Shape(total=80 << 30, used=0),
}


@pytest.mark.parametrize(
    "function", ["DeviceGetMigMode", "DeviceGetMaxMigDeviceCount", "DeviceGetGpuInstanceId", "slices' names"]
)
@pytest.mark.parametrize("value", NONSENSE, ids=str)
def test_a_card_that_does_not_say_for_a_moment_how_it_is_cut_is_cut_as_it_was(function: str, value: Any) -> None:
    driver = Driver(2, **CUT)
    nvml = Nvml(driver)
    known = describe((), nvml.read()).gpus
    assert [len(gpu.slices) for gpu in known] == [3, 3]
    if function == "slices' names":
        function, good = "DeviceGetName", CUT["DeviceGetName"]
        driver.answers[function] = lambda gpu: value if gpu == (1, 2) else good(gpu)
    else:
        driver.answers[function] = value
    found = describe(known, nvml.read())
    assert (found.gpus, [sample.problem for sample in found.samples]) == (known, ["", ""])
    driver.answers |= CUT | {"DeviceGetMigMode": [0, 0]}
    assert [gpu.slices for gpu in describe(known, nvml.read()).gpus] == [(), ()]


def test_one_warning_per_cause_and_not_per_look(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    nvml = Nvml(Driver(DeviceGetPowerUsage=FakeError("Not Supported")))
    for _ in range(50):
        nvml.read()
    assert len(caplog.records) == 1


# --- absent is not zero (dask/distributed#8693) --------------------------------------------------------------------


def test_a_mean_leaves_out_what_is_absent_and_nobody_is_stopped_for_it() -> None:
    world = World(node("n1"))
    job = world.submit_running(spec(gpus=8), "n1")
    watch = Watch(Config(), 0)
    for second in range(1, 62):
        gpus = (GpuSample(index=0), GpuSample(index=1, utilisation_percent=80), GpuSample(index=2))
        watch.hear(NodeSample(node="n1", at=world.at, gpus=gpus), second)
    facts = watch.judge(world.state, 61)
    summary, used = facts
    assert (used.job, used.gpu_percent, used.is_low) == (job, 80, False)
    assert isinstance(summary, f.UtilisationSummary)
    assert summary.gpu_percent == 80
    assert summary.memory_mib is None
    world.tell("telemetry", *facts)
    assert world.job(job).state == JobState.RUNNING


def idle_for(world: World, watch: Watch, begin: int, seconds: int, gpus: tuple[GpuSample, ...]) -> list[f.Fact]:
    """What is judged of the job while its node says this each second."""
    facts: list[f.Fact] = []
    for second in range(begin, begin + seconds):
        if gpus:
            watch.hear(NodeSample(node="n1", at=world.at, gpus=gpus), second)
        told = watch.judge(world.state, second)
        world.tell("telemetry", *told)
        facts += told
    return facts


IDLE = (GpuSample(index=0, utilisation_percent=0), GpuSample(index=1, utilisation_percent=0))


@pytest.mark.parametrize(
    "seen",
    [
        (GpuSample(index=0, utilisation_percent=0), GpuSample(index=1)),
        (GpuSample(index=0, utilisation_percent=0),),
        (GpuSample(index=0), GpuSample(index=1)),
    ],
    ids=["one of two absent", "one of two not there", "both absent"],
)
def test_nobody_is_stopped_for_gpus_that_nobody_saw_nor_for_what_was_before_and_after(
    seen: tuple[GpuSample, ...],
) -> None:
    """L02: under the least for half an hour is what was measured of all GPUs, without a gap."""
    world = World(node("n1", gpus=2)).set_policy(min_utilisation_percent=5, min_utilisation_s=1800)
    job = world.submit_running(spec(gpus=2), "n1")
    watch = Watch(Config(summary_s=60), 0)
    facts = idle_for(world, watch, 1, 1200, IDLE)
    facts += idle_for(world, watch, 1201, 7200, seen)
    facts += idle_for(world, watch, 8401, 1200, IDLE)
    assert not [fact for fact in facts if isinstance(fact, f.JobReclaimed)]
    assert world.job(job).state == JobState.RUNNING
    facts = idle_for(world, watch, 9601, 900, IDLE)
    assert [fact.job for fact in facts if isinstance(fact, f.JobReclaimed)] == [job], "nor is it for ever"


# --- what listeners are sent ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["", "{}", "null", "[]", '{"agent":1}', '{"agent":"a","nodes":[{"node":"n","at":"x"}]}']
)
def test_bytes_that_are_no_samples_are_refused_as_a_whole(text: str) -> None:
    with pytest.raises(CodecError):
        decode(text.encode(), Samples)


def test_samples_of_strangers_change_nothing() -> None:
    world = World(node("n1", gpus=2))
    watch = Watch(Config(), 0)
    watch.hear(NodeSample(node="ghost", at=1, gpus=(GpuSample(index=0, problem="XID 79"),)), 1)
    watch.hear(NodeSample(node="n1", at=1, gpus=(GpuSample(index=99, problem="XID 79"),)), 1)
    assert watch.judge(world.state, 2) == ()


# --- a count that blinks (armadaproject/armada#4390) ---------------------------------------------------------------


def test_cards_that_vanish_one_by_one_stay_in_the_description_under_their_own_index() -> None:
    whole = Nvml(Driver()).read()
    known = describe((), whole).gpus
    for left in range(8):
        part = Nvml(Driver(count=left)).read()
        found = describe(known, part)
        assert [gpu.uuid for gpu in found.gpus] == [gpu.uuid for gpu in known]
        assert bool(found.problem) == (left == 0)
        assert [sample.index for sample in found.samples if sample.problem] == (list(range(left, 8)) if left else [])
    assert describe(known, whole).gpus == known

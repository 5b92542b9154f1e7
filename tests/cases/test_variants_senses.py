"""Reports about sensors (L) once more in other shapes: other cards, units, drivers and hand-overs."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from msgspec.structs import fields
from tests.core.test_pausing import gpu_spec, suspend
from tests.make import World, node, spec
from tests.services.agent.test_nvml import Driver, FakeError, Shape
from tests.services.telemetry.test_gauges import heard, lines

from gangline_agent.nvml import Nvml
from gangline_core import facts as f
from gangline_core.cluster import Gpu, MigSlice, Node
from gangline_core.spec import Resources
from gangline_telemetry.config import Config
from gangline_telemetry.health import Watch
from gangline_wire.samples import DiskSample, GpuSample, NicSample, NodeSample, SliceSample, TaskSample

# --- L04: one card's watts, however it is cut (guilbaults/slurm-job-exporter#55) --------------------------------------

CUTS = [
    ("a100-40gb", [("3g.20gb", 0, 4), ("3g.20gb", 4, 4)]),
    ("a100-40gb", [("4g.20gb", 0, 4), ("2g.10gb", 4, 2), ("1g.5gb", 6, 1)]),
    ("a100-40gb", [("7g.40gb", 0, 8)]),
]


def cut_card(geometry: str, cut: list[tuple[str, int, int]]) -> Node:
    slices = tuple(MigSlice(profile=name, start=start, size=size, uuid=f"MIG-{start}") for name, start, size in cut)
    card = Gpu(index=0, model="A100", memory_mib=40_960, uuid="GPU-0", mig=geometry, slices=slices)
    return structs.replace(node("n1"), gpus=(card,))


def on_slice(world: World, profile: str) -> int:
    asked = spec(gpus=0)
    role = structs.replace(asked.roles[0], resources=Resources(gpu_milli=1000 * int(profile[0]) // 7, mig=profile))
    return world.submit(structs.replace(asked, roles=(role,)))


@pytest.mark.parametrize("listed", [True, False], ids=["listed", "not-listed-now"])
@pytest.mark.parametrize(("geometry", "cut"), CUTS)
@pytest.mark.parametrize("held", [1, 2, 3])
def test_the_parents_watts_are_nobodys_however_many_slices_are_held_and_whether_they_can_be_listed_now(
    geometry: str, cut: list[tuple[str, int, int]], held: int, listed: bool
) -> None:
    world = World(cut_card(geometry, cut))
    jobs = [on_slice(world, name) for name, _, _ in cut[:held]]
    world.settle()
    assert all(world.tasks(job) for job in jobs)
    seen = GpuSample(
        index=0, uuid="GPU-0", power_milliwatts=280_000, energy_millijoules=7_000,
        slices=tuple(
            SliceSample(uuid=f"MIG-{start}", profile=name, instance=k, memory_used_mib=1)
            for k, (name, start, _) in enumerate(cut) if listed
        ),
    )  # fmt: skip
    found = lines(heard(world, seen, at=world.at), world)
    for name, value in (("DCGM_FI_DEV_POWER_USAGE", 280.0), ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", 7_000.0)):
        assert [(labels["job"], labels["task"], shown) for labels, shown in found[name]] == [("", "", value)]
    by_job = {labels["job"] for labels, _ in found["DCGM_FI_DEV_FB_USED"]}
    assert by_job - {""} == ({str(job) for job in jobs} if listed else set())


def test_no_fact_of_a_jobs_use_carries_watts_that_nobody_could_measure_for_it() -> None:
    fields = {name for kind in (f.JobUsed, f.UsageCharged) for name in kind.__struct_fields__}
    assert not [name for name in fields if "watt" in name or "joule" in name or "energy" in name]


# --- L05: units (NVIDIA/gpu-monitoring-tools#3) -----------------------------------------------------------------------


@given(memory=st.integers(0, 1 << 40), milliwatts=st.integers(0, 2_000_000), millijoules=st.integers(0, 1 << 52))
def test_whatever_the_driver_counts_in_it_is_shown_in_the_unit_of_its_name(
    memory: int, milliwatts: int, millijoules: int
) -> None:
    driver = Driver(
        1,
        DeviceGetMemoryInfo=Shape(total=1 << 41, used=memory),
        DeviceGetPowerUsage=milliwatts,
        DeviceGetTotalEnergyConsumption=millijoules,
    )
    [sample] = Nvml(driver).read().samples
    world = World(node("n1", gpus=1))
    found = {name: rows[0][1] for name, rows in lines(heard(world, sample, at=world.at), world).items() if rows}
    assert found["DCGM_FI_DEV_FB_USED"] == memory // (1 << 20), "MiB"
    assert found["DCGM_FI_DEV_FB_USED"] + found["DCGM_FI_DEV_FB_FREE"] == 1 << 21
    assert found["DCGM_FI_DEV_POWER_USAGE"] == milliwatts / 1000, "W"
    if millijoules == 0xFFFFFFFF:
        assert "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION" not in found
    else:
        assert found["DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"] == millijoules, "mJ, as DCGM does"


@pytest.mark.parametrize("percent", [101, 255, 0xFFFFFFFF, 1 << 40])
@pytest.mark.parametrize("field", ["utilisation_percent", "memory_busy_percent", "encoder_percent", "decoder_percent"])
def test_a_percentage_above_a_hundred_is_no_percentage(field: str, percent: int) -> None:
    answers: dict[str, Any] = {
        "DeviceGetUtilizationRates": Shape(gpu=9, memory=9),
        "DeviceGetEncoderUtilization": (9, 1000),
        "DeviceGetDecoderUtilization": (9, 1000),
    }
    match field:
        case "utilisation_percent":
            answers["DeviceGetUtilizationRates"] = Shape(gpu=percent, memory=9)
        case "memory_busy_percent":
            answers["DeviceGetUtilizationRates"] = Shape(gpu=9, memory=percent)
        case "encoder_percent":
            answers["DeviceGetEncoderUtilization"] = (percent, 1000)
        case _:
            answers["DeviceGetDecoderUtilization"] = (percent, 1000)
    [sample] = Nvml(Driver(1, **answers)).read().samples
    shown = {
        name: getattr(sample, name)
        for name in ("utilisation_percent", "memory_busy_percent", "encoder_percent", "decoder_percent")
    }
    assert shown == {name: None if name == field else 9 for name in shown}
    assert field in sample.absent


@pytest.mark.parametrize("function", ["DeviceGetPowerUsage", "DeviceGetTemperature", "DeviceGetPcieReplayCounter"])
def test_all_bits_set_is_how_a_driver_says_that_there_is_no_value(function: str) -> None:
    fine, odd = Nvml(Driver(1, **{function: 7})).read().samples[0], Nvml(Driver(1, **{function: 0xFFFFFFFF})).read()
    gone = set(odd.samples[0].absent) - set(fine.absent)
    assert len(gone) == 1
    assert getattr(odd.samples[0], gone.pop()) is None


UNITS = (
    "percent", "mib", "kib", "kib_s", "celsius", "milliwatts", "millijoules", "mhz", "mbps", "milli", "at", "ms",
)  # fmt: skip
COUNTS = (
    "index", "minor", "instance", "gen", "width", "width_max", "replays", "errors", "up", "down", "corrected",
    "uncorrected",
)  # fmt: skip


def test_every_number_that_is_measured_says_its_unit_or_is_a_count() -> None:
    for kind in (GpuSample, SliceSample, NodeSample, TaskSample, NicSample, DiskSample):
        numbers = [one.name for one in fields(kind) if str(one.type) in ("<class 'int'>", "int | None")]
        assert [name for name in numbers if not name.endswith((*UNITS, *COUNTS))] == []


# --- L07: what a driver's update renames (netdata/netdata#15755) ------------------------------------------------------

FIELDS = {
    "DeviceGetUtilizationRates": Shape(gpu=5, memory=6),
    "DeviceGetEncoderUtilization": (1, 1000),
    "DeviceGetDecoderUtilization": (2, 1000),
    "DeviceGetClockInfo": 1000,
    "DeviceGetTotalEnergyConsumption": 8,
    "DeviceGetEnforcedPowerLimit": 700,
    "DeviceGetTotalEccErrors": 0,
    "DeviceGetRemappedRows": (0, 0, 0, 0),
    "DeviceGetCurrPcieLinkGeneration": 5,
    "DeviceGetCurrPcieLinkWidth": 16,
    "DeviceGetMaxPcieLinkWidth": 16,
    "DeviceGetPcieReplayCounter": 0,
    "DeviceGetPcieThroughput": 4,
    "DeviceGetPowerUsage": 249_500,
    "DeviceGetTemperature": 40,
    "DeviceGetMemoryInfo": Shape(total=1 << 33, used=1 << 20),
    "DeviceGetCurrentClocksEventReasons": 0,
    "DeviceGetComputeRunningProcesses": [],
}


class NotFoundError(FakeError):
    """The library has no such function."""


class Newer(Driver):
    """A driver whose binding has all names that this test knows."""

    NVMLError_FunctionNotFound = NotFoundError
    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_VOLATILE_ECC = 1, 2, 0
    NVML_MEMORY_ERROR_TYPE_CORRECTED, NVML_MEMORY_ERROR_TYPE_UNCORRECTED = 0, 1
    NVML_PCIE_UTIL_TX_BYTES, NVML_PCIE_UTIL_RX_BYTES = 0, 1
    NVML_VALUE_TYPE_UNSIGNED_INT, NVML_VALUE_TYPE_SIGNED_INT = 1, 5


def absent(driver: Driver) -> set[str]:
    [sample] = Nvml(driver).read().samples
    assert not sample.problem
    return set(sample.absent)


@pytest.mark.parametrize("error", [NotFoundError("Function Not Found"), FakeError("Invalid Argument"), None])
@pytest.mark.parametrize("function", sorted(FIELDS))
def test_whichever_function_a_driver_no_longer_knows_only_its_own_values_go(function: str, error: Any) -> None:
    before = absent(Newer(1, **FIELDS))
    driver = Newer(1, **FIELDS)
    if error is None:
        del driver.answers[function]
    else:
        driver.answers[function] = error
    gone = absent(driver) - before
    assert 1 <= len(gone) <= 4
    assert all(name in Nvml(driver).read().samples[0].why for name in gone)


@pytest.mark.parametrize(
    ("new", "old", "field"),
    [
        ("DeviceGetCurrentClocksEventReasons", "DeviceGetCurrentClocksThrottleReasons", "throttled"),
        ("DeviceGetComputeRunningProcesses", "DeviceGetComputeRunningProcesses_v2", "processes"),
    ],
)
def test_what_was_renamed_is_asked_for_by_its_older_name(new: str, old: str, field: str) -> None:
    told = 0x08 if field == "throttled" else [Shape(pid=7, usedGpuMemory=3 << 20)]
    driver = Newer(1, **FIELDS | {new: NotFoundError("Function Not Found"), old: told})
    [sample] = Nvml(driver).read().samples
    assert getattr(sample, field) == (("hw_slowdown",) if field == "throttled" else ((7, 3),))


@pytest.mark.parametrize("unknown", [82, 138, 139])
def test_one_field_that_the_driver_does_not_know_costs_no_other_even_where_it_costs_the_whole_list(
    unknown: int,
) -> None:
    def told(gpu: int, wanted: list[Any]) -> Any:
        numbers = [one if isinstance(one, int) else one[0] for one in wanted]
        if unknown in numbers:
            return FakeError("Invalid Argument")
        return [Shape(nvmlReturn=0, valueType=1, value=Shape(uiVal=number)) for number in numbers]

    [sample] = Nvml(Newer(1, **FIELDS | {"DeviceGetFieldValues": told})).read().samples
    shown = {82: sample.temperature_memory_celsius, 138: sample.nvlink_tx_kib, 139: sample.nvlink_rx_kib}
    assert shown == {number: None if number == unknown else number for number in shown}


# --- L08: whose GPU is it (NVIDIA/dcgm-exporter#342) ------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    spans=st.lists(st.tuples(st.integers(1, 9), st.integers(0, 3)), min_size=1, max_size=5),
    every=st.sampled_from([1, 2, 15]),
    late=st.integers(0, 3),
)
def test_a_sample_never_carries_anybody_who_did_not_hold_the_card_then_and_now(
    spans: list[tuple[int, int]], every: int, late: int
) -> None:
    world = World(node("n1", gpus=1))
    watch, begin = Watch(Config(), 0.0), world.at
    changes: dict[int, str] = {}
    second = 0
    for length, gap in spans:
        changes[second] = "come"
        changes[second + length] = "go"
        second += length + gap + 1
    held: dict[int, str] = {}
    on_the_way: list[tuple[int, int]] = []
    job: int | None = None
    for now in range(second + 4):
        world.at = begin + 1000 * now
        match changes.get(now):
            case "come":
                job = world.submit_running(spec(gpus=1), "n1")
            case "go":
                world.finish(job)
                job = None
        held[now] = "" if job is None else str(job)
        if now % every == 0:
            on_the_way.append((now + late, now))
        for due, taken in [one for one in on_the_way if one[0] == now]:
            sample = NodeSample(node="n1", at=begin + 1000 * taken, gpus=(GpuSample(index=0, utilisation_percent=9),))
            watch.hear(sample, float(due), world.state)
        shown = lines(watch, world, now_s=float(now))["DCGM_FI_DEV_GPU_UTIL"]
        for labels, _ in shown:
            taken = max(taken for due, taken in on_the_way if due <= now)
            assert labels["job"] in ("", held[now])
            assert labels["job"] in ("", held[taken])
            if held[taken] == held[now] and late == 0 and taken == now:
                assert labels["job"] == held[now], "nor is it left out when everything is plain"


def test_who_stands_still_on_a_card_is_not_who_works_on_it() -> None:
    world = World(node("n1", gpus=1))
    first = world.submit_running(gpu_spec(1, stays_mib=0), "n1")
    suspend(world, first)
    second = world.submit_running(spec(gpus=1), "n1")
    [task] = world.tasks(second)
    busy = GpuSample(index=0, uuid="GPU-0", utilisation_percent=90)
    [(labels, _)] = lines(heard(world, busy, at=world.at), world)["DCGM_FI_DEV_GPU_UTIL"]
    assert labels["task"] == task.id

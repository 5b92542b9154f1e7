"""The driver's answers become values with units, or are absent; one that fails takes nothing else with it."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gangline_agent.machine import describe
from gangline_agent.nvml import Nvml, model_name


class Shape:
    """An answer with attributes."""

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)


class FakeError(Exception):
    pass


class LostError(FakeError):
    pass


class NoLibraryError(FakeError):
    pass


class NoDriverError(FakeError):
    pass


class Driver:
    """A driver with equal GPUs; `answers` override what functions give or raise, per GPU if they are callable."""

    NVMLError = FakeError
    NVMLError_GpuIsLost = LostError
    NVMLError_LibraryNotFound = NoLibraryError
    NVMLError_DriverNotLoaded = NoDriverError
    NVML_TEMPERATURE_GPU = 0
    NVML_P2P_CAPS_INDEX_NVLINK = 2
    NVML_P2P_STATUS_OK = 0

    def __init__(self, count: int = 8, **answers: Any) -> None:
        self.answers: dict[str, Any] = {
            "Init": None,
            "Shutdown": None,
            "DeviceGetCount": count,
            "DeviceGetHandleByIndex": lambda index: index,
            "DeviceGetUUID": lambda gpu: f"GPU-{gpu}".encode(),
            "DeviceGetName": "NVIDIA H100 80GB HBM3",
            "DeviceGetMemoryInfo": Shape(total=7_988_051_968, used=1_048_576),
            "DeviceGetPowerUsage": 249_500,
            "DeviceGetUtilizationRates": Shape(gpu=55),
            "DeviceGetTemperature": 40,
            "DeviceGetPciInfo": lambda gpu: Shape(domain=0, bus=0x3A + gpu, device=0),
            "DeviceGetMigMode": FakeError("Not Supported"),
            "DeviceGetP2PStatus": lambda first, second, cap: 0 if first // 4 == second // 4 else 5,
        } | answers

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.removeprefix("nvml") not in self.answers:
            raise AttributeError(name)
        answer = self.answers[name.removeprefix("nvml")]

        def call(*arguments: Any) -> Any:
            given = answer(*arguments) if callable(answer) else answer
            if isinstance(given, Exception):
                raise given
            return given

        return call


def on_third(value: Any, otherwise: Any) -> Callable[..., Any]:
    """Only the third GPU answers differently."""
    return lambda gpu, *rest: value if gpu == 2 else otherwise


def test_quantities_have_the_units_their_names_say() -> None:
    sample = Nvml(Driver(1)).read().samples[0]
    assert (sample.memory_total_mib, sample.memory_used_mib, sample.power_milliwatts) == (7618, 1, 249_500)
    assert (sample.utilisation_percent, sample.temperature_celsius) == (55, 40)


@pytest.mark.parametrize(
    ("function", "field"),
    [
        ("DeviceGetUtilizationRates", "utilisation_percent"),
        ("DeviceGetMemoryInfo", "memory_used_mib"),
        ("DeviceGetTemperature", "temperature_celsius"),
        ("DeviceGetPowerUsage", "power_milliwatts"),
    ],
)
@pytest.mark.parametrize("answer", [FakeError("Not Supported"), FakeError("Function Not Found"), "[N/A]", None])
def test_a_field_without_a_number_is_absent_for_that_gpu_only(function: str, field: str, answer: Any) -> None:
    fine = Driver().answers[function]
    shaped = Shape(gpu=answer, used=answer, total=answer) if isinstance(fine, Shape) else answer
    given = answer if isinstance(answer, Exception) else shaped
    samples = Nvml(Driver(**{function: on_third(given, fine)})).read().samples
    assert getattr(samples[2], field) is None
    assert all(getattr(sample, field) is not None for k, sample in enumerate(samples) if k != 2)
    assert all(sample.uuid and not sample.problem for sample in samples)


def test_a_missing_field_is_warned_of_once_not_every_second(caplog: pytest.LogCaptureFixture) -> None:
    nvml = Nvml(Driver(DeviceGetPowerUsage=FakeError("Not Supported")))
    with caplog.at_level(logging.WARNING):
        for _ in range(10):
            nvml.read()
    assert len(caplog.records) == 1


def test_a_lost_gpu_is_a_problem_of_that_gpu_only() -> None:
    reading = Nvml(Driver(DeviceGetPciInfo=on_third(LostError("GPU is lost"), Shape(domain=0, bus=1, device=0)))).read()
    assert [sample.problem for sample in reading.samples] == ["", "", "GPU is lost", "", "", "", "", ""]


def test_a_gpu_cut_into_slices_is_not_offered_whole() -> None:
    reading = Nvml(Driver(1, DeviceGetMigMode=[1, 1], DeviceGetUtilizationRates=FakeError("Not Supported"))).read()
    assert "MIG" in reading.samples[0].problem
    assert reading.samples[0].utilisation_percent is None


def test_a_machine_without_the_library_has_no_gpus_and_no_problem() -> None:
    reading = Nvml(Driver(Init=NoLibraryError("not found"))).read()
    assert (reading.gpus, reading.problem, reading.has_driver) == ((), "", False)


def test_a_driver_that_cannot_start_is_a_problem_and_recovers_without_a_restart() -> None:
    driver = Driver(2, Init=FakeError("Unknown Error"))
    nvml = Nvml(driver)
    assert nvml.read().problem == "NVML: Unknown Error"
    driver.answers["Init"] = None
    assert len(nvml.read().gpus) == 2
    driver.answers["DeviceGetCount"] = FakeError("Driver/library version mismatch")
    assert "mismatch" in nvml.read().problem
    driver.answers["DeviceGetCount"] = 2
    assert nvml.read().problem == ""


@pytest.mark.parametrize("function", ["DeviceGetHandleByIndex", "DeviceGetUUID"])
@pytest.mark.parametrize(
    "answer", [FakeError("Unknown Error"), FakeError("Driver/library version mismatch"), OSError()]
)
def test_where_no_card_can_be_asked_it_is_the_driver_at_the_start_and_later(function: str, answer: Exception) -> None:
    """K08: it counts its cards and says nothing of any: neither a node of no GPUs that is well, nor eight bad cards."""
    driver = Driver(2, **{function: answer})
    nvml, fine = Nvml(driver), Driver().answers[function]
    first = describe((), nvml.read())
    assert first.gpus == ()
    assert first.problem.startswith("NVML: none of 2 GPUs can be asked")
    driver.answers[function] = fine
    known = describe((), nvml.read())
    assert (len(known.gpus), known.problem) == (2, "")
    driver.answers[function] = answer
    later = describe(known.gpus, nvml.read())
    assert later.gpus == known.gpus
    assert later.problem.startswith("NVML: none of 2 GPUs can be asked")
    assert not later.samples, "none of the cards is to blame, so nothing that runs on them is"
    driver.answers[function] = fine
    assert describe(later.gpus, nvml.read()).problem == ""


def test_a_machine_whose_cards_are_all_lost_at_the_start_is_not_well() -> None:
    lost = Nvml(Driver(2, DeviceGetHandleByIndex=LostError("lost"))).read()
    assert describe((), lost).problem == "the driver counts 2 GPUs and none of them says which it is"
    known = describe((), Nvml(Driver(2)).read()).gpus
    gone = describe(known, lost)
    assert (gone.problem, len(gone.samples)) == ("", 2), "each of them is known to be lost"


def test_links_and_sockets_are_read_off_the_machine(tmp_path: Path) -> None:
    for gpu in range(8):
        (tmp_path / f"0000:{0x3A + gpu:02x}:00.0").mkdir()
        (tmp_path / f"0000:{0x3A + gpu:02x}:00.0" / "numa_node").write_text(f"{gpu // 4}\n")
    gpus = Nvml(Driver(), pci_devices=tmp_path).read().gpus
    assert [gpu.island for gpu in gpus] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert [gpu.socket for gpu in gpus] == [0, 0, 0, 0, 1, 1, 1, 1]


def test_a_machine_that_does_not_tell_its_sockets_has_one(tmp_path: Path) -> None:
    assert {gpu.socket for gpu in Nvml(Driver(), pci_devices=tmp_path).read().gpus} == {0}


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("NVIDIA H100 80GB HBM3", "H100-80GB-HBM3"),
        ("Tesla T4", "T4"),
        ("NVIDIA GeForce RTX 4090", "RTX-4090"),
        ("", "unknown"),
    ],
)
def test_models_are_called_as_jobs_call_them(name: str, model: str) -> None:
    assert model_name(name) == model


@pytest.mark.parametrize(
    ("supported", "states", "licensed"),
    [(1, [1], True), (1, [0], False), (1, [0, 1], True), (1, [], False), (0, [], None)],
)
def test_a_virtual_gpu_says_whether_it_has_its_licence_and_others_say_nothing(
    supported: int, states: list[int], licensed: bool | None
) -> None:
    features = [Shape(featureState=state) for state in [*states, 7, 7]]
    told = Shape(isGridLicenseSupported=supported, licensableFeaturesCount=len(states), gridLicensableFeatures=features)
    reading = Nvml(Driver(1, DeviceGetGridLicensableFeatures_v4=told)).read()
    assert reading.samples[0].vgpu_licensed is licensed
    assert "vgpu_licensed" not in reading.samples[0].why

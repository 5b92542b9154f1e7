"""What NVIDIA's management library says about this machine's GPUs; the only importer of pynvml.

A value the driver does not give is absent, never zero. One GPU or one field that fails takes nothing else with it.
"""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pynvml  # type: ignore[import-untyped]  # the binding has no type hints
from msgspec import Struct
from msgspec.structs import replace

from gangline_agent.nvml_details import Events, details
from gangline_agent.pci import UNKNOWN, socket_of, switch_of
from gangline_core.cluster import Gpu
from gangline_wire.samples import GpuSample

log = logging.getLogger(__name__)

MIB = 1 << 20
NUMBER_MAX = 1 << 62
FAULTS = (AttributeError, OSError, TypeError, ValueError)
"""What the binding raises beside its own errors when library and driver do not fit together."""
PCI_DEVICES = Path("/sys/bus/pci/devices")


class Reading(Struct, frozen=True):
    """All GPUs at one moment. `gpus` and `samples` run in parallel; the index of each is the driver's."""

    gpus: tuple[Gpu, ...] = ()
    samples: tuple[GpuSample, ...] = ()
    problem: str = ""
    """Why nothing can be said about GPUs, although there is a driver."""
    has_driver: bool = True


class Nvml:
    """Reads the library; starts it when it is not started, so that it recovers without a restart of ours."""

    def __init__(self, library: Any = pynvml, *, pci_devices: Path = PCI_DEVICES) -> None:  # the binding is untyped
        """`library` has the functions of pynvml."""
        self._nvml = library
        self._pci_devices = pci_devices
        self._mismatch = getattr(library, "NVMLLibraryMismatchError", library.NVMLError)
        """Raised by the binding, beside its own errors, for functions of another version than the library's."""
        self._is_started = False
        self._warned: set[str] = set()
        self._events = Events(library, lambda call: self._try("events", call, quiet=True))
        self._descriptions: dict[str, Gpu] = {}

    def read(self) -> Reading:
        """All GPUs now; blocks for some milliseconds."""
        nvml = self._nvml
        try:
            if not self._is_started:
                nvml.nvmlInit()
                self._is_started = True
            count = nvml.nvmlDeviceGetCount()
        except (nvml.NVMLError_LibraryNotFound, nvml.NVMLError_DriverNotLoaded):
            self._stop()
            return Reading(has_driver=False)
        except nvml.NVMLError as error:
            self._stop()
            self._warn(f"NVML: {error}")
            return Reading(problem=f"NVML: {error}")
        seen = [self._one(index) for index in range(count)]
        told = self._events.drain()
        self._describe_links([gpu for gpu, _ in seen])
        gpus = tuple(self._descriptions.get(gpu.uuid, gpu) for gpu, _ in seen)
        return Reading(gpus=gpus, samples=tuple(_with_xids(sample, told) for _, sample in seen))

    def _stop(self) -> None:
        if self._is_started:
            self._is_started = False
            self._events.forget()
            self._try("shutdown", self._nvml.nvmlShutdown)

    def _one(self, index: int) -> tuple[Gpu, GpuSample]:
        """Description and sample of one GPU."""
        nvml = self._nvml
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            uuid = _text(nvml.nvmlDeviceGetUUID(handle))
        except (nvml.NVMLError, *FAULTS) as error:
            self._warn(f"GPU {index}: {error}")
            return Gpu(index=index, model="", memory_mib=0), GpuSample(index=index, problem=str(error))
        memory = self._try("memory", lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
        model = self._try("name", lambda: _text(nvml.nvmlDeviceGetName(handle))) or "unknown"
        total_mib = _mib(getattr(memory, "total", None))
        power = self._number("power", lambda: nvml.nvmlDeviceGetPowerUsage(handle))
        sample = GpuSample(
            index=index,
            uuid=uuid,
            model=model_name(model),
            utilisation_percent=self._number("utilisation", lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu),
            memory_used_mib=_mib(getattr(memory, "used", None)),
            memory_total_mib=total_mib,
            temperature_celsius=self._number(
                "temperature", lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)
            ),
            power_milliwatts=power,
            problem=self._problem(handle),
            **details(nvml, handle, lambda call: self._try("detail", call, quiet=True), _plausible),
        )
        self._events.watch(uuid, handle)
        return Gpu(index=index, model=sample.model, memory_mib=total_mib or 0, uuid=uuid), sample

    def _problem(self, handle: Any) -> str:
        """Why this GPU must not be used as a whole; most of its functions fail when it is lost."""
        nvml = self._nvml
        try:
            nvml.nvmlDeviceGetPciInfo(handle)
        except nvml.NVMLError_GpuIsLost as error:
            return str(error)
        except (nvml.NVMLError, *FAULTS):
            pass
        mode = self._try("MIG mode", lambda: nvml.nvmlDeviceGetMigMode(handle), quiet=True)
        return "MIG is on; slices are not scheduled" if mode and mode[0] == 1 else ""

    # --- how GPUs hang together, asked once per set of GPUs -------------------------------------------------

    def _describe_links(self, gpus: list[Gpu]) -> None:
        uuids = {gpu.uuid for gpu in gpus if gpu.uuid}
        if uuids == set(self._descriptions):
            return
        islands = self._islands([gpu.index for gpu in gpus if gpu.uuid])
        devices = {gpu.index: self._device(gpu.index) for gpu in gpus if gpu.uuid}
        self._descriptions = {
            gpu.uuid: Gpu(
                index=gpu.index,
                model=gpu.model,
                memory_mib=gpu.memory_mib,
                uuid=gpu.uuid,
                socket=socket_of(device) if (device := devices[gpu.index]) else 0,
                island=islands.get(gpu.index, 0),
                switch=switch_of(device) if device else UNKNOWN,
            )
            for gpu in gpus
            if gpu.uuid
        }

    def _islands(self, indexes: list[int]) -> dict[int, int]:
        """GPUs that reach each other over NVLink share a number; one alone has its own."""
        island = {index: index for index in indexes}
        for first in indexes:
            for second in indexes:
                if first < second and self._linked(first, second):
                    keep, drop = sorted((island[first], island[second]))
                    island = {index: keep if number == drop else number for index, number in island.items()}
        numbers = {number: k for k, number in enumerate(sorted(set(island.values())))}
        return {index: numbers[number] for index, number in island.items()}

    def _linked(self, first: int, second: int) -> bool:
        nvml = self._nvml

        def status() -> Any:
            handles = (nvml.nvmlDeviceGetHandleByIndex(first), nvml.nvmlDeviceGetHandleByIndex(second))
            return nvml.nvmlDeviceGetP2PStatus(*handles, nvml.NVML_P2P_CAPS_INDEX_NVLINK)

        return bool(self._try("NVLink status", status, quiet=True) == nvml.NVML_P2P_STATUS_OK)

    def _device(self, index: int) -> Path | None:
        """The GPU in the kernel's list of devices; NVML itself tells only where GPU memory is."""
        pci = self._try(
            "PCI address",
            lambda: self._nvml.nvmlDeviceGetPciInfo(self._nvml.nvmlDeviceGetHandleByIndex(index)),
            quiet=True,
        )
        try:
            return self._pci_devices / f"{pci.domain:04x}:{pci.bus:02x}:{pci.device:02x}.0"
        except (AttributeError, TypeError, ValueError):
            return None

    # --- values that may be absent ------------------------------------------------------------------------

    def _number(self, what: str, ask: Callable[[], Any]) -> int | None:
        value = self._try(what, ask)
        return value if _is_plausible(value) else None

    def _try(self, what: str, ask: Callable[[], Any], *, quiet: bool = False) -> Any:
        """The answer, or None when the driver does not give one."""
        try:
            return ask()
        except (self._nvml.NVMLError, self._mismatch, *FAULTS) as error:
            if not quiet:
                self._warn(f"{what} is not available: {error}")
            return None

    def _warn(self, text: str) -> None:
        """Once per cause, not once per second."""
        if text not in self._warned:
            self._warned.add(text)
            log.warning("%s", text)


def _with_xids(sample: GpuSample, told: dict[str, list[int]]) -> GpuSample:
    return replace(sample, xids=tuple(told[sample.uuid])) if sample.uuid in told else sample


def _plausible(value: Any) -> int | None:
    return value if _is_plausible(value) else None


def model_name(name: str) -> str:
    """The name by which jobs ask for a model: "NVIDIA H100 80GB HBM3" is "H100-80GB-HBM3"."""
    words = [word for word in name.replace("/", " ").split() if word.upper() not in ("NVIDIA", "TESLA", "GEFORCE")]
    return "-".join(words) or "unknown"


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _mib(value: Any) -> int | None:
    return value // MIB if _is_plausible(value) else None


def _is_plausible(value: Any) -> bool:
    """True for a number that can be one: "[N/A]", minus one and all bits set are ways to say that there is none."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < NUMBER_MAX

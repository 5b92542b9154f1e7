"""What NVIDIA's management library says about this machine's GPUs; the only importer of pynvml.

A value the driver does not give is absent, never zero. One GPU or one field that fails takes nothing else with it.
"""

import logging
from pathlib import Path
from typing import Any

import pynvml  # type: ignore[import-untyped]  # the binding has no type hints
from msgspec.structs import replace

from gangline_agent import nvml_links, nvml_mig
from gangline_agent.nvml_ask import FAULTS, NO_TEXT, Ask, is_plausible, text
from gangline_agent.nvml_details import details, processes
from gangline_agent.nvml_events import Events
from gangline_agent.nvml_gpm import Gpm
from gangline_agent.pci import PCI_DEVICES, UNKNOWN, socket_of, switch_of
from gangline_agent.senses import NAMELESS, Reading
from gangline_core.cluster import Gpu, MigSlice
from gangline_wire.samples import GpuSample

log = logging.getLogger(__name__)

LOUD = ("utilisation_percent", "memory_used_mib", "power_milliwatts", "temperature_celsius")
"""Fields whose silence is worth a line in the log, once per cause; nearly every card gives them."""
LOST = "GPU is lost"
CARDS_MAX = 64
"""More than any machine holds; a driver that counts more counts wrong."""


class Nvml:
    """Reads the library; starts it when it is not started, so that it recovers without a restart of ours."""

    vendor = "nvidia"

    def __init__(self, library: Any = pynvml, *, pci_devices: Path = PCI_DEVICES) -> None:  # the binding is untyped
        """`library` has the functions of pynvml."""
        self._nvml = library
        self._pci_devices = pci_devices
        self._is_started = False
        self._warned: set[str] = set()
        self._events = Events(library)
        self._gpm = Gpm(library)
        self._linked: dict[str, nvml_links.Linked] = {}
        self._cuts: dict[str, tuple[str, tuple[MigSlice, ...]]] = {}
        """How the cards that are cut were when all of it was told last."""
        self._places: dict[str, Gpu] = {}
        """Cards as they hang together, which is asked once per set of cards."""

    def read(self) -> Reading:
        """All GPUs now; blocks for some milliseconds."""
        nvml = self._nvml
        try:
            if not self._is_started:
                nvml.nvmlInit()
                self._is_started = True
            count = _card_count(nvml)
        except (nvml.NVMLError_LibraryNotFound, nvml.NVMLError_DriverNotLoaded):
            return Reading(has_driver=False, xids=self._stop())
        except (nvml.NVMLError, *FAULTS) as error:
            self._warn(f"NVML: {error}")
            return Reading(problem=f"NVML: {error}", xids=self._stop())
        seen = [self._one(index) for index in range(count)]
        problems = [sample.problem for gpu, sample, _ in seen if not gpu.uuid]
        if len(problems) == count > 0 and any(said != LOST for said in problems):
            # Cards fail one by one; where none of them can be asked it is the driver.
            return Reading(problem=f"NVML: none of {count} GPUs can be asked: {problems[0]}", xids=self._stop())
        self._find_places([(gpu, handle) for gpu, _, handle in seen if gpu.uuid])
        return Reading(
            gpus=tuple(self._placed(gpu) for gpu, _, _ in seen),
            samples=tuple(sample for _, sample, _ in seen),
            paths={uuid: linked.paths for uuid, linked in self._linked.items()},
            xids=self._events.drain(),
            versions=self._versions(),
        )

    def _stop(self) -> dict[str, tuple[int, ...]]:
        """The events that the driver still had to tell."""
        if not self._is_started:
            return {}
        self._is_started = False
        told = self._events.drain()
        self._events.forget()
        self._gpm.forget()
        Ask(self._nvml).any("shutdown", self._nvml.nvmlShutdown)
        return told

    def _versions(self) -> dict[str, str]:
        """Of the driver and of CUDA as it can run it."""
        nvml, ask = self._nvml, Ask(self._nvml)
        driver = ask.text("driver", lambda: nvml.nvmlSystemGetDriverVersion())
        cuda = ask.number("cuda", lambda: nvml.nvmlSystemGetCudaDriverVersion())
        found = {"nvidia-driver": driver or "", "cuda": "" if cuda is None else f"{cuda // 1000}.{cuda % 1000 // 10}"}
        return {name: version for name, version in found.items() if version}

    def _one(self, index: int) -> tuple[Gpu, GpuSample, Any]:
        """Description, sample and handle of one GPU."""
        nvml = self._nvml
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            uuid = text(nvml.nvmlDeviceGetUUID(handle))
            if uuid is None:
                raise ValueError(f"UUID: {NO_TEXT}")
        except (nvml.NVMLError, *FAULTS) as error:
            self._warn(f"GPU {index}: {error}")
            problem = LOST if isinstance(error, nvml.NVMLError_GpuIsLost) else str(error)
            return Gpu(index=index, model="", memory_mib=0), GpuSample(index=index, problem=problem), None
        ask = Ask(nvml)
        memory = ask.any("memory", lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
        product = ask.text("product", lambda: nvml.nvmlDeviceGetName(handle))
        model = model_name(product or NAMELESS)
        total_mib = _mib(ask.part("memory_total_mib", memory, lambda: memory.total, of="memory"))
        found = {
            "memory_used_mib": _mib(ask.part("memory_used_mib", memory, lambda: memory.used, of="memory")),
            "memory_total_mib": total_mib,
            "temperature_celsius": ask.number(
                "temperature_celsius", lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)
            ),
            "power_milliwatts": ask.number("power_milliwatts", lambda: nvml.nvmlDeviceGetPowerUsage(handle)),
            "product": product,
            "pci_bus_id": ask.any("pci_bus_id", lambda: _bus_id(nvml.nvmlDeviceGetPciInfo(handle))),
            "minor": ask.number("minor", lambda: nvml.nvmlDeviceGetMinorNumber(handle)),
            **details(ask, handle),
        }
        using, cut = processes(ask, handle), None
        if nvml_mig.is_cut(ask, handle, was_cut=uuid in self._cuts):
            cut = nvml_mig.look(ask, self._gpm, handle, card=(model, total_mib or 0), processes=using or ())
            # What a card that is cut says of its use is the last thing it did as a whole, or nothing.
            found["utilisation_percent"] = None
        cut = self._known(uuid, cut)
        found["processes"] = None if using is None else tuple((pid, mib) for pid, mib, _ in using)
        found |= self._gpm.of_card(uuid, handle, ask)
        self._events.watch(uuid, handle, ask)
        problem = _lost(ask, handle) or (cut.problem if cut is not None else "")
        ask.silent.pop("memory", None)
        sample = GpuSample(
            index=index,
            uuid=uuid,
            model=model,
            problem=problem,
            slices=() if cut is None else cut.samples,
            absent=_absent(ask, found),
            why={} if problem else ask.why,
            **{name: value for name, value in found.items() if value is not None},
        )
        for field in LOUD:
            if field in ask.silent and getattr(sample, field) is None:
                self._warn(f"{field} is not available: {ask.silent[field]}")
        gpu = Gpu(index=index, model=model, memory_mib=total_mib or 0, uuid=uuid)
        return gpu if cut is None else replace(gpu, mig=cut.geometry, slices=cut.slices), sample, handle

    def _known(self, uuid: str, cut: nvml_mig.Cut | None) -> nvml_mig.Cut | None:
        """How a card is cut; where the driver does not tell all of it, as it was when it did."""
        if cut is None:
            self._cuts.pop(uuid, None)
            return None
        if not cut.silent:
            self._cuts[uuid] = cut.geometry, cut.slices
        elif uuid in self._cuts:
            geometry, slices = self._cuts[uuid]
            return replace(cut, geometry=geometry, slices=slices, silent="")
        return cut

    # --- how GPUs hang together, asked once per set of GPUs -------------------------------------------------

    def _find_places(self, seen: list[tuple[Gpu, Any]]) -> None:
        # A card that is away hangs where it hung; only one that was never seen changes anything.
        if {gpu.uuid for gpu, _ in seen} <= set(self._places):
            return
        self._linked = nvml_links.look(self._nvml, {gpu.uuid: handle for gpu, handle in seen})
        islands = nvml_links.islands(self._linked)
        self._places = {}
        for gpu, handle in seen:
            device, linked = self._device(handle), self._linked[gpu.uuid]
            self._places[gpu.uuid] = replace(
                gpu,
                socket=socket_of(device) if device else 0,
                island=islands[gpu.uuid],
                switch=switch_of(device) if device else UNKNOWN,
                nvlink_mib_s=linked.nvlink_mib_s,
                pcie_mib_s=linked.pcie_mib_s,
            )

    def _placed(self, gpu: Gpu) -> Gpu:
        """The card as it was just seen, where it hangs as it was found."""
        place = self._places.get(gpu.uuid)
        if place is None:
            return gpu
        return replace(
            gpu,
            socket=place.socket,
            island=place.island,
            switch=place.switch,
            nvlink_mib_s=place.nvlink_mib_s,
            pcie_mib_s=place.pcie_mib_s,
        )

    def _device(self, handle: Any) -> Path | None:
        """The GPU in the kernel's list of devices; NVML itself tells only where GPU memory is."""
        pci = Ask(self._nvml).any("pci", lambda: self._nvml.nvmlDeviceGetPciInfo(handle))
        try:
            return self._pci_devices / f"{pci.domain:04x}:{pci.bus:02x}:{pci.device:02x}.0"
        except (AttributeError, TypeError, ValueError):
            return None

    def _warn(self, said: str) -> None:
        """Once per cause, not once per second."""
        if said not in self._warned:
            self._warned.add(said)
            log.warning("%s", said)


def _card_count(nvml: Any) -> int:
    """How many cards the driver counts; ValueError where that cannot be so."""
    count = nvml.nvmlDeviceGetCount()
    if not is_plausible(count) or count > CARDS_MAX:
        raise ValueError(f"{count} GPUs")
    return count


def _lost(ask: Ask, handle: Any) -> str:
    """Why this GPU must not be used as a whole; most of its functions fail when it is lost."""
    nvml = ask.nvml
    try:
        nvml.nvmlDeviceGetPciInfo(handle)
    except nvml.NVMLError_GpuIsLost as error:
        return str(error)
    except (nvml.NVMLError, *FAULTS):
        return ""
    return ""


def _bus_id(pci: Any) -> str:
    return f"{pci.domain:08X}:{pci.bus:02X}:{pci.device:02X}.0"


def _absent(ask: Ask, found: dict[str, Any]) -> tuple[str, ...]:
    silent = ("xids",) if "xids" in ask.silent else ()
    return (*(name for name, value in found.items() if value is None), *silent)


def _mib(value: int | None) -> int | None:
    return None if value is None else value >> 20


def model_name(name: str) -> str:
    """The name by which jobs ask for a model: "NVIDIA H100 80GB HBM3" is "H100-80GB-HBM3"."""
    words = [word for word in name.replace("/", " ").split() if word.upper() not in ("NVIDIA", "TESLA", "GEFORCE")]
    return "-".join(words) or NAMELESS

"""What else a GPU says of itself: clocks, errors, links, events, processes. Every value may be absent, alone.

The library comes in as an argument: gangline_agent.nvml stays the only importer of the binding.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

Ask = Callable[[Callable[[], Any]], Any]
"""Gives the answer of a call, or None when the driver does not give one."""

MIB = 1 << 20
LINKS_MAX = 18
"""NVLinks of the largest cards."""
XIDS_MAX = 16
"""Events taken in per look."""
PROCESSES_MAX = 64

THROTTLES = (
    ("nvmlClocksThrottleReasonHwSlowdown", "hw_slowdown"),
    ("nvmlClocksThrottleReasonHwThermalSlowdown", "hw_thermal"),
    ("nvmlClocksThrottleReasonHwPowerBrakeSlowdown", "hw_power_brake"),
    ("nvmlClocksThrottleReasonSwThermalSlowdown", "sw_thermal"),
    ("nvmlClocksThrottleReasonSwPowerCap", "power_cap"),
)
"""Reasons that hold clocks down, by the binding's constants."""


def details(nvml: Any, handle: Any, ask: Ask, number: Callable[[Any], int | None]) -> dict[str, Any]:
    """Fields of a GpuSample beyond the first ones, with `absent` naming those without a value."""
    remapped = ask(lambda: nvml.nvmlDeviceGetRemappedRows(handle))
    found: dict[str, Any] = {
        "memory_busy_percent": number(ask(lambda: nvml.nvmlDeviceGetUtilizationRates(handle).memory)),
        "clock_sm_mhz": number(ask(lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM))),
        "clock_memory_mhz": number(ask(lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM))),
        "energy_millijoules": number(ask(lambda: nvml.nvmlDeviceGetTotalEnergyConsumption(handle))),
        "ecc_corrected": number(ask(lambda: _ecc(nvml, handle, "NVML_MEMORY_ERROR_TYPE_CORRECTED"))),
        "ecc_uncorrected": number(ask(lambda: _ecc(nvml, handle, "NVML_MEMORY_ERROR_TYPE_UNCORRECTED"))),
        "remap_pending": _flag(remapped, 2),
        "remap_failed": _flag(remapped, 3),
        "pcie_replays": number(ask(lambda: nvml.nvmlDeviceGetPcieReplayCounter(handle))),
        "pcie_rx_kib_s": number(ask(lambda: _pcie(nvml, handle, "NVML_PCIE_UTIL_RX_BYTES"))),
        "pcie_tx_kib_s": number(ask(lambda: _pcie(nvml, handle, "NVML_PCIE_UTIL_TX_BYTES"))),
    }
    found |= _links(nvml, handle, ask, number)
    reasons = number(ask(lambda: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)))
    absent = [name for name, value in found.items() if value is None]
    if reasons is None:
        absent.append("throttled")
    else:
        found["throttled"] = tuple(name for constant, name in THROTTLES if reasons & getattr(nvml, constant, 0))
    processes = ask(lambda: nvml.nvmlDeviceGetComputeRunningProcesses(handle))
    if processes is None:
        absent.append("processes")
    else:
        found["processes"] = tuple(_process(one, number) for one in list(processes)[:PROCESSES_MAX])
    return {**{name: value for name, value in found.items() if value is not None}, "absent": tuple(absent)}


def _ecc(nvml: Any, handle: Any, kind: str) -> Any:
    return nvml.nvmlDeviceGetTotalEccErrors(handle, getattr(nvml, kind), nvml.NVML_VOLATILE_ECC)


def _pcie(nvml: Any, handle: Any, counter: str) -> Any:
    return nvml.nvmlDeviceGetPcieThroughput(handle, getattr(nvml, counter))


def _flag(remapped: Any, index: int) -> bool | None:
    try:
        return bool(remapped[index])
    except (TypeError, IndexError):
        return None


def _links(nvml: Any, handle: Any, ask: Ask, number: Callable[[Any], int | None]) -> dict[str, int | None]:
    """Links that are down among those the card has, and their errors; a card without links says neither."""
    states: list[int] = []
    errors: list[int] = []
    for link in range(LINKS_MAX):
        state = number(ask(partial(_link_state, nvml, handle, link)))
        if state is None:
            break
        states.append(state)
        count = number(ask(partial(_link_errors, nvml, handle, link)))
        errors += [] if count is None else [count]
    return {
        "nvlinks_down": sum(state == 0 for state in states) if states else None,
        "nvlink_errors": sum(errors) if errors else None,
    }


def _link_state(nvml: Any, handle: Any, link: int) -> Any:
    return nvml.nvmlDeviceGetNvLinkState(handle, link)


def _link_errors(nvml: Any, handle: Any, link: int) -> Any:
    kind = getattr(nvml, "NVML_NVLINK_ERROR_DL_REPLAY", 0)
    return nvml.nvmlDeviceGetNvLinkErrorCounter(handle, link, kind)


def _uuid_of(nvml: Any, event: Any) -> Any:
    return nvml.nvmlDeviceGetUUID(event.device)


def _process(one: Any, number: Callable[[Any], int | None]) -> tuple[int, int]:
    used = number(getattr(one, "usedGpuMemory", None))
    return int(getattr(one, "pid", 0)), -1 if used is None else used // MIB


class Events:
    """Xid events of all cards, drained at each look."""

    def __init__(self, nvml: Any, ask: Ask) -> None:
        """Nothing is registered yet."""
        self._nvml = nvml
        self._ask = ask
        self._set: Any = None
        self._known: set[str] = set()

    def forget(self) -> None:
        """The library was shut down: register anew."""
        self._set, self._known = None, set()

    def watch(self, uuid: str, handle: Any) -> None:
        """Have the driver tell of this card's Xids, once."""
        nvml = self._nvml
        if uuid in self._known:
            return
        self._known.add(uuid)
        if self._set is None:
            self._set = self._ask(lambda: nvml.nvmlEventSetCreate())
        if self._set is not None:
            kind = getattr(nvml, "nvmlEventTypeXidCriticalError", 8)
            self._ask(lambda: nvml.nvmlDeviceRegisterEvents(handle, kind, self._set))

    def drain(self) -> dict[str, list[int]]:
        """Xids by UUID since the last time."""
        found: dict[str, list[int]] = {}
        for _ in range(XIDS_MAX if self._set is not None else 0):
            event = self._ask(lambda: self._nvml.nvmlEventSetWait_v2(self._set, 0))
            uuid = self._ask(partial(_uuid_of, self._nvml, event)) if event else None
            if uuid is None:
                break
            name = uuid.decode(errors="replace") if isinstance(uuid, bytes) else str(uuid)
            found.setdefault(name, []).append(int(event.eventData))
        return found

"""What a card says of itself beside its name: use, clocks, errors, links, PCIe, processes. Each may be absent."""

from collections.abc import Iterable
from functools import partial
from typing import Any

from gangline_agent.nvml_ask import NOT_SUPPORTED, Ask, is_plausible

LINKS_MAX = 36
"""NVLinks of the largest cards."""
PROCESSES_MAX = 64
ALL_LINKS = 0xFFFFFFFF
"""The scope that sums a field over all NVLinks."""
FIELD_MEMORY_TEMP, FIELD_NVLINK_TX, FIELD_NVLINK_RX = 82, 138, 139

THROTTLES = (
    (0x08, "hw_slowdown"),
    (0x40, "hw_thermal"),
    (0x80, "hw_power_brake"),
    (0x20, "sw_thermal"),
    (0x04, "power_cap"),
)
"""Reasons that hold clocks down, by their bits in nvml.h."""
NEEDS_NONE = -1
LINK_ERRORS = ("NVML_NVLINK_ERROR_DL_REPLAY", "NVML_NVLINK_ERROR_DL_RECOVERY", "NVML_NVLINK_ERROR_DL_CRC_FLIT")


def details(ask: Ask, handle: Any) -> dict[str, Any]:
    """Fields of a GpuSample beyond identity, memory and power, with the unanswered ones in `ask.silent`."""
    nvml, number, share = ask.nvml, ask.number, ask.share
    rows = ask.any("rows", lambda: nvml.nvmlDeviceGetRemappedRows(handle))
    found: dict[str, Any] = {
        "utilisation_percent": share("utilisation_percent", lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu),
        "memory_busy_percent": share("memory_busy_percent", lambda: nvml.nvmlDeviceGetUtilizationRates(handle).memory),
        "encoder_percent": share("encoder_percent", lambda: nvml.nvmlDeviceGetEncoderUtilization(handle)[0]),
        "decoder_percent": share("decoder_percent", lambda: nvml.nvmlDeviceGetDecoderUtilization(handle)[0]),
        "clock_sm_mhz": number("clock_sm_mhz", lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)),
        "clock_memory_mhz": number(
            "clock_memory_mhz", lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM)
        ),
        "energy_millijoules": number("energy_millijoules", lambda: nvml.nvmlDeviceGetTotalEnergyConsumption(handle)),
        "power_limit_milliwatts": number(
            "power_limit_milliwatts", lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle)
        ),
        "ecc_corrected": number("ecc_corrected", lambda: _ecc(nvml, handle, "NVML_MEMORY_ERROR_TYPE_CORRECTED")),
        "ecc_uncorrected": number("ecc_uncorrected", lambda: _ecc(nvml, handle, "NVML_MEMORY_ERROR_TYPE_UNCORRECTED")),
        "remapped_corrected": ask.part("remapped_corrected", rows, lambda: rows[0], of="rows"),
        "remapped_uncorrected": ask.part("remapped_uncorrected", rows, lambda: rows[1], of="rows"),
        "remap_pending": _flag(ask.part("remap_pending", rows, lambda: rows[2], of="rows")),
        "remap_failed": _flag(ask.part("remap_failed", rows, lambda: rows[3], of="rows")),
        "vgpu_licensed": _vgpu_licensed(ask, handle),
    }
    ask.silent.pop("rows", None)
    found |= _pcie(ask, handle) | _links(ask, handle) | _fields(ask, handle)
    reasons = number("throttled", lambda: _held(nvml, handle))
    found["throttled"] = None if reasons is None else tuple(name for bit, name in THROTTLES if reasons & bit)
    return found


def _vgpu_licensed(ask: Ask, handle: Any) -> bool | None:
    """Whether a virtual GPU has its licence; None where the card needs none."""

    def licensed() -> int:
        told = ask.nvml.nvmlDeviceGetGridLicensableFeatures_v4(handle)
        if not told.isGridLicenseSupported:
            return NEEDS_NONE
        return sum(1 for one in told.gridLicensableFeatures[: told.licensableFeaturesCount] if one.featureState)

    count = ask.any("vgpu_licensed", licensed)
    if count == NEEDS_NONE:
        ask.silent["vgpu_licensed"] = NOT_SUPPORTED
        return None
    return None if count is None else bool(count)


def _flag(value: int | None) -> bool | None:
    return None if value is None else bool(value)


def processes(ask: Ask, handle: Any) -> tuple[tuple[int, int, int | None], ...] | None:
    """Processes on a card: pid, MiB (-1 where not told), and the GPU instance they are in (None on a whole card)."""
    listed = ask.any("processes", lambda: list(_running(ask.nvml, handle)))
    return None if listed is None else tuple(_process(one) for one in listed[:PROCESSES_MAX])


def _running(nvml: Any, handle: Any) -> Any:
    """The list has a third layout since driver 510; older ones know the second one only."""
    try:
        return nvml.nvmlDeviceGetComputeRunningProcesses(handle)
    except (getattr(nvml, "NVMLError_FunctionNotFound", AttributeError), AttributeError):
        return nvml.nvmlDeviceGetComputeRunningProcesses_v2(handle)


def _process(one: Any) -> tuple[int, int, int | None]:
    used, instance = getattr(one, "usedGpuMemory", None), getattr(one, "gpuInstanceId", None)
    inside = instance if isinstance(instance, int) and 0 <= instance < 0xFFFFFFFF else None
    pid = getattr(one, "pid", 0)
    return pid if is_plausible(pid) else 0, used >> 20 if is_plausible(used) else -1, inside


def _held(nvml: Any, handle: Any) -> Any:
    """Why clocks are held down; the function was renamed with driver 535, and old drivers know the old name only."""
    try:
        return nvml.nvmlDeviceGetCurrentClocksEventReasons(handle)
    except (getattr(nvml, "NVMLError_FunctionNotFound", AttributeError), AttributeError):
        return nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)


def _ecc(nvml: Any, handle: Any, kind: str) -> Any:
    return nvml.nvmlDeviceGetTotalEccErrors(handle, getattr(nvml, kind), nvml.NVML_VOLATILE_ECC)


def _pcie(ask: Ask, handle: Any) -> dict[str, int | None]:
    nvml, number = ask.nvml, ask.number

    def through(counter: str) -> Any:
        return nvml.nvmlDeviceGetPcieThroughput(handle, getattr(nvml, counter))

    return {
        "pcie_gen": number("pcie_gen", lambda: nvml.nvmlDeviceGetCurrPcieLinkGeneration(handle)),
        "pcie_width": number("pcie_width", lambda: nvml.nvmlDeviceGetCurrPcieLinkWidth(handle)),
        "pcie_width_max": number("pcie_width_max", lambda: nvml.nvmlDeviceGetMaxPcieLinkWidth(handle)),
        "pcie_replays": number("pcie_replays", lambda: nvml.nvmlDeviceGetPcieReplayCounter(handle)),
        "pcie_rx_kib_s": number("pcie_rx_kib_s", lambda: through("NVML_PCIE_UTIL_RX_BYTES")),
        "pcie_tx_kib_s": number("pcie_tx_kib_s", lambda: through("NVML_PCIE_UTIL_TX_BYTES")),
    }


def link_states(ask: Ask, handle: Any) -> list[bool]:
    """Whether each NVLink of the card is up, the first that the driver does not know ends the list."""
    states: list[bool] = []
    for link in range(LINKS_MAX):
        up = ask.flag("nvlinks_up", partial(ask.nvml.nvmlDeviceGetNvLinkState, handle, link))
        if up is None:
            break
        states.append(up)
    return states


def _links(ask: Ask, handle: Any) -> dict[str, int | None]:
    """Links that are down or up among those the card has, and their errors; a card without links says neither."""
    try:
        states = link_states(ask, handle)
    except AttributeError as error:
        ask.silent["nvlinks_up"], states = str(error), []
    errors = list(_link_errors(ask, handle, len(states)))
    if states:
        ask.silent.pop("nvlinks_up", None)
    else:
        ask.silent["nvlinks_down"] = ask.silent["nvlink_errors"] = ask.silent.get("nvlinks_up", "")
    if errors:
        ask.silent.pop("nvlink_errors", None)
    return {
        "nvlinks_up": sum(states) if states else None,
        "nvlinks_down": len(states) - sum(states) if states else None,
        "nvlink_errors": sum(errors) if errors else None,
    }


def _link_errors(ask: Ask, handle: Any, links: int) -> Iterable[int]:
    for link in range(links):
        for kind in LINK_ERRORS:
            count = ask.number("nvlink_errors", partial(_link_error, ask.nvml, handle, link, kind))
            if count is not None:
                yield count


def _link_error(nvml: Any, handle: Any, link: int, kind: str) -> Any:
    return nvml.nvmlDeviceGetNvLinkErrorCounter(handle, link, getattr(nvml, kind))


def _fields(ask: Ask, handle: Any) -> dict[str, int | None]:
    """Values that the driver gives by field number only."""
    wanted = {
        "temperature_memory_celsius": FIELD_MEMORY_TEMP,
        "nvlink_tx_kib": (FIELD_NVLINK_TX, ALL_LINKS),
        "nvlink_rx_kib": (FIELD_NVLINK_RX, ALL_LINKS),
    }
    given = ask.any("fields", lambda: ask.nvml.nvmlDeviceGetFieldValues(handle, [*wanted.values()]))
    said = ask.silent.pop("fields", None)
    if given is not None:
        return {name: ask.number(name, partial(_field, ask.nvml, given, k)) for k, name in enumerate(wanted)}
    if said == NOT_SUPPORTED:
        ask.silent |= dict.fromkeys(wanted, said)
        return dict.fromkeys(wanted)
    # One field that the driver does not know may cost the whole list: each is asked for alone then.
    return {name: ask.number(name, partial(_alone, ask.nvml, handle, field)) for name, field in wanted.items()}


def _alone(nvml: Any, handle: Any, field: Any) -> Any:
    return _field(nvml, nvml.nvmlDeviceGetFieldValues(handle, [field]), 0)


def _field(nvml: Any, given: Any, k: int) -> Any:
    """One value of several, each with a status and a type of its own."""
    one = given[k]
    if one.nvmlReturn != 0:
        raise nvml.NVMLError(one.nvmlReturn)
    unsigned = (nvml.NVML_VALUE_TYPE_UNSIGNED_INT, nvml.NVML_VALUE_TYPE_SIGNED_INT)
    return one.value.uiVal if one.valueType in unsigned else one.value.ullVal

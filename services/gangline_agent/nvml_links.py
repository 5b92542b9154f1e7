"""How the cards of a machine reach each other: the matrix of `nvidia-smi topo`, NVLink islands, and what links carry.

Asked once per set of cards. The library comes in as an argument.
"""

from collections import Counter
from functools import partial
from typing import Any

from msgspec import Struct

from gangline_agent.nvml_ask import Ask
from gangline_agent.nvml_details import link_states

ANCESTORS = {0: "PIX", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
"""What lies between two cards, by the numbers of nvmlGpuTopologyLevel_t: one switch, several, a host bridge, ..."""
SWITCH = 2
"""The other end of a link is an NVSwitch, behind which all cards lie."""
FIELD_LINK_MB_S = 90
LINK_MIB_S = {1: 18_750, 2: 23_437, 3: 23_437, 4: 23_437, 5: 47_683}
"""One NVLink, one direction, by its version: 20, 25, 25, 25 and 50 GB/s (NVIDIA's data sheets of P100 to B200)."""
PCIE_LANE_MIB_S = {1: 238, 2: 477, 3: 939, 4: 1_878, 5: 3_756, 6: 7_211}
"""One lane, one direction, by generation: 2.5 to 64 GT/s less the line code."""
PCI_KEY = ("domain", "bus", "device")


class Linked(Struct, frozen=True):
    """How one card reaches the others."""

    paths: dict[str, str] = {}
    """UUID of the other -> words of `nvidia-smi topo`: NV4, PIX, PXB, PHB, NODE, SYS; what is not known is left out."""
    nvlink_mib_s: int = 0
    """What one of its NVLinks carries in one direction; 0 where it has none."""
    pcie_mib_s: int = 0
    """What its PCIe slot carries in one direction at its best; 0 where that is not known."""


def look(nvml: Any, handles: dict[str, Any]) -> dict[str, Linked]:
    """All cards, by UUID."""
    ask = Ask(nvml)
    addresses = {uuid: _address(ask, handle) for uuid, handle in handles.items()}
    by_address = {address: uuid for uuid, address in addresses.items() if address is not None}
    found = {}
    for uuid, handle in handles.items():
        links, through_switch = _links(ask, handle, by_address)
        paths = {
            other: path
            for other, there in handles.items()
            if other != uuid and (path := _path(ask, handle, there, links[other] + through_switch))
        }
        speed = _nvlink_mib_s(ask, handle) if any(path.startswith("NV") for path in paths.values()) else 0
        found[uuid] = Linked(paths=paths, nvlink_mib_s=speed, pcie_mib_s=_pcie_mib_s(ask, handle))
    return found


def islands(linked: dict[str, Linked]) -> dict[str, int]:
    """Cards that reach each other over NVLink, directly or through others, share a number; one alone has its own."""
    names = list(linked)
    island = {uuid: k for k, uuid in enumerate(names)}
    for first in names:
        for second, path in linked[first].paths.items():
            if path.startswith("NV"):
                keep, drop = sorted((island[first], island[second]))
                island = {uuid: keep if number == drop else number for uuid, number in island.items()}
    numbers = {number: k for k, number in enumerate(sorted(set(island.values())))}
    return {uuid: numbers[number] for uuid, number in island.items()}


def _links(ask: Ask, handle: Any, by_address: dict[tuple[int, ...], str]) -> tuple[Counter[str], int]:
    """Links that are up: how many go to each other card, and how many to a switch."""
    nvml, direct, switched = ask.nvml, Counter[str](), 0
    states = ask.any("links", lambda: link_states(ask, handle)) or []
    for link in (k for k, up in enumerate(states) if up):
        kind = ask.any("remote", partial(_remote_kind, nvml, handle, link))
        remote = None if kind == SWITCH else ask.any("remote", partial(_remote, nvml, handle, link))
        if kind == SWITCH:
            switched += 1
        elif remote in by_address:
            direct[by_address[remote]] += 1
    return direct, switched


def _remote_kind(nvml: Any, handle: Any, link: int) -> Any:
    return nvml.nvmlDeviceGetNvLinkRemoteDeviceType(handle, link)


def _remote(nvml: Any, handle: Any, link: int) -> tuple[int, ...]:
    return _key(nvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, link))


def _path(ask: Ask, handle: Any, other: Any, links: int) -> str:
    """The way between two cards; empty when the driver does not tell."""
    nvml = ask.nvml
    if links:
        return f"NV{links}"
    status = ask.any("p2p", lambda: nvml.nvmlDeviceGetP2PStatus(handle, other, nvml.NVML_P2P_CAPS_INDEX_NVLINK))
    if status is not None and status == getattr(nvml, "NVML_P2P_STATUS_OK", 0):
        # Inside a virtual machine it is not told where links end, only that they are there.
        states = ask.any("links", lambda: link_states(ask, handle)) or []
        return f"NV{max(1, sum(states))}"
    level = ask.any("ancestor", lambda: nvml.nvmlDeviceGetTopologyCommonAncestor(handle, other))
    return ANCESTORS.get(level, "") if isinstance(level, int) else ""


def _nvlink_mib_s(ask: Ask, handle: Any) -> int:
    nvml = ask.nvml
    version = ask.number("version", lambda: nvml.nvmlDeviceGetNvLinkVersion(handle, 0))
    told = ask.any("speed", lambda: nvml.nvmlDeviceGetFieldValues(handle, [FIELD_LINK_MB_S])[0])
    mb_s = ask.number("speed", lambda: told.value.uiVal if told.nvmlReturn == 0 else None)
    if mb_s:
        return mb_s * 1_000_000 >> 20
    return LINK_MIB_S.get(version or 0, 0)


def _pcie_mib_s(ask: Ask, handle: Any) -> int:
    generation = ask.number("gen", lambda: ask.nvml.nvmlDeviceGetMaxPcieLinkGeneration(handle))
    width = ask.number("width", lambda: ask.nvml.nvmlDeviceGetMaxPcieLinkWidth(handle))
    return PCIE_LANE_MIB_S.get(generation or 0, 0) * (width or 0)


def _address(ask: Ask, handle: Any) -> tuple[int, ...] | None:
    found: tuple[int, ...] | None = ask.any("pci", lambda: _key(ask.nvml.nvmlDeviceGetPciInfo(handle)))
    return found


def _key(pci: Any) -> tuple[int, ...]:
    return tuple(int(getattr(pci, part)) for part in PCI_KEY)

"""Which PCIe switch a card hangs on, and which network cards there are, by the kernel's device tree.

A card below a switch has at least three bridges above it: the root port, and the switch's upstream and downstream port.
All cards of one switch share the upstream port, so its address, as a number, names the switch.
"""

import re
from pathlib import Path

from gangline_core.cluster import Nic

NETWORK_CARDS = Path("/sys/class/infiniband")
PCI_DEVICES = Path("/sys/bus/pci/devices")
UNKNOWN = -1
_ADDRESS = re.compile(r"([0-9a-f]{4,8}):([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])", re.ASCII)


def switch_of(device: Path) -> int:
    """The switch above a device of the kernel's tree; UNKNOWN when it hangs on none."""
    try:
        steps = [found for part in device.resolve(strict=True).parts if (found := _ADDRESS.fullmatch(part))]
    except OSError:
        return UNKNOWN
    # The device itself, the downstream port, the upstream port, the root port.
    if len(steps) < 4:
        return UNKNOWN
    domain, bus, slot, function = (int(part, 16) for part in steps[-3].groups())
    return domain << 16 | bus << 8 | slot << 3 | function


def socket_of(device: Path) -> int:
    """The CPU socket (NUMA node) of a device; 0 when the kernel does not tell."""
    try:
        return max(0, int((device / "numa_node").read_text()))
    except (OSError, ValueError):
        return 0


def network_cards(folder: Path = NETWORK_CARDS) -> tuple[Nic, ...]:
    """The machine's network cards that speak RDMA, by name."""
    try:
        names = sorted(entry.name for entry in folder.iterdir())
    except OSError:
        return ()
    devices = [(name, folder / name / "device") for name in names]
    return tuple(Nic(name=name, socket=socket_of(device), switch=switch_of(device)) for name, device in devices)

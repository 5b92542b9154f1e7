"""What an agent asks of a vendor's GPUs, whoever made them; and which makers' GPUs this version can read.

Of makers without a source only the presence of their cards is told, as labels of the node: nothing is scheduled on
cards that nobody can watch.
"""

from collections import Counter
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from gangline_core.cluster import Gpu
from gangline_wire.samples import GpuSample

NAMELESS = "unknown"
"""The model of a card that does not say what it is."""


class Reading(Struct, frozen=True):
    """All GPUs at one moment. `gpus` and `samples` run in parallel; the index of each is the driver's."""

    gpus: tuple[Gpu, ...] = ()
    samples: tuple[GpuSample, ...] = ()
    problem: str = ""
    """Why nothing can be said about GPUs, although there is a driver."""
    has_driver: bool = True
    paths: dict[str, dict[str, str]] = {}
    """UUID -> UUID of another -> how the one reaches the other, in the words of `nvidia-smi topo`."""
    xids: dict[str, tuple[int, ...]] = {}
    """UUID -> events since the last reading; of cards that are not shown any more, too."""
    versions: dict[str, str] = {}
    """Of drivers, by name; told as labels of the node."""


class Source(Protocol):
    """One maker's GPUs. Whoever adds a maker writes one of these and names it in READ.

    What the driver does not give stays None and is named in `absent`; UUIDs are the maker's and stay over restarts.
    """

    @property
    def vendor(self) -> str:
        """As in VENDORS."""

    def read(self) -> Reading:
        """All cards now; may block for some milliseconds; never raises for what hardware or driver do."""


VENDORS = {"0x10de": "nvidia", "0x1002": "amd", "0x8086": "intel", "0x1da3": "habana", "0x19e5": "huawei"}
"""PCI vendor id -> maker of accelerators."""
READ = frozenset({"nvidia"})
"""Makers whose cards this version reads, and so schedules on."""
CLASSES = ("0x0302", "0x0380", "0x1200")
"""PCI classes of accelerators: 3D controllers, other display controllers, processing accelerators. Plain VGA, which
servers have for their console, is none."""


def unread(folder: Path) -> dict[str, int]:
    """Cards of makers that this version cannot read, by maker, off the kernel's list of PCI devices."""
    found: Counter[str] = Counter()
    try:
        devices = sorted(folder.iterdir())
    except OSError:
        return {}
    for device in devices:
        try:
            maker = VENDORS.get((device / "vendor").read_text().strip(), "")
            kind = (device / "class").read_text().strip()
        except OSError:
            continue
        if maker and maker not in READ and kind.startswith(CLASSES):
            found[maker] += 1
    return dict(found)

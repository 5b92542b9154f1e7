"""How a card is cut: its slices, where they lie, what each uses. The library comes in as an argument.

Where a slice lies is told to privileged users only. For others the slices are laid out as the table of the card allows,
in the order of their numbers: which slots a slice has matters only so that no two share one.
"""

import re
from typing import Any

from msgspec import Struct

from gangline_agent.nvml_ask import Ask
from gangline_agent.nvml_gpm import Gpm
from gangline_core.cluster import MigSlice
from gangline_core.room.mig import GEOMETRIES, Geometry
from gangline_wire.samples import SliceSample

Processes = tuple[tuple[int, int, int | None], ...]

SLICES_MAX = 16
MIB_PER_GB = 1024
_NAME = re.compile(r"\bMIG (?:(\d+)c\.)?(\d+g\.\d+gb)", re.ASCII)
"""How a slice is called at the end of its device's name; "1c." is one of several devices inside one slice."""


class Cut(Struct, frozen=True):
    """A card that is cut."""

    geometry: str = ""
    """A name in gangline_core.room.mig.GEOMETRIES; empty when no card of the table is cut so."""
    slices: tuple[MigSlice, ...] = ()
    samples: tuple[SliceSample, ...] = ()
    silent: str = ""
    """What the driver said instead of listing all slices; empty when it did."""

    @property
    def problem(self) -> str:
        """Why nothing can be put on the card; empty when something can."""
        if self.silent:
            return f"MIG is on and its slices are not told: {self.silent}"
        if not self.slices:
            return "MIG is on and no slice is cut"
        profiles = ", ".join(sorted({one.profile for one in self.slices}))
        return "" if self.geometry else f"no card is known with slices {profiles}"


class Found(Struct, frozen=True):
    """One device inside a slice."""

    instance: int
    profile: str
    is_whole: bool
    """It is all of its slice."""
    sample: SliceSample
    placement: tuple[int, int] | None
    """First slot and number of slots, where the driver tells."""


def is_cut(ask: Ask, handle: Any, *, was_cut: bool) -> bool:
    """True when the card is cut, or asked to be: the slices are then all it has. Who is silent is as it `was_cut`."""
    mode = ask.number("mig", lambda: ask.nvml.nvmlDeviceGetMigMode(handle)[0])
    ask.silent.pop("mig", None)
    return was_cut if mode is None else mode == 1


def look(ask: Ask, gpm: Gpm, handle: Any, *, card: tuple[str, int], processes: Processes) -> Cut:
    """The slices of a card that is cut; `card` is its model and its memory in MiB."""
    most = ask.number("slices", lambda: ask.nvml.nvmlDeviceGetMaxMigDeviceCount(handle))
    devices = [_one(ask, gpm, handle, k, processes) for k in range(min(most or 0, SLICES_MAX))]
    silent = ask.silent.pop("slices", "")
    found = sorted((one for one in devices if one is not None), key=lambda one: (one.instance, one.sample.uuid))
    wholes: dict[int, list[Found]] = {}
    for one in found:
        wholes.setdefault(one.instance, []).append(one)
    firsts = [inside[0] for inside in wholes.values()]
    geometry = geometry_of(*card, [one.profile for one in firsts])
    spots = _spots(firsts, GEOMETRIES.get(geometry))
    slices = [
        MigSlice(
            profile=inside[0].profile,
            start=spot[0],
            size=spot[1],
            uuid=inside[0].sample.uuid if len(inside) == 1 and inside[0].is_whole else "",
        )
        for inside, spot in zip(wholes.values(), spots, strict=False)
    ]
    return Cut(
        geometry=geometry if spots else "",
        slices=tuple(sorted(slices, key=lambda one: (one.start, one.profile))),
        samples=tuple(one.sample for one in found),
        silent=silent,
    )


def _one(ask: Ask, gpm: Gpm, card: Any, number: int, processes: Processes) -> Found | None:
    """The device of this number; None when there is none."""
    nvml, own = ask.nvml, Ask(ask.nvml)
    handle = own.any("slice", lambda: nvml.nvmlDeviceGetMigDeviceHandleByIndex(card, number))
    uuid = None if handle is None else own.text("uuid", lambda: nvml.nvmlDeviceGetUUID(handle))
    instance = None if uuid is None else own.number("instance", lambda: nvml.nvmlDeviceGetGpuInstanceId(handle))
    name = None if instance is None else own.text("name", lambda: nvml.nvmlDeviceGetName(handle))
    matched = None if name is None else _NAME.search(name)
    if handle is not None and name is None:
        ask.silent["slices"] = next(iter(own.silent.values()), "")
    if uuid is None or instance is None or matched is None:
        return None
    measured = gpm.of_slice(uuid, card, instance, own)
    memory = own.any("memory", lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
    sample = SliceSample(
        uuid=uuid,
        profile=matched.group(2),
        instance=instance,
        memory_used_mib=_mib(own.part("used", memory, lambda: memory.used, of="memory")),
        memory_total_mib=_mib(own.part("total", memory, lambda: memory.total, of="memory")),
        sm_active_percent=measured["sm_active_percent"],
        tensor_active_percent=measured["tensor_active_percent"],
        processes=tuple((pid, mib) for pid, mib, inside in processes if inside == instance),
    )
    return Found(
        instance=instance,
        profile=matched.group(2),
        is_whole=matched.group(1) is None,
        sample=sample,
        placement=_placement(own, card, instance),
    )


def _mib(value: int | None) -> int | None:
    return None if value is None else value >> 20


def _placement(ask: Ask, card: Any, instance: int) -> tuple[int, int] | None:
    nvml = ask.nvml
    info = ask.any("placement", lambda: nvml.nvmlGpuInstanceGetInfo(nvml.nvmlDeviceGetGpuInstanceById(card, instance)))
    start = ask.number("start", lambda: info.placement.start)
    size = ask.number("size", lambda: info.placement.size)
    return None if start is None or not size else (start, size)


def geometry_of(model: str, memory_mib: int, profiles: list[str]) -> str:
    """The card of the table that can be cut into these and is most like this one; empty when there is none."""
    able = [name for name, known in GEOMETRIES.items() if all(profile in known.profiles for profile in profiles)]
    family, size = re.split(r"[^a-z0-9]", model.lower())[0], round(memory_mib / MIB_PER_GB)

    def unlike(name: str) -> tuple[int, bool, str]:
        kind, _, gigabytes = name.partition("-")
        return abs(int(gigabytes.removesuffix("gb")) - size), kind != family, name

    return min(able, key=unlike, default="") if profiles else ""


def _spots(found: list[Found], geometry: Geometry | None) -> list[tuple[int, int]]:
    """First slot and size of each; empty when they cannot lie beside each other on such a card."""
    if geometry is None:
        return [one.placement or (0, 0) for one in found]
    told = [one.placement[0] for one in found if one.placement is not None]
    if len(told) == len(found) and all(
        s in geometry.profiles[f.profile].starts for s, f in zip(told, found, strict=True)
    ):
        return [(start, geometry.profiles[one.profile].size) for start, one in zip(told, found, strict=True)]
    return _laid_out([one.profile for one in found], geometry, 0) or []


def _laid_out(profiles: list[str], geometry: Geometry, taken: int) -> list[tuple[int, int]] | None:
    """The first way, in the order of slots, to lay out all of them beside each other."""
    if not profiles:
        return []
    profile = geometry.profiles[profiles[0]]
    for start, mask in zip(profile.starts, profile.masks, strict=True):
        rest = None if mask & taken else _laid_out(profiles[1:], geometry, taken | mask)
        if rest is not None:
            return [(start, profile.size), *rest]
    return None

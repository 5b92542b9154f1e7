"""Which MIG slices a card can be cut into, and where each may begin.

A card has memory slots (eight on A100 and its successors, four on A30) and a slice covers some that lie side by side,
beginning only at certain ones. What is taken is a bit mask of slots, lowest slot first, so that taking is addition and
giving back is subtraction. The table is NVIDIA's Multi-Instance GPU User Guide, chapter "Supported MIG Profiles", with
the start slots that `nvidia-smi mig -lgipp` lists. Compute slices never run out before memory slots do in these tables,
so memory slots alone decide what fits.

A card that its administrator has cut already, as its driver tells, has its slices and no others: its geometry is named
"a100-40gb:3g.20gb@4,1g.5gb@0", where each slice begins at the one place at which it lies.
"""

import re
from functools import cache

from msgspec import Struct

from gangline_core.spec import GPU_MILLI

COMPUTE_SLICES = 7
_PROFILE = re.compile(r"([1-9])g\.([1-9][0-9]{0,2})gb", re.ASCII)


class Profile(Struct, frozen=True):
    """One kind of slice of one geometry."""

    size: int
    """Memory slots it covers."""
    starts: tuple[int, ...]
    """Slots at which it may begin."""

    @property
    def masks(self) -> tuple[int, ...]:
        """The slots covered at each start."""
        return tuple(((1 << self.size) - 1) << start for start in self.starts)


class Geometry(Struct, frozen=True):
    """How one kind of card can be cut."""

    slots: int
    profiles: dict[str, Profile]

    @property
    def all_free(self) -> int:
        """The mask of an empty card: all slots that some slice may have."""
        free = 0
        for profile in self.profiles.values():
            for mask in profile.masks:
                free |= mask
        return free


def _seven(one: int, two: int, half: int, whole: int) -> Geometry:
    """A card of seven compute slices and eight memory slots whose slices have this many GB."""
    return Geometry(
        slots=8,
        profiles={
            f"1g.{one}gb": Profile(size=1, starts=(0, 1, 2, 3, 4, 5, 6)),
            f"1g.{two}gb": Profile(size=2, starts=(0, 2, 4, 6)),
            f"2g.{two}gb": Profile(size=2, starts=(0, 2, 4)),
            f"3g.{half}gb": Profile(size=4, starts=(0, 4)),
            f"4g.{half}gb": Profile(size=4, starts=(0,)),
            f"7g.{whole}gb": Profile(size=8, starts=(0,)),
        },
    )


GEOMETRIES: dict[str, Geometry] = {
    "a30-24gb": Geometry(
        slots=4,
        profiles={
            "1g.6gb": Profile(size=1, starts=(0, 1, 2, 3)),
            "2g.12gb": Profile(size=2, starts=(0, 2)),
            "4g.24gb": Profile(size=4, starts=(0,)),
        },
    ),
    "a100-40gb": _seven(5, 10, 20, 40),
    "a100-80gb": _seven(10, 20, 40, 80),
    "h100-80gb": _seven(10, 20, 40, 80),
    "h100-96gb": _seven(12, 24, 48, 96),
    "h200-141gb": _seven(18, 35, 71, 141),
}
"""By the name a node gives as the `mig` of a GPU."""


@cache
def geometry(name: str) -> Geometry:
    """The geometry of this name, or of a card that is cut into fixed slices."""
    kind, _, fixed = name.partition(":")
    known = GEOMETRIES[kind]
    if kind == name:
        return known
    starts: dict[str, tuple[int, ...]] = {}
    for one in fixed.split(",") if fixed else ():
        profile, _, start = one.partition("@")
        starts[profile] = (*starts.get(profile, ()), int(start))
    profiles = {
        profile: Profile(size=known.profiles[profile].size, starts=found)
        for profile, found in sorted(starts.items())
        if profile in known.profiles
    }
    return Geometry(slots=known.slots, profiles=profiles)


def is_profile(name: str) -> bool:
    """True for a name such as "3g.20gb" that some card knows."""
    return any(name in geometry.profiles for geometry in GEOMETRIES.values())


def profiles() -> list[str]:
    """Every profile of every card."""
    return sorted({name for geometry in GEOMETRIES.values() for name in geometry.profiles})


def compute_milli(profile: str) -> int:
    """Thousandths of a card that a slice counts as: its compute slices of the card's."""
    matched = _PROFILE.fullmatch(profile)
    if matched is None:
        return 0
    # An A30 has four compute slices; all others have seven.
    of = 4 if profile in GEOMETRIES["a30-24gb"].profiles else COMPUTE_SLICES
    return min(GPU_MILLI, int(matched.group(1)) * GPU_MILLI // of)


def slice_memory_mib(name: str, profile: str, card_mib: int) -> int:
    """MiB of a slice on a card of this size."""
    known = geometry(name)
    return card_mib * known.profiles[profile].size // known.slots


def best_start(name: str, profile: str, free: int) -> int | None:
    """The slots to take of those free: where most other slices still fit afterwards, the lowest of equals."""
    return _table(name, profile)[0][free]


def how_many(name: str, profile: str, free: int) -> int:
    """How many such slices the free slots hold."""
    return _table(name, profile)[1][free]


_TABLES: dict[tuple[str, str], tuple[list[int | None], list[int]]] = {}


def _table(name: str, profile: str) -> tuple[list[int | None], list[int]]:
    """Per mask of free slots: the slots to take next, and how many such slices fit."""
    found = _TABLES.get((name, profile))
    if found is None:
        known = geometry(name)
        masks = known.profiles[profile].masks
        starts: list[int | None] = []
        counts: list[int] = []
        for free in range(1 << known.slots):
            able = [mask for mask in masks if free & mask == mask]
            starts.append(max(able, key=lambda mask: (_left(known, free - mask), -mask)) if able else None)
            # Starts of one profile never overlap in the tables, so each that is free counts.
            counts.append(len(able))
        found = _TABLES[name, profile] = (starts, counts)
    return found


def _left(known: Geometry, free: int) -> int:
    """How much may still be cut from these slots: every profile at every start, weighed by its size."""
    return sum(
        profile.size * profile.size
        for profile in known.profiles.values()
        for mask in profile.masks
        if free & mask == mask
    )

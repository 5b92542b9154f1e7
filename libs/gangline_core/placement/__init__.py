"""Where a gang goes: one file per placer and one table. A placer finds seats for a whole gang and changes nothing."""

from collections.abc import Callable

from gangline_core.capacity import Room
from gangline_core.placement.best_fit import best_fit
from gangline_core.placement.gang import Gang, Seats
from gangline_core.placement.spread import spread
from gangline_core.placement.topology import topology

Placer = Callable[[Room, Gang], Seats | None]

PLACERS: dict[str, Placer] = {
    "best_fit": best_fit,
    "spread": spread,
    "topology": topology,
}
"""Name of a policy's placement -> how it finds seats."""

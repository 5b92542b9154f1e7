"""Where a gang goes: one file per placer and one table. A placer finds seats for a whole gang and changes nothing."""

from collections.abc import Callable
from functools import partial
from typing import Protocol

from gangline_core.beside import Beside
from gangline_core.capacity import Room
from gangline_core.placement.best_fit import best_fit
from gangline_core.placement.default import default
from gangline_core.placement.fgd import fgd
from gangline_core.placement.first_fit import first_fit
from gangline_core.placement.gang import Gang, Seats
from gangline_core.placement.spread import spread
from gangline_core.placement.topology import topology

Placer = Callable[[Room, Gang], Seats | None]


class Informed(Protocol):
    """A placer that looks at more than what is free."""

    def __call__(self, room: Room, gang: Gang, beside: Beside = ...) -> Seats | None:
        """Seats for a whole gang, or None."""


INFORMED: dict[str, Informed] = {
    "default": default,
    "fgd": fgd,
}
"""Those that look at more than what is free."""
PLACERS: dict[str, Placer] = {
    "best_fit": best_fit,
    "default": default,
    "fgd": fgd,
    "first_fit": first_fit,
    "spread": spread,
    "topology": topology,
}
"""Name of a policy's placement -> how it finds seats."""


def placer_for(name: str, beside: Beside) -> Placer:
    """The placer of this name, told what there is beside what is free."""
    informed = INFORMED.get(name)
    return PLACERS[name] if informed is None else partial(informed, beside=beside)

"""Where a gang goes: one file per placer and one table. A placer finds seats for a whole gang and changes nothing."""

from collections.abc import Callable
from functools import partial
from typing import Protocol

from gangline_core.placement.allocatable import allocatable_least, allocatable_most
from gangline_core.placement.balance import balanced_all, balanced_network
from gangline_core.placement.best_fit import best_fit
from gangline_core.placement.bisection import bisection, postponed
from gangline_core.placement.buddy import buddy
from gangline_core.placement.card_links import gpu_manager
from gangline_core.placement.cells import allowed_room, cells
from gangline_core.placement.default import default
from gangline_core.placement.fgd import fgd
from gangline_core.placement.first_fit import first_fit
from gangline_core.placement.flow import min_cost_flow
from gangline_core.placement.gang import Gang, Seats
from gangline_core.placement.gpu_admission import gpu_admission
from gangline_core.placement.gpushare import gpushare
from gangline_core.placement.numa import numa_balanced, numa_fewest, numa_least, numa_most
from gangline_core.placement.remote import WithServers
from gangline_core.placement.spread import spread
from gangline_core.placement.topology import topology
from gangline_core.placement.trimaran import load_risk, target_load
from gangline_core.placement.yoda import metric_score
from gangline_core.reasons import Reason
from gangline_core.room.beside import Beside
from gangline_core.room.capacity import Room

Placer = Callable[[Room, Gang], Seats | None]


class Informed(Protocol):
    """A placer that looks at more than what is free."""

    def __call__(self, room: Room, gang: Gang, beside: Beside = ...) -> Seats | None:
        """Seats for a whole gang, or None."""


INFORMED: dict[str, Informed] = {
    "bisection": bisection,
    "cells": cells,
    "default": default,
    "fgd": fgd,
    "load_risk": load_risk,
    "target_load": target_load,
}
"""Those that look at more than what is free."""
PLACERS: dict[str, Placer] = {
    "allocatable_least": allocatable_least,
    "allocatable_most": allocatable_most,
    "balanced_all": balanced_all,
    "balanced_network": balanced_network,
    "best_fit": best_fit,
    "bisection": bisection,
    "buddy": buddy,
    "cells": cells,
    "default": default,
    "fgd": fgd,
    "first_fit": first_fit,
    "gpu_admission": gpu_admission,
    "gpu_manager": gpu_manager,
    "gpushare": gpushare,
    "load_risk": load_risk,
    "metric_score": metric_score,
    "min_cost_flow": min_cost_flow,
    "numa_balanced": numa_balanced,
    "numa_fewest": numa_fewest,
    "numa_least": numa_least,
    "numa_most": numa_most,
    "spread": spread,
    "target_load": target_load,
    "topology": topology,
}
"""Name of a policy's placement -> how it finds seats."""


def placer_for(name: str, beside: Beside) -> Placer:
    """The placer of this name, told what there is beside what is free."""
    informed = INFORMED.get(name)
    return WithServers(PLACERS[name] if informed is None else partial(informed, beside=beside), beside)


def view_for(name: str, beside: Beside) -> Callable[[Room, Gang], Room]:
    """What of a room a gang may use with this placer, to say why it finds no seats."""
    return partial(allowed_room, beside=beside) if name == "cells" else lambda room, gang: room


def doubt_for(name: str, beside: Beside) -> Callable[[Room, Gang], Reason | None]:
    """Why this placer leaves a gang waiting that has room; None where it does not."""
    return partial(postponed, beside=beside) if name == "bisection" else lambda room, gang: None

"""Where those stand that checkpoint and had their share: behind all who had less and are no less important.

Each of them moves back as far as the last of those, whatever the ordering, and keeps its order among its like. What
that costs it of its score is a term of its own.
"""

import numpy as np
from numpy.typing import NDArray

from gangline_core.ordering.scored import Scored, bands
from gangline_core.scoring import columns as c
from gangline_core.scoring.columns import Ints
from gangline_core.scoring.waiting import Waiting

TERM = "had_share"


def let_pass(waiting: Waiting, moved: NDArray[np.bool_], place: Ints) -> Ints:
    """The places, lower ones first, of which those that are `moved` stand behind all whom they let pass.

    Those that starve stand before all in any case.
    """
    priority = waiting.field(c.PRIORITY) + bands(waiting).astype(np.int64)
    behind = place.copy()
    for rank in np.unique(priority[moved]).tolist():
        others = ~(moved | waiting.starving) & (priority >= rank)
        if others.any():
            own = moved & (priority == rank)
            behind[own] = np.maximum(place[own], place[others].max())
    return behind


def with_term(waiting: Waiting, moved: NDArray[np.bool_], scored: Scored) -> Scored:
    """The scores with what letting others pass costs those that are `moved`."""
    scores = scored.totals(len(waiting))
    cost = np.minimum(0, -let_pass(waiting, moved, -scores) - scores)
    return Scored(names=(*scored.names, TERM), columns=[*scored.columns, cost], sequence=scored.sequence)

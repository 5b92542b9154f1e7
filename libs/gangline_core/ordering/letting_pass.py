"""Where those stand that checkpoint and had their share: behind all in lower queues that are no less important.

Each of them moves back as far as the last of those, whatever the ordering, and keeps its order among its like (see
`scoring.yield_queue`). What that costs it of its score is a term of its own.
"""

import numpy as np
from numpy.typing import NDArray

from gangline_core.ordering.scored import Scored, bands
from gangline_core.scoring import columns as c
from gangline_core.scoring.columns import Ints
from gangline_core.scoring.waiting import Waiting

TERM = "lets_pass"


def let_pass(waiting: Waiting, moved: NDArray[np.bool_], place: Ints) -> Ints:
    """The places, lower ones first, of which those that are `moved` stand behind all whom they let pass.

    Those that starve stand before all in any case.
    """
    priority = waiting.field(c.PRIORITY) + bands(waiting).astype(np.int64)
    behind, queue, rows = place.copy(), waiting.yield_queue, np.flatnonzero(moved)
    for step, rank in np.unique(np.stack((queue[rows], priority[rows])), axis=1).T.tolist():
        others = (queue < step) & (priority >= rank) & ~waiting.starving
        if others.any():
            own = rows[(queue[rows] == step) & (priority[rows] == rank)]
            behind[own] = np.maximum(place[own], behind[others].max())
    return behind


def with_term(waiting: Waiting, moved: NDArray[np.bool_], scored: Scored) -> Scored:
    """The scores with what letting others pass costs those that are `moved`."""
    scores = scored.totals(len(waiting))
    cost = np.minimum(0, -let_pass(waiting, moved, -scores) - scores)
    return Scored(names=(*scored.names, TERM), columns=[*scored.columns, cost], sequence=scored.sequence)

"""First in, first out: whoever has been ready longest goes first."""

import numpy as np

from gangline_core.ordering.scored import Scored
from gangline_core.scoring.waiting import Waiting


def fifo(waiting: Waiting, first: int) -> Scored:
    """The score is the wait in seconds."""
    return Scored(names=("waited_s",), columns=[np.maximum(waiting.now - waiting.since, 0) * 1000])

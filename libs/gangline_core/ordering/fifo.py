"""First in, first out: whoever has been ready longest goes first."""

import numpy as np

from gangline_core.ageing import waiting_since_ms
from gangline_core.job import Job
from gangline_core.ordering.scored import Scored
from gangline_core.state import PoolState, State


def fifo(state: State, pool: PoolState, jobs: list[Job], now: int) -> Scored:
    """The score is the wait in seconds."""
    waited_ms = np.maximum(now - waiting_since_ms(state, jobs), 0)
    return Scored(names=("waited_s",), columns=[waited_ms * 1000])

"""The Gittins index: whoever is most likely to end soon for the service it will take goes first (Tiresias, 4.2).

rank(a) = sup over D of P(S - a <= D | S > a) / E[min(S - a, D) | S > a], where a is the service a job has attained and
S is distributed as the service of the pool's recently ended jobs. The length of the job itself need not be known.
"""

from bisect import bisect_right

import numpy as np

from gangline_core.ordering.scored import Scored, in_levels
from gangline_core.scoring import columns as c
from gangline_core.scoring.attained import GPU_SECOND
from gangline_core.scoring.waiting import Waiting

HOUR_S = 3_600


def gittins(waiting: Waiting, first: int) -> Scored:
    """The score is the queue level plus the index per GPU-hour; 0 for a job beyond all that ended before it."""
    services = sorted(waiting.pool.services)
    attained = waiting.field(c.ATTAINED)
    values, which = np.unique(attained, return_inverse=True)
    indexes = np.array([index(services, a) * GPU_SECOND * HOUR_S for a in values.tolist()], dtype=np.float64)
    return in_levels(waiting, "gittins", indexes[which] if len(waiting) else np.zeros(0))


def index(services: list[int], attained: int) -> float:
    """The index of a job of this much service among ended jobs of these, ascending; 0 when all had less."""
    left = services[bisect_right(services, attained) :]
    best, done = 0.0, 0
    for k, service in enumerate(left):
        # With D up to this one, it and all shorter ones end; all longer ones cost D.
        span = service - attained
        cost = done + span * (len(left) - k)
        done += span
        best = max(best, (k + 1) / cost)
    return best

"""How long will a waiting job run? The rolling estimate of QSSF: earlier jobs like it, the recent ones weighing more.

Helios (SC 2021) blends this with a learnt model; the rolling part alone recovers nearly all of the gain of knowing run
times on a production trace, needs no training, and replays exactly, so it is what is used here.
"""

import numpy as np

from gangline_core import columns as c
from gangline_core.history import recall
from gangline_core.job import Job
from gangline_core.waiting import Column, Waiting

SAMPLES_LEAST = 3
"""Fewer earlier jobs of a class say nothing; then a wider class is asked."""
FADE = 0.9
"""Each older run time weighs so many times the next younger one."""


def predicted_seconds(waiting: Waiting) -> Column:
    """Expected run time per job: by history, else the user's estimate, else the time limit, else the pool's usual."""
    history = waiting.state.kept.history

    def known(job: Job) -> float:
        found = recall(history, job.spec, least=SAMPLES_LEAST)
        own = found if found and found is not history.get(job.spec.pool) else ()
        return rolling_ms(own) / 1000 if own else -1.0

    by_kind = waiting.per(c.KIND, known) if len(waiting) else np.zeros(0)
    usual = rolling_ms(history.get(waiting.pool.pool.name, ())) / 1000
    estimate, limit = waiting.field(c.ESTIMATE_S), waiting.field(c.LIMIT_S)
    said = np.where(estimate > 0, estimate, np.where(limit > 0, limit, usual))
    found = np.where(by_kind >= 0, by_kind, said)
    return np.where(limit > 0, np.minimum(found, limit), found)


def rolling_ms(samples: tuple[int, ...]) -> float:
    """The mean of run times, oldest first, in which older ones fade; 0 of none."""
    if not samples:
        return 0.0
    total = weights = 0.0
    for sample in samples:
        total = total * FADE + sample
        weights = weights * FADE + 1.0
    return total / weights

"""Finish-time fairness: whoever will end latest, compared with a cluster of its own, goes first (Themis, NSDI 2020).

rho = (time since submission + predicted rest) / (predicted time alone on 1/N of the pool), N being the jobs that run or
wait. The auction of the paper shares GPUs among elastic bidders; gangs take all or nothing, so here the worst rho goes
first, which is the order in which the paper offers.
"""

import numpy as np

from gangline_core import columns as c
from gangline_core.attained import service_milli
from gangline_core.ordering.fair_share import UNKNOWN_RUN_S
from gangline_core.ordering.scored import Scored, in_levels
from gangline_core.predict import predicted_seconds
from gangline_core.shares import capacity_of
from gangline_core.waiting import Column, Waiting


def finish_time(waiting: Waiting, first: int) -> Scored:
    """The score is the queue level plus rho."""
    return in_levels(waiting, "rho", rho(waiting))


def rho(waiting: Waiting) -> Column:
    """Per job the predicted time in this pool over that alone on its part of it."""
    if not len(waiting):
        return np.zeros(0)
    name = waiting.pool.pool.name
    jobs = len(waiting) + len(waiting.state.live.get(name, {}))
    part = max(1, capacity_of(waiting.state, name).get("gpu_milli", 0)) / jobs
    run_s = predicted_seconds(waiting)
    run_s[run_s <= 0] = UNKNOWN_RUN_S
    rate = np.maximum(1, waiting.per(c.ASK, lambda job: service_milli(job.spec)))
    ran_s = waiting.field(c.ATTAINED) / rate / 1000
    passed_s = (waiting.now - waiting.field(c.SUBMITTED)) / 1000
    alone_s = run_s * np.maximum(1.0, waiting.field(c.GPU_MILLI) / part)
    return (passed_s + np.maximum(run_s - ran_s, 0)) / alone_s

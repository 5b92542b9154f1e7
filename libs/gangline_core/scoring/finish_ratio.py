"""How late will a job be, compared with a part of the pool of its own? The rho of Themis (NSDI 2020)."""

import numpy as np

from gangline_core.foresight.predict import UNKNOWN_RUN_S, predicted_seconds
from gangline_core.limits.shares import capacity_of
from gangline_core.scoring import columns as c
from gangline_core.scoring.attained import service_milli
from gangline_core.scoring.waiting import Column, Waiting


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


def remaining_seconds(waiting: Waiting) -> Column:
    """Per job what is left of its predicted run time after the service it has had."""
    rate = np.maximum(1, waiting.per(c.ASK, lambda job: service_milli(job.spec)))
    return np.maximum(predicted_seconds(waiting) - waiting.field(c.ATTAINED) / rate / 1000, 0)

"""Least attained service in two dimensions, GPUs times time: Tiresias (NSDI 2019), section 4.

The policy's thresholds make queues; a job sinks as its service grows, inside a queue the oldest goes first, and a job
that waited `promote_after` times as long as it ran is back in the first queue. Run times need not be known.
"""

import numpy as np
from msgspec.structs import replace

from gangline_core.ordering.scored import Scored, in_levels
from gangline_core.scoring import columns as c
from gangline_core.scoring.attained import GPU_SECOND, service_milli
from gangline_core.scoring.waiting import Column, Waiting


def least_attained(waiting: Waiting, first: int) -> Scored:
    """The score is the queue level, less the number of the service queue."""
    scored = in_levels(waiting, "service_queue", -service_queues(waiting))
    if not waiting.policy.returned_last:
        return scored
    places = np.lexsort((waiting.ids, waiting.field(c.QUEUED), -scored.totals(len(waiting))))
    return replace(scored, sequence=places)


def service_queues(waiting: Waiting) -> Column:
    """The number of each job's service queue, 0 for the least service."""
    policy, service = waiting.policy, waiting.field(c.ATTAINED)
    bounds = np.array(sorted(policy.service_thresholds), dtype=np.int64) * GPU_SECOND
    queues = np.searchsorted(bounds, service, side="right")
    if policy.promote_after > 0 and len(waiting):
        rate = np.maximum(1, waiting.per(c.ASK, lambda job: service_milli(job.spec)).astype(np.int64))
        waited = waiting.now - waiting.field(c.QUEUED)
        queues[(service > 0) & (waited >= policy.promote_after * (service // rate))] = 0
    return queues.astype(np.float64)

"""Least attained service in two dimensions, GPUs times time: Tiresias (NSDI 2019), section 4.

The policy's thresholds make queues; a job sinks as its service grows, inside a queue the oldest goes first, and a job
that waited `promote_after` times as long as it ran is back in the first queue. Run times need not be known.
"""

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from gangline_core.ordering.scored import Scored, in_levels
from gangline_core.scoring import columns as c
from gangline_core.scoring.attained import GPU_SECOND, service_milli
from gangline_core.scoring.columns import Ints
from gangline_core.scoring.waiting import Column, Waiting

STOPPING_MS = 60_000
"""Who had less than so long in its queue was not served in it: it takes a while until somebody who sank has stopped."""


def least_attained(waiting: Waiting, first: int) -> Scored:
    """The score is the queue level, less the number of the service queue."""
    scored = in_levels(waiting, "service_queue", -service_queues(waiting))
    if not (waiting.policy.returned_last or waiting.policy.sinks_last):
        return scored
    inside = _by_entry(waiting) if waiting.policy.sinks_last else (waiting.field(c.QUEUED),)
    places = np.lexsort((waiting.ids, *inside, -scored.totals(len(waiting))))
    return replace(scored, sequence=places)


def service_queues(waiting: Waiting) -> Column:
    """The number of each job's service queue, 0 for the least service."""
    queues = np.searchsorted(_bounds(waiting), waiting.field(c.ATTAINED), side="right")
    queues[_promoted(waiting)] = 0
    return queues.astype(np.float64)


def _by_entry(waiting: Waiting) -> tuple[Ints, Ints]:
    """What sorts the jobs of a queue, the weightier last: those that it served, the last stopped first; then others."""
    queued, service = waiting.field(c.QUEUED), waiting.field(c.ATTAINED)
    begins = np.append(0, _bounds(waiting))[np.searchsorted(_bounds(waiting), service, side="right")]
    is_new = (service - begins) // _rates(waiting) < STOPPING_MS
    is_new[_promoted(waiting)] = True
    return np.where(is_new, queued, -queued), is_new.astype(np.int64)


def _bounds(waiting: Waiting) -> Ints:
    return np.array(sorted(waiting.policy.service_thresholds), dtype=np.int64) * GPU_SECOND


def _rates(waiting: Waiting) -> Ints:
    """What a millisecond of each job counts as service."""
    return np.maximum(1, waiting.per(c.ASK, lambda job: service_milli(job.spec)).astype(np.int64))


def _promoted(waiting: Waiting) -> NDArray[np.bool_]:
    """Who has waited so long, compared with what it ran, that it is back in the first queue."""
    policy, service = waiting.policy, waiting.field(c.ATTAINED)
    if policy.promote_after <= 0 or not len(waiting):
        return np.zeros(len(waiting), dtype=np.bool_)
    waited = waiting.now - waiting.field(c.QUEUED)
    return (service > 0) & (waited >= policy.promote_after * (service // _rates(waiting)))

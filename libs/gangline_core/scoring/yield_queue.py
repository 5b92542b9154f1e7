"""In which queue is a job that checkpoints, so that others that do, and are in lower ones, go before it?

Such a job goes on where it stopped, so nothing but a restart is lost when it makes way. Until it has had
`yield_after_gpu_s` of service, its share, it is in queue 0 and stands with everybody, whatever it says of itself. From
then on its queue tells how many shares it is taken to need still: 0 for less than one, then one more with each
doubling. It stands behind all in lower queues that are no less important, and those of them that checkpoint as well may
take its room (see `making_room.yielding`), until it has waited for so long in all as the policy asks of it: then nobody
takes its room that way any more, and it goes before everything younger.

What a job needs still is what it said (its estimate) less what it had. Where it said nothing, or runs on beyond that,
it is as much as it had: of run times such as jobs have, the rest that is to be expected grows with what was had. As
that is a guess, such a job moves by six queues at once. In no case is it more than its time limit leaves of its run;
one that waits has all of it before it.

Source: the queues of Gu et al., "Tiresias", NSDI 2019, here among jobs that say that they checkpoint and under any
ordering. What ends a wait is not Tiresias' promotion (so many times as long as it ran), but a wait that is told before.
"""

from typing import TypeVar

import numpy as np

from gangline_core.cluster import Policy
from gangline_core.scoring.attained import GPU_SECOND, service_milli
from gangline_core.scoring.columns import Ints
from gangline_core.spec import JobSpec

BY_YIELD = "yield"
"""The rule of evictions by which a job that had its share makes way."""
Queue = TypeVar("Queue", int, Ints)
GUESSED = 6
"""Queues by which a job moves at once of which only what it had tells what it needs."""


def has_yielding(policy: Policy) -> bool:
    """True where jobs that checkpoint make way for each other; leases, slices and service queues see to that alone."""
    return policy.yield_after_gpu_s > 0 and not (
        policy.ordering == "least_attained" or policy.lease_s or policy.time_slice_s or not policy.preemption
    )


def share(policy: Policy) -> int:
    """The service after which a job makes way, in GPU thousandths times ms."""
    return policy.yield_after_gpu_s * GPU_SECOND


def has_had_share(spec: JobSpec, service: int, policy: Policy) -> bool:
    """True when a job checkpoints and had so much service, in GPU thousandths times ms, that its queue counts."""
    return spec.checkpoints and service >= share(policy) and has_yielding(policy)


def yield_queue(spec: JobSpec, service: int, policy: Policy, *, ran_ms: int = 0) -> int:
    """The queue of a job that had so much service, in GPU thousandths times ms; all in lower ones go before it.

    Its present run lasts for `ran_ms`; 0 of one that waits.
    """
    if not has_had_share(spec, service, policy):
        return 0
    rate = service_milli(spec)
    told = 1000 * spec.estimate_s * rate - service
    queue = (told // share(policy)).bit_length() if told > 0 else _coarse((service // share(policy)).bit_length())
    if not spec.time_limit_s:
        return queue
    left_ms = max(0, 1000 * spec.time_limit_s - ran_ms)
    return min(queue, (left_ms * rate // share(policy)).bit_length())


def yield_queues(told: Ints, limited: Ints, service: Ints, policy: Policy) -> Ints:
    """The same for jobs that checkpoint and had their share; all in GPU thousandths times ms.

    Args:
        told: what their estimates leave, 0 or less where there is none or it is over.
        limited: what their time limits allow a run, 0 where there is none.
        service: what they had.
    """
    queues = np.where(told > 0, _doublings(told, policy), _coarse(_doublings(service, policy)))
    return np.where(limited > 0, np.minimum(queues, _doublings(limited, policy)), queues)


def rises_at(spec: JobSpec, service: int, policy: Policy) -> int:
    """The service at which a job that had so much may next come into a higher queue, limits not looked at."""
    told = spec.estimate_s * 1000 * service_milli(spec)
    if service < share(policy):
        return share(policy)
    if told > service:
        return told
    return share(policy) << (_coarse((service // share(policy)).bit_length()) + GUESSED - 1)


def patience_ms(policy: Policy) -> int:
    """How long a job waits in all, at most, before those in lower queues go before it no more."""
    return max(policy.starvation_s, policy.yield_wait_s) * 1000


def _coarse(queue: Queue) -> Queue:
    return queue - (queue - 1) % GUESSED


def _doublings(amounts: Ints, policy: Policy) -> Ints:
    """How many shares an amount is, as the number of binary digits of that."""
    return np.frexp((np.maximum(amounts, 0) // share(policy)).astype(np.float64))[1].astype(np.int64)

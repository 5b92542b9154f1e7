"""Who checkpoints and has had its share of service, so that others that do, and had less, go before it?

Such a job goes on where it stopped, so nothing but a restart is lost when it makes way. Until it has had
`yield_after_gpu_s` of service it stands with everybody. From then on it stands behind all that had less and are no less
important, and those of them that checkpoint as well may take its room (see `making_room.yielding`), until it has waited
for so long in all as the policy asks of it: then nobody takes its room that way any more, and it goes before everything
younger.

Source: the two queues of Gu et al., "Tiresias", NSDI 2019, here among jobs that say that they checkpoint and under any
ordering. What ends a wait is not Tiresias' promotion (so many times as long as it ran), but a wait that is told before.
"""

from gangline_core.cluster import Policy
from gangline_core.scoring.attained import GPU_SECOND
from gangline_core.spec import JobSpec

BY_YIELD = "yield"
"""The rule of evictions by which a job that had its share makes way."""


def has_yielding(policy: Policy) -> bool:
    """True where jobs that checkpoint make way for each other; leases, slices and service queues see to that alone."""
    return policy.yield_after_gpu_s > 0 and not (
        policy.ordering == "least_attained" or policy.lease_s or policy.time_slice_s or not policy.preemption
    )


def share(policy: Policy) -> int:
    """The service after which a job makes way, in GPU thousandths times ms."""
    return policy.yield_after_gpu_s * GPU_SECOND


def has_had_share(spec: JobSpec, service: int, policy: Policy) -> bool:
    """True when a job checkpoints and had so much service, in GPU thousandths times ms, that it lets others pass."""
    return spec.checkpoints and service >= share(policy) and has_yielding(policy)


def patience_ms(policy: Policy) -> int:
    """How long a job waits in all, at most, before those that had less go before it no more."""
    return max(policy.starvation_s, policy.yield_wait_s) * 1000

"""What jobs hold that went before everything younger, since they starved: no more than a part of their pool.

Where more is asked for than there is, everybody waits for longer than `starvation_s`. Were all of them to go by age, a
busy pool would be first come, first served, whatever its ordering says. So they go first only while those that did hold
less than `starvation_percent` of the pool; from then on the ordering says who goes next, until some of them end.
"""

from typing import NamedTuple

from gangline_core.cluster import Policy
from gangline_core.ids import JobId
from gangline_core.job import Job
from gangline_core.room.layout import Layout
from gangline_core.scoring.columns import amounts_of
from gangline_core.spec import GPU_MILLI, JobSpec

ALL = 100


class Amounts(NamedTuple):
    """GPU thousandths, CPU thousandths and memory in MiB."""

    gpu_milli: int = 0
    cpu_milli: int = 0
    memory_mib: int = 0

    @classmethod
    def of(cls, spec: JobSpec) -> "Amounts":
        """What a job asks for at its start."""
        return cls(*amounts_of(spec)[:3])

    def plus(self, other: "Amounts", sign: int) -> "Amounts":
        """The sum, or with `sign` -1 the difference."""
        return Amounts(*(one + sign * two for one, two in zip(self, other, strict=True)))


NOTHING = Amounts()


class FirstByAge:
    """What they asked for at their start, pool by pool; changed by the fold only."""

    def __init__(self) -> None:
        """Nobody did."""
        self._jobs: dict[JobId, Amounts] = {}
        self._sums: dict[str, Amounts] = {}
        """By pool."""

    def put(self, job: Job) -> None:
        """A live job went first."""
        if job.id not in self._jobs:
            amounts = self._jobs[job.id] = Amounts.of(job.spec)
            self._add(job.spec.pool, amounts, 1)

    def drop(self, job: Job) -> None:
        """A job lives no more; it may have gone first or not."""
        amounts = self._jobs.pop(job.id, None)
        if amounts is not None:
            self._add(job.spec.pool, amounts, -1)

    def used(self, pool: str) -> Amounts:
        """What they hold of a pool."""
        return self._sums.get(pool, NOTHING)

    def _add(self, pool: str, amounts: Amounts, sign: int) -> None:
        self._sums[pool] = self.used(pool).plus(amounts, sign)


def goes_first_on_a_part(policy: Policy) -> bool:
    """True where jobs that starve go first on a part of the pool; not on all of it, never, or as all do anyway."""
    return policy.starvation_s > 0 and policy.starvation_percent < ALL and policy.ordering != "fifo"


def is_part_left(used: Amounts, layout: Layout, policy: Policy) -> bool:
    """True when those that went first hold less of each resource than their part of the pool."""
    if not goes_first_on_a_part(policy) or used == NOTHING:
        return True
    total: Amounts = layout.remember(("total",), lambda: _total(layout))
    return all(ALL * had < policy.starvation_percent * most for had, most in zip(used, total, strict=True) if had)


def _total(layout: Layout) -> Amounts:
    """What the machines have in all, whatever their condition."""
    nodes = layout.nodes
    return Amounts(
        GPU_MILLI * sum(len(node.gpus) for node in nodes),
        sum(node.cpu_milli for node in nodes),
        sum(node.memory_mib for node in nodes),
    )

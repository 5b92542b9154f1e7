"""Whether age counts on a part of the pool only, told a second time by our own count of who went first for it.

Nobody goes first for his age while those that did, and live, hold their part of the pool of anything they use. Machines
are counted as the most that there ever were, and whoever waited for victims had its turn before. Several schedulers of
a pool do not know whom the others start.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from dollhouse.yields import Policies
from gangline_core import facts as f
from gangline_core.cluster import Node, Policy
from gangline_core.fold import Message
from gangline_core.ids import JobId, NodeId
from gangline_core.job import LIVE, Job
from gangline_core.spec import JobSpec
from gangline_core.state import State

GPU = 1_000

Amounts = tuple[int, int, int]
"""GPU and CPU thousandths, and memory in MiB."""


class Went(NamedTuple):
    """Who went first, with which attempt, and what for."""

    pool: str
    attempt: int
    asked: Amounts


class ByAge:
    """Looks on at one run, message by message."""

    def __init__(self) -> None:
        """Nobody went first."""
        self.met = 0
        """How often somebody did."""
        self._went: dict[JobId, Went] = {}
        self._most: dict[str, Amounts] = {}
        """Per pool all that its machines ever had."""
        self._policies = Policies()

    def faults(self, state: State, message: Message, claims: Mapping[JobId, object]) -> Iterator[str]:
        """What this message broke; `state` is what it is now, `claims` who waited for victims before it."""
        self._policies.note(state, message)
        self._count(state.kept.nodes)
        for fact in message.facts:
            if isinstance(fact, f.RoundDecided | f.ShareDecided):
                seen = message.seq - 1 if message.seen < 0 else message.seen
                yield from self._decided(state, fact, self._policies.read_at(fact.pool, seen), claims)
        for name, went in list(self._went.items()):
            job = state.kept.jobs.get(name)
            if job is None or job.state not in LIVE or job.attempt != went.attempt:
                del self._went[name]

    def _decided(
        self, state: State, decided: f.RoundDecided | f.ShareDecided, policy: Policy, claims: Mapping[JobId, object]
    ) -> Iterator[str]:
        for placement in decided.placements:
            job = state.kept.jobs.get(placement.job)
            if not placement.first_by_age or job is None:
                continue
            self.met += 1
            held = self._held(decided.pool)
            if policy.schedulers == 1 and placement.job not in claims:
                yield from self._beyond(decided.pool, job, held, policy)
            if job.attempt == placement.attempt:
                self._went[job.id] = Went(decided.pool, placement.attempt, _asked(job.spec))

    def _beyond(self, pool: str, job: Job, held: Amounts, policy: Policy) -> Iterator[str]:
        for had, most in zip(held, self._most.get(pool, (0, 0, 0)), strict=True):
            if had and had * 100 >= most * policy.starvation_percent:
                yield f"job {job.id} goes first for its age while such jobs hold {had} of {most} in pool {pool}"

    def _held(self, pool: str) -> Amounts:
        gpus, cpus, memory = 0, 0, 0
        for went in self._went.values():
            if went.pool == pool:
                gpus, cpus, memory = gpus + went.asked[0], cpus + went.asked[1], memory + went.asked[2]
        return gpus, cpus, memory

    def _count(self, nodes: Mapping[NodeId, Node]) -> None:
        total: dict[str, list[int]] = {}
        for node in nodes.values():
            own = total.setdefault(node.pool, [0, 0, 0])
            for place, amount in enumerate((GPU * len(node.gpus), node.cpu_milli, node.memory_mib)):
                own[place] += amount
        for pool, (gpus, cpus, memory) in total.items():
            most = self._most.get(pool, (0, 0, 0))
            self._most[pool] = max(most[0], gpus), max(most[1], cpus), max(most[2], memory)


def _asked(spec: JobSpec) -> Amounts:
    gpus = sum(role.count * role.resources.gpu_milli for role in spec.roles)
    cpus = sum(role.count * role.resources.cpu_milli for role in spec.roles)
    return gpus, cpus, sum(role.count * role.resources.memory_mib for role in spec.roles)

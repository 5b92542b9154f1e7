"""What the known jobs of each pool ask for, kind by kind: who looks for typical tasks need not look at every job."""

from gangline_core.job import Job
from gangline_core.room.mix import Typical, typical_of


class Asked:
    """Counts tasks over all jobs that the fold remembers, ended ones included."""

    def __init__(self) -> None:
        """Nobody has asked for anything."""
        self._pools: dict[str, dict[Typical, int]] = {}

    def enter(self, job: Job) -> None:
        """A job became known."""
        self._count(job, 1)

    def put(self, known: Job | None, job: Job) -> None:
        """A job is new, or what was known of it changed."""
        if known is not None and known.spec is job.spec:
            return
        if known is not None:
            self.leave(known)
        self.enter(job)

    def leave(self, job: Job) -> None:
        """A job is forgotten."""
        self._count(job, -1)

    def of(self, pool: str) -> dict[Typical, int]:
        """How many tasks of each kind the pool's jobs ask for."""
        return self._pools.get(pool, {})

    def _count(self, job: Job, sign: int) -> None:
        counts = self._pools.setdefault(job.spec.pool, {})
        for role in job.spec.roles:
            kind = typical_of(role.resources)
            if kind is None or not role.count:
                continue
            number = counts.get(kind, 0) + sign * role.count
            if number:
                counts[kind] = number
            else:
                del counts[kind]

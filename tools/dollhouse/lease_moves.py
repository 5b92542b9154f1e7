"""Moves at the end of a lease: who leaves its room for nothing, and who is let go for a job that never comes?

A job that was taken for another GPU model stops where it is and starts there in a later round, and whoever was not
taken and is in its way stops for it. Nothing is claimed meanwhile, since all of them come and go at once. So O5 says of
them: they go when a new lease is given and at no other time; the mover was taken for a model that it is not on, and
those that go for it are on that model; and before the next lease is given it has started again.
"""

from collections.abc import Iterator

from msgspec import Struct

from gangline_core import facts as f
from gangline_core.cluster import Policy
from gangline_core.fold import Message
from gangline_core.ids import JobId
from gangline_core.job import JobState
from gangline_core.state import State


class Move(Struct, frozen=True):
    """One mover: from which attempt, and when it was let go."""

    pool: str
    attempt: int
    seq: int


class LeaseMoves:
    """The moves of one run."""

    def __init__(self) -> None:
        """Nobody moves."""
        self._given: dict[str, int] = {}
        """Per pool the round in which the present lease was given."""
        self._moving: dict[JobId, Move] = {}

    def opened(self, state: State, message: Message, disturbed_seq: int) -> Iterator[str]:
        """A new lease: who moved in the last one has a place by now, unless something came in between."""
        for fact in message.facts:
            if not isinstance(fact, f.RoundOpened) or not fact.leases:
                continue
            self._given[fact.pool] = fact.round
            for job_id, move in [entry for entry in self._moving.items() if entry[1].pool == fact.pool]:
                del self._moving[job_id]
                job = state.kept.jobs.get(job_id)
                if job is None or job.attempt > move.attempt or job.state in _GONE or disturbed_seq > move.seq:
                    continue
                yield f"job {job_id} left its room for another one and found none there"

    def moves(self, state: State, decided: f.RoundDecided, eviction: f.Eviction, policy: Policy) -> Iterator[str]:
        """Somebody goes at the end of a lease without a claim for its room, by the policy that the decision read."""
        if policy.sharing:
            yield from self._parts(state, decided, eviction)
            return
        mover = state.kept.jobs.get(eviction.beneficiary)
        moving = {one.job for one in decided.evictions}
        if self._given.get(decided.pool) != decided.round:
            yield f"job {eviction.job} goes in the middle of a lease"
        if mover is None or eviction.beneficiary not in moving:
            yield f"job {eviction.job} goes for job {eviction.beneficiary}, which neither moves nor claims that room"
            return
        wanted = {one.model for one in state.kept.pools[decided.pool].leases if one.job == mover.id}
        held = _models(state, eviction.job)
        if eviction.job == mover.id:
            self._moving[mover.id] = Move(decided.pool, mover.attempt, state.kept.seq)
            if not wanted - held:
                yield f"job {mover.id} leaves a model for which it was taken"
        elif not held & wanted:
            yield f"job {eviction.job} goes for job {mover.id}, which was not taken for its model"

    def _parts(self, state: State, decided: f.RoundDecided, eviction: f.Eviction) -> Iterator[str]:
        """Somebody goes from a company: for one to whom room was lent, and not only to come back to the same ones."""
        pool = state.kept.pools[decided.pool]
        lent = {lease.job for lease in pool.leases}
        if self._given.get(decided.pool) != decided.round:
            yield f"job {eviction.job} goes in the middle of a lease"
        if eviction.beneficiary not in lent:
            yield f"job {eviction.job} goes for job {eviction.beneficiary}, to which no room was lent"
        job = state.kept.jobs.get(eviction.job)
        if job is not None and job.id in lent:
            self._moving[job.id] = Move(decided.pool, job.attempt, state.kept.seq)


_GONE = (
    JobState.SUCCEEDED,
    JobState.FAILED,
    JobState.CANCELLED,
    JobState.TIMED_OUT,
    JobState.LOST,
    JobState.HELD,
    JobState.SUSPENDED,
)
"""Who is here will not start."""


def _models(state: State, job_id: JobId) -> set[str]:
    job = state.kept.jobs.get(job_id)
    return set() if job is None else {task.gpu_model.lower() for task in state.tasks_of(job) if task.gpus}

"""Who was kept from its work for long is left to work: nobody of higher rank takes its room for as long again.

Said a second time, from what is seen: how long a job waited, and how long it ran in runs that evictions cut off. Who
yields goes on where it stopped, so that run was not in vain. Waits are counted up to when a round was opened, so that
no more is asked of anybody than was promised. And the end of a lease cuts off nobody who begins anew before it has
worked as long as in all its runs that were cut off.
"""

from collections.abc import Iterator, Mapping

from msgspec import Struct

from gangline_core import facts as f
from gangline_core.fold import Message
from gangline_core.ids import JobId
from gangline_core.job import Job, JobState
from gangline_core.making_room.losses import BY_PRIORITY, BY_SERVICE
from gangline_core.scoring.yield_queue import BY_YIELD
from gangline_core.sharing.regroup import BY_LEASE
from gangline_core.spec import ServiceClass
from gangline_core.state import State
from gangline_core.step import Step

BY_RANK = (BY_PRIORITY, BY_SERVICE)


class Known(Struct):
    """What is remembered of one job."""

    waits_since_ms: int = -1
    """Since when it waits; -1 when it does not."""
    in_vain_ms: int = 0
    """All its waits so far, and what it ran in runs that were cut off."""
    began_ms: int = 0
    """When its present run began; 0 when it has not."""
    goes_by: str = ""
    """The rule by which its present run is being cut off."""
    evictions: int = 0
    cut_off_ms: int = 0
    """What it ran in runs that evictions ended."""
    left_ms: int = 0
    """So long its present run is left to work."""


class LeftToWork:
    """Looks on at one run, message by message."""

    def __init__(self) -> None:
        """Nobody was seen yet."""
        self.met = 0
        """How often somebody was left to work."""
        self.leases_met = 0
        """How often a lease ended for one that begins anew."""
        self._known: dict[JobId, Known] = {}
        self._opened: dict[str, tuple[int, tuple[JobId, ...]]] = {}
        """Per pool when its present round was opened, and its candidates in order."""

    def faults(self, state: State, message: Message, step: Step, before: Mapping[JobId, Job]) -> Iterator[str]:
        """Who has to go though it is left to work; `before` are the jobs before the message."""
        for fact in message.facts:
            if isinstance(fact, f.RoundOpened):
                self._opened[fact.pool] = message.at, tuple(one.job for one in fact.candidates)
            elif isinstance(fact, f.RoundDecided):
                yield from self._sent_away(message, fact)
                yield from self._lease_over(state, message, fact)
        for moved in step.moves:
            job = state.kept.jobs.get(moved.job)
            if job is not None:
                self._note(state, message, job, before.get(job.id))
        for fact in message.facts:
            if isinstance(fact, f.RoundDecided):
                self._leave_to_work(state, fact)

    def _sent_away(self, message: Message, decided: f.RoundDecided) -> Iterator[str]:
        told = [(gone.job, gone.rule) for gone in decided.evictions] + [(one.job, one.rule) for one in decided.pauses]
        by_rank = [(name, rule) for name, rule in told if rule in BY_RANK]
        for name, rule in (*by_rank, *((one.job, "lowering") for one in decided.lowerings)):
            known = self._known.get(name)
            if known is None or not known.left_ms:
                continue
            if not known.began_ms or message.at < known.began_ms + known.left_ms:
                yield f"job {name} goes by {rule}, and was kept from its work for {known.left_ms} ms before this run"
        for eviction in decided.evictions:
            known = self._known.get(eviction.job)
            if known is not None:
                known.goes_by = eviction.rule

    def _lease_over(self, state: State, message: Message, decided: f.RoundDecided) -> Iterator[str]:
        for eviction in decided.evictions:
            job, known = state.kept.jobs.get(eviction.job), self._known.get(eviction.job)
            if eviction.rule != BY_LEASE or job is None or known is None or not known.began_ms or job.spec.checkpoints:
                continue
            self.leases_met += 1
            if message.at - known.began_ms < known.cut_off_ms:
                yield (
                    f"job {job.id} goes at the end of a lease after {message.at - known.began_ms} ms, begins anew, and "
                    f"was cut off after {known.cut_off_ms} ms before"
                )

    def _note(self, state: State, message: Message, job: Job, before: Job | None) -> None:
        known = self._known.setdefault(job.id, Known())
        if job.state == JobState.WAITING and known.waits_since_ms < 0:
            if known.goes_by and known.began_ms:
                known.in_vain_ms += message.at - known.began_ms if known.goes_by != BY_YIELD else 0
                known.evictions += 1
            was_cut_off = before is not None and job.preemptions > before.preemptions and known.goes_by != BY_YIELD
            if known.began_ms and was_cut_off:
                known.cut_off_ms += message.at - known.began_ms
            known.began_ms, known.goes_by, known.left_ms = 0, "", 0
            # Of whoever waits for others, or for its time, not all of that is a wait for room.
            is_free = not (job.spec.after or job.spec.not_before_ms or job.array)
            known.waits_since_ms = message.at if is_free else -1
        elif job.state != JobState.WAITING and known.waits_since_ms >= 0:
            known.in_vain_ms += message.at - known.waits_since_ms
            known.waits_since_ms = -1
        if job.started_ms and (before is None or not before.started_ms):
            known.began_ms = job.started_ms

    def _leave_to_work(self, state: State, decided: f.RoundDecided) -> None:
        pool = state.kept.pools[decided.pool]
        opened_ms, candidates = self._opened.get(decided.pool, (0, ()))
        most_ms = pool.policy.starvation_s * 1000
        if not most_ms or not pool.policy.preemption:
            return
        waits = {name: rank for name in candidates if (rank := _rank_of_waiting(state, decided.pool, name)) is not None}
        for placement in decided.placements:
            job, known = state.kept.jobs.get(placement.job), self._known.get(placement.job)
            if job is None or known is None or job.state != JobState.STARTING or job.attempt != placement.attempt:
                continue
            in_vain_ms = known.in_vain_ms - (state.kept.at - opened_ms)
            may_be = job.spec.preemptible and job.spec.service_class != ServiceClass.OPPORTUNISTIC
            if not may_be or in_vain_ms < most_ms or placement.job not in candidates:
                continue
            mine = pool.pool.levels.get(job.spec.level, 0) + job.spec.priority
            behind = candidates[candidates.index(placement.job) + 1 :]
            if known.evictions or any(waits.get(name, mine) > mine for name in behind):
                self.met += 1
                known.left_ms = in_vain_ms


def _rank_of_waiting(state: State, pool: str, name: JobId) -> int | None:
    """The priority of a job that waits, with its level's; None where it does not wait."""
    job = state.kept.jobs.get(name)
    if job is None or job.state != JobState.WAITING:
        return None
    return state.kept.pools[pool].pool.levels.get(job.spec.level, 0) + job.spec.priority

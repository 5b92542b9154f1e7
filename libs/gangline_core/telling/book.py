"""One pool's waiting jobs at one moment: their order, why each waits, and when each may start."""

from functools import cached_property

from gangline_core.facts import Candidate
from gangline_core.foresight.expected import Expectation
from gangline_core.ids import JobId
from gangline_core.job import Job
from gangline_core.limits.gates import GATE_CODES, Gate, judge
from gangline_core.ordering import order
from gangline_core.placement.why_not import ROOM_CODES
from gangline_core.reasons import LIMIT_CODES, Reason, ReasonCode
from gangline_core.state import State
from gangline_core.telling.limit_now import LimitsNow
from gangline_core.telling.starts import Starts

_SAID_OF_ALL = ROOM_CODES | {ReasonCode.RESERVED, ReasonCode.LIMIT_KEPT, ReasonCode.BEHIND_HEAD}
"""What holds for every job of a shape that stands behind the one that was told it."""


class Book:
    """One pool's waiting jobs in order, with reasons and expected starts, at one moment.

    It is good for as long as the state stays at the sequence it was made at.
    """

    def __init__(self, state: State, pool: str, now: int) -> None:
        """Look at the pool as the state has it now."""
        self.state = state
        self.pool = state.kept.pools[pool]
        self.now = now
        verdicts = judge(state, pool, now)
        self.kept_out = {**verdicts.kept_out, **verdicts.given_up}
        ordered = order(state, self.pool, [state.kept.jobs[job] for job in sorted(state.waiting.get(pool, {}))], now)
        self.terms = ordered.terms
        self.candidates: list[Candidate] = ordered.candidates
        self.position = {candidate.job: k for k, candidate in enumerate(self.candidates, start=1)}
        self._limits_now = LimitsNow(state, pool, now)
        self._jobs = [state.kept.jobs[candidate.job] for candidate in self.candidates]
        self._starts = Starts(state, self.pool, self._jobs, self.kept_out, now)

    def reason(self, job: Job) -> Reason:
        """Why a waiting job waits, as things are now."""
        gate = self.kept_out.get(job.id)
        if gate is not None and _is_there_again(gate):
            return Reason(ReasonCode.NOT_YET_CONSIDERED, {"position": self.position[job.id]})
        if gate is not None:
            return self._limits_now.counted(job, [gate])[0]
        if job.reason is not None and self._is_of_a_round(job.reason):
            return self._limits_now.reason(job, job.reason)
        if job.reason is not None and job.reason.code not in GATE_CODES:
            return job.reason
        return self._spoken(job) or Reason(ReasonCode.NOT_YET_CONSIDERED, {"position": self.position[job.id]})

    def _spoken(self, job: Job) -> Reason | None:
        """What those in view were told that are like a job out of view, where no round is due: it fares no better."""
        if not self._is_settled:
            return None
        alike, asking = self._told_alike
        return alike.get(self.state.shapes.get(job.id, -1)) or asking.get(self.state.asks.get(job.id, -1))

    @cached_property
    def _told_alike(self) -> tuple[dict[int, Reason], dict[int, Reason]]:
        """By shape what the last of those in view was told, and by ask what room it lacked."""
        alike: dict[int, Reason] = {}
        asking: dict[int, Reason] = {}
        for name in (candidate.job for candidate in self.candidates):
            reason = self.state.kept.jobs[name].reason
            if reason is not None and reason.code in _SAID_OF_ALL:
                alike[self.state.shapes.get(name, -1)] = reason
                if reason.code in ROOM_CODES:
                    asking[self.state.asks.get(name, -1)] = reason
        return alike, asking

    @property
    def _is_settled(self) -> bool:
        """True where no round is due: whatever gives something back makes one due."""
        return self.pool.open_round is None and self.pool.opened_seq >= self.state.kept.changed_seq

    def _is_of_a_round(self, reason: Reason) -> bool:
        """A limit below which the gates saw a way, such as another model or somebody's going: rounds saw none.

        It holds for as long as no round is due, since whatever gives back below a limit makes one due.
        """
        return self._is_settled and (reason.code in LIMIT_CODES or reason.code == ReasonCode.BUDGET_SHORT)

    def also(self, job: Job) -> tuple[Reason, ...]:
        """Everything else that would keep a waiting job back if its first reason were gone."""
        first = self.reason(job)
        others = self._limits_now.counted(job, Gate(self.state, self.pool.pool.name, self.now).reasons(job))
        if job.reason is not None and job.reason.code not in GATE_CODES:
            others.append(job.reason)
        seen = {(first.code, *sorted(first.numbers.items()))}
        found = []
        for reason in others:
            key = (reason.code, *sorted(reason.numbers.items()))
            if key not in seen:
                seen.add(key)
                found.append(reason)
        return tuple(found)

    def start(self, job: Job) -> Expectation:
        """When a waiting job may start."""
        return self._starts.start(job, self.reason(job))

    def level_position(self, job: Job) -> tuple[int, int]:
        """The job's place among those of its queue level, and how many they are."""
        own = self._by_level[job.spec.level]
        return own[job.id], len(own)

    @cached_property
    def _by_level(self) -> dict[str, dict[JobId, int]]:
        places: dict[str, dict[JobId, int]] = {}
        for job in self._jobs:
            own = places.setdefault(job.spec.level, {})
            own[job.id] = len(own) + 1
        return places


def _is_there_again(reason: Reason) -> bool:
    """True for a budget that was used up and has been raised or dropped since; accounting is about to say so."""
    if reason.code != ReasonCode.BUDGET_EXHAUSTED:
        return False
    used, budget = int(reason.numbers.get("used", 0)), int(reason.numbers.get("budget", 0))
    return not 0 < budget <= used

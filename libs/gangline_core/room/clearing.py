"""May the claims of one decision be kept? Each is judged beside all that are kept already, one after the other."""

from collections.abc import Collection, Iterable

from gangline_core.facts import Claim
from gangline_core.ids import JobId, TaskId
from gangline_core.job import Job, JobState, TaskState
from gangline_core.limits.quota import JOBS, Ledger
from gangline_core.pauses.pausing import is_gone, leaving_part
from gangline_core.reasons import sentence
from gangline_core.room.holds import budget_fault, claim_fault, is_limited, kept_fault, placed_amounts, starts_again
from gangline_core.state import State, task_amounts


class Clearing:
    """Keeps the claims of one decision, while nothing but claims is entered into the state."""

    def __init__(self, state: State, evicted: Collection[JobId] = ()) -> None:
        """None is kept yet; jobs `evicted` in the same decision go whole."""
        self._state, self._evicted = state, evicted
        self._after: _AfterClaims | None = None
        """With all claims that are kept, as soon as somebody asked; None where that has to be counted anew."""

    def keep(self, claim: Claim) -> str | None:
        """Keep a claim whose job could start there with its victims gone and with all other claims settled.

        Else the fault: nobody was told to go for it yet, so nobody is.
        """
        state, is_new = self._state, claim.job not in self._state.kept.claims
        fault = self._fault(claim)
        if fault is None:
            state.put_claim(claim)
        if self._after is not None:
            if fault is None and is_new:
                self._after.clear([claim])
                self._after.seat(claim)
            else:
                self._after = None
        return fault

    def _fault(self, claim: Claim) -> str | None:
        """The same as `claim_fault`, with all that would keep the job out afterwards."""
        state = self._state
        fault = claim_fault(state, claim, self._evicted)
        job = state.job(claim.job)
        if fault is not None or job is None or starts_again(job, claim):
            return fault
        return (
            kept_fault(state, job, claim.placement)
            or self._limit_fault(job, claim)
            or budget_fault(state, job, claim.placement)
        )

    def _limit_fault(self, job: Job, claim: Claim) -> str | None:
        """The limit that would keep the job out though all for whom claims wait were gone and those had their room."""
        state = self._state
        if not is_limited(state, job):
            return None
        amounts = {**placed_amounts(state, claim.placement.tasks), JOBS: 1}
        reason = self._with_all(job, claim).fault(job, amounts)
        if reason is not None:
            # Claims that will be dropped count for nothing; mostly nobody has to know which these are.
            lasting = [one for one in self._others(job) if claim_fault(state, one) is None]
            reason = _AfterClaims(state, self._evicted, lasting, claim).ledger.fault(job, amounts)
        return sentence(reason) if reason is not None else None

    def _others(self, job: Job) -> list[Claim]:
        return [one for one in self._state.kept.claims.values() if one.job != job.id]

    def _with_all(self, job: Job, claim: Claim) -> Ledger:
        """What is used beside the job when all claims are settled, and those who go for it are gone."""
        state = self._state
        if state.kept.packs or job.id in state.kept.claims:
            # What comes back from one of a pack depends on who else goes.
            return _AfterClaims(state, self._evicted, self._others(job), claim).ledger
        if self._after is None:
            self._after = _AfterClaims(state, self._evicted, state.kept.claims.values(), claim)
        else:
            self._after.clear([claim])
        return self._after.ledger


class _AfterClaims:
    """What is used once all for whom claims wait are gone, and those that were seated have their room."""

    def __init__(self, state: State, evicted: Collection[JobId], claims: Collection[Claim], last: Claim) -> None:
        """These claims, and one more whose victims are gone while its job is not there yet."""
        self.ledger = Ledger(state)
        self._state, self._evicted = state, evicted
        self._going: set[TaskId] = set()
        self._numbers: dict[JobId, int] = {}
        """How many tasks of each job go."""
        for one in claims:
            self.seat(one)
        self.clear([*claims, last])

    def seat(self, claim: Claim) -> None:
        """The claim's job has its room."""
        amounts = {**placed_amounts(self._state, claim.placement.tasks), JOBS: 1}
        self.ledger.take(self._state.kept.jobs[claim.job], amounts)

    def clear(self, claims: Iterable[Claim]) -> None:
        """All for whom these claims wait are gone as well."""
        state, kept = self._state, self._state.kept
        fresh = {name for one in claims for name in one.victims if self._goes(name)} - self._going
        self._going |= fresh
        for task in (kept.tasks[name] for name in sorted(fresh)):
            if task.job in kept.jobs and task.state != TaskState.LOST:
                part = task if task.job in self._evicted else leaving_part(state, task, going=self._going)
                self.ledger.give(kept.jobs[task.job], task_amounts(part))
                self._count(kept.jobs[task.job])

    def _goes(self, name: TaskId) -> bool:
        """True for who still holds what the claim waits for; one that stands still does when it is evicted."""
        task = self._state.kept.tasks.get(name)
        return task is not None and (task.job in self._evicted or not is_gone(self._state, name))

    def _count(self, job: Job) -> None:
        """One more of its tasks goes; with all of them a running job less, if it ends."""
        number = self._numbers[job.id] = self._numbers.get(job.id, 0) + 1
        if job.id in self._evicted or job.state == JobState.STOPPING:
            if number == len(job.tasks):
                self.ledger.give(job, {JOBS: 1})
            elif number == len(job.tasks) + 1:
                self.ledger.take(job, {JOBS: 1})

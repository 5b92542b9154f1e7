"""Who may be considered in a round, and why the others may not: step 2 of the cycle.

Holds never reach the gates (a held job does not wait), and each job is judged alone against present usage: what jobs of
the same round take from each other is counted when they are placed. Equal asks (one shape) are judged once.

A limit keeps a job out only when the round itself could not make room below it. So a job enters although its group is
full when elastic jobs below that limit can shrink, when jobs of lower priority can be pushed away, or when it is within
its own guarantee and others borrowed from it.
"""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from gangline_core.accounting import GPU_HOUR, Spent, spent
from gangline_core.facts import KeptOut
from gangline_core.groups import ancestors
from gangline_core.ids import JobId
from gangline_core.job import Job
from gangline_core.quota import Ledger, job_amounts, minimum_sizes, user_rung
from gangline_core.reasons import Reason, ReasonCode
from gangline_core.state import State
from gangline_core.terms import NEVER, has_terms, terms_reason
from gangline_core.winnable import Winnable

_MOVING_NUMBERS = {"used"}
"""Numbers that change with every job that starts or ends; a change of them alone is not a new reason."""


class Gated(Struct, frozen=True):
    """The waiting jobs of a pool, sorted out."""

    may: list[Job]
    kept_out: list[KeptOut]
    """Only jobs whose recorded reason is another one."""
    given_up: list[KeptOut]
    """Jobs that can never run any more."""


class Verdicts(Struct, frozen=True):
    """The same, job by job and complete."""

    may: list[Job]
    kept_out: dict[JobId, Reason]
    given_up: dict[JobId, Reason]


def sort_out(state: State, pool: str, now: int) -> Gated:
    """Which waiting jobs of the pool may be placed now; the others with their reasons, equal reasons together."""
    verdicts = judge(state, pool, now)
    changed = {
        job: reason
        for job, reason in verdicts.kept_out.items()
        if not is_same_cause(state.kept.jobs[job].reason, reason)
    }
    return Gated(may=verdicts.may, kept_out=_grouped(changed), given_up=_grouped(verdicts.given_up))


def judge(state: State, pool: str, now: int) -> Verdicts:
    """Every waiting job of the pool, by id: it may enter, is kept out, or can never run any more."""
    may: list[Job] = []
    kept_out: dict[JobId, Reason] = {}
    given_up: dict[JobId, Reason] = {}
    gate = Gate(state, pool, now)
    for job_id in sorted(state.waiting.get(pool, {})):
        job = state.kept.jobs[job_id]
        reason = gate.reason(job)
        if reason is None:
            may.append(job)
        elif reason.code in NEVER:
            given_up[job_id] = reason
        else:
            kept_out[job_id] = reason
    return Verdicts(may=may, kept_out=kept_out, given_up=given_up)


class Gate:
    """One round's gates; remembers the verdict on each shape and group."""

    def __init__(self, state: State, pool: str, now: int) -> None:
        """Gates for jobs of this pool on the frozen state."""
        self._state = state
        self._now = now
        self._ledger = Ledger(state)
        self._limits: dict[int, Reason | None] = {}
        self._rooms: dict[str, dict[str, int]] = {}
        self._budgets: dict[str, Reason | None] = {}
        self._spent: Spent | None = None
        self._winnable = Winnable(state, pool, self._ledger, now)

    def reason(self, job: Job) -> Reason | None:
        """Why the job may not enter now; None when it may."""
        if has_terms(job.spec) and (reason := terms_reason(self._state, job, self._now)) is not None:
            return reason
        if self._state.kept.exhausted and (reason := self._budget_reason(job)) is not None:
            return reason
        if job.id in self._state.kept.claims:
            # Room is already being cleared for it; its victims still count, but only until they are gone.
            return None
        shape = self._state.shapes[job.id]
        if shape not in self._limits:
            self._limits[shape] = self._limit_reason(job)
        return self._limits[shape]

    def _budget_reason(self, job: Job) -> Reason | None:
        if not any(role.resources.wants_gpu for role in job.spec.roles):
            return None
        group = job.spec.group
        if group not in self._budgets:
            if self._spent is None:
                self._spent = spent(self._state, self._now)
            self._budgets[group] = budget_reason(self._state, group, self._spent)
        return self._budgets[group]

    def _limit_reason(self, job: Job) -> Reason | None:
        room = self._room(job)
        if not room:
            return None
        amounts = job_amounts(job.spec, minimum_sizes(job.spec))
        if all(amounts.get(dimension, 0) <= left for dimension, left in room.items()):
            return None
        for rung, dimension, used, needed in self._ledger.broken(job, amounts):
            freed = self._winnable.amount(job, rung.holder, dimension, amounts)
            if used + needed - freed > rung.limit[dimension]:
                return self._ledger.fault(job, amounts)
        return None

    def _room(self, job: Job) -> dict[str, int]:
        """What is left of each limited dimension on the job's way up."""
        group = job.spec.group
        found = self._rooms.get(group)
        if found is None:
            found = self._rooms[group] = self._ledger.room(self._ledger.group_rungs(group))
        own = user_rung(self._state, group=group, user=job.spec.user)
        return self._ledger.room((own, *self._ledger.group_rungs(group))) if own else found


def budget_reason(state: State, group: str, used: Spent) -> Reason | None:
    """The nearest group above whose budget is used up, as a reason; None when none is."""
    for path in ancestors(group):
        if path in state.kept.exhausted:
            known = state.kept.groups.get(path)
            numbers: dict[str, int | str] = {
                "group": path or "(all)",
                "used": used.total(path) // GPU_HOUR,
                "budget": known.budget_gpu_hours if known else 0,
            }
            return Reason(ReasonCode.BUDGET_EXHAUSTED, numbers)
    return None


def is_same_cause(recorded: Reason | None, reason: Reason) -> bool:
    """True when a reason says the same as the recorded one, apart from how much is used at the moment."""
    if recorded is None or recorded.code != reason.code:
        return False
    if recorded.numbers == reason.numbers:
        return True
    return _steady(recorded) == _steady(reason)


def _steady(reason: Reason) -> dict[str, int | str]:
    return {name: number for name, number in reason.numbers.items() if name not in _MOVING_NUMBERS}


def _grouped(reasons: Mapping[JobId, Reason]) -> list[KeptOut]:
    """Jobs that share a reason together, in order of their first job."""
    by_reason: dict[tuple[object, ...], tuple[Reason, list[JobId]]] = {}
    known: dict[int, list[JobId]] = {}
    for job, reason in reasons.items():
        # Most jobs share the very object; only others are compared by value.
        jobs = known.get(id(reason))
        if jobs is None:
            key = (reason.code, *_items(reason))
            _, jobs = by_reason.setdefault(key, (reason, []))
            known[id(reason)] = jobs
        jobs.append(job)
    return [KeptOut(reason=reason, jobs=tuple(jobs)) for reason, jobs in by_reason.values()]


def _items(reason: Reason) -> Iterable[tuple[str, int | str]]:
    return sorted(reason.numbers.items())

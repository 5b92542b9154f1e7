"""One pool's waiting jobs at one moment: their order, why each waits, and when each may start."""

from functools import cached_property

from msgspec import Struct

from gangline_core.counted import counted
from gangline_core.door.arrays import as_written, label
from gangline_core.facts import Candidate
from gangline_core.foresight.forecast import Start, idle_nodes, limit_forecast, pool_forecast
from gangline_core.foresight.outlook import middle_waits
from gangline_core.foresight.run_times import Basis, RunTimes
from gangline_core.foresight.start_scores import LEVEL_PERCENT, stated_range
from gangline_core.groups import ancestors
from gangline_core.ids import JobId
from gangline_core.job import LIVE, Job, JobState
from gangline_core.limits.budget_periods import period_end_ms
from gangline_core.limits.gates import Gate, judge
from gangline_core.ordering import order
from gangline_core.placement.why_not import ROOM_CODES
from gangline_core.reasons import LIMIT_CODES as LIMIT_CODES
from gangline_core.reasons import Reason, ReasonCode, utc
from gangline_core.reserving.closures import Closures, after_windows, window_reason
from gangline_core.state import State
from gangline_core.telling.limit_now import LimitsNow

CONFIDENCE = {Basis.LIMIT: "high", Basis.ESTIMATE: "medium", Basis.HISTORY: "low"}
"""What a start rests on -> how far to trust it."""
_RESTS_ON = {
    Basis.LIMIT: "the time limits of the jobs before it",
    Basis.ESTIMATE: "time limits and users' estimates",
    Basis.HISTORY: "how long recent jobs ran",
}
GATE_CODES = frozenset(
    {
        ReasonCode.DEPENDENCY,
        ReasonCode.NOT_BEFORE,
        ReasonCode.GROUP_LIMIT,
        ReasonCode.USER_LIMIT,
        ReasonCode.BORROW_LIMIT,
        ReasonCode.NOT_LENT,
        ReasonCode.BUDGET_SHORT,
        ReasonCode.SINGLETON,
        ReasonCode.DEADLINE,
        ReasonCode.BUDGET_EXHAUSTED,
    }
)
"""Reasons that the gates give; recorded ones are over when the gates no longer give them."""
_SAID_OF_ALL = ROOM_CODES | {ReasonCode.RESERVED, ReasonCode.LIMIT_KEPT, ReasonCode.BEHIND_HEAD}
"""What holds for every job of a shape that stands behind the one that was told it."""
_BUDGET_CODES = frozenset({ReasonCode.BUDGET_EXHAUSTED, ReasonCode.BUDGET_SHORT})
STOP_MARGIN_MS = 5_000
"""How long after its grace a stopped task may need to be seen gone."""


class Expectation(Struct, frozen=True):
    """An expected start: a range in ms with a confidence, or neither and why not."""

    note: str
    from_ms: int | None = None
    to_ms: int | None = None
    confidence: str = ""
    """"Part of such ranges that held, as "80 %"; "high", "medium" or "low" before there are enough; else empty."""


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
        self._times = RunTimes(state, pool)
        self._closures = Closures(state, now)
        self._starts: dict[JobId, Start | None] | None = None
        self._waits: dict[JobId, int | None] | None = None
        self._by_level: dict[str, list[JobId]] | None = None
        self._level_places: dict[JobId, int] = {}

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

    def level_position(self, job: Job) -> tuple[int, int]:
        """The job's place among those of its queue level, and how many they are."""
        if self._by_level is None:
            self._by_level = {}
            for other in self._in_order():
                self._by_level.setdefault(other.spec.level, []).append(other.id)
            self._level_places = {job: k for own in self._by_level.values() for k, job in enumerate(own, start=1)}
        return self._level_places[job.id], len(self._by_level[job.spec.level])

    def start(self, job: Job) -> Expectation:
        """When a waiting job may start."""
        claim = self.state.kept.claims.get(job.id)
        if claim is not None:
            return self._after_victims(job)
        reason = self.reason(job)
        code = reason.code
        plain = (
            self._renewed_budget(reason)
            or _plain_note(as_written(self.state, reason))
            or self._behind_windows(job, code)
        )
        if plain is not None:
            return Expectation(note=plain)
        if code == ReasonCode.DEPENDENCY:
            return self._after_dependency(job)
        if code == ReasonCode.NO_LABEL:
            return Expectation(note="Nobody can tell: it starts when nodes have the label.")
        if code == ReasonCode.NO_ELIGIBLE_NODE:
            return Expectation(note="Nobody can tell: it starts when a node that may take it comes back or joins.")
        foreseen = self._foreseen().get(job.id)
        reserved_ms = next((r.start_ms for r in self.pool.reservations if r.job == job.id), None)
        if code not in LIMIT_CODES and (learnt := self._learnt(job, reserved_ms)) is not None:
            return learnt
        if reserved_ms is not None:
            return self._reserved(job, reserved_ms, foreseen)
        if code in LIMIT_CODES and (dated := self._below_limits(job, foreseen)) is not None:
            return dated
        if foreseen is None:
            return Expectation(note=unknown_note(self.state, self.pool.pool.name, self._times, self.now))
        if code in ROOM_CODES and foreseen.latest_ms <= self.now:
            # The forecast knows sums only; the round looked at the nodes, and it is the one to believe.
            return Expectation(note="Nobody can tell: there is enough in sum, but not where it could be used.")
        note = f"Rests on {_RESTS_ON[foreseen.basis]}, in today's order; it may be earlier when it fits into a gap."
        if code in LIMIT_CODES:
            note = f"Not before the limit has room again; rests on {_RESTS_ON[foreseen.basis]}."
        not_before_ms = job.spec.not_before_ms
        return Expectation(
            note=note,
            from_ms=max(foreseen.soonest_ms, not_before_ms),
            to_ms=max(foreseen.latest_ms, not_before_ms),
            confidence=CONFIDENCE[Basis.HISTORY if code in LIMIT_CODES else foreseen.basis],
        )

    def _behind_windows(self, job: Job, code: ReasonCode) -> str | None:
        """When a job without a date may begin that needs nodes which windows keep from it."""
        has_date = any(reservation.job == job.id for reservation in self.pool.reservations)
        if has_date or code not in ROOM_CODES or not self._closures.needs_closed(job.spec):
            return None
        return after_windows(window_reason(self.state, job.spec, self.now))

    def _renewed_budget(self, reason: Reason) -> str | None:
        """What there is to say of a budget that begins anew by the calendar."""
        group = self.state.kept.groups.get(str(reason.numbers.get("group", "")))
        if reason.code not in _BUDGET_CODES or group is None or group.budget_period is None:
            return None
        over = utc(period_end_ms(group, self.now))
        sooner = "running jobs end early enough, or " if reason.code == ReasonCode.BUDGET_SHORT else ""
        return f"Not before {over}, when the budget of group {group.path} begins anew, unless {sooner}it is raised."

    def _learnt(self, job: Job, reserved_ms: int | None) -> Expectation | None:
        """The range that earlier forecasts of this pool bear out; None while too few have been scored."""
        if self._waits is None:
            free = [job for job in self._in_order() if not _is_shut_out(job) and job.id not in self.kept_out]
            name = self.pool.pool.name
            is_ready = stated_range(self.pool, job.spec, 0) is not None
            self._waits = (
                middle_waits(self.state, name, free, times=self._times, now=self.now) if free and is_ready else {}
            )
        wait_ms = self._waits.get(job.id)
        stated = stated_range(self.pool, job.spec, wait_ms) if wait_ms else None
        if stated is None:
            return None
        latest_ms = self.now + stated.high_ms
        if reserved_ms is not None:
            latest_ms = max(self.now, min(latest_ms, reserved_ms))
        return Expectation(
            note=f"Rests on how long jobs like those before it ran, and how {stated.scores} such forecasts turned out.",
            from_ms=min(self.now + stated.low_ms, latest_ms),
            to_ms=latest_ms,
            confidence=f"{LEVEL_PERCENT} %",
        )

    def _in_order(self) -> list[Job]:
        return [self.state.kept.jobs[candidate.job] for candidate in self.candidates]

    def _foreseen(self) -> dict[JobId, Start | None]:
        if self._starts is None:
            jobs = self._in_order()
            codes = {job: reason.code for job, reason in self.kept_out.items()}
            free = [job for job in jobs if codes.get(job.id) in (None, ReasonCode.NOT_BEFORE) and not _is_shut_out(job)]
            limited = [job for job in jobs if codes.get(job.id) in LIMIT_CODES]
            self._starts = {
                **pool_forecast(self.state, self.pool.pool.name, free, times=self._times, now=self.now),
                **limit_forecast(self.state, limited, times=self._times, now=self.now),
            }
        return self._starts

    def _reserved(self, job: Job, reserved_ms: int, foreseen: Start | None) -> Expectation:
        from_ms = min(foreseen.soonest_ms, reserved_ms) if foreseen else self.now
        live = [self.state.kept.jobs[job] for job in self.state.live.get(self.pool.pool.name, {})]
        is_bounded = all(job.spec.time_limit_s or job.state == JobState.STOPPING for job in live)
        note = f"Room is reserved for it from {utc(reserved_ms)}; it starts earlier when jobs end earlier."
        if self._may_be_passed(job):
            note += " Groups that are owed a guarantee go before it, as far as that goes."
            is_bounded = False
        spans = [self._times.remaining(job, self.now) for job in live]
        known_ms = max((self.now + span.latest_ms for span in spans if span is not None), default=self.now)
        endless = spans.count(None) if reserved_ms > known_ms else 0
        if endless:
            note += f" The date is a guess: nobody knows when {counted(endless, 'running job')} will end."
        return Expectation(
            note=note,
            from_ms=max(self.now, from_ms),
            to_ms=max(self.now, reserved_ms),
            confidence="low" if endless else "high" if is_bounded else "medium",
        )

    def _may_be_passed(self, job: Job) -> bool:
        """True when another group's guarantee may take what is reserved for it: then no date is sure."""
        own = ancestors(job.spec.group)
        return any(group.guaranteed and path not in own for path, group in self.state.kept.groups.items())

    def _below_limits(self, job: Job, foreseen: Start | None) -> Expectation | None:
        """From when on what comes back below its limits is kept for it; None when that is no longer known."""
        dated_ms = next((date.start_ms for date in self.pool.limit_dates if date.job == job.id), 0)
        if dated_ms <= self.now:
            return None
        return Expectation(
            note=f"What comes back below its limits is kept for it until {utc(dated_ms)}; then it needs room, too.",
            from_ms=max(self.now, min(foreseen.soonest_ms, dated_ms) if foreseen else self.now),
            to_ms=dated_ms,
            confidence="medium",
        )

    def _after_victims(self, job: Job) -> Expectation:
        ends = [self.now]
        for name in self.state.kept.claims[job.id].victims:
            task = self.state.kept.tasks.get(name)
            if task is not None:
                grace_ms = self.state.kept.jobs[task.job].spec.grace_s * 1000
                ends.append((task.stop_ms or self.now) + grace_ms + STOP_MARGIN_MS)
        note = "Room is being cleared for it; the range ends with the longest grace of those who leave."
        return Expectation(note=note, from_ms=self.now, to_ms=max(ends), confidence="high")

    def _after_dependency(self, job: Job) -> Expectation:
        """As late as the last of the jobs it follows; whether there is room then, nobody says."""
        from_ms, to_ms, basis = self.now, self.now, Basis.LIMIT
        for dependency in job.spec.after:
            other = self.state.job(JobId(dependency.job))
            if other is None or other.ended_ms:
                continue
            span = self._times.remaining(other, self.now) if other.state in LIVE else None
            if span is None:
                return Expectation(
                    note=f"Nobody can tell: it waits for job {label(self.state, other.id)}, whose end is not known."
                )
            from_ms, to_ms = max(from_ms, self.now + span.soonest_ms), max(to_ms, self.now + span.latest_ms)
            basis = min(basis, span.basis)
        note = f"When the jobs it follows have ended, if there is room then; rests on {_RESTS_ON[basis]}."
        return Expectation(note=note, from_ms=from_ms, to_ms=to_ms, confidence=CONFIDENCE[Basis.HISTORY])


def unknown_note(state: State, pool: str, times: RunTimes, now: int) -> str:
    """Why no forecast says when a job of this pool may start."""
    live = [state.kept.jobs[job] for job in sorted(state.live.get(pool, {}))]
    endless = sum(times.remaining(job, now) is None for job in live)
    if endless:
        jobs = "a running job has" if endless == 1 else f"{endless} running jobs have"
        return f"Nobody can tell: {jobs} neither a time limit nor an estimate, and nothing like it has run before."
    if idle := len(idle_nodes(state, pool)):
        take, them = ("takes", "it") if idle == 1 else ("take", "them")
        nodes = f"{counted(idle, 'node')} of the pool {take} no work now"
        return f"Nobody can tell: {nodes}, and without {them} there may never be enough."
    return "Nobody can tell: what runs now does not leave enough when it ends, or a job before it may never end."


def _is_there_again(reason: Reason) -> bool:
    """True for a budget that was used up and has been raised or dropped since; accounting is about to say so."""
    if reason.code != ReasonCode.BUDGET_EXHAUSTED:
        return False
    used, budget = int(reason.numbers.get("used", 0)), int(reason.numbers.get("budget", 0))
    return not 0 < budget <= used


def _is_shut_out(job: Job) -> bool:
    """True when no node takes it now, so that it stands in nobody's way."""
    return job.reason is not None and job.reason.code in (ReasonCode.NO_ELIGIBLE_NODE, ReasonCode.NO_LABEL)


def _is_beyond(reason: Reason) -> bool:
    """True when the limit is too small for the job alone: it was lowered after the job came, or is so at this time."""
    needed, limit = reason.numbers.get("needed"), reason.numbers.get("limit")
    return isinstance(needed, int) and isinstance(limit, int) and needed > limit


def _plain_note(reason: Reason) -> str | None:
    """What there is to say of the start where no forecast says it; None where one does."""
    match reason.code:
        case ReasonCode.GROUP_LIMIT | ReasonCode.USER_LIMIT if _is_beyond(reason):
            return "Nobody can tell: it asks for more than the limit, and starts when that is larger."
        case ReasonCode.BUDGET_EXHAUSTED:
            return "Nobody can tell: it starts when the group's budget is raised."
        case ReasonCode.BUDGET_SHORT:
            return "Nobody can tell: it starts when running jobs end early enough, or the budget is raised."
        case ReasonCode.LIMIT_KEPT:
            first = reason.numbers.get("job", "?")
            return f"Nobody can tell: after job {first}, for which what comes back below a limit is kept."
        case ReasonCode.SINGLETON:
            return f"Nobody can tell: after job {reason.numbers.get('job', '?')} of the same name."
        case ReasonCode.WINDOW:
            return after_windows(reason)
        case ReasonCode.DEPENDENCY_FAILED | ReasonCode.DEADLINE:
            return "Never: the next round ends it."
        case _:
            return None

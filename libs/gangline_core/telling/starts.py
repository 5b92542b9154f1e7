"""When each waiting job of a pool may start, or why nobody can tell."""

from functools import cached_property

from gangline_core.counted import counted
from gangline_core.door.arrays import as_written, label
from gangline_core.foresight.expected import (
    CONFIDENCE,
    RESTS_ON,
    STOP_MARGIN_MS,
    Expectation,
    as_borne_out,
    as_forecast,
    unknown_note,
)
from gangline_core.foresight.forecast import Start, limit_forecast, pool_forecast
from gangline_core.foresight.outlook import middle_waits
from gangline_core.foresight.run_times import Basis, RunTimes
from gangline_core.foresight.start_scores import stated_range
from gangline_core.groups import ancestors
from gangline_core.ids import JobId
from gangline_core.job import LIVE, Job, JobState
from gangline_core.limits.budget_periods import period_end_ms
from gangline_core.placement.why_not import ROOM_CODES
from gangline_core.reasons import LIMIT_CODES, Reason, ReasonCode, utc
from gangline_core.reserving.closures import Closures, after_windows, window_reason
from gangline_core.state import PoolState, State

_BUDGET_CODES = frozenset({ReasonCode.BUDGET_EXHAUSTED, ReasonCode.BUDGET_SHORT})


class Starts:
    """Of the jobs of one pool, given in their order, at one moment; forecasts are drawn for all of them at once."""

    def __init__(self, state: State, pool: PoolState, jobs: list[Job], kept_out: dict[JobId, Reason], now: int) -> None:
        """`kept_out` are those that the gates keep out, and why; nothing is foreseen before somebody asks."""
        self.state, self.pool, self.now = state, pool, now
        self._jobs, self._kept_out = jobs, kept_out
        self._times = RunTimes(state, pool.pool.name)
        self._closures = Closures(state, now)

    def start(self, job: Job, reason: Reason) -> Expectation:
        """When the job may start, which waits for this reason now."""
        if job.id in self.state.kept.claims:
            return self._after_victims(job)
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
        foreseen = self._foreseen.get(job.id)
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
        note = f"Rests on {RESTS_ON[foreseen.basis]}, in today's order; it may be earlier when it fits into a gap."
        if code in LIMIT_CODES:
            note = f"Not before the limit has room again; rests on {RESTS_ON[foreseen.basis]}."
        basis = Basis.HISTORY if code in LIMIT_CODES else foreseen.basis
        return as_forecast(foreseen, note, basis=basis, not_before_ms=job.spec.not_before_ms)

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
        wait_ms = self._waits_ms.get(job.id)
        stated = stated_range(self.pool, job.spec, wait_ms) if wait_ms else None
        if stated is None:
            return None
        note = f"Rests on how long jobs like those before it ran, and how {stated.scores} such forecasts turned out."
        return as_borne_out(stated, note, now=self.now, latest_ms=reserved_ms)

    @cached_property
    def _waits_ms(self) -> dict[JobId, int | None]:
        """The middle of the waits of all that nothing but room keeps back."""
        free = [job for job in self._jobs if not _is_shut_out(job) and job.id not in self._kept_out]
        if not free or stated_range(self.pool, free[-1].spec, 0) is None:
            return {}
        return middle_waits(self.state, self.pool.pool.name, free, times=self._times, now=self.now)

    @cached_property
    def _foreseen(self) -> dict[JobId, Start | None]:
        codes = {job: reason.code for job, reason in self._kept_out.items()}
        may = (None, ReasonCode.NOT_BEFORE)
        free = [job for job in self._jobs if codes.get(job.id) in may and not _is_shut_out(job)]
        limited = [job for job in self._jobs if codes.get(job.id) in LIMIT_CODES]
        return {
            **pool_forecast(self.state, self.pool.pool.name, free, times=self._times, now=self.now),
            **limit_forecast(self.state, limited, times=self._times, now=self.now),
        }

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
        note = f"When the jobs it follows have ended, if there is room then; rests on {RESTS_ON[basis]}."
        return Expectation(note=note, from_ms=from_ms, to_ms=to_ms, confidence=CONFIDENCE[Basis.HISTORY])


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

"""How good were the expected starts? Every forecast that a round wrote down, scored against when the job started.

Beside each stands what an estimate from time limits alone would have said at that moment: every job runs to its limit,
as a scheduler assumes that knows nothing else.
"""

from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from gangline_core.facts import RoundOpened
from gangline_core.fold import Message, apply
from gangline_core.foresight.forecast import plan_of, simulate
from gangline_core.foresight.run_times import RunTimes
from gangline_core.foresight.start_scores import LEVEL_PERCENT, size_class
from gangline_core.ids import JobId
from gangline_core.job import JobState
from gangline_core.state import State
from gangline_lab.archive import Progress, read


class Scored(Struct, frozen=True):
    """One forecast and what happened; times in ms from when it was made."""

    job: int
    at: int
    size: str
    """Sizes by powers of two, as forecasts are told apart."""
    low_ms: int
    middle_ms: int
    high_ms: int
    """-1 when no range was stated, because too few forecasts had been scored before."""
    true_ms: int
    by_limits_ms: int
    """What time limits alone say; -1 when some job before it has none."""

    @property
    def holds(self) -> bool:
        """True when the start fell into the stated range."""
        return self.low_ms <= self.true_ms <= self.high_ms

    @property
    def error_ms(self) -> int:
        """How far off the middle was."""
        return abs(self.true_ms - self.middle_ms)


class EtaScore(Struct, frozen=True):
    """All of an archive's forecasts together."""

    forecasts: int
    """Written down, and started since."""
    stated: int
    """Of these, those with a range."""
    level_percent: int
    """Part of the ranges that should hold."""
    covered: float
    """Part of them that did."""
    too_early: float
    """Part that began before its range."""
    error_s: float
    """Median distance of the middle from the true start, of those with a range."""
    by_limits_s: float
    """The same by time limits alone; -1 when nobody gave any."""
    wait_s: float
    """Median wait after the forecast."""
    width_s: float
    """Median width of the ranges."""

    @property
    def error_ratio(self) -> float:
        """Median error over that of time limits alone; -1 without them."""
        return self.error_s / self.by_limits_s if self.by_limits_s > 0 else -1.0


def score_archive(path: Path, *, since_ms: int = 0, progress: Progress | None = None) -> tuple[Scored, ...]:
    """Every forecast of an archive made at or after a time and followed by a start, in the order of the starts."""
    return score_messages((entry.message for entry in read(path, progress=progress)), since_ms=since_ms)


def score_messages(messages: Iterable[Message], *, since_ms: int = 0) -> tuple[Scored, ...]:
    """The same of messages as they come."""
    state, open_forecasts, found = State(), dict[JobId, Scored](), list[Scored]()
    for message in messages:
        for fact in message.facts:
            if isinstance(fact, RoundOpened) and fact.foreseen and message.at >= since_ms:
                for scored in _forecasts(state, fact, message.at):
                    open_forecasts[JobId(scored.job)] = scored
        step = apply(state, message)
        for moved in step.moves:
            forecast = open_forecasts.pop(moved.job, None) if open_forecasts else None
            if forecast is not None and moved.after == JobState.STARTING:
                found.append(replace(forecast, true_ms=step.at - forecast.at))
    return tuple(found)


def summed_up(scored: Iterable[Scored]) -> EtaScore:
    """The numbers of these forecasts."""
    everything = list(scored)
    stated = [one for one in everything if one.high_ms >= 0]
    limited = [one for one in stated if one.by_limits_ms >= 0]
    return EtaScore(
        forecasts=len(everything),
        stated=len(stated),
        level_percent=LEVEL_PERCENT,
        covered=_part(one.holds for one in stated),
        too_early=_part(one.true_ms < one.low_ms for one in stated),
        error_s=_median([one.error_ms for one in stated]),
        by_limits_s=_median([abs(one.true_ms - one.by_limits_ms) for one in limited]) if limited else -1.0,
        wait_s=_median([one.true_ms for one in stated]),
        width_s=_median([one.high_ms - one.low_ms for one in stated]),
    )


def score_lines(score: EtaScore) -> list[str]:
    """The numbers as a reader wants them."""
    if not score.stated:
        return [f"{score.forecasts} forecasts have been scored; none stated a range yet."]
    lines = [
        f"Forecasts scored     {score.forecasts}, {score.stated} of them with a range",
        f"Ranges that held     {score.covered:.1%} (stated: {score.level_percent} %)",
        f"Started earlier      {score.too_early:.1%}",
        f"Median error         {score.error_s:,.0f} s, of a median wait of {score.wait_s:,.0f} s",
        f"Median width         {score.width_s:,.0f} s",
    ]
    if score.by_limits_s >= 0:
        lines.append(
            f"By time limits alone {score.by_limits_s:,.0f} s median error: ours is {score.error_ratio:.2f} of it"
        )
    return lines


def _forecasts(state: State, opened: RoundOpened, now: int) -> list[Scored]:
    """This round's forecasts, each with what time limits alone say; jobs stand in the round's order."""
    places = {candidate.job: place for place, candidate in enumerate(opened.candidates)}
    last = max(places[foreseen.job] for foreseen in opened.foreseen)
    jobs = [state.kept.jobs[candidate.job] for candidate in opened.candidates[: last + 1]]
    free, releases, asks = plan_of(
        state, opened.pool, jobs, times=RunTimes(state, opened.pool, by_limits=True), now=now
    )
    starts = simulate(free, releases, asks, now)
    found = []
    for foreseen in opened.foreseen:
        start = starts[foreseen.job]
        found.append(
            Scored(
                job=foreseen.job,
                at=now,
                size=size_class(state.kept.jobs[foreseen.job].spec),
                low_ms=foreseen.low_ms,
                middle_ms=foreseen.middle_ms,
                high_ms=foreseen.high_ms,
                true_ms=-1,
                by_limits_ms=start.latest_ms - now if start is not None else -1,
            )
        )
    return found


def _part(values: Iterable[bool]) -> float:
    found = list(values)
    return sum(found) / len(found) if found else 0.0


def _median(values: list[int]) -> float:
    """In seconds."""
    return sorted(values)[len(values) // 2] / 1000 if values else 0.0

"""What is told of a start that lies ahead: from when to when, how far to trust that, and what it rests on."""

from msgspec import Struct

from gangline_core.counted import counted
from gangline_core.foresight.forecast import Start, idle_nodes
from gangline_core.foresight.run_times import Basis, RunTimes
from gangline_core.foresight.start_scores import LEVEL_PERCENT, Range
from gangline_core.state import State

CONFIDENCE = {Basis.LIMIT: "high", Basis.ESTIMATE: "medium", Basis.HISTORY: "low"}
"""What a start rests on -> how far to trust it."""
RESTS_ON = {
    Basis.LIMIT: "the time limits of the jobs before it",
    Basis.ESTIMATE: "time limits and users' estimates",
    Basis.HISTORY: "how long recent jobs ran",
}
STOP_MARGIN_MS = 5_000
"""How long after its grace a stopped task may need to be seen gone."""


class Expectation(Struct, frozen=True):
    """An expected start: a range in ms with a confidence, or neither and why not."""

    note: str
    from_ms: int | None = None
    to_ms: int | None = None
    confidence: str = ""
    """Part of such ranges that held, as "80 %"; "high", "medium" or "low" before there are enough; else empty."""


def as_forecast(start: Start, note: str, *, basis: Basis | None = None, not_before_ms: int = 0) -> Expectation:
    """The range of a forecast, to be trusted as what it rests on, or as this `basis`."""
    return Expectation(
        note=note,
        from_ms=max(start.soonest_ms, not_before_ms),
        to_ms=max(start.latest_ms, not_before_ms),
        confidence=CONFIDENCE[start.basis if basis is None else basis],
    )


def as_borne_out(stated: Range, note: str, *, now: int, latest_ms: int | None = None) -> Expectation:
    """The range that earlier forecasts bear out, cut at a date that is known besides."""
    to_ms = now + stated.high_ms
    if latest_ms is not None:
        to_ms = max(now, min(to_ms, latest_ms))
    return Expectation(note=note, from_ms=min(now + stated.low_ms, to_ms), to_ms=to_ms, confidence=f"{LEVEL_PERCENT} %")


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

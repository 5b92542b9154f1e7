"""What would become of a job that is not submitted yet: would it start, where, when, at what cost, what is left then?

It is looked at as if it came now and alone: the same gates, the same order, the same room as in a round, on scratch
paper. Whether the door would take it is the door's to say; here it is taken to be admitted.
"""

from msgspec import Struct
from msgspec.structs import replace

from gangline_core.foresight.forecast import limit_forecast, pool_forecast
from gangline_core.foresight.outlook import middle_waits
from gangline_core.foresight.run_times import Basis, RunTimes
from gangline_core.foresight.start_scores import LEVEL_PERCENT, stated_range
from gangline_core.ids import JobId, NodeId
from gangline_core.job import Job, JobState
from gangline_core.limits.budgets import ENDLESS, worst_cost
from gangline_core.limits.gates import Gate
from gangline_core.limits.quota import Ledger, amount_of, job_amounts
from gangline_core.limits.rungs import folded
from gangline_core.making_room.claims import honour_claims
from gangline_core.ordering import order
from gangline_core.placement.gang import Gang
from gangline_core.placement.why_not import why_not
from gangline_core.reasons import Reason, ReasonCode, sentence
from gangline_core.reserving.closures import after_windows, window_reason
from gangline_core.seating import Found, find_seats, wanted_sizes
from gangline_core.spec import JobSpec
from gangline_core.state import State
from gangline_core.table import Table
from gangline_core.telling.book import CONFIDENCE, GATE_CODES, LIMIT_CODES, Expectation

NODES_NAMED_MAX = 16
"""Candidate nodes that are named."""


class Effect(Struct, frozen=True):
    """What one limit or guarantee above the job would look like with it."""

    holder: str
    """A group path, or a user's name behind a colon."""
    dimension: str
    used: int
    needed: int
    limit: int = -1
    """-1 when nothing limits it."""
    guaranteed: int = -1
    """-1 when nothing is promised."""


class Foretold(Struct, frozen=True):
    """All of it."""

    has_room: bool
    """There is room for it at this moment."""
    reason: Reason | None
    """What it would wait for; None when it would start at its turn."""
    position: int
    """Its place among those that wait, from 1."""
    waiting: int
    """How many would wait, this one included."""
    effects: tuple[Effect, ...]
    nodes: tuple[NodeId, ...]
    """Where it would go now, or else some nodes that it may go to."""
    nodes_suitable: int
    """Nodes that it may go to, whatever is free on them."""
    start: Expectation
    cost: int
    """The most that one run can cost, in price times GPU thousandths times ms; -1 when there is no bound."""


def foretell(state: State, spec: JobSpec, now: int) -> Foretold:
    """Look at a job as if it came now."""
    job = Job(id=JobId(state.kept.next_job), spec=spec, state=JobState.WAITING, submitted_ms=now, queued_ms=now)
    pool = spec.pool
    kept_out = next(Gate(state, pool, now).reasons(job), None)
    table = Table(state, pool, now)
    honour_claims(table)
    found = find_seats(table.seating, job, table.room)
    gang = table.seating.least(job).gang
    reason = kept_out
    if reason is None and not isinstance(found, Found):
        reason = found or _window(table, job, gang) or why_not(table.seating.view(table.room, gang), gang)
    ahead, position, waiting = _ahead(state, job, now)
    seats = sorted({task.node for task in found.seats.tasks}) if isinstance(found, Found) else None
    # A window closes nodes for a while only: who waits for its end may go there.
    may = replace(gang, excluded=spec.exclude_nodes).mask(table.room.layout)
    suitable = [node.id for node, fits in zip(table.room.nodes, may, strict=True) if fits]
    cost = worst_cost(spec, state.kept.prices)
    return Foretold(
        has_room=seats is not None and kept_out is None,
        reason=reason,
        position=position,
        waiting=waiting,
        effects=_effects(state, job, now),
        nodes=tuple((seats or sorted(suitable))[:NODES_NAMED_MAX]),
        nodes_suitable=len(suitable),
        start=_start(table, job, (ahead, reason)),
        cost=-1 if cost >= ENDLESS else cost,
    )


def _window(table: Table, job: Job, gang: Gang) -> Reason | None:
    """The dated capacity that is in the way, if the job would fit without it."""
    if not table.seating.closures.nodes(job.spec):
        return None
    fits = table.seating.placer(table.room, replace(gang, excluded=job.spec.exclude_nodes)) is not None
    return window_reason(table.state, job.spec, table.now) if fits else None


def _ahead(state: State, job: Job, now: int) -> tuple[list[Job], int, int]:
    """Those that would go before it, its place, and how many would wait with it."""
    pool = state.kept.pools[job.spec.pool]
    others = [state.kept.jobs[name] for name in sorted(state.waiting.get(job.spec.pool, {}))]
    ordered = [candidate.job for candidate in order(state, pool, [*others, job], now).candidates]
    place = ordered.index(job.id)
    return [state.kept.jobs[name] for name in ordered[:place]], place + 1, len(ordered)


def _effects(state: State, job: Job, now: int) -> tuple[Effect, ...]:
    """Every limit and guarantee on its way up, in the dimensions that it asks for."""
    ledger = Ledger(state, now)
    wanted = folded(job_amounts(job.spec, wanted_sizes(job.spec)))
    limits = {rung.holder: rung.limit for rung in ledger.rungs(job)}
    holders = [*limits, *(path for path in state.kept.groups if path not in limits)]
    found = []
    for holder in holders:
        group = state.kept.groups.get(holder)
        promised = folded(group.guaranteed) if group is not None else {}
        if holder not in limits and not (promised and _is_above(holder, job.spec.group)):
            continue
        limit = limits.get(holder, {})
        for dimension in sorted({*limit, *promised}):
            if (needed := amount_of(wanted, dimension)) > 0:
                effect = Effect(
                    holder=holder,
                    dimension=dimension,
                    used=ledger.used(holder, dimension),
                    needed=needed,
                    limit=limit.get(dimension, -1),
                    guaranteed=promised.get(dimension, -1),
                )
                found.append(effect)
    return tuple(found)


def _is_above(path: str, group: str) -> bool:
    return not path or group == path or group.startswith(f"{path}/")


def _start(table: Table, job: Job, standing: tuple[list[Job], Reason | None]) -> Expectation:
    """When it would start, behind those ahead of it that could start at all."""
    (ahead, reason), state, now = standing, table.state, table.now
    if job.spec.hold:
        return Expectation(note="It starts no earlier than somebody releases it.")
    pool, times = state.kept.pools[job.spec.pool], RunTimes(state, job.spec.pool)
    if reason is not None and reason.code in LIMIT_CODES:
        limited = limit_forecast(state, [job], times=times, now=now, claimed=table.ledger).get(job.id)
        if limited is None:
            return Expectation(note="Nobody can tell when the limit has room again.")
        return Expectation(
            from_ms=limited.soonest_ms,
            to_ms=limited.latest_ms,
            confidence=CONFIDENCE[Basis.HISTORY],
            note="Not before the limit has room again.",
        )
    if reason is not None and reason.code in GATE_CODES:
        return Expectation(note=sentence(reason))
    if reason is not None and reason.code == ReasonCode.WINDOW:
        return Expectation(note=after_windows(reason))
    if not ahead and reason is None:
        return Expectation(from_ms=now, to_ms=now, confidence="high", note="There is room for it and nobody before it.")
    line = [other for other in ahead if other.reason is None or other.reason.code not in LIMIT_CODES] + [job]
    wait_ms = middle_waits(state, job.spec.pool, line, times=times, now=now)[job.id]
    stated = stated_range(pool, job.spec, wait_ms) if wait_ms else None
    if stated is not None:
        return Expectation(
            from_ms=now + stated.low_ms,
            to_ms=now + stated.high_ms,
            confidence=f"{LEVEL_PERCENT} %",
            note=f"Rests on how {stated.scores} such forecasts turned out.",
        )
    start = pool_forecast(state, job.spec.pool, line, times=times, now=now)[job.id]
    if start is None:
        return Expectation(note="Nobody can tell: a job before it has no time limit, and nothing like it ran here.")
    return Expectation(
        from_ms=start.soonest_ms,
        to_ms=start.latest_ms,
        confidence=CONFIDENCE[start.basis],
        note="In today's order; it may be earlier when it fits into a gap.",
    )

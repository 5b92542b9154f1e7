"""What would become of a job that is not submitted yet: would it start, where, when, at what cost, what is left then?

It is looked at as if it came now and alone: the same gates, the same order, the same room as in a round, on scratch
paper, in which those before it have what the round would give them. What further rounds may give it, once others'
starts and other pools' rounds are known, is not thought through. Whether the door would take it is the door's to say;
here it is taken to be admitted.
"""

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from gangline_core.cluster import Node
from gangline_core.foresight.expected import STOP_MARGIN_MS, Expectation, as_borne_out, as_forecast, unknown_note
from gangline_core.foresight.forecast import limit_forecast, pool_forecast
from gangline_core.foresight.outlook import middle_waits
from gangline_core.foresight.run_times import Basis, RunTimes
from gangline_core.foresight.start_scores import stated_range
from gangline_core.foresight.turn import Turn, laid_out, turn_of
from gangline_core.groups import BudgetMode, ancestors
from gangline_core.ids import JobId, NodeId
from gangline_core.job import Job, JobState
from gangline_core.limits.accounting import at_renewal, spent
from gangline_core.limits.amounts import amount_of
from gangline_core.limits.budgets import BUDGET, ENDLESS, GPU_HOUR, worst_cost
from gangline_core.limits.gates import GATE_CODES, Gate
from gangline_core.limits.quota import Ledger, job_amounts
from gangline_core.limits.rungs import folded
from gangline_core.making_room.trial import Plan
from gangline_core.ordering import order
from gangline_core.reasons import LIMIT_CODES, Reason, ReasonCode, sentence
from gangline_core.reserving.closures import after_windows
from gangline_core.seating import wanted_sizes
from gangline_core.spec import JobSpec, Resources
from gangline_core.state import PoolState, State
from gangline_core.table import Table

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
    ahead, position, waiting = _ahead(state, job, now)
    layout = laid_out(state, job, {other.id for other in ahead}, now)
    table, turn = layout.table, turn_of(layout, job)
    reason = kept_out or turn.reason
    seats = sorted({task.node for task in turn.found.seats.tasks}) if turn.found is not None else None
    gang = table.seating.least(job).gang
    # A window closes nodes for a while only: who waits for its end may go there.
    may = replace(gang, excluded=spec.exclude_nodes).mask(table.room.layout)
    nodes = zip(table.room.nodes, may, strict=True)
    suitable = [node.id for node, fits in nodes if fits and any(_has_cards(node, r.resources) for r in spec.roles)]
    cost = worst_cost(spec, state.kept.prices)
    return Foretold(
        has_room=seats is not None and kept_out is None,
        reason=reason,
        position=position,
        waiting=waiting,
        effects=_effects(state, job, turn, now),
        nodes=tuple((seats or sorted(suitable))[:NODES_NAMED_MAX]),
        nodes_suitable=len(suitable),
        start=_start(table, job, turn, ahead=ahead, reason=reason),
        cost=-1 if cost >= ENDLESS else cost,
    )


def _has_cards(node: Node, need: Resources) -> bool:
    """True when the node has cards of a kind that a task could use, or the task needs none."""
    models = {model.lower() for model in need.gpu_models}
    return not need.wants_gpu or any(not models or gpu.model.lower() in models for gpu in node.gpus)


def _ahead(state: State, job: Job, now: int) -> tuple[list[Job], int, int]:
    """Those that would go before it, its place, and how many would wait with it."""
    pool = state.kept.pools[job.spec.pool]
    others = [state.kept.jobs[name] for name in sorted(state.waiting.get(job.spec.pool, {}))]
    ordered = [candidate.job for candidate in order(state, pool, [*others, job], now).candidates]
    place = ordered.index(job.id)
    return [state.kept.jobs[name] for name in ordered[:place]], place + 1, len(ordered)


def _effects(state: State, job: Job, turn: Turn, now: int) -> tuple[Effect, ...]:
    """Every limit and guarantee on its way up, in the dimensions that it asks for, or has where it would go."""
    ledger = Ledger(state, now)
    found = turn.found or (turn.plan.found if turn.plan is not None else None)
    wanted = folded(job_amounts(job.spec, wanted_sizes(job.spec)) if found is None else found.amounts)
    limits = {rung.holder: rung.limit for rung in ledger.rungs(job)}
    holders = [*limits, *(path for path in state.kept.groups if path not in limits)]
    effects = []
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
                effects.append(effect)
    return (*effects, *_of_budgets(state, ledger, job, now))


def _of_budgets(state: State, ledger: Ledger, job: Job, now: int) -> Iterator[Effect]:
    """Every budget above it that the most it can cost would be paid from, in price times GPU thousandths times ms."""
    cost = worst_cost(job.spec, state.kept.prices)
    paid = spent(state, now) if 0 < cost < ENDLESS else None
    for path in ancestors(job.spec.group) if paid is not None else ():
        group = state.kept.groups.get(path)
        if group is None or not group.budget_gpu_hours or paid is None:
            continue
        # Where jobs must end inside it, what runs counts with all that it can still cost.
        is_safe = group.budget_mode == BudgetMode.SAFE
        used = ledger.used(path, BUDGET) if is_safe else at_renewal(state, paid, now).of_budget(path)
        yield Effect(path, BUDGET, used=used, needed=cost, limit=group.budget_gpu_hours * GPU_HOUR)


def _is_above(path: str, group: str) -> bool:
    return not path or group == path or group.startswith(f"{path}/")


def _start(table: Table, job: Job, turn: Turn, *, ahead: list[Job], reason: Reason | None) -> Expectation:
    """When it would start, behind those ahead of it that could start at all."""
    state, now = table.state, table.now
    if job.spec.hold:
        return Expectation(note="It starts no earlier than somebody releases it.")
    if turn.plan is not None and reason == turn.reason:
        return _when_others_are_gone(turn.plan, now)
    pool, times = state.kept.pools[job.spec.pool], RunTimes(state, job.spec.pool)
    if reason is not None and reason.code in LIMIT_CODES:
        limited = limit_forecast(state, [job], times=times, now=now, claimed=table.ledger).get(job.id)
        if limited is None:
            return Expectation(note="Nobody can tell when the limit has room again.")
        return as_forecast(limited, "Not before the limit has room again.", basis=Basis.HISTORY)
    if reason is not None and reason.code in GATE_CODES:
        return Expectation(note=sentence(reason))
    if reason is not None and reason.code == ReasonCode.WINDOW:
        return Expectation(note=after_windows(reason))
    if reason is None and (not ahead or _is_settled(pool, state)):
        # Whoever is before it was looked at and found no room, and what is kept for them is left alone.
        whose = "that nobody before it can use" if ahead else "for it and nobody before it"
        return Expectation(from_ms=now, to_ms=now, confidence="high", note=f"There is room {whose}.")
    line = [other for other in ahead if other.reason is None or other.reason.code not in LIMIT_CODES] + [job]
    wait_ms = middle_waits(state, job.spec.pool, line, times=times, now=now)[job.id]
    stated = stated_range(pool, job.spec, wait_ms) if wait_ms else None
    if stated is not None:
        return as_borne_out(stated, f"Rests on how {stated.scores} such forecasts turned out.", now=now)
    start = pool_forecast(state, job.spec.pool, line, times=times, now=now)[job.id]
    if start is None:
        return Expectation(note=unknown_note(state, job.spec.pool, times, now))
    return as_forecast(start, "In today's order; it may be earlier when it fits into a gap.")


def _is_settled(pool: PoolState, state: State) -> bool:
    """True when the last round knew all that there is to know."""
    return pool.open_round is None and pool.opened_seq >= state.kept.changed_seq


def _when_others_are_gone(plan: Plan, now: int) -> Expectation:
    going = {loss.job.id: loss.job.spec.grace_s for loss in plan.losses}
    jobs = "1 running job" if len(going) == 1 else f"{len(going)} running jobs"
    return Expectation(
        from_ms=now,
        to_ms=now + max(going.values()) * 1000 + STOP_MARGIN_MS,
        confidence="high",
        note=f"{jobs} would make way for it; the range ends with the longest grace of those.",
    )

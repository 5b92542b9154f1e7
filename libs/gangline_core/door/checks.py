"""What a job must stand up to at the door, and again when its terms are changed."""

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from gangline_core.door.arrays import lookup
from gangline_core.door.draft import Draft, elements
from gangline_core.door.never_below_limit import above_limit, counts_by_card, never_below
from gangline_core.door.never_fits import never_fits
from gangline_core.door.never_fits_cells import never_fits_cells
from gangline_core.door.rules import Problem, Rules
from gangline_core.door.terms import deadline_reason, dependency_reason
from gangline_core.groups import user_key
from gangline_core.limits.budgets import never_inside
from gangline_core.limits.dimension_names import shown
from gangline_core.limits.quota import job_amounts, largest_size, minimum_sizes
from gangline_core.reasons import Reason, ReasonCode
from gangline_core.spec import JobSpec, costs_gpu_time
from gangline_core.state import State

MINUTE_MS = 60_000


class Look(Struct, frozen=True):
    """One job, the rules for who hands it in, and all that a check may have to look at."""

    state: State
    draft: Draft
    rules: Rules
    spec: JobSpec
    at: int
    hidden: Sequence[int] = ()
    had: int = 0
    """Service that it had already."""


Check = Callable[[Look], Problem | None]


def first_problem(checks: Sequence[Check], look: Look) -> Problem | None:
    """The first thing that is wrong with the job."""
    return next((problem for check in checks if (problem := check(look)) is not None), None)


def judge_terms(state: State, draft: Draft, spec: JobSpec, *, by: str, at: int, had: int) -> Problem | None:
    """What is wrong with the terms of a job that is admitted already, were it submitted now; it `had` this service."""
    rules = draft.rules_of(state, group=spec.group, user=spec.user, by=by, at=at)
    return first_problem(OF_TERMS, Look(state, draft, rules, spec, at, had=had))


def _room_problem(look: Look) -> Problem | None:
    """What no machines of the pool, and no cells of the group, could ever hold."""
    state, spec = look.state, look.spec
    known = state.kept.pools[spec.pool]
    inventory = state.inventory(spec.pool)
    return never_fits(inventory, known.pool, spec) or never_fits_cells(inventory, known, spec)


def _card_problem(look: Look) -> Problem | None:
    """A limit by GPU model or GPU memory that the job breaks on whatever machines of the pool."""
    state, rules, spec = look.state, look.rules, look.spec
    pool, inventory = state.kept.pools[spec.pool].pool, state.inventory(spec.pool)
    largest = {role.name: largest_size(role) for role in spec.roles}
    for limits, sizes in ((rules.limits, minimum_sizes(spec)), (rules.job_limits, largest)):
        if counts_by_card(spec, limits) and (reason := never_below(inventory, pool, spec, sizes=sizes, limits=limits)):
            return reason, "roles[0].gpus" if len(spec.roles) == 1 else "roles"
    return None


def pool_problem(state: State, spec: JobSpec) -> Problem | None:
    """A pool or a queue level that nobody has heard of."""
    pool = state.kept.pools.get(spec.pool)
    if pool is None:
        return Reason(ReasonCode.UNKNOWN_POOL, {"pool": spec.pool}), "pool"
    if spec.level not in pool.pool.levels:
        return Reason(ReasonCode.UNKNOWN_LEVEL, {"pool": spec.pool, "level": spec.level}), "level"
    return None


def _name_problem(look: Look) -> Problem | None:
    spec = look.spec
    key = (user_key(spec.group, spec.user), spec.name)
    others = look.state.door.names.get(key)
    other = min(others) if others else look.draft.names.get(key)
    if other is None or spec.singleton:
        # A singleton waits for its namesakes instead.
        return None
    return Reason(ReasonCode.NAME_TAKEN, {"user": spec.user, "name": spec.name, "job": other}), "name"


def _dependency_problem(look: Look) -> Problem | None:
    state, spec = look.state, look.spec
    if not spec.after:
        return None
    # Jobs admitted a moment ago have not ended, so only the state's jobs can have failed.
    drafted = range(state.kept.next_job, state.kept.next_job + look.draft.admitted)
    for index, dependency in enumerate(spec.after):
        is_known = dependency.job in drafted or lookup(state, dependency.job) is not None
        if not is_known or dependency.index >= 0 or dependency.job in look.hidden:
            named = dependency.job if dependency.index < 0 else f"{dependency.job}_{dependency.index}"
            return Reason(ReasonCode.UNKNOWN_DEPENDENCY, {"job": named}), f"after[{index}]"
    reason = dependency_reason(state, (d for d in spec.after if d.job not in drafted))
    if reason is not None and reason.code == ReasonCode.DEPENDENCY_FAILED:
        return reason, "after"
    return None


def _cap_problem(look: Look) -> Problem | None:
    state, draft, spec, at = look.state, look.draft, look.spec, look.at
    for holder, name, queued_max, rate_max in look.rules.caps:
        unfinished = state.unfinished.get(holder, 0) + draft.entered.get(holder, 0)
        if queued_max and unfinished + elements(spec) > queued_max:
            asked = elements(spec)
            if asked > queued_max:
                never: dict[str, int | str] = {"holder": name, "needed": asked, "limit": queued_max}
                return Reason(ReasonCode.QUEUE_TOO_SMALL, never), "array"
            numbers: dict[str, int | str] = {"holder": name, "used": unfinished, "limit": queued_max}
            return Reason(ReasonCode.QUEUE_FULL, numbers), "array" if spec.array else ""
        times = state.kept.recent_submits.get(holder, ()) if rate_max else ()
        recent = [time for time in times if time > at - MINUTE_MS] + [at] * draft.sent.get(holder, 0)
        if rate_max and len(recent) >= rate_max:
            # There is room again when enough of the last minute's submissions are older than that.
            retry_s = -(-(recent[-rate_max] + MINUTE_MS - at) // 1000)
            numbers = {"holder": name, "used": len(recent), "limit": rate_max, "retry_s": max(1, retry_s)}
            return Reason(ReasonCode.SUBMIT_RATE, numbers), ""
    return None


def bound_problem(rules: Rules, spec: JobSpec, *, bounds: Sequence[tuple[str, int]]) -> Problem | None:
    """A priority or a queue level that is not for these jobs."""
    for holder, most in bounds:
        if spec.priority > most:
            numbers: dict[str, int | str] = {"needed": spec.priority, "holder": holder, "limit": most}
            return Reason(ReasonCode.PRIORITY_BOUND, numbers), "priority"
    for holder, levels in rules.levels:
        if spec.level not in levels:
            numbers = {"holder": holder, "level": spec.level, "allowed": ", ".join(levels)}
            return Reason(ReasonCode.LEVEL_BOUND, numbers), "level"
    return None


def _deadline_problem(look: Look) -> Problem | None:
    spec, begins = look.spec, max(look.at, look.spec.not_before_ms)
    reason = deadline_reason(spec, begins, had=look.had) if spec.deadline_ms else None
    return (reason, "deadline") if reason is not None else None


def _time_problem(look: Look) -> Problem | None:
    rules, spec = look.rules, look.spec
    if rules.time_limit is None or spec.time_limit_s <= rules.time_limit[1]:
        return None
    name, limit = rules.time_limit
    numbers: dict[str, int | str] = {"needed": spec.time_limit_s, "holder": name, "limit": limit}
    return Reason(ReasonCode.TIME_LIMIT_TOO_LONG, numbers), "time_limit"


def _limit_problem(look: Look) -> Problem | None:
    """A limit that the job breaks even when nothing else runs."""
    rules, spec = look.rules, look.spec
    least = job_amounts(spec, minimum_sizes(spec)) if rules.limits else {}
    problem = _above(rules.limits, least, spec)
    if problem is not None or not rules.job_limits:
        return problem
    return _above(rules.job_limits, job_amounts(spec, {role.name: largest_size(role) for role in spec.roles}), spec)


def _above(limits: Sequence[tuple[str, dict[str, int]]], amounts: Mapping[str, int], spec: JobSpec) -> Problem | None:
    for holder, limit in limits:
        for dimension, most in limit.items():
            needed = amounts.get(dimension, 0)
            if needed > most:
                at = _FIELDS.get(dimension.partition(":")[0], "")
                where = f"roles[0].{at}" if at and len(spec.roles) == 1 else "roles"
                return above_limit(holder, *shown(dimension, needed), most, dimension), where
    return None


_FIELDS = {
    "gpu_milli": "gpus",
    "gpu_memory_mib": "gpu_memory",
    "cpu_milli": "cpus",
    "memory_mib": "memory",
    "device": "devices",
}


def _budget_problem(look: Look) -> Problem | None:
    rules, spec = look.rules, look.spec
    if not costs_gpu_time(spec):
        return None
    if rules.spent is not None:
        return rules.spent, ""
    reason = next((r for budget in rules.safe if (r := never_inside(budget, spec, rules.prices)) is not None), None)
    return (reason, "time_limit") if reason is not None else None


AT_THE_DOOR: tuple[Check, ...] = (
    lambda look: look.rules.stranger,
    lambda look: pool_problem(look.state, look.spec),
    _name_problem,
    _dependency_problem,
    _cap_problem,
    lambda look: bound_problem(look.rules, look.spec, bounds=look.rules.user_bounds),
    _time_problem,
    _deadline_problem,
    _limit_problem,
    _budget_problem,
    _room_problem,
    _card_problem,
)
"""What a job must stand up to that comes in, cheap and plain rules first."""

OF_TERMS: tuple[Check, ...] = (
    lambda look: pool_problem(look.state, look.spec),
    _time_problem,
    _deadline_problem,
    _limit_problem,
    _room_problem,
    _card_problem,
)
"""What it must stand up to when its terms are changed: not its name, predecessors and caps, nor how high it ranks."""

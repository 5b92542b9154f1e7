"""What holds at the door for every job of one user in one group: who may submit, caps, bounds, limits, budgets."""

from collections.abc import Callable, Iterator

from msgspec import Struct

from gangline_core.door.members import Members
from gangline_core.groups import Group, User, ancestors, user_key
from gangline_core.limits.accounting import Spent, budget_reason
from gangline_core.limits.budgets import SafeBudget, safe_budgets
from gangline_core.limits.rungs import folded, most_limits
from gangline_core.reasons import Reason, ReasonCode
from gangline_core.state import State

Problem = tuple[Reason, str]
"""Why a job is refused, and the path of the field that is wrong (empty when none is)."""


class Rules(Struct, frozen=True):
    """What holds for every job of one user in one group."""

    stranger: Problem | None
    """Why this user may not submit here at all."""
    caps: tuple[tuple[str, str, int, int], ...] = ()
    """(holder, its name, most unfinished jobs, most submits per minute); 0 means no cap."""
    time_limit: tuple[str, int] | None = None
    """Who sets the longest time limit, and the limit in seconds."""
    limits: tuple[tuple[str, dict[str, int]], ...] = ()
    """(holder's name, the largest limit it ever has) for everything that no job may exceed at its smallest size."""
    job_limits: tuple[tuple[str, dict[str, int]], ...] = ()
    """The same for the largest size a job may ask for."""
    spent: Reason | None = None
    """The budget that is used up."""
    safe: tuple[SafeBudget, ...] = ()
    """Budgets inside which a job must be able to end."""
    prices: dict[str, int] = {}
    user_bounds: tuple[tuple[str, int], ...] = ()
    """(holder's name, highest priority) for what users set themselves."""
    group_bounds: tuple[tuple[str, int], ...] = ()
    """The same for what heads set."""
    levels: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """(holder's name, the queue levels its jobs may be in)."""


def make_rules(
    state: State, members: Callable[[], Members], used: Callable[[], Spent], *, group: str, user: str, by: str
) -> Rules:
    """What holds for this user in this group; members and what was `used` are looked up where it depends on them."""
    if group not in state.kept.groups:
        return Rules(stranger=(Reason(ReasonCode.UNKNOWN_GROUP, {"group": group or "(none)"}), "group"))
    if not members().may_submit(group=group, user=user, by=by):
        return Rules(stranger=(Reason(ReasonCode.UNKNOWN_USER, {"user": user, "group": group}), "user"))
    above = [state.kept.groups[path] for path in ancestors(group) if path in state.kept.groups]
    if (shut := _closing(state, above, group=group, user=user)) is not None:
        return Rules(stranger=shut)
    times = [(one.time_limit_s_max, named(one.path)) for one in above if one.time_limit_s_max]
    own = state.user(user_key(group, user))
    group_bounds = tuple((named(one.path), one.priority_max) for one in above if one.priority_max is not None)
    return Rules(
        stranger=None,
        caps=tuple(_caps(state, above, own, group=group, user=user)),
        time_limit=(min(times)[1], min(times)[0]) if times else None,
        limits=tuple(most_limits(state, group=group, user=user)),
        job_limits=tuple((f"{named(one.path)} for one job", most) for one in above if (most := _most_job(one))),
        spent=_spent_budget(state, group, used),
        safe=tuple(safe_budgets(state, group)),
        prices=state.kept.prices,
        user_bounds=(*_user_bounds(above, own, user), *group_bounds),
        group_bounds=group_bounds,
        levels=tuple((named(one.path), one.levels) for one in above if one.levels),
    )


def _closing(state: State, above: list[Group], *, group: str, user: str) -> Problem | None:
    """Somebody on the way up is being removed."""
    own = state.kept.users.get(user_key(group, user))
    if own is not None and own.closing:
        return Reason(ReasonCode.CLOSING, {"holder": f"User {user}"}), "user"
    shut = next((one for one in above if one.closing), None)
    return None if shut is None else (Reason(ReasonCode.CLOSING, {"holder": f"Group {shut.path}"}), "group")


def named(path: str) -> str:
    """A group as a sentence says it."""
    return f"group {path}" if path else "the whole cluster"


def _most_job(group: Group) -> dict[str, int]:
    """The largest job the group ever allows."""
    most = folded(group.job_limit)
    for season in group.seasons:
        for dimension, amount in folded(season.job_limit).items():
            most[dimension] = max(amount, most.get(dimension, amount))
    return most


def _user_bounds(above: list[Group], own: User | None, user: str) -> Iterator[tuple[str, int]]:
    if own is not None and own.priority_max is not None:
        yield f"user {user}", own.priority_max
        return
    for one in above:
        if one.user_priority_max is not None:
            yield f"{named(one.path)} for its users", one.user_priority_max


def _spent_budget(state: State, group: str, used: Callable[[], Spent]) -> Reason | None:
    if not any(path in state.kept.exhausted for path in ancestors(group)):
        return None
    return budget_reason(state, group, used())


def _caps(
    state: State, above: list[Group], own: User | None, *, group: str, user: str
) -> Iterator[tuple[str, str, int, int]]:
    nearest = state.kept.groups[group]
    queued_max = (own.queued_jobs_max if own else 0) or nearest.user_queued_jobs_max
    rate_max = (own.submits_per_minute if own else 0) or nearest.user_submits_per_minute
    if queued_max or rate_max:
        yield user_key(group, user), f"User {user}", queued_max, rate_max
    for known in above:
        if known.queued_jobs_max or known.submits_per_minute:
            name = f"Group {known.path}" if known.path else "The whole cluster"
            yield known.path, name, known.queued_jobs_max, known.submits_per_minute

"""What may be set of a group beyond its limits: borrowing, bounds for its users, seasons."""

import re

from gangline_core.groups import Group
from gangline_core.limits.calendar import DAYS, MINUTES, Season, zone_exists
from gangline_core.limits.quota import JOBS
from gangline_core.limits.rungs import folded
from gangline_core.settings.amounts import AMOUNT_MAX, LEVEL_MAX, Problem, amounts_problem, range_problem

SEASONS_MAX = 16
LEVELS_MAX = 64

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")


def lending_problem(group: Group) -> Problem | None:
    """What is wrong with how the group borrows and lends."""
    for field in ("borrow_limit", "lend_limit"):
        amounts = getattr(group, field)
        problem = amounts_problem(field, amounts)
        if problem is not None:
            return problem
        if JOBS in amounts:
            return Problem("invalid", "a number of jobs is neither guaranteed nor lent", field)
    promised = folded(group.guaranteed)
    for dimension, amount in folded(group.lend_limit).items():
        if amount > promised.get(dimension, 0):
            why = f"is more than the guarantee, {promised.get(dimension, 0)}"
            return Problem("invalid", why, f"lend_limit.{dimension}")
    return None


def bounds_problem(group: Group) -> Problem | None:
    """What is wrong with the caps and bounds for users and jobs."""
    for field in ("priority_max", "user_priority_max"):
        bound = getattr(group, field)
        problem = None if bound is None else range_problem(field, bound, -LEVEL_MAX, LEVEL_MAX)
        if problem is not None:
            return problem
    if len(group.levels) > LEVELS_MAX or len(set(group.levels)) < len(group.levels):
        return Problem("invalid", f"must be at most {LEVELS_MAX} different levels", "levels")
    if not all(_NAME.fullmatch(level) for level in group.levels):
        return Problem("invalid", "must be names of queue levels", "levels")
    if not zone_exists(group.budget_zone):
        return Problem("invalid", f"there is no time zone {group.budget_zone!r}", "budget_zone")
    if group.budget_period is not None and not group.budget_gpu_hours:
        return Problem("invalid", "is for a budget, and there is none: set budget_gpu_hours too", "budget_period")
    return range_problem("user_queued_jobs_max", group.user_queued_jobs_max, 0, AMOUNT_MAX) or range_problem(
        "user_submits_per_minute", group.user_submits_per_minute, 0, AMOUNT_MAX
    )


def seasons_problem(group: Group) -> Problem | None:
    """What is wrong with the group's seasons."""
    if len(group.seasons) > SEASONS_MAX:
        return Problem("invalid", f"must be at most {SEASONS_MAX}", "seasons")
    names = [season.name for season in group.seasons]
    if len(set(names)) < len(names):
        return Problem("invalid", "must have different names", "seasons")
    for number, season in enumerate(group.seasons):
        problem = _season_problem(season, f"seasons[{number}]")
        if problem is not None:
            return problem
    return None


def _season_problem(season: Season, at: str) -> Problem | None:
    if not _NAME.fullmatch(season.name):
        return Problem("invalid", f"{season.name!r} cannot be a season's name", f"{at}.name")
    if not zone_exists(season.zone):
        return Problem("invalid", f"there is no time zone {season.zone!r}", f"{at}.zone")
    if season.start_minute == season.end_minute:
        return Problem("invalid", "must not be the same as the start", f"{at}.end_minute")
    if len(set(season.days)) < len(season.days) or not all(0 <= day < len(DAYS) for day in season.days):
        return Problem("invalid", "must be different days, 0 is Monday", f"{at}.days")
    return (
        range_problem(f"{at}.start_minute", season.start_minute, 0, MINUTES - 1)
        or range_problem(f"{at}.end_minute", season.end_minute, 0, MINUTES)
        or amounts_problem(f"{at}.limit", season.limit)
        or amounts_problem(f"{at}.user_limit", season.user_limit)
        or amounts_problem(f"{at}.job_limit", season.job_limit)
    )

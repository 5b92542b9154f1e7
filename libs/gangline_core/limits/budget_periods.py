"""Budgets that begin anew by the calendar: which period a moment is in, and what of a group's cost belongs to it.

A period begins at midnight of the group's time zone. What running jobs used up to that moment belongs to the period
before, to the millisecond, whoever looks when: the fold draws the line before it takes in anything that is later.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, timedelta

from gangline_core.groups import BudgetPeriod, Group
from gangline_core.limits.calendar import midnight_ms, zone_of


def period_start_ms(group: Group, at: int) -> int:
    """When the period that holds this moment began; only for groups whose budget has one."""
    return midnight_ms(group.budget_zone, _first_day(group.budget_period, _day(group, at)))


def period_end_ms(group: Group, at: int) -> int:
    """When the period that holds this moment is over."""
    return midnight_ms(group.budget_zone, _next(group.budget_period, _first_day(group.budget_period, _day(group, at))))


def next_renewal_ms(groups: Iterable[Group], renewed: Mapping[str, tuple[int, int]]) -> int:
    """The first moment at which some period is over; 0 when none ever is."""
    ends = (period_end_ms(group, renewed[group.path][0]) for group in groups if group.path in renewed)
    return min(ends, default=0)


def _day(group: Group, at: int) -> date:
    """The day in the group's zone."""
    return datetime.fromtimestamp(at / 1000, tz=UTC).astimezone(zone_of(group.budget_zone)).date()


def _first_day(period: BudgetPeriod | None, day: date) -> date:
    match period:
        case BudgetPeriod.WEEK:
            return day - timedelta(days=day.weekday())
        case BudgetPeriod.MONTH:
            return day.replace(day=1)
        case BudgetPeriod.QUARTER:
            return day.replace(month=(day.month - 1) // 3 * 3 + 1, day=1)
        case BudgetPeriod.YEAR:
            return day.replace(month=1, day=1)
        case _:
            return day


def _next(period: BudgetPeriod | None, first: date) -> date:
    """The first day of the following period."""
    match period:
        case BudgetPeriod.WEEK:
            return first + timedelta(days=7)
        case BudgetPeriod.MONTH:
            return (first + timedelta(days=31)).replace(day=1)
        case BudgetPeriod.QUARTER:
            return (first + timedelta(days=92)).replace(day=1)
        case BudgetPeriod.YEAR:
            return first.replace(year=first.year + 1)
        case _:
            return first + timedelta(days=1)

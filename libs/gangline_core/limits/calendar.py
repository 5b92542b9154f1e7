"""Limits that hold at certain times: of the day, of the week, in a stated time zone. Pure functions of a moment.

A season covers, on each of its days, the wall-clock times from `start_minute` to `end_minute` of its zone. One that
ends before it starts goes over midnight, and belongs to the day it started on. On the day clocks go forward a time that
does not exist is the moment after the gap; on the day they go back a time that comes twice is meant the first time as
a start, and the second time as an end, so that a night is never cut short.

The zones' rules are those of the package `tzdata`, which is locked with us, and never those of the machine: two
machines that know other rules would fold one log to two states.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, reset_tzpath

from msgspec import Struct

MINUTES = 1440
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

reset_tzpath(())


class Season(Struct, frozen=True, omit_defaults=True, gc=False):
    """Limits that take the place of a group's own, dimension by dimension, while the season lasts."""

    name: str
    start_minute: int
    """Minutes after midnight."""
    end_minute: int
    """Exclusive; 1440 is midnight, and a smaller number than the start is on the next day."""
    days: tuple[int, ...] = ()
    """Days on which it starts, 0 is Monday; empty means every day."""
    zone: str = "UTC"
    limit: dict[str, int] = {}
    user_limit: dict[str, int] = {}
    job_limit: dict[str, int] = {}


def zone_exists(name: str) -> bool:
    """True when the time zone's rules are known here."""
    try:
        _zone(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def is_on(season: Season, now: int) -> bool:
    """True when the season covers the moment."""
    return any(start <= now < end for start, end in _near(season, now))


def current(seasons: Iterable[Season], now: int) -> list[Season]:
    """The seasons that cover the moment, in the order they are listed."""
    return [season for season in seasons if is_on(season, now)]


def next_change_ms(seasons: Iterable[Season], now: int) -> int | None:
    """The next moment after `now` at which a season begins or ends; None when there is none within a week."""
    edges = (edge for season in seasons for span in _spans(season, now, days=9) for edge in span)
    return min((edge for edge in edges if edge > now), default=None)


def midnight_ms(zone: str, day: date) -> int:
    """When a zone's day begins."""
    return _moment(zone, day, 0, is_end=False)


def zone_of(name: str) -> ZoneInfo:
    """The time zone of this name."""
    return _zone(name)


def _near(season: Season, now: int) -> Iterator[tuple[int, int]]:
    return _spans(season, now, days=2)


def _spans(season: Season, now: int, *, days: int) -> Iterator[tuple[int, int]]:
    """From when to when the season lasts, for the days around the moment: from two before it on."""
    today = datetime.fromtimestamp(now / 1000, tz=_zone(season.zone)).date()
    for offset in range(-2, days):
        day = today + timedelta(days=offset)
        if season.days and day.weekday() not in season.days:
            continue
        start = _moment(season.zone, day, season.start_minute, is_end=False)
        ends_on = day if season.end_minute > season.start_minute else day + timedelta(days=1)
        end = _moment(season.zone, ends_on, season.end_minute, is_end=True)
        if start < end:
            yield start, end


@lru_cache(maxsize=4096)
def _moment(zone: str, day: date, minute: int, *, is_end: bool) -> int:
    """The wall-clock time of a zone's day in ms since the epoch."""
    midnight = datetime.combine(day, time()) + timedelta(minutes=minute)
    local = midnight.replace(tzinfo=_zone(zone), fold=1 if is_end else 0)
    moment = int(local.astimezone(UTC).timestamp() * 1000)
    if _is_missing(local):
        moment = _end_of_gap(zone, midnight)
    return moment


def _is_missing(local: datetime) -> bool:
    there_and_back = local.astimezone(UTC).astimezone(local.tzinfo)
    return there_and_back.replace(tzinfo=None, fold=0) != local.replace(tzinfo=None, fold=0)


def _end_of_gap(zone: str, missing: datetime) -> int:
    """The first existing minute after a wall-clock time that clocks skip."""
    there = missing.replace(tzinfo=_zone(zone))
    while _is_missing(there):
        there += timedelta(minutes=1)
    return int(there.astimezone(UTC).timestamp() * 1000)


@lru_cache(maxsize=256)
def _zone(name: str) -> ZoneInfo:
    # Not from the cache that all share: somebody may have asked there for the machine's rules before we came.
    return ZoneInfo.no_cache(name)

"""How seasons are written: times of the day, days, a time zone."""

import re
from typing import Any

from msgspec.structs import replace

from gangline_core.limits.calendar import DAYS, MINUTES, Season
from gangline_wire.amounts import read_amounts, show_amounts
from gangline_wire.fields import is_full, mapping, read_fields, text
from gangline_wire.problem import FieldError, FieldErrorsError, WrongValueError
from gangline_wire.quantity import shown

_TIME = re.compile(r"([01]?[0-9]|2[0-4]):([0-5][0-9])-([01]?[0-9]|2[0-4]):([0-5][0-9])", re.ASCII)
_ZONE = re.compile(r"[A-Za-z0-9_+/-]{1,64}", re.ASCII)
HOW = 'write "22:00-06:00", which goes over midnight'


def read_seasons(value: object) -> tuple[Season, ...]:
    """{night: {time: "22:00-06:00", zone: Europe/Berlin, days: mon-fri, limit: {gpus: 64}}}.

    Raises:
        WrongValueError, FieldErrorsError: no such mapping.
    """
    seasons: list[Season] = []
    errors: list[FieldError] = []
    for name, entry in mapping(value).items():
        if is_full(errors):
            break
        below: list[FieldError] = []
        try:
            kept = read_fields(mapping(entry), SEASON_FIELDS, below)
            if "time" not in kept and not below:
                below.append(FieldError(path="time", message=f"is missing; {HOW}"))
            if not below:
                start, end = kept.pop("time")
                seasons.append(Season(name=text(name), start_minute=start, end_minute=end, **kept))
        except WrongValueError as error:
            below.append(FieldError(path="", message=str(error)))
        errors += [FieldError(path=f"{name}.{one.path}".rstrip("."), message=one.message) for one in below]
    if errors:
        raise FieldErrorsError(errors)
    return tuple(seasons)


def read_time(value: object) -> tuple[int, int]:
    """Minutes of start and end.

    Raises:
        WrongValueError: no such times.
    """
    match = _TIME.fullmatch(text(value))
    if match is None:
        raise WrongValueError(f'"{shown(str(value))}" are no times; {HOW}')
    start, end = int(match[1]) * 60 + int(match[2]), int(match[3]) * 60 + int(match[4])
    if start >= MINUTES or end > MINUTES or start == end:
        raise WrongValueError(f'"{shown(str(value))}" must be two different times of a day')
    return start, end


def read_days(value: object) -> tuple[int, ...]:
    """ "mon-fri", "sat,sun", or a list of days.

    Raises:
        WrongValueError: no such days.
    """
    parts = value if isinstance(value, list) else text(value).split(",")
    days: set[int] = set()
    for part in parts:
        first, dash, last = text(part).strip().lower().partition("-")
        if first not in DAYS or (dash and last not in DAYS):
            raise WrongValueError(f'"{shown(text(part))}" is no day; days are {", ".join(DAYS)}')
        begin, end = DAYS.index(first), DAYS.index(last if dash else first)
        days |= {day % len(DAYS) for day in range(begin, end + 1 if end >= begin else end + len(DAYS) + 1)}
    return () if len(days) == len(DAYS) else tuple(sorted(days))


def read_zone(value: object) -> str:
    """Name of a time zone, such as Europe/Berlin.

    Raises:
        WrongValueError: cannot be one.
    """
    name = text(value)
    if not _ZONE.fullmatch(name):
        raise WrongValueError(f'"{shown(name)}" is no time zone such as "UTC" or "Europe/Berlin"')
    return name


SEASON_FIELDS = {
    "time": ("time", read_time),
    "days": ("days", read_days),
    "zone": ("zone", read_zone),
    "limit": ("limit", read_amounts),
    "user_limit": ("user_limit", read_amounts),
    "job_limit": ("job_limit", read_amounts),
}


def show_season(season: Season) -> dict[str, Any]:
    """The same as people write it."""
    shown_as: dict[str, Any] = {"time": show_time(season)}
    if season.days:
        shown_as["days"] = [DAYS[day] for day in season.days]
    if season.zone != "UTC":
        shown_as["zone"] = season.zone
    for field in ("limit", "user_limit", "job_limit"):
        if amounts := getattr(season, field):
            shown_as[field] = show_amounts(amounts)
    return shown_as


def show_time(season: Season) -> str:
    """ "22:00-06:00"."""
    times = (season.start_minute, season.end_minute)
    return "-".join(f"{minutes // 60:02}:{minutes % 60:02}" for minutes in times)


def with_time(season: Season, words: str) -> Season:
    """The season at "22:00-06:00 Europe/Berlin mon-fri": times first, then zone and days in any order.

    Raises:
        WrongValueError: cannot be read.
    """
    time, *more = words.split()
    start, end = read_time(time)
    season = replace(season, start_minute=start, end_minute=end, zone="UTC", days=())
    for word in more:
        is_days = word.partition("-")[0].partition(",")[0].lower() in DAYS
        season = replace(season, days=read_days(word)) if is_days else replace(season, zone=read_zone(word))
    return season

"""How amounts and seasons are changed by KEY=VALUE, and how they are written so."""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from gangline_client.errors import UsageError
from gangline_client.words import did_you_mean
from gangline_core.limits.calendar import DAYS, Season
from gangline_wire.amounts import read_amount, read_dimension, show_amount, show_dimension
from gangline_wire.problem import WrongValueError
from gangline_wire.seasons import show_time, with_time

SEASON_PREFIX = "season."
_SEASON_FIELDS = {"": "limit", "user": "user_limit", "job": "job_limit"}


def changed_amounts(amounts: Mapping[str, int], key: str, name: str, value: str) -> dict[str, int]:
    """The amounts with one dimension set, or removed when the value is empty.

    Raises:
        UsageError: no such dimension, or a value that cannot be read.
    """
    try:
        dimension = read_dimension(name)
    except WrongValueError:
        raise unknown_key(key) from None
    kept = {other: held for other, held in amounts.items() if other != dimension}
    if value in {"", "none"}:
        return kept
    try:
        is_count = dimension == "jobs" or dimension.startswith("device:")
        return {**kept, dimension: read_amount(dimension, int(value) if is_count and value.isdecimal() else value)}
    except WrongValueError as error:
        raise UsageError(f"{key}: {error}") from error


def change_season(seasons: tuple[Season, ...], key: str, value: str) -> tuple[Season, ...]:
    """`season.night` is when it is, `season.night.gpus` what holds then; an empty time removes it.

    Raises:
        UsageError: the season is not there, or a value cannot be read.
    """
    name, _, field = key.removeprefix(SEASON_PREFIX).partition(".")
    known = next((season for season in seasons if season.name == name), None)
    others = tuple(season for season in seasons if season.name != name)
    if not field:
        if not value:
            return others
        try:
            fresh = known or Season(name=name, start_minute=0, end_minute=1)
            return (*others, with_time(fresh, value))
        except WrongValueError as error:
            raise UsageError(f"{key}: {error}") from error
    if known is None:
        raise UsageError(
            f"there is no season {name}", next_step=f'Say first when it is: season.{name}="22:00-06:00 UTC mon-fri".'
        )
    prefix, _, dimension = field.rpartition(".")
    if prefix not in _SEASON_FIELDS:
        raise unknown_key(key)
    which = _SEASON_FIELDS[prefix]
    return (*others, replace(known, **{which: changed_amounts(getattr(known, which), key, dimension, value)}))


def season_words(season: Season) -> dict[str, str]:
    """A season by key."""
    days = ",".join(DAYS[day] for day in season.days)
    lead = f"{SEASON_PREFIX}{season.name}"
    words = {lead: " ".join(filter(None, (show_time(season), season.zone, days)))}
    for prefix, field in _SEASON_FIELDS.items():
        words |= limit_words(getattr(season, field), f"{lead}.{prefix}".rstrip("."))
    return words


def limit_words(amounts: Mapping[str, int], prefix: str) -> dict[str, str]:
    """Amounts by key: {"guaranteed.gpus": "8"}."""
    lead = f"{prefix}." if prefix else ""
    return {lead + show_dimension(name): str(show_amount(name, value)) for name, value in sorted(amounts.items())}


def is_dimension(name: str) -> bool:
    """True for what amounts are counted in: gpus, gpus:MODEL, memory, device:NAME."""
    try:
        read_dimension(name)
    except WrongValueError:
        return False
    return True


def unknown_key(key: str, known: Iterable[str] = ()) -> UsageError:
    """Nothing is set by this key; one of the known ones may have been meant."""
    step = "See the keys with `gangline quota set --help`."
    return UsageError(f"{key!r} is no setting{did_you_mean(key, known)}", next_step=step)

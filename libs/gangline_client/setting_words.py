"""A setting's value as people read it: amounts by the keys that change them, moments as dates, all else as JSON."""

import json
from typing import Any

import msgspec

from gangline_client import quantities as q
from gangline_client.quota_amounts import limit_words, season_words
from gangline_core.limits.calendar import Season
from gangline_wire.durations import show_seconds
from gangline_wire.quantity import show_milli

AMOUNTS = frozenset({"limit", "guaranteed", "borrow_limit", "lend_limit", "user_limit", "job_limit"})
SECONDS = frozenset({"time_limit", "time_limit_s_max"})
"""Durations whose names do not say their unit."""
PRICES = "prices"
"""The kind of setting that is one map, in thousandths."""
WINDOW = "window"
MOMENTS_MS = 100_000_000_000
"""From there on a number of ms is a moment, and no duration."""


def value_words(field: str, value: Any) -> str:
    """The value of this field; "-" where there is none."""
    match value:
        case None | "":
            return "-"
        case {} | [] if not value:
            return "-"
        case str():
            return value
        case int() if field.endswith("_ms") and value >= MOMENTS_MS:
            return q.moment(value)
        case int() if field in SECONDS:
            return show_seconds(value) if value else "-"
        case list() | tuple() if field == "seasons":
            seasons = msgspec.convert(value, list[Season])
            return ", ".join(f"{key}={word}" for season in seasons for key, word in season_words(season).items())
        case dict() if field == PRICES:
            return ", ".join(f"{model}={show_milli(price)}" for model, price in sorted(value.items()))
        case {"start_ms": int(start), "end_ms": int(end)} if field == WINDOW:
            return f"{q.moment(start)} to {q.moment(end)}"
        case dict() if field in AMOUNTS and all(isinstance(amount, int) for amount in value.values()):
            return ", ".join(f"{key}={amount}" for key, amount in limit_words(value, "").items())
        case _:
            return json.dumps(value)

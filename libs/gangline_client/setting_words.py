"""A setting's value as people read it: amounts by the keys that change them, moments as dates, all else as JSON."""

import json
from typing import Any

from gangline_client import quantities as q
from gangline_client.quota_amounts import limit_words

AMOUNTS = frozenset({"limit", "guaranteed", "borrow_limit", "lend_limit", "user_limit", "job_limit"})
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
        case dict() if field in AMOUNTS and all(isinstance(amount, int) for amount in value.values()):
            return ", ".join(f"{key}={amount}" for key, amount in limit_words(value, "").items())
        case _:
            return json.dumps(value)

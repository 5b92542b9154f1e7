"""How long things last, as written and read: whole seconds.

Grammar (ASCII, no spaces, no sign):

    duration = digits | [amount "d"] [amount "h"] [amount "m"] [amount "s"]      at least one part, in this order
    amount   = digits ["." 1 to 6 digits]

A bare number, as a JSON number or as text, is seconds: 90, "90", "90s" and "1m30s" are equal, "1.5h" is "1h30m". The
sum must be whole seconds. Everything else ("1:30", "14-0", "P1D", "-5") is refused.
"""

import re
from decimal import Decimal
from functools import lru_cache

from gangline_wire.problem import WrongValueError
from gangline_wire.quantity import kind_name, shown

_AMOUNT = r"[0-9]{1,12}(?:\.[0-9]{1,6})?"
_PARTS = re.compile(rf"(?:({_AMOUNT})d)?(?:({_AMOUNT})h)?(?:({_AMOUNT})m)?(?:({_AMOUNT})s)?", re.ASCII)
_SECONDS = re.compile(r"[0-9]{1,19}", re.ASCII)
EXACT_MOST = 2.0**53
"""Larger floats are not exact any more."""

_SIZES = (86_400, 3_600, 60, 1)

HOW = 'write "90s", "15m", "1h30m", "2d" or a number of seconds'


def read_seconds(value: object) -> int:
    """Whole seconds.

    Raises:
        WrongValueError: no such duration.
    """
    if type(value) is int:
        if value < 0:
            raise WrongValueError("must not be negative")
        return value
    if type(value) is float and 0 <= value < EXACT_MOST and value.is_integer():
        return int(value)
    if type(value) is not str:
        raise WrongValueError(f"must be a whole number of seconds or text: {HOW}; not {kind_name(value)}")
    return _of_text(value)


def show_seconds(seconds: int) -> str:
    """The canonical form: "1h30m", "90s" is "1m30s", 0 is "0s"."""
    parts = []
    for size, unit in zip(_SIZES, "dhms", strict=True):
        amount, seconds = divmod(seconds, size)
        if amount:
            parts.append(f"{amount}{unit}")
    return "".join(parts) or "0s"


@lru_cache(maxsize=1024)  # few different durations are ever written, and a submit should be quick
def _of_text(value: str) -> int:
    if _SECONDS.fullmatch(value):
        return int(value)
    match = _PARTS.fullmatch(value)
    if match is None or not value:
        raise WrongValueError(f'"{shown(value)}" is no duration; {HOW}')
    total = Decimal(0)
    for amount, size in zip(match.groups(), _SIZES, strict=True):
        if amount is not None:
            total += Decimal(amount) * size
    if total != total.to_integral_value():
        raise WrongValueError(f'"{shown(value)}" is not a whole number of seconds')
    return int(total)

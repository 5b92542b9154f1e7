"""How amounts are written and read: GPUs and CPUs in thousandths, memory in MiB.

Grammar (ASCII, no spaces, no sign, no exponent; "[x]" may be left out):

    count   = digits ["." 1 to 3 digits] | digits "m"        2, 0.5, "0.5", "500m"; "m" is a thousandth
    memory  = digits ["." 1 to 6 digits] unit                 "16Gi", "1.5Gi", "1536Mi", "1G"
    unit    = "Ki" | "Mi" | "Gi" | "Ti" | "Pi" (powers of 1024) | "k" | "M" | "G" | "T" | "P" (powers of 1000)

A count may be a JSON number; a JSON number with a fraction must be exact in thousandths. Memory needs its unit (a bare
0 is 0), is kept in MiB and rounded up to the next whole one: "1G" is 954 MiB.
"""

import re
from decimal import Decimal
from functools import lru_cache
from math import isfinite

from gangline_wire.problem import WrongValueError

MEBIBYTE = 1 << 20
UNITS = {
    "Ki": 1 << 10,
    "Mi": 1 << 20,
    "Gi": 1 << 30,
    "Ti": 1 << 40,
    "Pi": 1 << 50,
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "P": 10**15,
}
DIGITS_MAX = 19
"""Longest number that is read at all; longer ones are refused before any arithmetic."""

_COUNT = re.compile(r"([0-9]{1,19})(?:\.([0-9]{1,3}))?", re.ASCII)
_TOO_FINE = re.compile(r"[0-9]{1,19}\.[0-9]{4,40}|[0-9]{1,19}\.[0-9]{1,40}m", re.ASCII)
TOO_FINE = "has more than three decimals; thousandths are the smallest share"
_THOUSANDTHS = re.compile(r"([0-9]{1,19})m", re.ASCII)
_MEMORY = re.compile(r"([0-9]{1,19})(?:\.([0-9]{1,6}))?(Ki|Mi|Gi|Ti|Pi|k|M|G|T|P)", re.ASCII)


def read_milli(value: object) -> int:
    """Thousandths from a number, "2", "0.5" or "500m".

    Raises:
        WrongValueError: no such amount.
    """
    if type(value) is int:
        return _not_negative(value) * 1000
    if type(value) is float:
        return _milli_of_float(value)
    if type(value) is str:
        return _milli_of_text(value)
    raise WrongValueError(f'must be a number such as 2 or 0.5, or text such as "500m", not {kind_name(value)}')


def read_mebibytes(value: object) -> int:
    """MiB from text such as "16Gi", rounded up.

    Raises:
        WrongValueError: no such amount, or no unit.
    """
    if type(value) is not str:
        if value == 0 and type(value) is int:
            return 0
        if isinstance(value, int | float) and not isinstance(value, bool):
            if not 0 < value < 10**DIGITS_MAX:  # no unit would make it right
                raise WrongValueError(f'{str(value)[:24]} is no amount of memory; write "16Gi" or "512Mi"')
            raise WrongValueError(f'needs a unit: write "{str(value)[:24]}Mi" or "{str(value)[:24]}Gi"')
        raise WrongValueError(f'must be text such as "16Gi", not {kind_name(value)}')
    return _mebibytes_of_text(value)


def show_milli(milli: int) -> str:
    """Thousandths as a user writes them: "2", "0.5"."""
    whole, rest = divmod(milli, 1000)
    return str(whole) if not rest else f"{whole}.{rest:03}".rstrip("0")


def kind_name(value: object) -> str:
    """What the value is, in the words of a job file."""
    names = {bool: "true or false", type(None): "null", dict: "a mapping", list: "a list", str: "text"}
    return names.get(type(value), "a number" if isinstance(value, int | float) else type(value).__name__)


def shown(text: str) -> str:
    """Text as it may stand in a message: short, nothing invisible."""
    return ascii(text[:40])[1:-1] + ("..." if len(text) > 40 else "")


def _not_negative(value: int) -> int:
    if value < 0:
        raise WrongValueError("must not be negative")
    return value


def _milli_of_float(value: float) -> int:
    if not isfinite(value):
        raise WrongValueError("must be a finite number")
    if value < 0:
        raise WrongValueError("must not be negative")
    milli = Decimal(repr(value)) * 1000
    if milli != milli.to_integral_value():
        raise WrongValueError(TOO_FINE)
    return int(milli)


def _milli_of_text(value: str) -> int:
    match = _COUNT.fullmatch(value)
    if match is not None:
        whole, fraction = match.groups()
        return int(whole) * 1000 + (int(fraction.ljust(3, "0")) if fraction else 0)
    match = _THOUSANDTHS.fullmatch(value)
    if match is not None:
        return int(match.group(1))
    if _TOO_FINE.fullmatch(value):
        raise WrongValueError(TOO_FINE)
    raise WrongValueError(f'"{shown(value)}" is no number; write 2, 0.5 or "500m" without spaces or sign')


@lru_cache(maxsize=1024)  # few different sizes are ever written, and a submit should be quick
def _mebibytes_of_text(value: str) -> int:
    match = _MEMORY.fullmatch(value)
    if match is None:
        raise WrongValueError(f'"{shown(value)}" is no amount of memory; write "16Gi", "1.5Gi", "512Mi" or "16G"')
    whole, fraction, unit = match.groups()
    scale = int("1" + "0" * len(fraction or ""))
    size = int(whole + (fraction or "")) * UNITS[unit]
    return (size + scale * MEBIBYTE - 1) // (scale * MEBIBYTE)

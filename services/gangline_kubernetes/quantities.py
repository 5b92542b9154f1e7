"""Kubernetes quantities ("96", "500m", "1536Mi", "2e3") as integers; capacity is rounded down, requests up."""

import re
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

SUFFIXES: dict[str, Decimal] = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "": Decimal(1),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "P": Decimal(10**15),
    "E": Decimal(10**18),
    "Ki": Decimal(1 << 10),
    "Mi": Decimal(1 << 20),
    "Gi": Decimal(1 << 30),
    "Ti": Decimal(1 << 40),
    "Pi": Decimal(1 << 50),
    "Ei": Decimal(1 << 60),
}
_QUANTITY = re.compile(r"([+-]?[0-9]*\.?[0-9]+|[+-]?[0-9]+\.)(?:([eE][+-]?[0-9]+)|([numkMGTPE]|[KMGTPE]i)?)")
_MIB = Decimal(1 << 20)
TEXT_CHARS_MAX = 64
"""No amount is written with more characters; what is longer cannot be read."""
EXPONENT_MAX = 30
MOST = 1 << 50
"""What is more than this is as good as this: no machine has it, and it can still be counted with."""


def amount(value: object) -> Decimal:
    """The plain number; what cannot be read is 0, as no promise can be built on it.

    Anybody may write anything into an annotation, so numbers that could not be counted with are cut.
    """
    text = str(value).strip() if not isinstance(value, str) else value.strip()
    match = _QUANTITY.fullmatch(text) if len(text) <= TEXT_CHARS_MAX and text.isascii() else None
    if match is None:
        return Decimal(0)
    number, exponent, suffix = match.groups()
    power = max(-EXPONENT_MAX, min(EXPONENT_MAX, int(exponent[1:]))) if exponent else 0
    return Decimal(f"{number}e{power}") * SUFFIXES[suffix or ""]


def whole(value: object, *, up: bool = False) -> int:
    """As a whole number."""
    return _rounded(amount(value), up=up)


def milli(value: object, *, up: bool = False) -> int:
    """In thousandths."""
    return _rounded(amount(value) * 1000, up=up)


def mebibytes(value: object, *, up: bool = False) -> int:
    """In MiB."""
    return _rounded(amount(value) / _MIB, up=up)


def _rounded(number: Decimal, *, up: bool) -> int:
    return max(-MOST, min(MOST, int(number.to_integral_value(ROUND_CEILING if up else ROUND_FLOOR))))

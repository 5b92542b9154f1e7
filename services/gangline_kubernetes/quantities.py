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


def amount(value: object) -> Decimal:
    """The plain number; what cannot be read is 0, as no promise can be built on it."""
    match = _QUANTITY.fullmatch(str(value).strip())
    if match is None:
        return Decimal(0)
    number, exponent, suffix = match.groups()
    return Decimal(number + (exponent or "")) * SUFFIXES[suffix or ""]


def whole(value: object, *, up: bool = False) -> int:
    """As a whole number."""
    return int(amount(value).to_integral_value(ROUND_CEILING if up else ROUND_FLOOR))


def milli(value: object, *, up: bool = False) -> int:
    """In thousandths."""
    return int((amount(value) * 1000).to_integral_value(ROUND_CEILING if up else ROUND_FLOOR))


def mebibytes(value: object, *, up: bool = False) -> int:
    """In MiB."""
    return int((amount(value) / _MIB).to_integral_value(ROUND_CEILING if up else ROUND_FLOOR))

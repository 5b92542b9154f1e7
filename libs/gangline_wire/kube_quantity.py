"""Kubernetes quantities ("96", "500m", "1536Mi", "2e3"), exactly as numbers."""

import re
from decimal import Decimal

from gangline_wire.problem import WrongValueError

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
TEXT_CHARS_MAX = 64
"""No amount is written with more characters; what is longer cannot be read."""
EXPONENT_MAX = 30
"""Larger powers of ten are cut to this one."""
_QUANTITY = re.compile(r"([+-]?[0-9]*\.?[0-9]+|[+-]?[0-9]+\.)(?:([eE][+-]?[0-9]+)|([numkMGTPE]|[KMGTPE]i)?)")


def read_quantity(value: object) -> Decimal:
    """The plain number that a quantity is.

    Raises:
        WrongValueError: no quantity of Kubernetes.
    """
    text = str(value).strip()
    match = _QUANTITY.fullmatch(text) if len(text) <= TEXT_CHARS_MAX and text.isascii() else None
    if match is None:
        raise WrongValueError(f'must be a quantity such as 2, "500m" or "16Gi", not {text[:TEXT_CHARS_MAX]!r}')
    number, exponent, suffix = match.groups()
    power = max(-EXPONENT_MAX, min(EXPONENT_MAX, int(exponent[1:]))) if exponent else 0
    return Decimal(f"{number}e{power}") * SUFFIXES[suffix or ""]

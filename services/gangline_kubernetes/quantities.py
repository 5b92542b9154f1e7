"""Kubernetes quantities ("96", "500m", "1536Mi", "2e3") as integers; capacity is rounded down, requests up."""

from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from gangline_wire.kube_quantity import read_quantity
from gangline_wire.problem import WrongValueError

_MIB = Decimal(1 << 20)
MOST = 1 << 50
"""What is more than this is as good as this: no machine has it, and it can still be counted with."""


def amount(value: object) -> Decimal:
    """The plain number; what cannot be read is 0, as no promise can be built on it.

    Anybody may write anything into an annotation, so numbers that could not be counted with are cut.
    """
    try:
        return read_quantity(value)
    except WrongValueError:
        return Decimal(0)


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

"""The Common Expression Language, in which definitions and policies state their rules; by its own C++ runtime."""

from functools import cache
from typing import Any

from cel_expr_python import cel  # type: ignore[import-untyped]  # its wheel has no types
from cel_expr_python.ext import ext_optional, ext_strings  # type: ignore[import-untyped]  # its wheel has no types

NAMES = ("self", "oldSelf", "object", "oldObject", "request", "namespaceObject", "params", "variables")
"""What a rule may speak of; a rule that names anything else does not compile."""


class CelError(Exception):
    """An expression that does not compile, or that cannot be answered for this value."""


@cache
def _environment() -> Any:
    return cel.NewEnv(
        variables={name: cel.Type.DYN for name in NAMES},
        extensions=[ext_optional.ExtOptional(), ext_strings.ExtStrings()],
    )


@cache
def compiled(expression: str) -> Any:
    """The expression, ready to be asked.

    Raises:
        CelError: it is none.
    """
    try:
        return _environment().compile(expression)
    except RuntimeError as error:
        raise CelError(str(error)) from error


def value(expression: str, **data: Any) -> Any:
    """What the expression is for this data.

    Raises:
        CelError: it does not compile, or the data lacks what it speaks of.
    """
    found = compiled(expression).eval(data=data)
    if found.type() == cel.Type.ERROR:
        raise CelError(str(found.value()))
    return found.plain_value()


def holds(expression: str, **data: Any) -> bool:
    """Whether the rule holds.

    Raises:
        CelError: as `value`.
    """
    return value(expression, **data) is True


def is_transition(expression: str) -> bool:
    """True for a rule about a change, which is not asked of new objects."""
    return "oldSelf" in expression

"""How KEY=VALUE changes of a pool's policy are read: which setting a key means, and how its value is spelled."""

from collections.abc import Callable
from difflib import get_close_matches
from typing import Any

import msgspec

from gangline_core.cluster import Policy
from gangline_wire.durations import read_seconds
from gangline_wire.problem import WrongValueError

SWITCHES = ("preemption", "shrink", "backfill", "elastic_growth")
NAMES = ("ordering", "formula", "placement")
COUNTS = ("candidates_max", "candidates_per_shape")
DEFAULT = Policy()
OTHERS = tuple(
    field.name
    for field in msgspec.structs.fields(Policy)
    if field.name not in (*SWITCHES, *NAMES, *COUNTS, "starvation_s", "version")
    and isinstance(getattr(DEFAULT, field.name), bool | int | str)
)
"""Settings that are shown only where they are not as by default."""


class NoChangeError(WrongValueError):
    """A text that is not KEY=VALUE."""


class UnknownKeyError(WrongValueError):
    """A key that no setting has."""


def changed(policy: Policy, text: str, *, model: Callable[[str], str]) -> Policy:
    """The policy with one change; `model` gives the text of a model that is asked for by `@FILE`.

    Raises:
        WrongValueError: it is no change of a setting, or its value is none.
    """
    key, equals, value = text.partition("=")
    if not equals:
        raise NoChangeError(f"{text!r} is not KEY=VALUE")
    return msgspec.structs.replace(policy, **_read(key.strip(), value.strip(), model))


def _read(key: str, value: str, model: Callable[[str], str]) -> dict[str, Any]:
    """The field that a key means, with its value; what cannot be empty is as by default again without one."""
    field = f"{key}_s" if key == "starvation" or f"{key}_s" in OTHERS else key
    if field not in ("starvation_s", *NAMES, *SWITCHES, *COUNTS, *OTHERS):
        keys = ("starvation", *NAMES, *SWITCHES, *COUNTS, *(name.removesuffix("_s") for name in OTHERS))
        near = get_close_matches(key, keys, n=1, cutoff=0.7)
        raise UnknownKeyError(f"{key!r} is no setting" + (f"; did you mean {near[0]}?" if near else ""))
    default = getattr(DEFAULT, field)
    if not value and (key in NAMES or not isinstance(default, str)):
        return {field: default}
    if field.endswith("_s"):
        try:
            return {field: read_seconds(value)}
        except WrongValueError as error:
            raise WrongValueError(f"{key}: {error}") from error
    if isinstance(default, bool):
        if value not in {"true", "false"}:
            raise WrongValueError(f"{key}: {value!r} is neither true nor false")
        return {key: value == "true"}
    if isinstance(default, str):
        return {key: model(value[1:]) if key == "model" and value.startswith("@") else value}
    if not (value.isascii() and value.isdecimal()):
        raise WrongValueError(f"{key}: {value!r} is no whole number")
    return {key: int(value)}

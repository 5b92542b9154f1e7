"""How KEY=VALUE changes of a quota are read: which setting a key means, and how its value is spelled."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from gangline_client.durations import seconds
from gangline_client.errors import UsageError
from gangline_client.words import amount, dimension_name
from gangline_core.groups import Group, User
from gangline_wire.problem import WrongValueError
from gangline_wire.quantity import read_mebibytes, read_milli

LIMIT_FIELDS = {"": "limit", "limit": "limit", "guaranteed": "guaranteed", "user": "user_limit", "job": "job_limit"}
"""What stands before the dot of a key -> field of the group; without a dot it is the limit."""
DIMENSIONS = {"gpus": "gpu_milli", "cpus": "cpu_milli", "memory": "memory_mib", "jobs": "jobs"}
COUNTS = {
    "weight": "weight",
    "level": "level",
    "queued_jobs": "queued_jobs_max",
    "submits_per_minute": "submits_per_minute",
    "budget": "budget_gpu_hours",
}
"""Keys whose value is a whole number."""


def change_group(group: Group, changes: list[str]) -> Group:
    """The group with the changes made.

    Raises:
        UsageError: a key is unknown or a value cannot be read.
    """
    for text in changes:
        key, value = _split(text)
        group = msgspec.structs.replace(group, **_group_change(group, key, value))
    return group


def change_user(user: User, changes: list[str]) -> User:
    """The user with the changes made.

    Raises:
        UsageError: a key is unknown, does not belong to a user, or a value cannot be read.
    """
    for text in changes:
        key, value = _split(text)
        user = msgspec.structs.replace(user, **_user_change(user, key, value))
    return user


def group_words(group: Group) -> dict[str, str]:
    """The group's settings by key, as a user would write them; what is not set is left out."""
    words: dict[str, str] = {}
    for prefix, field in (("", "limit"), ("guaranteed", "guaranteed"), ("user", "user_limit"), ("job", "job_limit")):
        words |= _limit_words(getattr(group, field), prefix)
    words |= _count_words(group, COUNTS)
    if group.heads:
        words["heads"] = ",".join(group.heads)
    if group.time_limit_s_max:
        words["time_limit"] = f"{group.time_limit_s_max}s"
    return words


def user_words(user: User) -> dict[str, str]:
    """The user's settings by key."""
    return _limit_words(user.limit, "") | _count_words(user, COUNTS)


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """One line per setting that changes: "gpus: 4 -> 8"."""
    keys = sorted({*before, *after})
    shown = [(key, before.get(key, "-"), after.get(key, "-")) for key in keys]
    return [f"{key}: {old} -> {new}" for key, old, new in shown if old != new]


def _group_change(group: Group, key: str, value: str) -> dict[str, Any]:
    if key in COUNTS:
        return {COUNTS[key]: _count(key, value)}
    if key == "heads":
        return {"heads": tuple(name for name in value.split(",") if name)}
    if key == "time_limit":
        return {"time_limit_s_max": seconds(value, flag=key) if value else 0}
    prefix, _, name = key.rpartition(".")
    if prefix not in LIMIT_FIELDS:
        raise _unknown(key)
    field = LIMIT_FIELDS[prefix]
    return {field: _changed(getattr(group, field), key, name, value)}


def _user_change(user: User, key: str, value: str) -> dict[str, Any]:
    if key in COUNTS and hasattr(user, COUNTS[key]):
        return {COUNTS[key]: _count(key, value)}
    if key.rpartition(".")[0] not in {"", "limit"}:
        raise _unknown(key)
    return {"limit": _changed(user.limit, key, key.rpartition(".")[2], value)}


def _changed(amounts: Mapping[str, int], key: str, name: str, value: str) -> dict[str, int]:
    """The amounts with one dimension set, or removed when the value is empty."""
    kind, colon, model = name.partition(":")
    if kind not in DIMENSIONS or (colon and (kind != "gpus" or not model)):
        raise _unknown(key)
    dimension = DIMENSIONS[kind] + colon + model
    kept = {other: held for other, held in amounts.items() if other != dimension}
    return kept if value in {"", "none"} else {**kept, dimension: _read(key, kind, value)}


def _read(key: str, kind: str, value: str) -> int:
    readers: dict[str, Callable[[object], int]] = {"gpus": read_milli, "cpus": read_milli, "memory": read_mebibytes}
    if kind == "jobs":
        return _count(key, value)
    try:
        return readers[kind](value)
    except WrongValueError as error:
        raise UsageError(f"{key}: {error}") from error


def _count(key: str, value: str) -> int:
    try:
        return int(value or "0")
    except ValueError:
        raise UsageError(f"{key}: {value!r} is no whole number") from None


def _split(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"{text!r} is not KEY=VALUE", next_step="For instance: gangline quota set research gpus=8.")
    return key.strip(), value.strip()


def _unknown(key: str) -> UsageError:
    return UsageError(f"{key!r} is no setting", next_step="See the keys with `gangline quota set --help`.")


def _limit_words(amounts: Mapping[str, int], prefix: str) -> dict[str, str]:
    lead = f"{prefix}." if prefix else ""
    return {lead + dimension_name(name): amount(name, value) for name, value in sorted(amounts.items())}


def _count_words(settings: Group | User, fields: Mapping[str, str]) -> dict[str, str]:
    """Counts that differ from what a fresh group or user has."""
    fresh = Group(path="") if isinstance(settings, Group) else User(name="", group="")
    known = {key: field for key, field in fields.items() if hasattr(settings, field)}
    return {key: str(getattr(settings, f)) for key, f in known.items() if getattr(settings, f) != getattr(fresh, f)}

"""How KEY=VALUE changes of a quota are read: which setting a key means, and how its value is spelled."""

from collections.abc import Mapping
from typing import Any

import msgspec

from gangline_client.durations import seconds
from gangline_client.errors import UsageError
from gangline_client.quota_amounts import (
    SEASON_PREFIX,
    change_season,
    changed_amounts,
    is_dimension,
    limit_words,
    season_words,
    unknown_key,
)
from gangline_core.groups import BudgetMode, BudgetPeriod, Group, User
from gangline_wire.amounts import show_dimension
from gangline_wire.durations import show_seconds

LIMIT_FIELDS = {
    "": "limit",
    "limit": "limit",
    "guaranteed": "guaranteed",
    "user": "user_limit",
    "job": "job_limit",
    "borrow": "borrow_limit",
    "lend": "lend_limit",
}
"""What stands before the dot of a key -> field of the group; without a dot it is the limit."""
COUNTS = {
    "weight": "weight",
    "level": "level",
    "queued_jobs": "queued_jobs_max",
    "submits_per_minute": "submits_per_minute",
    "budget": "budget_gpu_hours",
    "user.queued_jobs": "user_queued_jobs_max",
    "user.submits_per_minute": "user_submits_per_minute",
}
"""Keys whose value is a whole number."""
BOUNDS = {"priority_max": "priority_max", "user.priority_max": "user_priority_max"}
"""Keys whose value is a whole number, or nothing for no bound."""

OTHER_KEYS = ("budget_mode", "budget_period", "budget_zone", "levels", "heads", "time_limit")
AMOUNTS = ("gpus", "gpu_memory", "cpus", "memory", "jobs")
GROUP_KEYS = (*COUNTS, *BOUNDS, *OTHER_KEYS, *(f"{p}.{a}" if p else a for p in LIMIT_FIELDS for a in AMOUNTS))
USER_KEYS = ("queued_jobs", "submits_per_minute", "level", "priority_max", "class", *AMOUNTS)
"""Keys that a wrong one may have been meant for."""


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
    for prefix, field in LIMIT_FIELDS.items():
        if prefix != "limit":
            words |= limit_words(getattr(group, field), prefix)
    words |= _count_words(group, COUNTS) | _bound_words(group)
    if group.budget_mode is not BudgetMode.START:
        words["budget_mode"] = group.budget_mode.value
    if group.budget_period is not None:
        words["budget_period"] = group.budget_period.value
    if group.budget_period is not None or group.budget_zone != "UTC":
        words["budget_zone"] = group.budget_zone
    if group.levels:
        words["levels"] = ",".join(group.levels)
    for season in group.seasons:
        words |= season_words(season)
    if group.heads:
        words["heads"] = ",".join(group.heads)
    if group.time_limit_s_max:
        words["time_limit"] = show_seconds(group.time_limit_s_max)
    return words | ({"closing": "yes"} if group.closing else {})


def user_words(user: User) -> dict[str, str]:
    """The user's settings by key."""
    words = limit_words(user.limit, "") | _count_words(user, COUNTS) | _bound_words(user)
    words |= {"class": user.of_class} if user.of_class else {}
    return words | ({"closing": "yes"} if user.closing else {})


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """One line per setting that changes: "gpus: 4 -> 8"."""
    keys = sorted({*before, *after})
    shown = [(key, before.get(key, "-"), after.get(key, "-")) for key in keys]
    return [f"{key}: {old} -> {new}" for key, old, new in shown if old != new]


def written_as(path: str) -> str:
    """The key by which people set a field of a group or user, of which the platform speaks by its path."""
    field, _, dimension = path.partition(".")
    below = {name: prefix for prefix, name in LIMIT_FIELDS.items() if prefix != "limit"}
    if field in below:
        word = show_dimension(dimension) if dimension else ""
        return ".".join(filter(None, (below[field], word))) or "limit"
    others = {"of_class": "class", "time_limit_s_max": "time_limit"}
    return next((key for key, name in (COUNTS | BOUNDS).items() if name == field), others.get(field, path))


def _group_change(group: Group, key: str, value: str) -> dict[str, Any]:
    if key in COUNTS:
        return {COUNTS[key]: _count(key, value)}
    if key in BOUNDS:
        return {BOUNDS[key]: _count(key, value) if value else None}
    if key == "budget_mode":
        return {"budget_mode": _mode(value)}
    if key == "budget_period":
        return {"budget_period": _period(value)}
    if key == "budget_zone":
        return {"budget_zone": value or "UTC"}
    if key == "levels":
        return {"levels": tuple(name for name in value.split(",") if name)}
    if key.startswith(SEASON_PREFIX):
        return {"seasons": change_season(group.seasons, key, value)}
    if key == "heads":
        return {"heads": tuple(name for name in value.split(",") if name)}
    if key == "time_limit":
        return {"time_limit_s_max": seconds(value, flag=key) if value else 0}
    prefix, _, name = key.rpartition(".")
    if prefix not in LIMIT_FIELDS or not is_dimension(name):
        raise unknown_key(key, GROUP_KEYS)
    field = LIMIT_FIELDS[prefix]
    return {field: changed_amounts(getattr(group, field), key, name, value)}


def _user_change(user: User, key: str, value: str) -> dict[str, Any]:
    if key in COUNTS and hasattr(user, COUNTS[key]):
        return {COUNTS[key]: _count(key, value)}
    if key == "priority_max":
        return {key: _count(key, value) if value else None}
    if key == "class":
        return {"of_class": value}
    prefix, _, name = key.rpartition(".")
    if prefix not in {"", "limit"} or not is_dimension(name):
        raise unknown_key(key, USER_KEYS)
    return {"limit": changed_amounts(user.limit, key, name, value)}


def _mode(value: str) -> BudgetMode:
    try:
        return BudgetMode(value or BudgetMode.START)
    except ValueError:
        raise UsageError(f"budget_mode: {value!r} is none of {', '.join(BudgetMode)}") from None


def _period(value: str) -> BudgetPeriod | None:
    try:
        return BudgetPeriod(value) if value else None
    except ValueError:
        raise UsageError(f"budget_period: {value!r} is none of {', '.join(BudgetPeriod)}") from None


def _bound_words(settings: Group | User) -> dict[str, str]:
    found = {key: getattr(settings, field, None) for key, field in BOUNDS.items()}
    return {key: str(bound) for key, bound in found.items() if bound is not None}


def _count(key: str, value: str) -> int:
    digits = value.removeprefix("-")
    if value and not (digits.isascii() and digits.isdecimal()):
        raise UsageError(f"{key}: {value!r} is no whole number")
    return int(value or "0")


def _split(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"{text!r} is not KEY=VALUE", next_step="For instance: gangline quota set research gpus=8.")
    return key.strip(), value.strip()


def _count_words(settings: Group | User, fields: Mapping[str, str]) -> dict[str, str]:
    """Counts that differ from what a fresh group or user has."""
    fresh = Group(path="") if isinstance(settings, Group) else User(name="", group="")
    known = {key: field for key, field in fields.items() if hasattr(settings, field)}
    return {key: str(getattr(settings, f)) for key, f in known.items() if getattr(settings, f) != getattr(fresh, f)}

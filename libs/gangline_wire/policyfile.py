"""The policy file: every setting of a platform as one readable YAML page (or JSON), already loaded.

    classes:  {student: {limit: {gpus: 1}}}
    groups:   {research: {limit: {gpus: 32}, heads: [ada], users: {bob: {class: student}}, groups: {vision: {...}}}}
    pools:    {default: {levels: {high: 1000, normal: 0}, policy: {ordering: weighted, starvation: 1h}}}
    prices:   {H100: 2.5, "*": 1}
    windows:  {bios: {pool: default, from: 2026-07-01T02:00:00Z, to: 2026-07-01T04:00:00Z, nodes: [n1]}}
    defaults: {limit: {gpus: 64}}             # of the whole cluster: the root of the group tree

`gangline_wire.policyfile_show` writes the same page from settings.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec.structs import fields as struct_fields

from gangline_core.cluster import PinnedCell, Policy, Pool
from gangline_core.groups import ROOT, BudgetMode, BudgetPeriod, Group, User, UserClass
from gangline_core.ids import NodeId
from gangline_core.reserving.windows import Window
from gangline_core.settings.document import Document
from gangline_wire.amounts import AMOUNT_MOST, read_amounts
from gangline_wire.durations import read_seconds
from gangline_wire.fields import (
    Fields,
    flag,
    is_full,
    join,
    listed,
    mapping,
    note,
    read_fields,
    str_key,
    text,
    visible_text,
)
from gangline_wire.jobfile_order import read_moment
from gangline_wire.jobfile_terms import read_group, read_priority, read_user
from gangline_wire.problem import FieldError, FieldErrorsError, WrongValueError
from gangline_wire.quantity import kind_name, read_milli
from gangline_wire.seasons import read_seasons

ROOT_KEY = "defaults"
"""Where the settings of the whole cluster stand."""


class PolicyFileError(FieldErrorsError):
    """A policy file that cannot be accepted; `errors` lists each wrong field with its path."""


OF_THE_LAB = (
    "stands in a page of the lab, for `gangline lab simulate --policy`; here it belongs to a pool: "
    "pools: {default: {policy: {...}}}"
)


def parse_policy(document: object) -> Document:
    """The settings the file describes.

    Raises:
        PolicyFileError: at least one field is unknown or wrong.
    """
    if not isinstance(document, dict):
        raise PolicyFileError([FieldError(path="", message=f"must be a mapping, not {kind_name(document)}")])
    if "policy" in document and "pools" not in document:
        raise PolicyFileError([FieldError(path="policy", message=OF_THE_LAB)])
    reader = _Reader()
    for key, value in document.items():
        if is_full(reader.errors):
            break
        part = _PARTS.get(key) if isinstance(key, str) else None
        if part is None:
            note(reader.errors, FieldError(path=str_key(key), message=f"is none of {', '.join(_PARTS)}"))
        elif value is not None:
            part(reader, value)
    if reader.errors:
        raise PolicyFileError(reader.errors)
    return Document(
        groups=tuple(reader.groups),
        users=tuple(reader.users),
        classes=tuple(reader.classes),
        pools=tuple(reader.pools),
        policies=reader.policies,
        prices=reader.prices,
        windows=reader.windows,
    )


class _Reader:
    """What was read so far, and what was wrong."""

    def __init__(self) -> None:
        self.errors: list[FieldError] = []
        self.groups: list[Group] = []
        self.users: list[User] = []
        self.classes: list[UserClass] = []
        self.pools: list[Pool] = []
        self.policies: dict[str, Policy] = {}
        self.prices: dict[str, int] | None = None
        self.windows: tuple[Window, ...] | None = None

    def entries(self, value: object, path: str) -> Iterator[tuple[str, Mapping[object, object]]]:
        """The named entries of a part, until too much is wrong; an empty one is {}."""
        try:
            found = mapping(value).items()
        except WrongValueError as error:
            note(self.errors, FieldError(path=path, message=str(error)))
            return
        for key, entry in found:
            if is_full(self.errors):
                return
            try:
                yield text(key), mapping({} if entry is None else entry)
            except WrongValueError as error:
                note(self.errors, FieldError(path=join(path, str_key(key)), message=str(error)))

    def fields(self, entry: Mapping[object, object], fields: Fields, path: str) -> dict[str, Any]:
        """The kept fields of an entry."""
        if is_full(self.errors):
            return {}
        errors: list[FieldError] = []
        kept = read_fields(entry, fields, errors)
        for error in errors:
            note(self.errors, FieldError(path=join(path, error.path), message=error.message))
        return kept

    def read_root(self, value: object) -> None:
        """The settings of the whole cluster."""
        for _, entry in self.entries({ROOT_KEY: value}, ""):
            self.groups.append(Group(path=ROOT, **self.fields(entry, GROUP_FIELDS, ROOT_KEY)))

    def read_groups(self, value: object, *, above: str = "", at: str = "groups") -> None:
        """Groups with what is below them."""
        for name, entry in self.entries(value, at):
            path, here = f"{above}/{name}" if above else name, join(at, name)
            try:
                read_group(path)
            except WrongValueError as error:
                note(self.errors, FieldError(path=here, message=str(error)))
                continue
            own = {key: part for key, part in entry.items() if key not in ("users", "groups")}
            self.groups.append(Group(path=path, **self.fields(own, GROUP_FIELDS, here)))
            for user, settings in self.entries(entry.get("users") or {}, join(here, "users")):
                where = join(join(here, "users"), user)
                self.users.append(User(name=user, group=path, **self.fields(settings, USER_FIELDS, where)))
            self.read_groups(entry.get("groups") or {}, above=path, at=join(here, "groups"))

    def read_classes(self, value: object) -> None:
        """Classes of users."""
        for name, entry in self.entries(value, "classes"):
            self.classes.append(UserClass(name=name, **self.fields(entry, CLASS_FIELDS, f"classes.{name}")))

    def read_pools(self, value: object) -> None:
        """Pools with their policies; one of which nothing but a policy is said stays as it is."""
        for name, entry in self.entries(value, "pools"):
            at = f"pools.{name}"
            kept = self.fields(entry, POOL_FIELDS, at)
            policy = kept.pop("policy", None)
            if kept or policy is None:
                self.pools.append(Pool(name=name, **kept))
            if policy is not None:
                self.read_policy(name, policy, f"{at}.policy")

    def read_policy(self, pool: str, value: Mapping[object, object], at: str) -> None:
        """A pool's policy; what it does not say is as by default."""
        kept = self.fields(value, POLICY_FIELDS, at)
        try:
            self.policies[pool] = msgspec.convert(kept, Policy, strict=True)
        except msgspec.ValidationError as error:
            message, _, field = str(error).partition(" - at `$.")
            note(self.errors, FieldError(path=join(at, field.rstrip("`")), message=message))

    def read_prices(self, value: object) -> None:
        """The price list."""
        prices: dict[str, int] = {}
        try:
            for model, price in mapping(value).items():
                if is_full(self.errors):
                    break
                try:
                    prices[text(model)] = read_milli(price)
                except WrongValueError as error:
                    note(self.errors, FieldError(path=f"prices.{str_key(model)}", message=str(error)))
        except WrongValueError as error:
            note(self.errors, FieldError(path="prices", message=str(error)))
        self.prices = prices

    def read_windows(self, value: object) -> None:
        """Dated capacity."""
        windows: list[Window] = []
        for name, entry in self.entries(value, "windows"):
            at = f"windows.{name}"
            kept = self.fields(entry, WINDOW_FIELDS, at)
            for word in ("from", "to"):
                if word not in entry:
                    note(self.errors, FieldError(path=join(at, word), message="is missing"))
            if "start_ms" in kept and "end_ms" in kept:
                windows.append(Window(name=name, **{"pool": "default", **kept}))
        self.windows = tuple(windows)


_PARTS = {
    ROOT_KEY: _Reader.read_root,
    "classes": _Reader.read_classes,
    "groups": _Reader.read_groups,
    "pools": _Reader.read_pools,
    "prices": _Reader.read_prices,
    "windows": _Reader.read_windows,
}
PARTS = tuple(_PARTS)
"""Names of the page's parts."""


# --- fields -------------------------------------------------------------------------------------------------


def _count(value: object) -> int:
    if type(value) is not int or not 0 <= value <= AMOUNT_MOST:
        raise WrongValueError(f"must be a whole number from 0 to {AMOUNT_MOST}")
    return value


def _names(value: object) -> tuple[str, ...]:
    return tuple(text(one) for one in listed(value, "group_users"))


def _users(value: object) -> tuple[str, ...]:
    return tuple(read_user(one) for one in listed(value, "group_users"))


def _nodes(value: object) -> tuple[NodeId, ...]:
    return tuple(NodeId(name) for name in _names(value))


def _mode(value: object) -> BudgetMode:
    try:
        return BudgetMode(text(value))
    except ValueError:
        raise WrongValueError(f"must be one of {', '.join(BudgetMode)}") from None


def _period(value: object) -> BudgetPeriod:
    try:
        return BudgetPeriod(text(value))
    except ValueError:
        raise WrongValueError(f"must be one of {', '.join(BudgetPeriod)}") from None


def _levels(value: object) -> dict[str, int]:
    return {text(name): read_priority(band) for name, band in mapping(value).items()}


def _labels(value: object) -> dict[str, str]:
    return {text(name): text(label) for name, label in mapping(value).items()}


def _cells(value: object) -> dict[str, dict[str, int]]:
    return {text(group): {text(k): _count(n) for k, n in mapping(own).items()} for group, own in mapping(value).items()}


def _pinned(value: object) -> dict[str, PinnedCell]:
    errors: list[FieldError] = []
    found: dict[str, PinnedCell] = {}
    for name, own in mapping(value).items():
        if is_full(errors):
            break
        wrong: list[FieldError] = []
        kept = read_fields(mapping(own), PINNED_FIELDS, wrong)
        if not wrong:
            wrong = [FieldError(path=field, message="is missing") for field in PINNED_FIELDS if field not in kept]
        if wrong:
            errors += [FieldError(path=join(str_key(name), one.path), message=one.message) for one in wrong]
        else:
            found[text(name)] = PinnedCell(**kept)
    if errors:
        raise FieldErrorsError(errors)
    return found


def _as_it_is(value: object) -> object:
    return value


_LIMITS = ("guaranteed", "limit", "user_limit", "job_limit", "borrow_limit", "lend_limit")
CLASS_FIELDS: Fields = {
    "limit": ("limit", read_amounts),
    "level": ("level", read_priority),
    "queued_jobs": ("queued_jobs_max", _count),
    "submits_per_minute": ("submits_per_minute", _count),
    "priority_max": ("priority_max", read_priority),
}
USER_FIELDS: Fields = {**CLASS_FIELDS, "class": ("of_class", text), "closing": ("closing", flag)}
GROUP_FIELDS: Fields = {
    **{name: (name, read_amounts) for name in _LIMITS},
    "weight": ("weight", _count),
    "level": ("level", read_priority),
    "heads": ("heads", _users),
    "queued_jobs": ("queued_jobs_max", _count),
    "submits_per_minute": ("submits_per_minute", _count),
    "user_queued_jobs": ("user_queued_jobs_max", _count),
    "user_submits_per_minute": ("user_submits_per_minute", _count),
    "time_limit": ("time_limit_s_max", read_seconds),
    "budget": ("budget_gpu_hours", _count),
    "budget_mode": ("budget_mode", _mode),
    "budget_period": ("budget_period", _period),
    "budget_zone": ("budget_zone", text),
    "priority_max": ("priority_max", read_priority),
    "user_priority_max": ("user_priority_max", read_priority),
    "levels": ("levels", _names),
    "seasons": ("seasons", read_seasons),
    "closing": ("closing", flag),
}
PINNED_FIELDS: Fields = {"group": ("group", read_group), "level": ("level", text), "cell": ("cell", text)}
POOL_FIELDS: Fields = {
    "levels": ("levels", _levels),
    "topology": ("topology", _labels),
    "cells": ("cells", _cells),
    "pinned": ("pinned", _pinned),
    "grows": ("grows", flag),
    "policy": ("policy", mapping),
}
WINDOW_FIELDS: Fields = {
    "pool": ("pool", text),
    "from": ("start_ms", read_moment),
    "to": ("end_ms", read_moment),
    "nodes": ("nodes", _nodes),
    "groups": ("groups", _names),
    "users": ("users", _users),
    "why": ("why", visible_text("why_chars")),
}
POLICY_FIELDS: Fields = {
    **{field.name: (field.name, _as_it_is) for field in struct_fields(Policy) if field.name != "version"},
    **{
        field.name.removesuffix("_s"): (field.name, read_seconds)
        for field in struct_fields(Policy)
        if field.name.endswith("_s")
    },
}
"""Fields of a policy by their names; durations also without their unit, as "starvation: 1h"."""

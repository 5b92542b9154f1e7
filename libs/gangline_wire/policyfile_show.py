"""Settings written as a policy file; what is as it is by default is left out."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import Struct

from gangline_core.cluster import Policy, Pool
from gangline_core.groups import ROOT, Group, User, UserClass
from gangline_core.reserving.windows import Window
from gangline_core.settings.document import Document
from gangline_core.settings.document_change import Wrong
from gangline_wire.amounts import NAMES, show_amounts, show_dimension
from gangline_wire.durations import show_seconds
from gangline_wire.fields import Fields, join
from gangline_wire.policyfile import CLASS_FIELDS, GROUP_FIELDS, ROOT_KEY, USER_FIELDS
from gangline_wire.seasons import show_season

Page = dict[str, Any]


def show_policy(document: Document) -> Page:
    """The page that reads as this document."""
    tree: Page = {}
    by_path = {group.path: group for group in document.groups}
    page: Page = {}
    if ROOT in by_path:
        page[ROOT_KEY] = _settings(by_path[ROOT], GROUP_FIELDS, Group(path=ROOT))
    if document.classes:
        page["classes"] = {one.name: _settings(one, CLASS_FIELDS, UserClass(name="")) for one in document.classes}
    for path in sorted(by_path):
        if path != ROOT:
            _place(tree, path)[path.rpartition("/")[2]] = _settings(by_path[path], GROUP_FIELDS, Group(path=""))
    for user in document.users:
        group = _place(tree, user.group).setdefault(user.group.rpartition("/")[2], {})
        group.setdefault("users", {})[user.name] = _settings(user, USER_FIELDS, User(name="", group=""))
    if tree:
        page["groups"] = _sorted_below(tree)
    if document.pools or document.policies:
        names = sorted({pool.name for pool in document.pools} | document.policies.keys())
        pools = {pool.name: pool for pool in document.pools}
        page["pools"] = {name: _pool(pools.get(name), document.policies.get(name)) for name in names}
    if document.prices:
        page["prices"] = {model: _milli(price) for model, price in sorted(document.prices.items())}
    if document.windows:
        page["windows"] = {window.name: _window(window) for window in document.windows}
    return page


def field_word(kind: str, field: str) -> str:
    """What people write for a field: "queued_jobs_max" of a group is "queued_jobs"."""
    fields: Mapping[str, Fields] = {"group": GROUP_FIELDS, "user": USER_FIELDS, "class": CLASS_FIELDS}
    return next((word for word, (name, _) in fields.get(kind, {}).items() if name == field), field)


def path_of(wrong: Wrong) -> str:
    """Where in the policy file a problem is, in the file's own words."""
    field, _, rest = wrong.problem.field.partition(".")
    below = show_dimension(rest) if rest.partition(":")[0] in NAMES else rest
    word = join(field_word(wrong.kind, field), below)
    return join(_place_of(wrong.kind, wrong.name), word)


def _place_of(kind: str, name: str) -> str:
    if kind == "group":
        return f"groups.{name.replace('/', '.groups.')}" if name != ROOT else ROOT_KEY
    if kind == "user":
        group, _, user = name.rpartition(":")
        return f"{_place_of('group', group)}.users.{user}"
    if kind == "policy":
        return f"pools.{name}.policy"
    return {"class": f"classes.{name}", "pool": f"pools.{name}", "window": f"windows.{name}"}.get(kind, kind)


def _place(tree: Page, path: str) -> Page:
    """The mapping in which the group stands."""
    here = tree
    for name in path.split("/")[:-1]:
        here = here.setdefault(name, {}).setdefault("groups", {})
    return here


def _sorted_below(groups: Page) -> Page:
    """Own settings first, then users, then groups."""
    ordered: Page = {}
    for name, group in groups.items():
        own = {key: value for key, value in group.items() if key not in ("users", "groups")}
        if "users" in group:
            own["users"] = group["users"]
        if "groups" in group:
            own["groups"] = _sorted_below(group["groups"])
        ordered[name] = own
    return ordered


def _settings(known: Struct, fields: Fields, fresh: Struct) -> Page:
    page: Page = {}
    for word, (field, _) in fields.items():
        value = getattr(known, field)
        if value != getattr(fresh, field):
            page[word] = _shown(word, value)
    return page


def _shown(word: str, value: Any) -> Any:
    if word == "time_limit":
        return show_seconds(value)
    if word == "seasons":
        return {season.name: show_season(season) for season in value}
    if isinstance(value, dict):
        return show_amounts(value)
    return msgspec.to_builtins(value)


def _pool(pool: Pool | None, policy: Policy | None) -> Page:
    page: Page = {}
    if pool is not None:
        page |= {"levels": dict(pool.levels), "topology": dict(pool.topology)}
        if pool.cells:
            page["cells"] = {group: dict(own) for group, own in pool.cells.items()}
        if pool.pinned:
            page["pinned"] = {name: msgspec.to_builtins(pin) for name, pin in pool.pinned.items()}
        if pool.grows:
            page["grows"] = True
    if policy is not None:
        fresh = msgspec.to_builtins(Policy())
        own = msgspec.to_builtins(policy)
        kept = {name: value for name, value in own.items() if name != "version" and value != fresh.get(name)}
        page["policy"] = {
            "ordering": policy.ordering,
            "formula": policy.formula,
            "placement": policy.placement,
            **{_term(name): show_seconds(value) if name.endswith("_s") else value for name, value in kept.items()},
        }
    return page


def _term(name: str) -> str:
    return name.removesuffix("_s") if name.endswith("_s") else name


def _window(window: Window) -> Page:
    page: Page = {"pool": window.pool, "from": _moment(window.start_ms), "to": _moment(window.end_ms)}
    for name in ("nodes", "groups", "users"):
        if value := getattr(window, name):
            page[name] = list(value)
    if window.why:
        page["why"] = window.why
    return page


def _moment(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, tz=UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _milli(price: int) -> int | float:
    return price // 1000 if price % 1000 == 0 else price / 1000

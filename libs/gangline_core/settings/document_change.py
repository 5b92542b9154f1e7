"""All settings as one document: what it holds now, what another one would change, and whether that may be.

A document is whole for what it names: a group, user, class, pool or policy in it is set as it says, and what it does
not name is left alone. The price list and the dated capacity are set as lists: what is not in the list is gone.
"""

import copy
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import fields as struct_fields
from msgspec.structs import replace

from gangline_core.cluster import Policy, Pool
from gangline_core.door.draft import Draft
from gangline_core.facts import (
    ClassSet,
    Fact,
    GroupSet,
    PolicySet,
    PoolSet,
    PricesSet,
    UserSet,
    WindowRemoved,
    WindowSet,
)
from gangline_core.groups import Group, User, UserClass, user_key
from gangline_core.kept import PoolState
from gangline_core.reserving.windows import Window
from gangline_core.settings import check_all_of_policy, check_class, check_group, check_pool, check_user
from gangline_core.settings.amounts import Problem
from gangline_core.settings.dated import check_prices, check_window
from gangline_core.settings.document import Change, Document
from gangline_core.state import State

_UNSET: dict[str, Any] = {"version": 0}


class Wrong(Struct, frozen=True):
    """A problem, and which part of the document it is in."""

    kind: str
    name: str
    problem: Problem


def present(state: State) -> Document:
    """All settings as they are."""
    kept = state.kept
    return Document(
        groups=tuple(replace(group, version=0) for _, group in sorted(kept.groups.items())),
        users=tuple(replace(user, version=0) for _, user in sorted(kept.users.items())),
        classes=tuple(replace(one, version=0) for _, one in sorted(kept.classes.items())),
        pools=tuple(replace(pool.pool, version=0) for _, pool in sorted(kept.pools.items())),
        policies={name: replace(pool.policy, version=0) for name, pool in sorted(kept.pools.items())},
        prices=dict(sorted(kept.prices.items())),
        windows=tuple(replace(window, version=0) for _, window in sorted(kept.windows.items())),
    )


def version_of(state: State) -> int:
    """A number that is another one whenever any setting is."""
    data = msgspec.json.encode(present(state), order="deterministic")
    return int.from_bytes(blake2b(data, digest_size=6).digest(), "big")


def changes(state: State, wanted: Document) -> tuple[Change, ...]:
    """Every setting that would be another one, in the order of the document's parts."""
    return tuple(change for fact in facts(state, wanted, by="") for change in changes_of(state, fact))


def unnamed(state: State, wanted: Document) -> tuple[str, ...]:
    """What exists and the document does not name: it is left as it is."""
    kept = state.kept
    groups = kept.groups.keys() - {group.path for group in wanted.groups}
    users = kept.users.keys() - {user_key(user.group, user.name) for user in wanted.users}
    pools = kept.pools.keys() - {pool.name for pool in wanted.pools} - wanted.policies.keys()
    return (
        *(f"group {path or '(root)'}" for path in sorted(groups)),
        *(f"user {holder.rpartition(':')[2]} of {holder.rpartition(':')[0]}" for holder in sorted(users)),
        *(f"pool {name}" for name in sorted(pools)),
    )


def facts(state: State, wanted: Document, *, by: str, why: str = "") -> tuple[Fact, ...]:
    """What must be written so that the settings are as the document says; nothing for what is so already."""
    kept = state.kept
    next_version = kept.next_version
    return (
        *(
            ClassSet(user_class=replace(one, version=_version(known) + 1), by=by, why=why)
            for one in wanted.classes
            if not _is_same(known := kept.classes.get(one.name), one)
        ),
        *(
            GroupSet(group=replace(group, version=next_version(_version(found), group.path)), by=by, why=why)
            for group in sorted(wanted.groups, key=lambda group: group.path)
            if not _is_same(found := kept.groups.get(group.path), group)
        ),
        *(
            UserSet(
                user=replace(user, version=next_version(_version(member), user_key(user.group, user.name))),
                by=by,
                why=why,
            )
            for user in wanted.users
            if not _is_same(member := kept.users.get(user_key(user.group, user.name)), user)
        ),
        *(
            PoolSet(pool=replace(pool, version=_version(before) + 1), by=by, why=why)
            for pool in wanted.pools
            if not _is_same(before := _pool(state, pool.name), pool)
        ),
        *_policy_facts(state, wanted, by=by, why=why),
        *_dated_facts(state, wanted, by=by, why=why),
    )


def _policy_facts(state: State, wanted: Document, *, by: str, why: str) -> Iterator[Fact]:
    for name, policy in sorted(wanted.policies.items()):
        known = state.kept.pools.get(name)
        before = known.policy if known is not None else Policy()
        if not _is_same(before, policy):
            yield PolicySet(pool=name, policy=replace(policy, version=before.version + 1), by=by, why=why)


def _dated_facts(state: State, wanted: Document, *, by: str, why: str) -> Iterator[Fact]:
    kept = state.kept
    if wanted.prices is not None:
        milli = {model.lower(): price for model, price in wanted.prices.items()}
        if milli != kept.prices:
            yield PricesSet(milli=milli, by=by, why=why, version=kept.prices_version + 1)
    if wanted.windows is not None:
        for window in wanted.windows:
            before = kept.windows.get(window.name)
            if not _is_same(before, window):
                yield WindowSet(window=replace(window, version=_version(before) + 1), by=by, why=why)
        for name in sorted(kept.windows.keys() - {window.name for window in wanted.windows}):
            yield WindowRemoved(name=name, by=by, why=why)


# --- checking -----------------------------------------------------------------------------------------------


def check(state: State, wanted: Document, at: int) -> list[Wrong]:
    """Everything that is wrong with the document, each part checked against the whole of it."""
    after = imagined(state, wanted)
    parts: list[tuple[str, str, Problem | None]] = []
    parts += [("class", one.name, check_class(after, one)) for one in wanted.classes]
    parts += [("group", group.path, check_group(after, Draft(), group)) for group in wanted.groups]
    parts += [("user", user_key(user.group, user.name), check_user(after, Draft(), user)) for user in wanted.users]
    parts += [("pool", pool.name, check_pool(after, pool)) for pool in wanted.pools]
    for name, policy in wanted.policies.items():
        parts += [("policy", name, problem) for problem in _policy_problems(after, name, policy)]
    parts += [("prices", "", check_prices(wanted.prices or {}))]
    for window in wanted.windows or ():
        is_new = not _is_same(state.kept.windows.get(window.name), window)
        parts.append(("window", window.name, check_window(after, window, at) if is_new else None))
    return [Wrong(kind, name, problem) for kind, name, problem in parts if problem is not None]


def _policy_problems(after: State, name: str, policy: Policy) -> list[Problem]:
    if name not in after.kept.pools:
        return [Problem("not_found", f"there is no pool {name}")]
    return check_all_of_policy(after, policy, name)


def imagined(state: State, wanted: Document) -> State:
    """A state to ask, with the settings as the document says; what is derived is shared, so it must not be folded."""
    kept = state.kept
    pools = dict(kept.pools)
    for pool in wanted.pools:
        known = pools.get(pool.name)
        pools[pool.name] = PoolState(pool=pool, policy=known.policy if known is not None else Policy())
    after = copy.copy(state)
    after.kept = replace(
        kept,
        classes={**kept.classes, **{one.name: one for one in wanted.classes}},
        groups={**kept.groups, **{group.path: group for group in wanted.groups}},
        users={**kept.users, **{user_key(user.group, user.name): user for user in wanted.users}},
        pools=pools,
    )
    return after


# --- inside -------------------------------------------------------------------------------------------------


def _pool(state: State, name: str) -> Pool | None:
    known = state.kept.pools.get(name)
    return None if known is None else known.pool


def _version(known: Group | User | UserClass | Window | Pool | None) -> int:
    return 0 if known is None else known.version


def _is_same(known: Struct | None, wanted: Struct) -> bool:
    return known is not None and replace(known, **_UNSET) == replace(wanted, **_UNSET)


def changes_of(state: State, fact: Fact) -> Iterator[Change]:
    """What a fact will change when it is folded, setting by setting.

    Raises:
        ValueError: it is about no setting of the document.
    """
    kept = state.kept
    match fact:
        case ClassSet(user_class=one):
            yield from _fields("class", one.name, kept.classes.get(one.name), one)
        case GroupSet(group=group):
            yield from _fields("group", group.path, kept.groups.get(group.path), group)
        case UserSet(user=user):
            holder = user_key(user.group, user.name)
            yield from _fields("user", holder, kept.users.get(holder), user)
        case PoolSet(pool=pool):
            yield from _fields("pool", pool.name, _pool(state, pool.name), pool)
        case PolicySet(pool=name, policy=policy):
            known = kept.pools.get(name)
            yield from _fields("policy", name, known.policy if known is not None else Policy(), policy)
        case PricesSet(milli=milli):
            yield Change(kind="prices", name="", before=kept.prices, after=milli)
        case WindowSet(window=window):
            yield from _fields("window", window.name, kept.windows.get(window.name), window)
        case WindowRemoved(name=name):
            yield Change(kind="window", name=name, before=msgspec.to_builtins(kept.windows[name]), after=None)
        case _:
            raise ValueError(f"{type(fact).__name__} is no setting")


def _fields(kind: str, name: str, before: Struct | None, after: Struct) -> Iterator[Change]:
    """One change per field; a new thing that is as it is by default is one change without a field."""
    is_new = before is None
    found = False
    for field in struct_fields(type(after)):
        if field.name in ("version", "name", "path", "group"):
            continue
        old = _default(field) if before is None else getattr(before, field.name)
        new = getattr(after, field.name)
        if old != new:
            found = True
            shown = None if is_new else msgspec.to_builtins(old)
            yield Change(kind=kind, name=name, field=field.name, before=shown, after=msgspec.to_builtins(new))
    if is_new and not found:
        yield Change(kind=kind, name=name, after={})


def changed_values(change: Change) -> Iterator[tuple[str, Any, Any]]:
    """Field, before and after of what differs: of amounts and prices each one that does, as "limit.gpu_milli"."""
    before, after = change.before, change.after
    if not isinstance(after, dict) or not isinstance(before, dict | None):
        yield change.field, before, after
        return
    before = before or {}
    for key in sorted(before.keys() | after.keys()):
        if before.get(key) != after.get(key):
            yield ".".join(filter(None, (change.field, key))), before.get(key), after.get(key)


def _default(field: msgspec.structs.FieldInfo) -> Any:
    if field.default is not msgspec.NODEFAULT:
        return field.default
    return None if field.default_factory is msgspec.NODEFAULT else field.default_factory()

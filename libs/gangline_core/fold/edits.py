"""Which edits of settings are remembered: the latest of each setting, noted as their facts are folded.

The log and the archive keep every edit for good. What is kept here answers who changed what, and why, without reading
them; it is bounded in every direction, so that neither a script that sets a limit every minute nor one that makes a
token for each job can grow it without end or push out the edits of another kind.
"""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from msgspec.structs import replace

from gangline_core import facts as f
from gangline_core.groups import Token, user_key
from gangline_core.setting_edit import SettingEdit
from gangline_core.settings.document_change import changed_values, changes_of
from gangline_core.state import State
from gangline_core.step import Step

EDITS_KEPT = 20
"""Edits that are remembered of one setting (a group, a user, a policy ...), the latest."""
OBJECTS_KEPT = 2_000
"""Settings of one kind whose edits are remembered, those that were edited last."""
VALUE_CHARS_MAX = 300
"""Longer values, such as a model of run times, are remembered by their beginning."""

MADE, CHANGED, REMOVED = "made", "changed", "removed"
ENDED = "its last job has ended"

Handler = Callable[[State, Any, Step], None]
Values = tuple[tuple[str, str, str], ...]


def recorded(handler: Handler) -> Handler:
    """The handler of a fact that changes a setting, with a note of who did it and what it was before."""

    def handle(state: State, fact: Any, step: Step) -> None:
        edit = _edit(state, fact)
        handler(state, fact, step)
        if edit is not None:
            note(state, step, edit)

    return handle


def note(state: State, step: Step, edit: SettingEdit) -> None:
    """Remember an edit; its number and time are those of now."""
    kept = state.kept
    kept.edits_counted += 1
    edit = replace(edit, number=kept.edits_counted, at=step.at, seq=step.seq)
    of_kind = kept.edits.setdefault(edit.kind, {})
    before = of_kind.pop(edit.name, ())
    of_kind[edit.name] = (*before, edit)[-EDITS_KEPT:]
    while len(of_kind) > OBJECTS_KEPT:
        del of_kind[next(iter(of_kind))]


def closer(state: State, kind: str, name: str) -> str:
    """Who edited the setting last: of a group or user that is closing, whoever closed it."""
    edits = state.kept.edits.get(kind, {}).get(name, ())
    return edits[-1].by if edits else ""


def _edit(state: State, fact: Any) -> SettingEdit | None:
    """What the fact is about to do; None when it will do nothing."""
    match fact:
        case f.WindowRemoved(name=name):
            window = state.kept.windows.get(name)
            if window is None:
                return None
            gone = SettingEdit(kind="window", name=name, act=REMOVED, by=fact.by, why=fact.why, pool=window.pool)
            return replace(gone, version=window.version)
        case f.TokenIssued(token=token):
            made = SettingEdit(kind="token", name=token.digest, act=MADE, by=fact.by, groups=token.groups)
            return replace(made, changes=_opens(token))
        case f.TokenRevoked(digest=digest):
            known = state.kept.tokens.get(digest)
            if known is None:
                return None
            return SettingEdit(kind="token", name=digest, act=REMOVED, by=fact.by, groups=known.groups)
        case f.PolicySet(pool=name) if name not in state.kept.pools:
            return None
        case _:
            edit, is_known = _subject(state, fact)
            act = CHANGED if is_known else MADE
            return replace(edit, act=act, by=fact.by, why=fact.why, changes=_values(state, fact))


def _subject(state: State, fact: Any) -> tuple[SettingEdit, bool]:
    """Which setting the fact is about, and whether there is one already."""
    kept = state.kept
    match fact:
        case f.ClassSet(user_class=one):
            return SettingEdit(kind="class", name=one.name, version=one.version), one.name in kept.classes
        case f.GroupSet(group=group):
            edit = SettingEdit(kind="group", name=group.path, version=group.version, groups=(group.path,))
            return edit, group.path in kept.groups
        case f.UserSet(user=user):
            holder = user_key(user.group, user.name)
            edit = SettingEdit(kind="user", name=holder, version=user.version, groups=(user.group,))
            return edit, holder in kept.users
        case f.PoolSet(pool=pool):
            edit = SettingEdit(kind="pool", name=pool.name, version=pool.version, pool=pool.name)
            return edit, pool.name in kept.pools
        case f.PolicySet(pool=name, policy=policy):
            return SettingEdit(kind="policy", name=name, version=policy.version, pool=name), True
        case f.WindowSet(window=window):
            edit = SettingEdit(kind="window", name=window.name, version=window.version, pool=window.pool)
            return edit, window.name in kept.windows
        case f.PricesSet(version=version):
            return SettingEdit(kind="prices", version=version), kept.prices_version > 0
        case _:
            raise ValueError(f"{type(fact).__name__} is no setting")


def _opens(token: Token) -> Values:
    """What a new token opens; neither its text nor its digest is among it."""
    fields: dict[str, object] = {"name": token.name, "role": token.role, "user": token.user}
    fields |= {"groups": token.groups, "expires_ms": token.expires_ms}
    return tuple((name, "", value_text(value)) for name, value in fields.items() if value)


def _values(state: State, fact: f.Fact) -> Values:
    return tuple(_texts(state, fact))


def _texts(state: State, fact: f.Fact) -> Iterator[tuple[str, str, str]]:
    for change in changes_of(state, fact):
        for field, before, after in changed_values(change):
            yield field, value_text(before), value_text(after)


def value_text(value: object) -> str:
    """A value as JSON; of a long one the beginning, which is a text then."""
    if value is None:
        return ""
    text = msgspec.json.encode(value, order="deterministic").decode()
    if len(text) <= VALUE_CHARS_MAX:
        return text
    return msgspec.json.encode(f"{text[:VALUE_CHARS_MAX]} ... ({len(text)} characters)").decode()

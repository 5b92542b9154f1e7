"""How groups and users leave: at once when a fact says so, or when the last job of one that is closing has ended."""

from msgspec.structs import replace

from gangline_core.door.removal import is_idle, members_of, without
from gangline_core.facts import GroupRemoved, UserRemoved
from gangline_core.fold.budgets import note_period
from gangline_core.fold.edits import CHANGED, ENDED, REMOVED, closer, note, value_text
from gangline_core.groups import Token, user_key
from gangline_core.setting_edit import SettingEdit
from gangline_core.state import State
from gangline_core.step import Step

VERSIONS_MAX = 10_000
"""Removed groups and users whose last version is remembered, the latest."""


def group_removed(state: State, fact: GroupRemoved, step: Step) -> None:
    """The group goes, unless something came in between that needs it; then it closes instead."""
    group = state.kept.groups.get(fact.path)
    if group is None:
        return
    if _may_go(state, fact.path):
        _take_out_group(state, fact.path, step, by=fact.by, why=fact.why)
    step.settings = True


def user_removed(state: State, fact: UserRemoved, step: Step) -> None:
    """The membership ends."""
    holder = user_key(fact.group, fact.user)
    if holder in state.kept.users and is_idle(state, holder):
        _take_out_user(state, holder, step, by=fact.by, why=fact.why)
    step.settings = True


def finish_removals(state: State, step: Step) -> None:
    """After a message: those that are closing and idle are taken out, the deepest groups first."""
    for holder in sorted(state.door.closing_users):
        if is_idle(state, holder):
            _take_out_user(state, holder, step, by=closer(state, "user", holder), why=ENDED)
    for path in sorted(state.door.closing_groups, key=lambda path: (-path.count("/"), path)):
        if _may_go(state, path):
            _take_out_group(state, path, step, by=closer(state, "group", path), why=ENDED)


def _may_go(state: State, path: str) -> bool:
    return is_idle(state, path) and not any(name.startswith(f"{path}/") for name in state.kept.groups)


def _note_version(state: State, holder: str, version: int) -> None:
    """One of the same name goes on from this version: whoever saw the old one must not change the new one unseen."""
    state.kept.last_versions.pop(holder, None)
    state.kept.last_versions[holder] = version
    while len(state.kept.last_versions) > VERSIONS_MAX:
        del state.kept.last_versions[next(iter(state.kept.last_versions))]


def _take_out_group(state: State, path: str, step: Step, *, by: str, why: str) -> None:
    for user in members_of(state, path):
        _take_out_user(state, user_key(user.group, user.name), step, by=by, why=why)
    version = state.kept.groups[path].version
    _note_version(state, path, version)
    gone = SettingEdit(kind="group", name=path, act=REMOVED, by=by, why=why, version=version, groups=(path,))
    note(state, step, gone)
    state.forget_group(path)
    state.kept.exhausted.pop(path, None)
    note_period(state, path, step.at)
    for token in list(state.kept.tokens.values()):
        if path in token.groups:
            _narrow(state, token, path, step, by=by, why=f"group {path} is removed")
    step.settings = True


def _take_out_user(state: State, holder: str, step: Step, *, by: str, why: str) -> None:
    user = state.kept.users[holder]
    _note_version(state, holder, user.version)
    gone = SettingEdit(kind="user", name=holder, act=REMOVED, by=by, why=why, version=user.version)
    note(state, step, replace(gone, groups=(user.group,)))
    state.forget_user(holder)
    for token in list(state.kept.tokens.values()):
        # Tokens of heads and of those who only read open a group by themselves, not by this membership.
        if token.user == user.name and token.role == "user" and user.group in token.groups:
            _narrow(state, token, user.group, step, by=by, why=f"user {user.name} leaves group {user.group}")
    step.settings = True


def _narrow(state: State, token: Token, path: str, step: Step, *, by: str, why: str) -> None:
    """The token opens this group no longer; one that opened nothing else is revoked by that."""
    left = state.kept.tokens[token.digest] = without(token, path)
    if token.revoked:
        return
    edit = SettingEdit(kind="token", name=token.digest, act=REMOVED if left.revoked else CHANGED, by=by, why=why)
    groups = ("groups", value_text(token.groups), value_text(left.groups) if left.groups else "")
    note(state, step, replace(edit, groups=token.groups, changes=(groups,)))

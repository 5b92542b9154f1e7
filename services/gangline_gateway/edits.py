"""Who changed which setting, and why: heads are told of their groups, all-seeing callers of everything."""

from collections.abc import Callable
from typing import Any

import msgspec

from gangline_core.fold.edits import EDITS_KEPT
from gangline_core.groups import ancestors
from gangline_core.setting_edit import SettingEdit
from gangline_core.state import State
from gangline_gateway.access import Caller, Role, is_head, sees_group, sees_user
from gangline_gateway.call import Call
from gangline_gateway.cursor import make_cursor, read_cursor
from gangline_gateway.problems import ProblemError, not_found, wrong_query
from gangline_gateway.settings import ROOT_NAME
from gangline_gateway.tokens import sees_token
from gangline_wire.amounts import NAMES, show_amount, show_dimension
from gangline_wire.limits import most
from gangline_wire.names import group_path
from gangline_wire.policyfile_show import field_word
from gangline_wire.problem import WrongValueError
from gangline_wire.views import SettingEditsView, SettingEditView, ValueView

PAGE_DEFAULT = 100
KINDS = ("group", "user", "class", "pool", "policy", "prices", "window", "token")

Chosen = Callable[[SettingEdit], bool]


async def list_edits(call: Call) -> SettingEditsView:
    """GET /v1/settings/history: the edits that the caller may see, the latest first."""
    kinds, is_chosen = _kinds(call), _chosen(call)
    question = "edits&" + "&".join(f"{name}={call.text(name)}" for name in ("kind", "group", "pool"))
    limit = call.count("limit", PAGE_DEFAULT, least=1, limit="page_jobs")
    before = int(read_cursor(call.text("cursor"), caller=call.caller.digest, question=question) or 0)
    state, caller = call.state, call.caller
    found = [
        edit
        for kind in kinds
        for edits in state.kept.edits.get(kind, {}).values()
        for edit in edits
        if (not before or edit.number < before) and is_chosen(edit) and _sees(state, caller, edit)
    ]
    found.sort(key=lambda edit: -edit.number)
    page = found[:limit]
    following = ""
    if len(found) > limit:
        following = make_cursor(str(page[-1].number), caller=caller.digest, question=question)
    return SettingEditsView(edits=tuple(_view(state, edit) for edit in page), next=following, kept=EDITS_KEPT)


def _sees(state: State, caller: Caller, edit: SettingEdit) -> bool:
    """True when the caller may know of the edit: who made it and why is told to those who lead, not to members."""
    if caller.sees_all:
        return True
    match edit.kind:
        case "group":
            return _leads(state, caller, edit.name)
        case "user":
            group, _, user = edit.name.rpartition(":")
            return _leads(state, caller, group) or sees_user(state, caller, group=group, user=user)
        case "token":
            token = state.kept.tokens.get(edit.name)
            return token is not None and sees_token(state, caller, token)
        case _:
            return False


def _leads(state: State, caller: Caller, group: str) -> bool:
    """True for heads of the group, and for those who may read all that is in it."""
    if caller.role == Role.READONLY:
        return any(path in caller.groups for path in ancestors(group))
    return is_head(state, caller, group)


def _kinds(call: Call) -> tuple[str, ...]:
    text = call.text("kind")
    kinds = tuple(dict.fromkeys(text.split(","))) if text else KINDS
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        raise wrong_query("kind", f"{unknown[0]!r} is no kind of setting; known are {', '.join(KINDS)}")
    return kinds


def _chosen(call: Call) -> Chosen:
    """What the filters leave.

    Raises:
        ProblemError: a filter is wrong, or about what the caller may not know.
    """
    pool, group = call.text("pool"), _group(call)
    if pool:
        _check_pool(call, pool)
    return lambda edit: (
        (not pool or edit.pool == pool) and (group is None or any(group in ancestors(path) for path in edit.groups))
    )


def _group(call: Call) -> str | None:
    """The group whose edits, and those of what is below it, are asked for; None for no filter."""
    text = call.text("group")
    if not text:
        return None
    try:
        group = "" if text == ROOT_NAME else group_path(text, most("group_chars"))
    except WrongValueError as error:
        raise wrong_query("group", str(error)) from None
    state, caller = call.state, call.caller
    if caller.sees_all or _leads(state, caller, group):
        # A group that was removed is asked for by the same name.
        if group not in state.kept.groups and group not in state.kept.edits.get("group", {}):
            raise not_found("such group")
    elif group not in state.kept.groups or not sees_group(state, caller, group):
        raise not_found("such group")
    return group


def _check_pool(call: Call, pool: str) -> None:
    if not call.caller.sees_all:
        raise ProblemError("forbidden", "Only administrators and all-seeing readers see who edits pools and policies.")
    kept = call.state.kept
    if pool not in kept.pools and not any(
        edit.pool == pool for edits in kept.edits.get("window", {}).values() for edit in edits
    ):
        raise not_found("such pool")


def _view(state: State, edit: SettingEdit) -> SettingEditView:
    name = edit.name
    if edit.kind == "token":
        token = state.kept.tokens.get(name)
        name = token.name if token is not None else ""
    return SettingEditView(
        number=edit.number,
        at_ms=edit.at,
        kind=edit.kind,
        name=name,
        act=edit.act,
        by=edit.by,
        why=edit.why,
        version=edit.version,
        changes=tuple(_value(edit.kind, *change) for change in edit.changes),
        pool=edit.pool,
        groups=edit.groups,
        seq=edit.seq,
    )


def _value(kind: str, field: str, before: str, after: str) -> ValueView:
    """One change in the words of the policy file: "limit.gpu_milli" is "limit.gpus", and 8000 of them are 8."""
    if kind == "prices":
        return ValueView(field=field, before=_shown("gpu_milli", before), after=_shown("gpu_milli", after))
    name, _, below = field.partition(".")
    word = field_word(kind, name)
    if below.partition(":")[0] in NAMES:
        return ValueView(
            field=f"{word}.{show_dimension(below)}", before=_shown(below, before), after=_shown(below, after)
        )
    return ValueView(field=f"{word}.{below}" if below else word, before=_shown("", before), after=_shown("", after))


def _shown(dimension: str, text: str) -> Any:  # Any: whatever a setting may hold
    value = msgspec.json.decode(text) if text else None
    return show_amount(dimension, value) if dimension and isinstance(value, int) else value

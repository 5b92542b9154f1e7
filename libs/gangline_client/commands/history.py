"""`gangline quota|policy|token history`: who changed a setting, when, why, and from what to what."""

import re
from collections.abc import Sequence

from gangline_client import quantities as q
from gangline_client.session import Session, emit
from gangline_client.setting_words import value_words
from gangline_client.table import Paint
from gangline_wire import views as v

GROUP_KINDS = ("group", "user", "class", "prices")
POOL_KINDS = ("pool", "policy", "window")
TOKEN_KINDS = ("token",)
CUT = re.compile(r" \.\.\. \(\d+ characters\)$")
"""How a value ends of which only the beginning is remembered."""


async def show_history(
    session: Session, kinds: Sequence[str], *, group: str | None = None, pool: str = "", limit: int
) -> int:
    """Show the latest edits of these kinds of settings, the latest first."""
    edits = await session.client.settings_history(kinds=kinds, group=group, pool=pool, limit=limit)
    view = v.SettingEditsView(edits=tuple(edits))

    def people() -> None:
        for edit in edits:
            _tell(session, edit)
        if not edits:
            session.console.say("No edit is remembered, or your token shows none.")

    emit(session.console, view, names=[str(edit.number) for edit in edits], people=people)
    return 0


def _tell(session: Session, edit: v.SettingEditView) -> None:
    console = session.console
    version = f" (version {edit.version})" if edit.version else ""
    why = f": {edit.why}" if edit.why else ""
    paint = {"made": Paint.GOOD, "removed": Paint.BAD}.get(edit.act, Paint.PLAIN)
    act = console.paint(edit.act, paint)
    console.say(f"{q.moment(edit.at_ms)}  {_what(edit)}{version} {act} by {edit.by or 'somebody'}{why}")
    for change in edit.changes:
        before, after = (value_words(change.field, value) for value in (change.before, change.after))
        console.say(f"  {change.field}: {before} -> {after}")
    if any(CUT.search(value_words("", value)) for change in edit.changes for value in (change.before, change.after)):
        console.say(
            f"  Of a long value the beginning is shown. All of it is in message {edit.seq:,} of the log and its"
        )
        console.say("  archive, and in `gangline policy show --file` while it is set.")


def _what(edit: v.SettingEditView) -> str:
    match edit.kind:
        case "group":
            return f"group {edit.name or '/'}"
        case "user":
            group, _, user = edit.name.rpartition(":")
            return f"user {user} of group {group or '/'}"
        case "prices":
            return "price list"
        case _:
            return f"{edit.kind} {edit.name}"

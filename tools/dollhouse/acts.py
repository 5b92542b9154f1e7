"""What people do in a dollhouse, by the name that events have for it."""

from collections.abc import Awaitable, Callable

from dollhouse import terms
from dollhouse.people import People
from dollhouse.plan import Event

Act = Callable[[People, Event], Awaitable[None]]

ACTS: dict[str, Act] = {
    "submit": People.submit,
    "cancel": People.cancel,
    "hold": People.hold,
    "release": People.release,
    "limit": People.limit,
    "user_limit": People.user_limit,
    "policy": People.policy,
    "drain": People.drain,
    "assign": People.assign,
    "look": People.look,
    "again": People.again,
    "budget": People.budget,
    "saves": People.saves,
    "turns": People.turns,
    "ordered": People.ordered,
    "edit": People.edit,
    "meddle": People.meddle,
    "window": terms.window,
    "lend": terms.lend,
    "season": terms.season,
    "resize": terms.resize,
}
"""What an event says -> what people do."""

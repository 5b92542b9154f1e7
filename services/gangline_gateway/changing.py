"""How a change of settings is asked for, and what is answered to it."""

from typing import TypeVar

from msgspec.structs import replace

from gangline_gateway.call import Answer, Call
from gangline_gateway.settings import etag, if_version, why_of
from gangline_wire.requests import (
    ApplySettings,
    Done,
    RemoveGroup,
    RemoveUser,
    SetGroup,
    SetPolicy,
    SetPool,
    SetPrices,
    SetUser,
    SetWindow,
)
from gangline_wire.views import DoneView

Change = TypeVar(
    "Change", ApplySettings, RemoveGroup, RemoveUser, SetGroup, SetPolicy, SetPool, SetPrices, SetUser, SetWindow
)


async def ask(call: Call, change: Change) -> Done:
    """Ask for the change with the terms of the call: its reason, the version that must hold, and whether it is tried.

    Raises:
        ProblemError: it was denied, nobody answered, or a term is wrong.
    """
    version = if_version(call)
    terms = replace(change, why=why_of(call), if_version=version, dry_run=call.flag("dry_run"))
    return await call.desk.asker.change(terms, conflict="version_conflict" if version >= 0 else "conflict")


def answer(call: Call, reply: Done, *, doubts: tuple[str, ...] = ()) -> Answer:
    """What came of a change, with what should be said of it."""
    dry_run = call.flag("dry_run")
    view = DoneView(version=reply.version, seq=reply.seq, dry_run=dry_run, doubts=doubts)
    return Answer(view, headers={} if dry_run else etag(reply.version))


async def document_of(call: Call, **named: str) -> object:
    """The body of the call; what its address names, or goes without saying, may be left out of it."""
    document = await call.document()
    return {**named, **document} if isinstance(document, dict) else document

"""`gangline token`: issue, list and revoke access tokens."""

from argparse import Namespace
from functools import partial

from gangline_client import quantities as q
from gangline_client.commands.history import TOKEN_KINDS, show_history
from gangline_client.errors import InputError
from gangline_client.session import Session, emit
from gangline_client.table import Cell, Column, Paint, Row
from gangline_wire import views as v

COLUMNS = (
    Column("TOKEN"),
    Column("NAME"),
    Column("ROLE"),
    Column("USER"),
    Column("STATE"),
    Column("EXPIRES"),
    Column("GROUPS", gives_way=True),
)
DIGEST_SHOWN = 12
DIGEST_LEAST = 6
"""Shortest beginning of a hash that is taken for one."""


async def token(session: Session, args: Namespace) -> int:
    """Do the act; without one, list."""
    match args.act:
        case "issue":
            return await _issue(session, args)
        case "revoke":
            return await _revoke(session, args)
        case "history":
            return await show_history(session, TOKEN_KINDS, limit=args.limit)
        case _:
            return await _list(session)


async def _issue(session: Session, args: Namespace) -> int:
    user = args.user or (await session.client.whoami()).user
    issued = await session.client.issue_token(
        name=args.name, role=args.role, user=user, groups=args.group, expires_in=args.expires
    )

    def people() -> None:
        session.console.note(f"Token {args.name} for {user}, role {args.role}; it is shown only now:")
        session.console.say(issued.token)
        if not args.user:
            session.console.note(f"Its jobs are {user}'s, as no --user was named.")

    emit(session.console, issued, names=[issued.token], people=people)
    return 0


async def _list(session: Session) -> int:
    view = await session.client.tokens()
    names = [token.digest for token in view.tokens]
    rows = [_row(token, now_ms=session.now_ms()) for token in view.tokens]
    people = partial(session.console.table, COLUMNS, rows)
    emit(session.console, view, names=names, people=people, left_out=view.left_out)
    return 0


async def _revoke(session: Session, args: Namespace) -> int:
    known = [token for token in (await session.client.tokens()).tokens if not token.revoked]
    for text in args.tokens:
        chosen = _find(known, text)
        await session.client.revoke_token(chosen.digest)
        session.console.say(f"Token {chosen.name} ({chosen.digest[:DIGEST_SHOWN]}) no longer opens anything.")
    return 0


def _find(known: list[v.TokenView], text: str) -> v.TokenView:
    """The one token of this name or beginning of a hash.

    Raises:
        InputError: none, or more than one.
    """
    found = [token for token in known if token.digest == text]
    found = found or [token for token in known if token.name == text]
    found = found or [token for token in known if len(text) >= DIGEST_LEAST and token.digest.startswith(text)]
    if len(found) != 1:
        count = "no token is" if not found else f"{len(found)} tokens are"
        raise InputError(f"{count} called {text}", next_step="See the hashes with `gangline token list`.")
    return found[0]


def _row(token: v.TokenView, *, now_ms: int) -> Row:
    state, paint = "valid", Paint.GOOD
    if token.revoked:
        state, paint = "revoked", Paint.FAINT
    elif token.expires_ms and token.expires_ms <= now_ms:
        state, paint = "expired", Paint.FAINT
    expires = q.moment(token.expires_ms) if token.expires_ms else "never"
    groups = ", ".join(group or "/" for group in token.groups) or "all"
    return [token.digest[:DIGEST_SHOWN], token.name, token.role, token.user, Cell(state, paint), expires, groups]

"""`gangline quota`: what groups and users may use, and changing it without overwriting somebody else's change."""

from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from msgspec.structs import replace

from gangline_client import quantities as q
from gangline_client.commands.history import GROUP_KINDS, show_history
from gangline_client.errors import InputError, ProblemError, UsageError
from gangline_client.quota_amounts import limit_words
from gangline_client.quota_keys import change_group, change_user, differences, group_words, user_words, written_as
from gangline_client.session import Session, emit, note_doubts
from gangline_client.table import Column, Row
from gangline_client.words import amount
from gangline_core.groups import Group, User
from gangline_core.reasons import utc
from gangline_wire import views as v
from gangline_wire.amounts import show_dimension

COLUMNS = (
    Column("GROUP"),
    Column("GPUS", right=True),
    Column("LIMIT", right=True),
    Column("GUARANTEED", right=True),
    Column("JOBS", right=True),
    Column("GPU-HOURS", right=True),
    Column("BUDGET", right=True),
    Column("OTHER SETTINGS", gives_way=True),
)
USE_COLUMNS = (
    Column("DIMENSION"),
    Column("USED", right=True),
    Column("LIMIT", right=True),
    Column("GUARANTEED", right=True),
)
IN_COLUMNS = frozenset({"gpus", "guaranteed.gpus", "budget"})
"""Settings that have a column of their own."""


async def quota(session: Session, args: Namespace) -> int:
    """Do the act; without one, show all groups."""
    match args.act:
        case "set":
            return await _set_group(session, args)
        case "remove":
            return await _remove(session, args)
        case "user":
            return await (_set_user(session, args) if args.changes else _show_user(session, args))
        case "history":
            group = None if args.group is None else _path(args.group)
            return await show_history(session, GROUP_KINDS, group=group, limit=args.limit)
        case "show" if args.group is not None:
            view = await session.client.group(_path(args.group))
            emit(session.console, view, names=[view.path], people=lambda: _tell_group(session, view))
        case _:
            groups = await session.client.groups()
            rows = [_row(group) for group in groups.groups]
            names = [group.path for group in groups.groups]
            people = partial(session.console.table, COLUMNS, rows)
            emit(session.console, groups, names=names, people=people, left_out=groups.left_out)
    return 0


async def _set_group(session: Session, args: Namespace) -> int:
    path = _path(args.group)
    if not args.changes and not args.create:
        raise UsageError("say what to change, as KEY=VALUE", next_step="See the keys with `gangline quota set --help`.")
    before, version = await _group_now(session, path, create=args.create)
    after = change_group(before, args.changes)
    changed = differences(group_words(before), group_words(after))
    if not changed and version is not None:
        session.console.say("Nothing changes.")
        return 0
    with _in_keys():
        done = await session.client.set_group(after, version=version, dry_run=args.dry_run, why=args.why)
    title = f"Group {path or '/'}"
    emit(session.console, done, names=[path], people=lambda: _tell_change(session, title, changed, args.dry_run))
    note_doubts(session, done.doubts)
    return 0


async def _remove(session: Session, args: Namespace) -> int:
    path, how = _path(args.group), {"drain": args.drain, "dry_run": args.dry_run, "why": args.why}
    if args.user is None:
        done, name = await session.client.remove_group(path, **how), f"Group {path}"
    else:
        done, name = (
            await session.client.remove_user(path, args.user, **how),
            f"User {args.user} of group {path or '/'}",
        )
    would = "would be" if args.dry_run else "is"
    end = f"{would} removed{' as soon as its last job has ended' if args.drain else ''}"
    emit(session.console, done, names=[args.user or path], people=lambda: session.console.say(f"{name} {end}."))
    return 0


async def _group_now(session: Session, path: str, *, create: bool) -> tuple[Group, int | None]:
    """The group's settings and version; a fresh one without version where there is none and it may be made."""
    try:
        view = await session.client.group(path)
    except ProblemError as error:
        if error.problem.status != 404:
            raise
        if not create:
            raise InputError(f"there is no group {path}", next_step="Make it by adding --create.") from error
        return Group(path=path), None
    return view.settings, view.version


async def _set_user(session: Session, args: Namespace) -> int:
    path = _path(args.group)
    before, version = await _user_now(session, path, args.user, create=args.create)
    after = change_user(before, args.changes)
    changed = differences(user_words(before), user_words(after))
    if not changed and version is not None:
        session.console.say("Nothing changes.")
        return 0
    with _in_keys():
        done = await session.client.set_user(after, version=version, dry_run=args.dry_run, why=args.why)
    title = f"User {args.user} of group {path or '/'}"
    emit(session.console, done, names=[args.user], people=lambda: _tell_change(session, title, changed, args.dry_run))
    return 0


async def _user_now(session: Session, path: str, user: str, *, create: bool) -> tuple[User, int | None]:
    try:
        view = await session.client.user(path, user)
    except ProblemError as error:
        if error.problem.status != 404:
            raise
        if not create:
            raise _no_member(path, user) from error
        return User(name=user, group=path), None
    return view.settings, view.version


def _no_member(path: str, user: str) -> InputError:
    step = "Make it one by adding --create; members are in `gangline quota show GROUP`."
    return InputError(f"{user} is no member of group {path or '/'} that your token shows", next_step=step)


@contextmanager
def _in_keys() -> Iterator[None]:
    """A refusal speaks of fields by the keys that people set them with."""
    try:
        yield
    except ProblemError as error:
        errors = tuple(replace(one, path=written_as(one.path)) for one in error.problem.errors)
        raise ProblemError(replace(error.problem, errors=errors)) from error


async def _show_user(session: Session, args: Namespace) -> int:
    if args.create:
        user = User(name=args.user, group=_path(args.group))
        await session.client.set_user(user, dry_run=args.dry_run, why=args.why)
    try:
        view = await session.client.user(_path(args.group), args.user)
    except ProblemError as error:
        if error.problem.status != 404:
            raise
        raise _no_member(_path(args.group), args.user) from error

    def people() -> None:
        session.console.say(f"User {view.user} of group {view.group or '/'}")
        session.console.fact("Settings", _words(user_words(view.settings)) or "no limits of its own")
        session.console.fact("Jobs", f"{view.unfinished} unfinished")
        session.console.fact("GPU-hours", q.gpu_hours(view.used_gpu_hours))
        _tell_use(session, view.usage, view.settings.limit, {})

    emit(session.console, view, names=[view.user], people=people)
    return 0


def _tell_change(session: Session, title: str, changed: list[str], dry_run: bool) -> None:
    session.console.say(f"{title} {'would be' if dry_run else 'is'} changed:")
    for line in changed or ["created without limits"]:
        session.console.say(f"  {line}")


def _tell_group(session: Session, view: v.GroupView) -> None:
    console = session.console
    console.say(f"Group {view.path or '/'} (version {view.version})")
    # The table below has a column for each of these.
    in_table = {*limit_words(view.settings.limit, ""), *limit_words(view.settings.guaranteed, "guaranteed")}
    console.fact("Settings", _words({k: w for k, w in group_words(view.settings).items() if k not in in_table}))
    console.fact("Jobs", f"{view.unfinished} unfinished")
    console.fact("GPU-hours", q.gpu_hours(view.used_gpu_hours))
    if budget := view.settings.budget_gpu_hours:
        # What it has paid is by the price list, and so another number than that of GPU-hours.
        paid = f"{q.gpu_hours(view.budget_used_gpu_hours)} of {budget:,}"
        again = f" this period; all of it again from {utc(view.budget_renews_ms)}" if view.budget_renews_ms else ""
        console.fact("Budget", f"{paid}{', used up' if view.budget_exhausted else ''}{again}")
    console.fact("Users", ", ".join(view.users))
    _tell_use(session, view.usage, view.settings.limit, view.settings.guaranteed)


def _tell_use(session: Session, usage: dict[str, int], limit: dict[str, int], guaranteed: dict[str, int]) -> None:
    dimensions = sorted({*usage, *limit, *guaranteed})
    if not dimensions:
        return
    session.console.say()
    rows = [
        [show_dimension(d), amount(d, usage.get(d, 0)), _or_dash(limit, d), _or_dash(guaranteed, d)] for d in dimensions
    ]
    session.console.table(USE_COLUMNS, rows)


def _row(view: v.GroupView) -> Row:
    settings = view.settings
    depth = view.path.count("/") if view.path else 0
    indent = "  " * (depth + 1) if view.path else ""
    others = {key: word for key, word in group_words(settings).items() if key not in IN_COLUMNS}
    return [
        indent + (view.path.rpartition("/")[2] or "/"),
        q.gpus(view.usage.get("gpu_milli", 0)),
        _or_dash(settings.limit, "gpu_milli"),
        _or_dash(settings.guaranteed, "gpu_milli"),
        str(view.unfinished),
        q.gpu_hours(view.used_gpu_hours),
        f"{settings.budget_gpu_hours:,}" if settings.budget_gpu_hours else "-",
        _words(others),
    ]


def _words(words: dict[str, str]) -> str:
    return " ".join(f"{key}={word}" for key, word in words.items())


def _or_dash(amounts: dict[str, int], dimension: str) -> str:
    return amount(dimension, amounts[dimension]) if dimension in amounts else "-"


def _path(text: str) -> str:
    """A group path as typed; "/" is the root."""
    return text.strip("/")

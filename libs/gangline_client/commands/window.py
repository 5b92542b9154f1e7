"""`gangline window` and `gangline prices`: dated capacity, and what a GPU costs."""

from argparse import Namespace

from gangline_client import quantities as q
from gangline_client.durations import seconds
from gangline_client.errors import UsageError
from gangline_client.moments import moment_ms
from gangline_client.session import Session, emit
from gangline_client.table import Column, Row
from gangline_core.ids import NodeId
from gangline_core.reserving.windows import Window
from gangline_wire import views as v
from gangline_wire.problem import WrongValueError
from gangline_wire.quantity import read_milli

COLUMNS = (
    Column("WINDOW"),
    Column("POOL"),
    Column("FROM"),
    Column("TO"),
    Column("NODES"),
    Column("FOR"),
    Column("RUNNING", right=True),
    Column("WHY", gives_way=True),
)
PRICE_COLUMNS = (Column("MODEL"), Column("PRICE", right=True))
NODES_SHOWN = 4


async def window(session: Session, args: Namespace) -> int:
    """Do the act; without one, list."""
    match args.act:
        case "set":
            return await _set(session, args)
        case "remove":
            done = await session.client.remove_window(args.name, why=args.why)
            emit(session.console, done, names=[args.name], people=lambda: session.console.say(_gone(args.name)))
        case _:
            views = await session.client.windows()
            names = [view.window.name for view in views.windows]
            emit(session.console, views, names=names, people=lambda: _table(session, views))
    return 0


async def prices(session: Session, args: Namespace) -> int:
    """Show or change the price list."""
    view = await session.client.prices()
    if not args.changes:
        rows = [[model, q.gpus(milli)] for model, milli in sorted(view.milli.items())]
        none = "Every GPU-hour costs one GPU-hour of budget."
        emit(
            session.console,
            view,
            names=sorted(view.milli),
            people=lambda: session.console.table(PRICE_COLUMNS, rows) if rows else session.console.note(none),
        )
        return 0
    milli = dict(view.milli)
    for text in args.changes:
        _change(milli, text)
    done = await session.client.set_prices(milli, version=view.version, dry_run=args.dry_run, why=args.why)
    word = "could be changed so" if args.dry_run else "holds for what ends from now on"
    emit(session.console, done, names=[], people=lambda: session.console.say(f"The price list {word}."))
    return 0


def _change(milli: dict[str, int], text: str) -> None:
    model, equals, price = text.partition("=")
    if not equals or not model:
        raise UsageError(f"{text!r} is not MODEL=PRICE", next_step="For instance: gangline prices H100=2.5.")
    if not price:
        milli.pop(model.lower(), None)
        return
    try:
        milli[model.lower()] = read_milli(price)
    except WrongValueError as error:
        raise UsageError(f"{model}: {error}") from error


async def _set(session: Session, args: Namespace) -> int:
    now_ms = session.now_ms()
    start_ms = moment_ms(args.start, flag="--from", now_ms=now_ms)
    if bool(args.end) == bool(args.length):
        raise UsageError("until when? Say --to or --for")
    end_ms = (
        moment_ms(args.end, flag="--to", now_ms=now_ms)
        if args.end
        else start_ms + seconds(args.length, flag="--for") * 1000
    )
    wanted = Window(
        name=args.name,
        pool=args.pool,
        start_ms=start_ms,
        end_ms=end_ms,
        nodes=tuple(NodeId(node) for node in args.nodes),
        groups=tuple(args.group),
        users=tuple(args.user),
        why=args.why,
    )
    done = await session.client.set_window(wanted, dry_run=args.dry_run, why=args.why)

    def people() -> None:
        word = "Would keep" if args.dry_run else "Keeps"
        where = ", ".join(args.nodes) if args.nodes else "all nodes"
        session.console.say(f"{word} {where} of pool {args.pool} from {q.moment(start_ms)} to {q.moment(end_ms)}.")

    emit(session.console, done, names=[args.name], people=people)
    return 0


def _table(session: Session, views: v.WindowsView) -> None:
    if not views.windows:
        session.console.note("No capacity is kept. Keep some with `gangline window set`.")
        return
    session.console.table(COLUMNS, [_row(view) for view in views.windows])


def _row(view: v.WindowView) -> Row:
    one = view.window
    more = f" +{len(one.nodes) - NODES_SHOWN}" if len(one.nodes) > NODES_SHOWN else ""
    holders = ", ".join([*one.groups, *(f"user {user}" for user in one.users)])
    return [
        one.name,
        one.pool,
        q.moment(one.start_ms),
        q.moment(one.end_ms),
        ",".join(one.nodes[:NODES_SHOWN]) + more if one.nodes else "all",
        holders or "maintenance",
        str(len(view.running_jobs)) if view.running_jobs else "-",
        one.why,
    ]


def _gone(name: str) -> str:
    return f"What {name} kept is free for everybody."

"""`gangline usage`: GPU-hours used, what is held now, and how much of the budget that is."""

from argparse import Namespace
from functools import partial

import msgspec

from gangline_client import quantities as q
from gangline_client.errors import InputError
from gangline_client.session import Session, emit
from gangline_client.table import Cell, Column, Paint, Row
from gangline_client.words import amounts
from gangline_wire import views as v

COLUMNS = (
    Column("GROUP"),
    Column("USER"),
    Column("GPU-HOURS", right=True),
    Column("BUDGET", right=True),
    Column("SPENT", right=True),
    Column("JOBS", right=True),
    Column("GPUS NOW", right=True),
    Column("HOLDS", gives_way=True),
)


async def usage(session: Session, args: Namespace) -> int:
    """Show usage of groups, and of users with --users."""
    view = await session.client.usage()
    lines = tuple(line for line in view.lines if _wanted(line, group=args.group, users=args.users))
    if args.group and not lines:
        advice = "See the groups with `gangline quota`."
        raise InputError(f"there is no group {args.group}, or your token does not show it", next_step=advice)
    shown = msgspec.structs.replace(view, lines=lines)
    names = [f"{line.group}:{line.user}" if line.user else line.group for line in lines]
    rows = [_row(line) for line in lines]
    people = partial(session.console.table, COLUMNS, rows)
    emit(session.console, shown, names=names, people=people, left_out=view.left_out)
    return 0


def _wanted(line: v.UsageLine, *, group: str, users: bool) -> bool:
    inside = not group or line.group == group or line.group.startswith(f"{group}/")
    return inside and (users or not line.user)


def _row(line: v.UsageLine) -> Row:
    budget = line.budget_gpu_hours
    # The budget pays prices, not hours.
    spent = f"{int(100 * line.budget_used_gpu_hours / budget)}%" if budget else "-"
    return [
        line.group or "/",
        line.user or "-",
        q.gpu_hours(line.gpu_hours),
        f"{budget:,}" if budget else "-",
        Cell(spent, Paint.BAD if line.budget_exhausted else Paint.PLAIN),
        str(line.unfinished),
        q.gpus(line.holds.get("gpu_milli", 0)),
        ", ".join(amounts(line.holds)) or "-",
    ]

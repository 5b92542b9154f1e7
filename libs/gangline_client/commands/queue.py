"""`gangline queue`: the waiting jobs of each pool in order, each with its reason."""

from argparse import Namespace

import msgspec

from gangline_client import quantities as q
from gangline_client.console import Format
from gangline_client.paths import QueueQuery
from gangline_client.session import Session, emit, repeat, watch_interval
from gangline_client.table import Cell, Column, Row
from gangline_client.words import job_label, reason_text, start_range
from gangline_wire import views as v

SUMS_MOST = 10
"""Lines that say what jobs wait for which are not shown."""
COLUMNS = (
    Column("POS", right=True),
    Column("JOB", right=True),
    Column("NAME"),
    Column("GROUP"),
    Column("USER"),
    Column("TASKS", right=True),
    Column("GPUS", right=True),
    Column("WAITED", right=True),
    Column("REASON", gives_way=True),
)
WIDE = (Column("LEVEL"), Column("PRIORITY", right=True), Column("SCORE", right=True), Column("START"))


class Queues(msgspec.Struct, frozen=True):
    """The queues of all pools, for programs."""

    queues: tuple[v.QueueView, ...]


async def queue(session: Session, args: Namespace) -> int:
    """Show one pool's queue or all of them."""
    user = (await session.client.whoami()).user if args.mine else args.user
    pool = args.pool or session.settings.pool
    query = QueueQuery(group=args.group, user=user, reason=args.reason)
    is_part = query != QueueQuery()

    async def draw() -> None:
        cluster = await session.client.cluster()
        pools = [pool] if pool else sorted(each.name for each in cluster.pools) or ["default"]
        views = [_cut(await session.client.queue(name, query), query, limit=args.limit) for name in pools]
        shown: msgspec.Struct = views[0] if pool else Queues(queues=tuple(views))
        names = [str(line.id) for view in views for line in view.lines]
        emit(session.console, shown, names=names, people=lambda: _tell(session, views, cluster, is_part=is_part))

    await repeat(session, every_s=watch_interval(args), draw=draw)
    return 0


def _cut(view: v.QueueView, query: QueueQuery, *, limit: int) -> v.QueueView:
    """Of an older platform's answer, which knows only pools, the lines that were asked for."""
    lines = [line for line in view.lines if not query.user or line.user == query.user]
    lines = [line for line in lines if not query.group or f"{line.group}/".startswith(f"{query.group}/")]
    lines = [line for line in lines if query.reason in ("", line.reason.code)]
    return msgspec.structs.replace(view, lines=tuple(lines[: limit or None]))


def _tell(session: Session, views: list[v.QueueView], cluster: v.ClusterView, *, is_part: bool) -> None:
    console = session.console
    gpus = f"{q.gpus(cluster.gpus_used_milli)} of {cluster.gpus_total} GPUs in use"
    console.say(f"{cluster.running} running, {cluster.waiting} waiting, {gpus}.")
    for view in views:
        if not view.waiting and len(views) > 1:
            continue
        console.say(
            f"\nPool {view.pool}: {view.waiting} waiting" if view.waiting else f"\nPool {view.pool}: nobody waits."
        )
        if view.lines:
            wide = console.format is Format.WIDE
            rows = [_row(line, wide=wide, now_ms=session.now_ms()) for line in view.lines]
            console.table((*COLUMNS[:-1], *WIDE, COLUMNS[-1]) if wide else COLUMNS, rows)
        # An older platform does not say how many match.
        is_counted = is_part and view.matching > 0
        hidden = (view.matching if is_counted else view.waiting) - len(view.lines)
        if hidden > 0:
            such = "such ones " if is_counted else ""
            console.note(f"{hidden} more {such}wait in pool {view.pool} and are not shown.")
        if view.matching > len(view.lines):
            console.note(f"What all {view.matching} wait for:")
            for one in view.waiting_for[:SUMS_MOST]:
                console.note(f"  {one.jobs} {one.code}{f' of {one.of}' if one.of else ''}, first job {one.first}")


def _row(line: v.QueueLineView, *, wide: bool, now_ms: int) -> Row:
    more = (
        line.level,
        str(line.priority),
        "-" if line.score is None else q.millionths(line.score),
        start_range(line.start_from_ms, line.start_to_ms, now_ms=now_ms),
    )
    return [
        str(line.position) if line.position else "-",
        job_label(line),
        line.name,
        line.group or "/",
        line.user,
        str(line.size),
        q.gpus(line.gpu_milli),
        q.duration(line.waited_ms),
        *(more if wide else ()),
        Cell(reason_text(line.reason)),
    ]

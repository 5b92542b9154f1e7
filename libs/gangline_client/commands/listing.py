"""How jobs are chosen by filters and listed as a table."""

from argparse import Namespace

from gangline_client import quantities as q
from gangline_client.client import ENDED_STATES
from gangline_client.commands.documents import pairs
from gangline_client.console import Format
from gangline_client.paths import JobQuery
from gangline_client.session import Session, emit
from gangline_client.table import Cell, Column, Row
from gangline_client.words import job_label, reason_text, state_cell
from gangline_core.job import JobState
from gangline_wire import views as v

UNFINISHED = tuple(state.value for state in JobState if state.value not in ENDED_STATES)

COLUMNS = (
    Column("JOB", right=True),
    Column("NAME"),
    Column("STATE"),
    Column("GROUP"),
    Column("USER"),
    Column("TASKS", right=True),
    Column("GPUS", right=True),
    Column("AGE", right=True),
    Column("TIME", right=True),
    Column("REASON", gives_way=True),
)
WIDE = (Column("POOL"), Column("LEVEL"), Column("CLASS"), Column("ATTEMPT", right=True), Column("EXIT", right=True))


def has_filters(args: Namespace) -> bool:
    """True when any filter was given."""
    return bool(args.state or args.user or args.mine or args.group or args.pool or args.name or args.label)


async def job_query(session: Session, args: Namespace, *, states: tuple[str, ...]) -> JobQuery:
    """The filters of the command line."""
    user = (await session.client.whoami()).user if args.mine else args.user
    labels = pairs(args.label, flag="--label")
    return JobQuery(
        states=states, group=args.group, user=user, pool=args.pool, name=args.name, labels=labels, newest_first=True
    )


async def list_jobs(session: Session, args: Namespace) -> None:
    """The jobs that match, oldest first; of too many, the newest."""
    states = tuple(args.state) or (() if args.all else UNFINISHED)
    query = await job_query(session, args, states=states)
    jobs = [job async for job in session.client.jobs(query, limit=args.limit + 1)]
    shown = jobs[: args.limit][::-1]
    emit(
        session.console,
        v.JobPage(jobs=tuple(shown)),
        names=[job_label(job) for job in shown],
        people=lambda: _table(session, shown, every_state=bool(args.state or args.all)),
    )
    if len(jobs) > len(shown) and session.console.is_for_people:
        session.console.note(f"Only the newest {len(shown)} are shown; say --limit for more.")


def _table(session: Session, jobs: list[v.JobView], *, every_state: bool) -> None:
    if not jobs:
        session.console.note(
            "No jobs." if every_state else "No unfinished jobs; `gangline show --all` lists ended ones too."
        )
        return
    wide = session.console.format is Format.WIDE
    columns = (*COLUMNS[:-1], *WIDE, COLUMNS[-1]) if wide else COLUMNS
    session.console.table(columns, [_row(job, wide=wide, now_ms=session.now_ms()) for job in jobs])


def _row(job: v.JobView, *, wide: bool, now_ms: int) -> Row:
    more = (
        job.pool,
        job.level,
        job.service_class,
        str(job.attempt),
        "-" if job.exit_code is None else str(job.exit_code),
    )
    return [
        job_label(job),
        job.name,
        state_cell(job.state),
        job.group or "/",
        job.user,
        f"{job.size} x {job.array.size}" if job.array is not None else str(sum(job.sizes.values()) or job.size),
        q.gpus(job.gpu_milli_held or job.gpu_milli),
        q.age(job.submitted_ms, now_ms=now_ms),
        time_in_state(job, now_ms=now_ms),
        *(more if wide else ()),
        Cell(reason_text(job.reason)),
    ]


def time_in_state(job: v.JobView, *, now_ms: int) -> str:
    """How long it has run, or ran, or has waited in this turn."""
    if job.ended_ms:
        return q.duration(job.ended_ms - job.started_ms) if job.started_ms else "-"
    return q.age(job.started_ms or job.queued_ms, now_ms=now_ms)

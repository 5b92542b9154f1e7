"""`gangline submit`: job files and batch scripts to admitted jobs, all of a call or none."""

import sys
from argparse import Namespace

from gangline_client.client import BATCH_JOBS_MAX
from gangline_client.commands import documents, foretold
from gangline_client.commands.after_names import numbered
from gangline_client.commands.wait import wait_for_all
from gangline_client.errors import InputError, ProblemError
from gangline_client.problems import PlacedProblemError
from gangline_client.session import Session, emit
from gangline_client.table import Column
from gangline_client.words import state_cell
from gangline_core.counted import counted
from gangline_wire import views as v

COLUMNS = (Column("JOB", right=True), Column("NAME"), Column("STATE"))


async def submit(session: Session, args: Namespace) -> int:
    """Submit the files' jobs; with --wait, return the first exit code that is not 0."""
    sources = documents.read_files(
        args.files, standard_input=sys.stdin, environ=session.environ, folder=session.folder, now_ms=session.now_ms()
    )
    for source in sources:
        for note in source.notes:
            session.console.note(f"{source.place}: {note}")
    if len(sources) > BATCH_JOBS_MAX:
        raise InputError(
            f"{len(sources)} jobs in one call; at most {BATCH_JOBS_MAX} are admitted together",
            next_step="Split the file; each call is all or nothing.",
        )
    group, pool = args.group or session.settings.group, args.pool or session.settings.pool
    args.after = await numbered(session, args.after, in_call={str(one.document.get("name", "")) for one in sources})
    told = [documents.with_flags(source, args, folder=session.folder) for source in sources]
    jobs = [documents.with_defaults(document, group=group, pool=pool) for document in told]
    try:
        batch = await session.client.submit_many(jobs, key=args.key, dry_run=args.dry_run)
    except ProblemError as error:
        raise PlacedProblemError(error, [source.place for source in sources]) from error
    _tell(session, batch, dry_run=args.dry_run)
    if args.wait and not args.dry_run:
        return await wait_for_all(session, [job.id for job in batch.jobs])
    return 0


def _tell(session: Session, batch: v.BatchView, *, dry_run: bool) -> None:
    console = session.console

    def people() -> None:
        if dry_run:
            console.say(
                f"All {counted(len(batch.jobs), 'job')} would be admitted."
                if len(batch.jobs) > 1
                else "The job would be admitted."
            )
            for job in batch.jobs:
                if job.foretold is not None:
                    if len(batch.jobs) > 1:
                        console.say()
                        console.say(f"{job.name or 'Job'}:")
                    foretold.tell(session, job.foretold)
            return
        if batch.repeated:
            console.note("These jobs had been submitted before with the same key; nothing was done again.")
        if len(batch.jobs) == 1:
            (job,) = batch.jobs
            console.say(f"Submitted job {job.id} ({job.name}); it is {job.state}.")
            return
        console.table(COLUMNS, [[str(job.id), job.name, state_cell(job.state)] for job in batch.jobs])

    emit(console, batch, names=[str(job.id) for job in batch.jobs], people=people)

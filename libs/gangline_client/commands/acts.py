"""`gangline cancel`, `hold`, `release` and `suspend`: acts on jobs that are named, or on all that match a filter."""

import re
import sys
from argparse import Namespace
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from gangline_client.commands.listing import has_filters, job_query
from gangline_client.errors import ClientError, InputError, UsageError
from gangline_client.job_names import find_jobs
from gangline_client.problems import told
from gangline_client.session import Session
from gangline_client.words import job_label

ACTED_ON_BY_CANCEL = ("held", "waiting", "starting", "running", "resizing", "paused", "suspended")
ACTED_ON_BY_HOLD = ("waiting", "running", "resizing", "paused")
ACTED_ON_BY_RELEASE = ("held", "suspended", "paused")
ACTED_ON_BY_SUSPEND = ("running", "resizing")

Act = Callable[[int], Awaitable[Any]]  # Any: the answer's details are of no interest here


async def cancel(session: Session, args: Namespace) -> int:
    """End jobs."""
    jobs = await _chosen(session, args, states=ACTED_ON_BY_CANCEL, verb="cancel")
    return await act_on(session, jobs, lambda job: session.client.cancel(job, why=args.why), done="will be cancelled")


async def hold(session: Session, args: Namespace) -> int:
    """Keep jobs from starting; suspend running ones."""
    jobs = await _chosen(session, args, states=ACTED_ON_BY_HOLD, verb="hold")
    return await act_on(session, jobs, session.client.hold, done="is held")


async def release(session: Session, args: Namespace) -> int:
    """Let held or suspended jobs go on."""
    jobs = await _chosen(session, args, states=ACTED_ON_BY_RELEASE, verb="release")
    return await act_on(session, jobs, session.client.release, done="is released")


async def suspend(session: Session, args: Namespace) -> int:
    """Pause running jobs where they are, or stop them at their checkpoint."""
    jobs = await _chosen(session, args, states=ACTED_ON_BY_SUSPEND, verb="suspend")
    return await act_on(session, jobs, lambda job: session.client.suspend(job, stop=args.stop), done="is suspended")


async def act_on(session: Session, jobs: Mapping[int, str], act: Act, *, done: str) -> int:
    """Act on each, by number and what it is called; one that is refused does not keep the others from it."""
    failed = False
    for job, name in jobs.items():
        try:
            await act(job)
            session.console.say(str(job) if not session.console.is_for_people else f"Job {name} {done}.")
        except ClientError as error:
            failed = True
            first, *rest = told(error)
            first = first.removesuffix(".")
            is_named = re.search(rf"(job|;) {re.escape(name)}\b", first) is not None
            session.console.note(f"{first}." if is_named else f"{first} (job {name}).")
            for line in rest:
                session.console.note(line)
    return 1 if failed else 0


async def _chosen(session: Session, args: Namespace, *, states: tuple[str, ...], verb: str) -> dict[int, str]:
    if args.jobs and has_filters(args):
        raise UsageError("name jobs or give filters, not both")
    if args.jobs:
        return await find_jobs(session.client, args.jobs)
    if not has_filters(args):
        raise UsageError(f"which jobs? Name them, or give filters such as --mine: see `gangline {verb} --help`")
    query = await job_query(session, args, states=tuple(args.state) or states)
    jobs = {job.id: job_label(job) async for job in session.client.jobs(query)}
    if not jobs:
        session.console.note("No job matches.")
    elif not args.yes:
        _confirm(session, f"{verb.capitalize()} {len(jobs)} job{'s' if len(jobs) > 1 else ''}?")
    return jobs


def _confirm(session: Session, question: str) -> None:
    """Ask; without a terminal to ask on, the user must say --yes."""
    if not (sys.stdin.isatty() and session.console.err_is_terminal):
        raise UsageError(f"{question} Nobody is there to ask", next_step="Say it with --yes.")
    session.console.err.write(f"{question} [y/N] ")
    session.console.err.flush()
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise InputError("nothing was done")

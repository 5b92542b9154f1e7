"""`gangline logs`: what a job or one of its tasks wrote."""

from argparse import Namespace
from contextlib import aclosing

from gangline_client.job_names import find_task
from gangline_client.session import Session
from gangline_client.words import job_label
from gangline_core.job import ENDS


async def logs(session: Session, args: Namespace) -> int:
    """Print the output: of one task the bytes as they were written, of several each line with its task."""
    job, named = await find_task(session.client, args.job)
    task = args.task or named
    is_silent = True
    asked = session.client.logs(job, task=task, follow=args.follow, tail=args.tail, prefix=not (args.raw or task))
    async with aclosing(asked) as chunks:
        async for chunk in chunks:
            session.console.write_bytes(chunk)
            is_silent = is_silent and not chunk
    if is_silent and args.tail != 0:
        view = await session.client.job(job)
        never = "" if view.started_ms else "; it has not run yet" if view.state not in ENDS else "; it never ran"
        session.console.note(f"Job {job_label(view)} is {view.state} and wrote nothing{never}.")
    return 0

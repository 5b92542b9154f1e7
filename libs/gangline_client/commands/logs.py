"""`gangline logs`: what a job or one of its tasks wrote."""

from argparse import Namespace
from contextlib import aclosing

from gangline_client.session import Session, find_job


async def logs(session: Session, args: Namespace) -> int:
    """Print the output, bytes as they were written."""
    job = await find_job(session.client, args.job)
    task = args.task or (args.job if args.job.count("-") >= 3 and args.job.partition("-")[0].isdecimal() else "")
    async with aclosing(session.client.logs(job, task=task, follow=args.follow, tail=args.tail)) as chunks:
        async for chunk in chunks:
            session.console.write_bytes(chunk)
    return 0
